"""What is refused before anything is trained, and the words that the message must have."""

import numpy as np
import pytest

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.training import Recipe, cross_validate, load_recipe, train, train_ensemble
from keras_sentmatch.training.baseline import bag_of_words_baseline
from keras_sentmatch.training.config import TrainingConfig
from keras_sentmatch.training.training_data import made_pairs
from tests.toys.training import build_tiny, tiny_pairs, tiny_recipe, tiny_splits

FILES = {  # a recipe of drcn
    "[training]\nepoch = 3": r"mine.toml \[training\]: unknown key training.epoch. Did you mean epochs",
    "[training]\nepochs = 3\nbatch_size = 0": "mine.toml .*: training.batch_size is 0; expected an integer",
    "[training]\nlearning_rate = nan": "learning_rate is nan; expected a number above 0",
    "[training]\noptimizer = 'adma'": 'optimizer is \'adma\'; expected one of .*"adam", "ad',
    "[training]\nseed = -1": "seed is -1; expected an integer from 0",
    "[encoder]\nlowercase = 1": "lowercase is 1; expected one of true, false",
    "[encoder]\nfeatures = ['words']": r"features is \['words'\]; expected a list",
    "[vectors]\npooling = 'max'": "unknown key vectors.pooling.* are source, dim",
    "[for.snli.trainin]\nepochs = 3": "unknown table for.snli.trainin. Did you mean training",
    "[for.snli.training]\nepochs = 0": r"\[for.snli.training\]: training.epochs is 0",
    "training = 3": r"training is no table. Write \[training\]",
    "for = 3": "`for` holds no tables",
    "[for]\nsnli = 3": r"\[for.snli\] must hold tables",
    "[training]\nepochs = \n": "mine.toml: not valid TOML: Invalid value .at line 2",
    "name = 'din'": "a recipe of 'din', but the model is 'drcn'",
}


@pytest.mark.parametrize("text", FILES)
def test_recipe_files(text, tmp_path):
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(InputError, match=FILES[text]):
        load_recipe("drcn", file=tmp_path / "mine.toml")


OVERRIDES = {  # of re2
    "epochs=3": "Did you mean training.epochs=3.* TABLE.KEY=VALUE",
    "training.epochs": "Expected TABLE.KEY=VALUE",
    "encoder.lowercase=yes": "lowercase is 'yes'; expected one of true, false",
    "model.preset=quara": "no preset 'quara'. Did you mean quora.* are snli",
}


@pytest.mark.parametrize("override", OVERRIDES)
def test_overrides(override):
    with pytest.raises(InputError, match=OVERRIDES[override]):
        load_recipe("re2", overrides=[override])


BACKBONE = {"backbone": "x"}
TABLES = [
    ({"training": {"schedule": "cosine"}}, "schedule is 'cosine'; expected one of \"constant\""),
    ({"training": {"warm_up": 1}}, "warm_up is 1; expected a number of at least 0, below 1"),
    ({"training": {"decay_rate": 1.5}}, "decay_rate is 1.5; expected a number above 0, at most 1"),
    ({"training": {"teacher": "runs/a"}}, "teacher is 'runs/a'; expected a list of run folders"),
    ({"training": {"distillation_weight": 1.5}}, "is 1.5; expected a number from 0 to 1"),
    ({"training": {"class_weight": {"yes": -1}}}, 'expected "none", "balanced", or a table'),
    ({"training": {"class_weight": {"yes": float("nan")}}}, "or a table of weights"),
    ({"training": {"monitor": "val_f1:"}}, "or val_f1:LABEL"),
    (
        {"training": {"weight_decay": 0.1}},
        "optimizer 'adam' does not support training.weight_decay",
    ),
    ({"training": {"clipnorm": 1.0, "global_clipnorm": 1.0}}, "exclude each other. Set one to 0"),
    (
        {"training": {"backbone_learning_rate": 1e-5, "optimizer": "adamw"}},
        "needs a model with a pretrained backbone",
    ),
    (
        {"training": {"backbone_learning_rate": 1e-5}, "model": BACKBONE},
        "optimizer 'adam' does not support training.backbone",
    ),
    ({"encoder": {"lowercase": True}, "model": BACKBONE}, "encoder.lowercase cannot be set"),
    ({"vectors": {"source": "x.txt"}, "model": BACKBONE}, "uses no word vectors"),
    (
        {"training": {"schedule": "exponential", "plateau_factor": 0.85}},
        "plateau_factor is 0.85, .* Set training.plateau_factor=1 or training.schedule=",
    ),
]


