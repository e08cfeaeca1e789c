"""Models on a pretrained encoder, from the command line to the run folder: with a BERT of one layer of 8."""

import json
import shutil
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from keras_sentmatch import explain
from keras_sentmatch.cli import main
from keras_sentmatch.encoders import SubwordPairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.training import Recipe, load_recipe, train
from keras_sentmatch.training.optimizers import FineTuningAdamW
from keras_sentmatch.training.prepare import make_model
from tests.toys.training import WORDS, Strike, tiny_pairs, tiny_splits

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "x", *WORDS]


def save_preset(folder, num_layers=1):
    """A KerasHub preset: a BERT of 32 positions that knows the words of the tiny pairs."""
    hub = pytest.importorskip("keras_hub")
    backbone = hub.models.BertBackbone(
        vocabulary_size=len(PIECES),
        num_layers=num_layers,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        max_sequence_length=32,
        dropout=0.0,
    )
    backbone.save_to_preset(str(folder))
    hub.models.BertTokenizer(vocabulary=PIECES, lowercase=True).save_to_preset(str(folder))
    return folder


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    return save_preset(tmp_path_factory.mktemp("hub") / "tiny_bert")


def command(*arguments) -> int:
    with pytest.MonkeyPatch.context() as patch:  # the command sets these two
        patch.setenv("KERAS_BACKEND", keras.config.backend())
        patch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
    return exit_.value.code or 0


