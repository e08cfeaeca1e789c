"""Training on one's own pairs: sizes that follow from the data, and a run that says how it went."""

from types import SimpleNamespace

import numpy as np
import pytest

from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.training import encoding, load_recipe
from keras_sentmatch.training._steps import Run
from keras_sentmatch.training.adapt import adapted, rarest_class, sizes_for
from keras_sentmatch.training.encoding import EncodingCache, FittedEncoder
from keras_sentmatch.training.profiling import profile_model
from keras_sentmatch.training.results import advice, standard_error, still_rises
from keras_sentmatch.training.training_data import prepare_data
from tests.toys.training import WORDS, tiny_pairs, tiny_recipe, tiny_run, tiny_splits

pytestmark = pytest.mark.backend("torch")  # nothing in it depends on the backend


def rare_pairs(rows, seed, share=0.05):
    """Pairs of which few have the label "yes", by a word that a bag of words sees."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(rows) < share).astype(int)
    labels[:2] = [0, 1]
    words = rng.choice(WORDS, (rows, 3))
    second = [" ".join([*row, "wz" if label else "wy"]) for row, label in zip(words, labels)]
    return PairDataset(["w1 w2"] * rows, second, labels, label_names=("no", "yes"), name="rare")


def test_sizes_follow_from_the_number_of_pairs():
    assert sizes_for(repeated(500)) == {"epochs": 40, "patience": 8, "batch_size": 32}
    assert sizes_for(repeated(100_000)) == {"epochs": 8, "patience": 2, "batch_size": 64}
    assert 8 < sizes_for(repeated(4_000))["epochs"] < 40


def test_a_hybrid_with_new_weights_trains_for_a_few_epochs():
    """Its learning rate falls to zero, so none is left out; the weights of another run keep a constant one."""
    sizes = [sizes_for(repeated(rows), falls_to_zero=True) for rows in (100, 500, 4_000, 5_000)]
    assert [one["epochs"] for one in sizes] == [12, 7, 4, 6]
    scores = PairDataset(["A dog."] * 4_000, ["A cat."] * 4_000, np.full(4_000, 0.5))
    assert sizes_for(scores, falls_to_zero=True)["epochs"] == 6

    def chosen(*overrides):
        recipe = load_recipe("hybrid", "mine", overrides=list(overrides))
        training = adapted(recipe, tiny_splits())[0].training
        return training.schedule, training.learning_rate, training.epochs, training.patience

    assert chosen("training.init=none") == ("cosine_warm_up_decay", 2e-3, 12, 12)
    assert chosen("training.init=similarity") == ("constant", 1e-3, 40, 8)
    assert chosen("training.init=none", "training.schedule=constant") == ("constant", 2e-3, 40, 8)
    given = chosen("training.init=none", "training.learning_rate=1e-4", "training.epochs=9")
    assert given == ("cosine_warm_up_decay", 1e-4, 9, 9)
    ranking = adapted(load_recipe("hybrid", "wikiqa"), tiny_splits("ranking"))[0].training
    assert (ranking.schedule, ranking.learning_rate, ranking.patience) == ("constant", 1e-3, 5)


def test_a_profile_has_values_for_each_auto():
    settings = ["model.units=4", "model.blocks=1"]
    sizes = {"batch_size": 4, "length": 4, "words": 9, "classes": 2}
    assert profile_model("hybrid", overrides=settings, **sizes)["train_ms"] > 0


@pytest.mark.parametrize("count, lengths", [(8, {*range(1, 9)}), (5, None), (2, {4, 8})])
def test_batches_have_as_many_lengths_as_asked(count, lengths):
    pairs = PairDataset([" ".join(["w"] * n) for n in range(1, 9)] * 4, ["w"] * 32, [0, 1] * 16)
    encoder = PairEncoder.fit(pairs, features=["word"])
    model = SimpleNamespace(input=["word_ids_1", "word_ids_2"])
    recipe = tiny_recipe(batch_size=4, length_buckets=count)
    data = prepare_data(recipe, {"train": pairs, "validation": pairs})
    run = Run(recipe, data, None, {}, None, None, None, EncodingCache())
    run.fitted, run.model = FittedEncoder(encoder, None, ""), model
    run.make_batches()
    found = {n for _, n in run.batches["train"].shapes()}
    assert len(found) == count and found == (lengths or found)


def test_own_data_get_sizes_and_known_data_keep_theirs():
    own, known = load_recipe("re2", "mine").training, load_recipe("re2", "sick").training
    assert (own.epochs, own.patience, own.batch_size, own.folds, own.init) == ("auto",) * 5
    assert (known.epochs, known.batch_size, known.folds) == (18, 64, 0)
    assert load_recipe("esim", "embedded").training.batch_size == 32
    assert load_recipe("cross_encoder", "mine").training.epochs != "auto"
    given = load_recipe("re2", "mine", overrides=["training.epochs=5"])
    recipe, notes = adapted(given, tiny_splits())
    assert (recipe.training.epochs, recipe.training.batch_size) == (5, 32)
    assert recipe.training.folds == 0, "there is nothing for them to choose"
    assert "100 training pairs: patience 8, batch size 32" in notes[0]
    assert adapted(recipe, tiny_splits()) == (recipe, [])


def repeated(rows, first="A dog runs.", second="A cat is asleep."):
    return PairDataset([first] * rows, [second] * rows, [0, 1] * (rows // 2))


def test_few_english_pairs_begin_with_the_package_s_matcher(tmp_path, monkeypatch):
    def start(*sets, pairs=None, model="hybrid", **how):
        pairs = pairs or repeated(1000)
        recipe = load_recipe(model, "mine", overrides=sets)
        recipe, notes = adapted(recipe, {"train": pairs, "validation": pairs}, **how)
        assert ("begins with the weights of the built-in matcher" in " ".join(notes)) == (
            recipe.training.init == "similarity"
        )
        assert recipe.vectors.source == "table" or recipe.training.init != "similarity"
        begins = recipe.training.init == "similarity"  # with the flags that the matcher reads
        assert ("antonym" in recipe.encoder.features) == ("exact_match" in recipe.model) == begins
        return recipe.training.init

    assert start() == start("vectors.source=table") == "similarity"
    assert start(pairs=repeated(1002)) == "none"
    assert start(pairs=repeated(100, "Der Hund rennt weg.", "Eine Katze schläft.")) == "none"
    assert start(searching=True) == "none", "the models of a search have several forms"
    assert start(model="re2") == "none"
    for other in ("model.units=20", "vectors.source=none", 'encoder.features=["word", "char"]'):
        assert start(other) == "none", "another form"
    for given in ("none", "runs/first"):
        assert start(f"training.init={given}") == given
    esim, _ = adapted(
        load_recipe("esim", "mine", overrides=["training.init=similarity"]),
        {"train": repeated(20), "validation": repeated(20)},
    )
    assert "exact_match" not in esim.model, "which refuses these weights"
    assert load_recipe("hybrid", "sick").training.init == "none"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "similarity").mkdir()
    assert start() == "none", "that is another matcher"


def test_a_rare_class_is_noticed():
    rare, even = rare_pairs(200, 0), tiny_pairs(200, 0)
    assert rarest_class(even) is None and rarest_class(rare)[0] == "yes"
    recipe, notes = adapted(tiny_recipe(), {"train": rare, "validation": rare})
    assert recipe.training.monitor == "val_macro_f1"
    assert "'yes' is rare" in notes[0] and "macro F1" in notes[0]
    hybrid = load_recipe("hybrid", "sick")
    for pairs, monitor in ((rare, "val_macro_f1"), (even, "val_loss")):
        splits = {"train": pairs, "validation": pairs}
        assert adapted(hybrid, splits)[0].training.monitor == monitor
    asked = tiny_recipe(monitor="val_accuracy")
    assert adapted(asked, {"train": rare, "validation": rare})[0] == asked


def test_a_majority_that_wins_is_named():
    metrics = {"monitor": "val_accuracy", "task": "classification", "rows": {"train": 900}}
    metrics |= {"validation": {"accuracy": 0.5, "rows": 100}, "majority": {"accuracy": 0.95}}
    metrics |= {"baseline": {"validation": {"accuracy": 0.9}}, "rising": False, "model": "re2"}
    metrics |= {"vectors": None, "word_level": True, "standard_error": 0.05}
    lines = advice(metrics, 0.3)
    assert "0.500 ± 0.050" in lines[0] and "100 validation pairs" in lines[0]
    assert "lost" in lines[1] and "but 0.900 for a bag of words and 0.950 for always" in lines[1]
    assert "900 training pairs, other word vectors" in lines[2] and "30% of the" in lines[2]
    assert "pretrained word vectors" in advice(metrics, 0.0)[2]
    assert "is not better, as far as 100" in advice(metrics | {"standard_error": 0.5}, 0.3)[1]
    assert len(advice(metrics | {"majority": None, "baseline": {}}, 0.3)) == 1
    counts = [("no", 95), ("yes", 5)]
    rows = [{"label": name, "n": n, "answers": {"no": n, "yes": 0}} for name, n in counts]
    ties = {"majority": {"accuracy": 0.5}, "classes": {"validation": rows}, "baseline": {}}
    lines = advice(metrics | ties, 0.0)
    assert "not better" in lines[1] and "0.500 for always predicting" in lines[1]
    assert "'yes' is never predicted, though 5 of 100 validation pairs have it" in lines[-1]


def test_a_run_that_still_rises_says_so():
    metrics = tiny_run(None, epochs=2, monitor="val_loss", learning_rate=0.003).metrics
    assert metrics["rising"]
    assert metrics["notes"][-1] == "It still improved in the last epoch, 2. Train with --epochs 4."


def test_a_rate_that_falls_to_zero_ends_with_its_best_epoch():
    """So more epochs may only help if the training pairs are as hard as others."""
    constant = tiny_recipe(epochs=2).training
    falling = tiny_recipe(epochs=2, schedule="cosine_warm_up_decay").training
    learned = {"loss": [0.6, 0.3], "val_loss": [0.5, 0.4]}
    hard = {"loss": [0.6, 0.38], "val_loss": [0.5, 0.4]}
    assert still_rises(learned, 2, constant) and not still_rises(learned, 2, falling)
    assert still_rises(hard, 2, falling) and not still_rises(hard, 1, falling)
    assert not still_rises({"loss": [0.6, 0.38]}, 2, falling), (
        "of folds, nothing is left to compare"
    )


@pytest.mark.parametrize("task, name", [("ranking", "map"), ("regression", "pearson")])
def test_standard_errors_are_those_of_other_draws(task, name):
    """Over many samples of pairs the figure spreads as one of them says."""
    from keras_sentmatch.metrics import evaluate_predictions

    rng = np.random.default_rng(0)
    pairs = tiny_pairs(4000, 0, task)
    outputs = np.asarray(pairs.labels) + rng.normal(0, 0.7, len(pairs))
    parts = [np.arange(start, start + 100) for start in range(0, 4000, 100)]
    figures = [evaluate_predictions(pairs.select(rows), outputs[rows])[name] for rows in parts]
    found = standard_error(pairs.select(parts[0]), outputs[parts[0]], name)
    assert found == pytest.approx(np.std(figures, ddof=1), rel=0.4)


def test_draws_without_a_right_answer_do_not_count():
    answers = [1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]
    groups = [f"q{row // 3}" for row in range(12)]  # two of four questions have a right answer
    names = ("wrong", "right")
    pairs = PairDataset(["a"] * 12, ["b"] * 12, answers, label_names=names, groups=groups)
    assert 0.05 < standard_error(pairs, np.linspace(0.1, 0.9, 12), "map") < 0.5


def test_few_pairs_choose_the_epochs_by_folds():
    given, few = load_recipe("re2", "mine"), (tiny_pairs(60, 1), tiny_pairs(20, 2))

    def folds(train, validation, recipe=given, **how):
        splits = {"train": train, "validation": validation}
        recipe, notes = adapted(recipe, splits, **how)
        assert bool(recipe.training.folds) == ("validation pairs are few" in notes[-1])
        return recipe.training.folds

    assert folds(*few) == folds(*(tiny_pairs(n, n, "ranking") for n in (60, 20))) == 3
    assert folds(*few, searching=True) == folds(*few, given.with_training(folds=0)) == 0
    assert folds(tiny_pairs(600, 1), tiny_pairs(200, 2)) == 0
    rare = rare_pairs(60, 0, 0.0).select([0, *range(2, 60)])  # of label 1 there is one pair, below
    assert folds(rare, rare_pairs(9, 1, 0.0)) == 0, "not possible, and not asked for"


def test_runs_share_an_encoder_only_if_their_vectors_are_trained_alike(monkeypatch):
    """With trained vectors an encoder knows the words of the training pairs only."""
    fitted = []
    monkeypatch.setattr(encoding, "fit_encoder", lambda recipe, *_: fitted.append(recipe) or [None])
    cache = EncodingCache()
    for trained in ("true", "false", "true"):
        overrides = [f"model.trainable_embedding={trained}"]
        cache.fit(load_recipe("esim", "pairs", overrides=overrides), {}, False)
    assert [recipe.model["trainable_embedding"] for recipe in fitted] == [True, False]
