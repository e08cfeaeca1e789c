import functools
import json
from dataclasses import replace
from importlib.util import find_spec

import keras
import numpy as np
import pytest

from keras_sentmatch.applications import get_model_class
from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.ensemble import load_run
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.training import Recipe, load_recipe, train, train_ensemble
from keras_sentmatch.training.config import VectorsConfig
from tests.toys.training import build_tiny, struck_build, tiny_recipe, tiny_run, tiny_splits

FILES = {
    "README.md",
    "confusion_matrix.png",
    "encoder",
    "history.csv",
    "learned.npz",
    "learning_curve.png",
    "matcher.json",
    "metrics.json",
    "model.keras",
    "recipe.toml",
}
PRIMARY = {"classification": "accuracy", "ranking": "map", "regression": "pearson"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A function from a task to its finished run, trained once; classification with the baseline."""

    @functools.cache
    def of(task):
        out = tmp_path_factory.mktemp("runs") / "new" / task
        options = {"baseline": task == "classification"}
        splits = tiny_splits(task)
        return tiny_run(out, splits=splits, options=options, epochs=5, plateau_factor=0.85)

    return of


@pytest.mark.each_backend
@pytest.mark.parametrize("task", list(PRIMARY))
def test_a_run_learns_and_writes_its_folder(task, finished):
    result, splits = finished(task), tiny_splits(task)
    out = result.folder
    missing = {"confusion_matrix.png"} if task == "regression" else set()
    made = {"onnx"} if find_spec("onnxruntime") else set()
    assert {path.name for path in out.iterdir()} == FILES - missing | made
    assert not made or Matcher.load(out).engine == "onnx"
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics == json.loads(json.dumps(result.metrics))
    name = PRIMARY[task]
    values = result.history[f"val_{name}"]
    assert metrics["validation"][name] == pytest.approx(max(values), abs=1e-6)
    assert metrics["best_epoch"] == 1 + int(np.argmax(values))
    assert metrics["test"][name] > 0.7
    words = len(result.matcher.encoder.vocabulary)
    assert metrics["parameters"] - metrics["parameters_without_word_embeddings"] == words * 8
    assert metrics["backend"] == keras.config.backend() and metrics["seed"] == 0
    card = (out / "README.md").read_text()
    assert f"{metrics['test'][name]:.4f}" in card
    if task == "classification":
        assert {"validation", "test"} == set(metrics["baseline"])
        assert f"{metrics['baseline']['test'][name]:.4f}" in card
    assert Matcher.load(out).evaluate(splits["test"]) == metrics["test"]
    assert result.matcher.evaluate(splits["test"]) == metrics["test"]
    again = load_recipe("tiny", file=out / "recipe.toml")
    assert again.training == tiny_recipe(epochs=5, plateau_factor=0.85).training


def test_without_a_folder_only_the_matcher_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = tiny_run(None, epochs=1)
    assert found.folder is None and not list(tmp_path.iterdir())
    pair = tiny_splits()["test"]
    assert found.matcher.predict_proba(pair).shape == (len(pair), 2)
    found.matcher.save(tmp_path / "later")
    assert Matcher.load(tmp_path / "later").label_names == found.matcher.label_names
    with pytest.raises(InputError, match="nothing to resume without a run folder. Pass its path"):
        tiny_run(None, options={"resume": True})


def test_a_finished_run_is_never_overwritten(finished):
    with pytest.raises(InputError, match="already holds a finished run"):
        tiny_run(finished("classification").folder)


@pytest.mark.each_backend
def test_mixed_precision_other_settings_and_unlabeled_test_pairs(tmp_path):
    before = keras.config.dtype_policy()
    bare = PairDataset(["w1"], ["w2"], label_names=("no", "yes"))
    result = tiny_run(
        tmp_path / "a",
        splits={**tiny_splits(), "test": bare},
        dtype_policy="mixed_bfloat16",
        optimizer="adamw",
        clipnorm=1.0,
        monitor="val_macro_f1",
    )
    assert keras.config.dtype_policy() == before
    assert result.matcher.model.compute_dtype == "bfloat16"
    assert result.metrics["monitor"] == "val_macro_f1"
    assert result.matcher.predict_proba(bare).dtype == np.float32
    assert "test" not in result.metrics and (tmp_path / "a" / "confusion_matrix.png").exists()


def test_word_vectors_are_put_in(tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text("".join(f"w{i} {i}.0 1.0 2.0\n" for i in range(11)))
    seen = {}

    def build(name, **config):
        model = build_tiny(name, **config)
        seen.update(config)
        model.set_word_vectors = lambda matrix, similarity: seen.update(matrix=matrix)
        return model

    recipe = replace(tiny_recipe(epochs=1), vectors=VectorsConfig(str(file), dim=8))
    result = tiny_run(tmp_path / "a", recipe=recipe, build=build)
    encoder = result.matcher.encoder
    assert seen["embedding_dim"] == 3 and seen["matrix"].shape == (len(encoder.vocabulary), 3)
    assert seen["matrix"][encoder.vocabulary["w7"]].tolist() == [7.0, 1.0, 2.0]
    assert result.metrics["vectors"]["dim"] == 3
    assert "84.6% of 13 words" in result.metrics["vectors"]["coverage"]
    assert load_recipe("tiny", file=tmp_path / "a" / "recipe.toml").vectors.dim == 3


def test_the_seed_decides_the_first_weights():
    first = []

    def build(name, **config):
        model = build_tiny(name, **config)
        first.append(model.get_weights()[0])
        return model

    for seed in (1, 1, 2):
        tiny_run(None, build=build, epochs=1, options={"seed": seed})
    np.testing.assert_array_equal(first[0], first[1])
    assert not np.array_equal(first[1], first[2])


def test_ensemble_of_seeds(tmp_path):
    splits = tiny_splits()
    ensemble, report = train_ensemble(
        tiny_recipe(epochs=1), splits, tmp_path, [0, 1], progress=False, build=build_tiny
    )
    folders = [tmp_path / f"seed-{seed}" for seed in (0, 1)]
    runs = [Matcher.load(folder) for folder in folders]
    outputs = [matcher.predict_proba(splits["test"]) for matcher in runs]
    mean = np.mean(outputs, axis=0)
    assert not np.allclose(*outputs)
    np.testing.assert_allclose(ensemble.predict_proba(splits["test"]), mean, atol=1e-6)
    accuracies = [member["accuracy"] for member in report["test"]["members"]]
    assert report["test"]["mean"]["accuracy"] == pytest.approx(np.mean(accuracies))
    assert report["test"]["sd"]["accuracy"] == pytest.approx(np.std(accuracies, ddof=1))
    expected = np.mean(mean.argmax(-1) == splits["test"].labels)
    assert report["test"]["ensemble"]["accuracy"] == pytest.approx(expected)
    assert json.loads((tmp_path / "ensemble.json").read_text()) == report
    cards = [(folder / "metrics.json").read_text() for folder in folders]
    assert ['"baseline"' in card for card in cards] == [True, False]
    loaded = load_run(folders)
    np.testing.assert_allclose(loaded.predict_proba(splits["test"]), mean, atol=1e-6)


def test_ctrl_c_ends_an_ensemble(tmp_path, caplog):
    caplog.set_level("INFO")
    build = struck_build(KeyboardInterrupt, 2)
    _, report = train_ensemble(
        tiny_recipe(epochs=9), tiny_splits(), tmp_path, [3, 4], build=build, baseline=False
    )
    assert report["interrupted"] and report["seeds"] == [3]
    assert not (tmp_path / "seed-4").exists()
    assert f"is kept in {tmp_path / 'seed-3'}" in caplog.text


@pytest.mark.backend("jax")
def test_batches_have_few_shapes_and_the_screen_says_how_many(tmp_path, caplog):
    caplog.set_level("INFO")
    shapes = {True: set(), False: set()}

    class Counting(keras.Model):
        def compute_loss(self, x, y, y_pred, sample_weight=None, training=True):
            shapes[training].add(x["word_ids_1"].shape)
            return super().compute_loss(x, y, y_pred, sample_weight, training)

    def build(name, **config):
        model = build_tiny(name, **config)
        return Counting(model.input, model.output, name=name)

    tiny_run(None, build=build, batch_size=16, epochs=2)
    # Two lengths, or three, and the short batch at the end.
    assert len(shapes[True]) <= 4 and len(shapes[False]) <= 3
    # Keras also builds its state with a training batch, which compiles nothing.
    count = len(shapes[True] | shapes[False])
    assert f"compiling {count} programs, one for each shape of a batch" in caplog.text


@pytest.mark.backend("tensorflow")
def test_a_trained_model_takes_sentences_of_different_lengths():
    words = [" ".join(["red"] * (1 + n % 30)) for n in range(80)]
    pairs = PairDataset(words, words, [n % 2 for n in range(80)], label_names=["no", "yes"])
    tables = {"encoder": {"features": ["word"]}, "vectors": {"dim": 8}, "model": {"units": 8}}
    recipe = Recipe.from_tables("re2", **tables, training={"epochs": 1, "batch_size": 8})
    splits = {"train": pairs, "validation": pairs}
    model = train(recipe, splits, None, progress=False, baseline=False).matcher.model
    ids = {f"word_ids_{side}": np.ones((8, length), "int32") for side, length in ((1, 7), (2, 4))}
    padded = {**ids, "word_ids_2": np.pad(ids["word_ids_2"], [(0, 0), (0, 3)])}
    labels = np.zeros(8, "int32")
    losses = [model.evaluate(x, labels, verbose=0)[0] for x in (ids, padded)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


@pytest.mark.parametrize("asked", [{}, {"trainable_embedding": False}])
def test_random_vectors_are_trained(asked):
    """Also by models whose word vectors are fixed by default."""
    assert get_model_class("drr_net").arguments()["trainable_embedding"].default is False
    seen = {}

    def build(name, **config):
        seen.update(config)
        return build_tiny(name, **config)

    tables = {"encoder": {"features": ["word"]}, "vectors": {"source": "none", "dim": 8}}
    recipe = Recipe.from_tables("drr_net", **tables, model=asked, training={"epochs": 1})
    tiny_run(None, recipe=recipe, build=build)
    assert seen["trainable_embedding"] is True