def write_pairs(path):
    pairs = tiny_pairs(100, 0)
    rows = [("sentence1", "sentence2", "label")]
    rows += zip(pairs.sentence1, pairs.sentence2, pairs.labels)
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that the command line trained on a preset that is gone."""
    home = tmp_path_factory.mktemp("run")
    preset, data = save_preset(home / "preset"), write_pairs(home / "pairs.tsv")
    sets = ("training.learning_rate=0.01", "training.accumulate=2", "encoder.max_length=10")
    settings = [part for key in sets for part in ("--set", key)]
    where = ["--backbone", preset, "--data", data, "--out", home / "run", *settings]
    assert command("train", "cross_encoder", *where, "--epochs", 1, "--batch-size", 20) == 0
    metrics = json.loads((home / "run" / "metrics.json").read_text())
    shutil.rmtree(preset)
    return SimpleNamespace(folder=home / "run", data=data, metrics=metrics)


def test_the_run_folder_is_whole(trained):
    metrics = trained.metrics
    table = len(PIECES) * 8
    assert metrics["parameters"] - metrics["parameters_without_word_embeddings"] == table
    assert metrics["vectors"] is None and metrics["teacher"] is None
    assert "sentences" in metrics["encoding"] and metrics["epochs"] == 1
    again = load_recipe("cross_encoder", file=trained.folder / "recipe.toml")
    assert again.training.weight_decay == 0.01 and again.training.accumulate == 2
    matcher = Matcher.load(trained.folder)
    assert isinstance(matcher.encoder, SubwordPairEncoder)
    assert matcher.encoder.max_length == 10 and len(matcher.label_names) == 2


def test_commands_take_the_run(trained, capsys):
    assert command("evaluate", trained.folder, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["accuracy"] == pytest.approx(trained.metrics["test"]["accuracy"])
    pair = ["--sentence1", "w1 w2", "--sentence2", "w3"]
    assert command("predict", trained.folder, *pair, "--json") == 0
    assert sum(json.loads(capsys.readouterr().out)["probabilities"].values()) == pytest.approx(1)
    assert command("rank", trained.folder, "w1 w2", trained.data, "--top-k", 2, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)) == 2


@pytest.mark.once
def test_profile_and_models(preset, capsys):
    sizes = "--length 12 --batch-size 2 --classes 2 --json".split()
    assert command("profile", "cross_encoder", "--set", f"model.backbone={preset}", *sizes) == 0
    profile = json.loads(capsys.readouterr().out)
    assert sum(profile["layers"].values()) == profile["parameters"]
    assert command("models", "cross_encoder", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["inputs"] == ["token_ids", "segment_ids", "padding_mask"]
    # BERT-base without its word pieces, and the classifier of three classes.
    assert shown["parameters"] == 109_482_240 - 30_522 * 768 + 3 * 769


@pytest.mark.once
@pytest.mark.parametrize(
    "arguments, message",
    [
        ("train drcn --backbone x", "drcn has no pretrained encoder"),
        ("train cross_encoder --vectors x.txt", "takes no word vectors: leave --vectors out"),
        ("train cross_encoder --set encoder.lowercase=true", "encoder.lowercase: a model with a"),
        ("train cross_encoder --teacher nowhere", "nowhere is not a run folder"),
        ("train cross_encoder --backbone ./nowhere", "no such folder"),
        (
            "profile ladra_net --set model.backbone=./nowhere",
            "--backbone, or with --set model.back",
        ),
    ],
)
def test_mistakes_are_one_line(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command(*arguments.split()) == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert line.startswith("error: ") and message in line
    assert list(tmp_path.iterdir()) == []


def recipe_on(preset, name="cross_encoder", **tables):
    given = load_recipe(name, overrides=[f"model.backbone={str(preset)!r}"]).tables()
    return Recipe.from_tables(name, **{t: given[t] | tables.get(t, {}) for t in given})


def test_more_word_pieces_than_the_encoder_reads(preset, tmp_path):
    recipe = recipe_on(preset, encoder={"max_length": 33})
    with pytest.raises(InputError, match="max_length is 33, but .* reads at most 32 word pieces"):
        train(recipe, tiny_splits(), tmp_path / "a", progress=False)
    assert not (tmp_path / "a").exists()


def test_the_new_layers_learn_faster_than_the_encoder(preset):
    recipe = recipe_on(preset, "ladra_net", encoder={"max_length": 16})
    encoder = SubwordPairEncoder.from_preset(preset, max_length=16)
    model = make_model(recipe, tiny_pairs(40, 0), encoder, None, None)
    assert isinstance(model.optimizer, FineTuningAdamW)
    rates = {v.path: f for v, f in zip(model.trainable_variables, model.optimizer.rate_factors)}
    slow = {v.path for v in model.backbone_variables}
    assert 0 < len(slow & set(rates)) < len(rates)
    assert all(rates[path] == pytest.approx(0.02 if path in slow else 1) for path in rates)


def test_two_rates_and_a_kill(preset, tmp_path):
    """Resumed, the encoder and the new layers go on, each at its rate."""
    training = {
        "learning_rate": 0.01,
        "backbone_learning_rate": 1e-3,
        "batch_size": 20,
        "epochs": 3,
    }
    recipe = recipe_on(preset, "dabert", encoder={"max_length": 16}, training=training)
    recipe.model["output_stddev"] = 0.02

    def run(name, **more):
        options = {"progress": False, "baseline": False, **more}
        return train(recipe, tiny_splits(), tmp_path / name, **options)

    whole = run("whole").matcher.model
    with pytest.raises(SystemExit):
        run("killed", callbacks=[Strike(SystemExit, 2, "on_train_batch_end")])
    resumed = run("killed", resume=True).matcher.model
    for now, then in zip(resumed.get_weights(), whole.get_weights()):
        np.testing.assert_array_equal(now, then)


def test_dabert_with_three_dual_layers_from_the_command_line(tmp_path):
    preset = save_preset(tmp_path / "preset", num_layers=3)
    settings = (
        "model.dual_layers=[0,1,2]",
        "model.cross=true",
        "model.output_stddev=0.02",
        "training.learning_rate=0.01",
        "training.backbone_learning_rate=1e-4",
        "training.dtype_policy=mixed_bfloat16",
        "encoder.max_length=10",
    )
    where = ["--backbone", preset, "--data", write_pairs(tmp_path / "pairs.tsv")]
    where += ["--out", tmp_path / "run", *(part for key in settings for part in ("--set", key))]
    assert command("train", "dabert", *where, "--epochs", 1, "--batch-size", 20) == 0
    matcher = Matcher.load(tmp_path / "run")
    assert sorted(matcher.model.duals) == [0, 1, 2] and matcher.model.cross
    explanation = explain(matcher, sentence1="w1 w2", sentence2="w3")
    for i in range(3):
        assert (explanation.values[f"change_{i}"] > 0).all()


def test_scores_from_a_frozen_encoder_in_mixed_precision(preset, tmp_path):
    settings = {"epochs": 1, "learning_rate": 0.01, "dtype_policy": "mixed_bfloat16"}
    recipe = recipe_on(preset, encoder={"max_length": 16}, training=settings)
    recipe.model["trainable_backbone"] = False
    splits = tiny_splits("regression")
    result = train(recipe, splits, tmp_path / "a", progress=False, baseline=False)
    expected = result.matcher.predict_proba(splits["test"])
    assert expected.dtype == np.float32 and np.isfinite(expected).all()
    loaded = Matcher.load(tmp_path / "a")
    assert loaded.model.dtype_policy.name == "mixed_bfloat16"
    found = loaded.predict_proba(splits["test"])
    np.testing.assert_allclose(found, expected, atol=2e-4)  # XLA keeps more digits


@pytest.mark.once
@pytest.mark.parametrize(
    "tables, message",
    [
        (
            {"training": {"weight_decay": 0.1}},
            "weight_decay is 0.1, which training.optimizer 'adam'",
        ),
        ({"training": {"clipnorm": 1.0, "global_clipnorm": 1.0}}, "set one of them to 0"),
        (
            {"training": {"backbone_learning_rate": 1e-5, "optimizer": "adamw"}},
            "the model has no pretrained encoder",
        ),
        (
            {"training": {"backbone_learning_rate": 1e-5}, "model": {"backbone": "x"}},
            "backbone_learning_rate is 1e-05, which training.optimizer 'adam' does not have",
        ),
        ({"training": {"accumulate": 0}}, "accumulate is 0; expected an integer of at least 1"),
        (
            {"training": {"teacher": "runs/a"}},
            "teacher is 'runs/a'; expected a list of run folders",
        ),
        (
            {"training": {"distillation_weight": 1.5}},
            "distillation_weight is 1.5; expected a number from 0 to 1",
        ),
    ],
)
def test_bad_recipes(tables, message):
    with pytest.raises(InputError, match=message):
        Recipe.from_tables("tiny", **tables)