@pytest.mark.parametrize("tables, message", TABLES)
def test_values(tables, message):
    with pytest.raises(InputError, match=message):
        Recipe.from_tables("tiny", **tables)
    with pytest.raises(InputError, match="^training.epochs is 0; expected an integer of at least"):
        TrainingConfig(epochs=0)


SOLVED = {
    "folds=3": "training.folds is 3, but the weights of bag_of_words are solved",
    "init=runs/a": "training.init is 'runs/a', but the weights",
    "teacher=['a']": "training.teacher is .*'a'.*, but the weights",
}


@pytest.mark.parametrize("setting", SOLVED)
def test_settings_that_change_nothing(setting, tmp_path):
    recipe = load_recipe("bag_of_words", overrides=[f"training.{setting}"])
    with pytest.raises(InputError, match=SOLVED[setting]):
        train(recipe, tiny_splits(), tmp_path / "a", progress=False)


MODELS = {  # arguments of re2, or of another model
    "units='fifty'": "model.units is 'fifty'; expected an integer",
    "dropout='x'": "model.dropout is 'x'; expected a number",
    "trainable_embedding=1": "model.trainable_embedding is 1; expected true or false",
    "alignment=3": "model.alignment is 3; expected a string",
    "unitz=50": "no argument 'unitz'.*Did you mean units",
    "shortcut_stacked units=30": "model.units is 30; expected a list of integers",
    "drcn autoencoder_after=[1.5]": "autoencoder_after is .1.5.; expected a list of integers",
    "feature_attention_config=3": "model.feature_attention_config is 3; expected a table",
}


@pytest.mark.parametrize("setting", MODELS)
def test_arguments_of_a_model(setting, tmp_path):
    *other, override = setting.split()
    recipe = load_recipe(*other or ["re2"], overrides=[f"model.{override}"])
    with pytest.raises(InputError, match=MODELS[setting]):
        train(recipe, tiny_splits(), tmp_path / "a", progress=False)
    assert not (tmp_path / "a").exists()


def pair(label=0, names=("no", "yes"), **more):
    return PairDataset(["a"], ["b"], None if label is None else [label], label_names=names, **more)


def changed(task="classification", **columns):
    """Splits of which the training pairs have other columns."""
    splits = tiny_splits(task)
    train = splits["train"].to_dict() | columns
    return {**splits, "train": PairDataset.from_dict(train)}


ASKED = tiny_pairs(10, 0, "ranking").select([0, 1])
NO_ANSWER = {"train": ASKED, "validation": pair(0, groups=["q"])}
NO_QUESTION = {"train": ASKED, "validation": pair(1, task="ranking")}
THREE = pair(2, ("no", "maybe", "yes"), groups=["q"])
SPLITS = [  # splits, settings of [training], words
    (lambda s: {"train": s["train"]}, {}, "no validation pairs, only train"),
    (lambda s: {**s, "validation": pair(None)}, {}, "The validation pairs have no labels"),
    (lambda s: {**s, "test": pair(0, ("yes", "no"))}, {}, "train pairs are classification with"),
    (lambda s: {**s, "validation": s["test"].select([])}, {}, "validation split has no pairs"),
    (lambda s: {**s, "train": s["train"].select([0] * 3)}, {}, "All 3 train pairs have the label"),
    (lambda s: NO_ANSWER, {}, "None of the 1 validation questions"),
    (lambda s: NO_QUESTION, {}, "Ranking needs the question of each pair"),
    (lambda s: {"train": THREE, "validation": THREE}, {}, "Ranking needs two labels"),
    (lambda s: s, {"class_weight": {"yes2": 2}}, "'yes2', which is not .*Did you mean yes"),
    (lambda s: s, {"monitor": "val_f1:yes2"}, "val_f1:yes2.*val_loss, val_f1:no, val_f1:yes"),
    (lambda s: s, {"monitor": "val_map"}, "are classification. Expected one of auto, val_accuracy"),
    (
        lambda s: tiny_splits("regression"),
        {"monitor": "val_accuracy"},
        "pairs are regression. Expected one of auto, val_pearson, val_spearman, val_loss",
    ),
    (
        lambda s: changed(columns={"weight": np.asarray(s["train"].labels, float).tolist()}),
        {"class_weight": {"yes": 0.0}},
        "Every training pair has the weight 0",
    ),
    (
        lambda s: tiny_splits("regression"),
        {"class_weight": "balanced"},
        "but the pairs have scores",
    ),
    (lambda s: tiny_splits("ranking"), {"monitor": "val_f1:yes"}, "pairs are ranking"),
]


@pytest.mark.parametrize("splits, training, message", SPLITS)
def test_pairs_and_settings_that_do_not_fit(splits, training, message, tmp_path):
    recipe = tiny_recipe(**training)
    with pytest.raises(InputError, match=message):
        train(recipe, splits(tiny_splits()), tmp_path / "a", progress=False, build=build_tiny)
    assert not (tmp_path / "a").exists()


def with_classes(out):
    recipe = tiny_recipe()
    recipe.model["num_classes"] = 7
    train(recipe, tiny_splits(), out, progress=False, build=build_tiny)


def folds_of(pairs, folds):
    return lambda out: cross_validate(tiny_recipe(), pairs, out, folds=folds)


SIX, BARE = tiny_pairs(6, 0), PairDataset(["a", "b"], ["c", "d"])


def in_folds(pairs):
    splits = {"train": pairs, "validation": pairs}
    return lambda out: train(tiny_recipe(folds=3), splits, out, progress=False, build=build_tiny)


LONELY = PairDataset.from_dict(tiny_pairs(80, 1).to_dict() | {"labels": [1] + [0] * 79})
UNANSWERED = PairDataset.from_dict(
    tiny_pairs(80, 1, "ranking").to_dict() | {"labels": [1, 1] + [0] * 78}
)
SAME = PairDataset(["a"] * 9, list("bcdefghij"), [0, 1, 0] * 3, label_names=("no", "yes"))
NAMED = tiny_pairs(20, 0)
CALLS = [
    (with_classes, "model.num_classes, which follows from the data"),
    (lambda out: load_recipe("drcm"), "no model 'drcm'. Did you mean drcn"),
    (lambda out: load_recipe("drcn", file=out / "x.toml"), "x.toml cannot be read .No such file"),
    (
        lambda out: Recipe("mine", {"units": None}).to_toml(),
        "TOML cannot hold .*None.* Leave an argument out",
    ),
    (lambda out: train_ensemble(tiny_recipe(), tiny_splits(), out, [1, 1]), "all different"),
    (folds_of(SIX, 7), "folds=7; expected 2 to 6, the number of pairs"),
    (folds_of(BARE, 2), "no labels"),
    (in_folds(LONELY), "folds is 3, but there are only 2 pairs of some class"),
    (in_folds(UNANSWERED), "only 2 questions with a right answer"),
    (in_folds(SAME), "too many pairs have the same first sentence"),
    (lambda out: bag_of_words_baseline(BARE, SIX), "training pairs are empty or unlabeled"),
    *[
        (lambda out, s=settings: made_pairs(NAMED, TrainingConfig(**s)), words)
        for settings, words in (
            ({"augment": ["SwapWords"]}, "no transformation 'SwapWords'"),
            (
                {"augment": ["SwapNamedEnt"]},
                "SwapNamedEnt can change none of the 20 training pairs",
            ),
            (
                {"augment": ["NumWord"], "augment_labels": ["maybe", "no"]},
                "'maybe', which is not a label",
            ),
        )
    ],
]


@pytest.mark.parametrize("call, message", CALLS)
def test_calls(call, message, tmp_path):
    with pytest.raises(InputError, match=message):
        call(tmp_path / "a")
    assert not (tmp_path / "a" / "matcher.json").exists()


def test_a_run_that_diverges(tmp_path):
    recipe = tiny_recipe(learning_rate=1e30, optimizer="sgd")
    with pytest.raises(InputError, match="NaN or infinite.*learning rate"):
        train(recipe, tiny_splits("regression"), tmp_path / "a", build=build_tiny)
