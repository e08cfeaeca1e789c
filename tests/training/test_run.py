import csv
import functools
import json
from dataclasses import replace
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference import EnsembleMatcher
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.training import VectorsConfig, load_recipe, set_seed, train, train_ensemble
from tests.toys.training import (
    build_tiny,
    struck_build,
    tiny_pairs,
    tiny_recipe,
    tiny_run,
    tiny_splits,
)

FILES = {
    "README.md",
    "confusion_matrix.png",
    "encoder",
    "history.csv",
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


@pytest.mark.parametrize("task", list(PRIMARY))
def test_a_run_learns_and_writes_its_folder(task, finished):
    result, splits = finished(task), tiny_splits(task)
    out = result.folder
    missing = {"confusion_matrix.png"} if task == "regression" else set()
    assert {path.name for path in out.iterdir()} - {"logs", "more"} == FILES - missing
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
    assert result.matcher.evaluate(splits["test"]) == metrics["test"]
    again = load_recipe("tiny", file=out / "recipe.toml")
    assert again.training == tiny_recipe(epochs=5, plateau_factor=0.85).training


def test_a_finished_run_is_never_overwritten(finished):
    with pytest.raises(InputError, match="already holds a run"):
        tiny_run(finished("classification").folder)


def test_an_argument_that_the_model_has_not(tmp_path):
    recipe = load_recipe("drcn", "embedded", overrides=["model.unit=4"])
    with pytest.raises(InputError, match="no argument 'unit'"):
        train(recipe, tiny_splits(), tmp_path / "a", progress=False)


@pytest.mark.parametrize("hook", ["on_train_batch_begin", "on_train_batch_end"])
def test_ctrl_c_keeps_the_best_so_far(hook, tmp_path, caplog):
    caplog.set_level("INFO")
    out = tmp_path / "a"
    build = struck_build(KeyboardInterrupt, 2, hook)
    result = train(tiny_recipe(epochs=9), tiny_splits(), out, build=build)
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["interrupted"] and metrics["epochs"] == 2 and "baseline" not in metrics
    best = max(result.history["val_accuracy"])
    assert metrics["validation"]["accuracy"] == pytest.approx(best, abs=1e-6)
    assert f"is kept in {out}" in caplog.text
    assert "stopped by Ctrl-C" in (out / "README.md").read_text()


def test_ctrl_c_in_the_first_epoch_keeps_nothing(tmp_path, caplog):
    build = struck_build(KeyboardInterrupt, 0)
    with pytest.raises(KeyboardInterrupt):
        train(tiny_recipe(), tiny_splits(), tmp_path / "a", build=build)
    assert "nothing to keep" in caplog.text
    assert not (tmp_path / "a" / "matcher.json").exists()


def test_a_diverged_run_says_so(tmp_path):
    with pytest.raises(InputError, match="NaN or infinite.*learning rate"):
        recipe = tiny_recipe(learning_rate=1e30, optimizer="sgd")
        train(recipe, tiny_splits("regression"), tmp_path / "a", build=build_tiny)


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


def test_feature_attention_that_is_too_narrow_for_the_sentences(tmp_path, caplog):
    recipe = tiny_recipe(epochs=1)
    recipe = replace(recipe, name="esim", model={"units": 4, "feature_attention": "fa"})
    train(recipe, tiny_splits(), tmp_path / "a", progress=False, baseline=False)
    said = "D/r = 4 should exceed 8.33 ln(4) = 11.55 for 4 features and sentences of 4 tokens"
    assert sum(said in message for message in caplog.messages) == 1


def test_word_vectors_are_put_in(tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text("".join(f"w{i} {i}.0 1.0 2.0\n" for i in range(11)))
    seen = {}

    def build(name, **config):
        model = build_tiny(name, **config)
        seen.update(config)
        model.set_word_vectors = lambda matrix: seen.update(matrix=matrix)
        return model

    recipe = replace(tiny_recipe(epochs=1), vectors=VectorsConfig(str(file), dim=8))
    result = tiny_run(tmp_path / "a", recipe=recipe, build=build)
    encoder = result.matcher.encoder
    assert seen["embedding_dim"] == 3 and seen["matrix"].shape == (len(encoder.vocabulary), 3)
    assert seen["matrix"][encoder.vocabulary["w7"]].tolist() == [7.0, 1.0, 2.0]
    assert result.metrics["vectors"]["dim"] == 3
    assert "84.6% of 13 words" in result.metrics["vectors"]["coverage"]
    assert load_recipe("tiny", file=tmp_path / "a" / "recipe.toml").vectors.dim == 3


def test_bad_splits(tmp_path):
    splits = tiny_splits()
    bare = PairDataset(["a"], ["b"], label_names=("no", "yes"))
    other = PairDataset(["a"], ["b"], [0], label_names=("yes", "no"))
    wrong = tiny_pairs(10, 0, "ranking").select([0, 1])
    lost = PairDataset(["a"], ["b"], [0], label_names=("no", "yes"), groups=["q"])
    unasked = PairDataset(["a"], ["b"], [1], label_names=("no", "yes"), task="ranking")
    three = PairDataset(["a"], ["b"], [2], label_names=("no", "maybe", "yes"), groups=["q"])
    for bad, message in [
        ({"train": splits["train"]}, "No validation pairs; the splits are train"),
        ({**splits, "validation": bare}, "The validation pairs have no labels"),
        ({**splits, "test": other}, "train pairs are classification with the labels no, yes"),
        ({**splits, "validation": splits["test"].select([])}, "validation split holds no pairs"),
        ({"train": wrong, "validation": lost}, "None of the 1 validation questions"),
        ({"train": wrong, "validation": unasked}, "Ranking needs the question of each pair"),
        ({"train": three, "validation": three}, "Ranking needs two labels"),
    ]:
        with pytest.raises(InputError, match=message):
            tiny_run(tmp_path / "a", splits=bad)
    assert not (tmp_path / "a").exists()


def test_what_follows_from_the_data_cannot_be_set(tmp_path):
    recipe = tiny_recipe()
    recipe.model["num_classes"] = 7
    with pytest.raises(InputError, match="model.num_classes, which follows from the data"):
        train(recipe, tiny_splits(), tmp_path / "a", progress=False, build=build_tiny)


@pytest.mark.parametrize("seed", [-1, 2**32, 1.0, True, None])
def test_bad_seeds(seed):
    with pytest.raises(InputError, match="expected an integer from 0"):
        set_seed(seed)


def test_the_seed_decides_what_is_drawn():
    draws = []
    for seed in (1, 1, 2):
        set_seed(seed)
        draws.append((float(np.random.normal()), float(keras.random.normal(()))))
    assert draws[0] == draws[1] and not set(draws[1]) & set(draws[2])


def test_ensemble_of_seeds(tmp_path, finished):
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
    loaded = EnsembleMatcher.load(folders)
    np.testing.assert_allclose(loaded.predict_proba(splits["test"]), mean, atol=1e-6)

    # The same seed goes the same way, another one another.
    rows = [next(csv.DictReader(open(folder / "history.csv"))) for folder in folders]
    loss = finished("classification").history["loss"][0]
    assert float(rows[0]["loss"]) == pytest.approx(loss, abs=1e-6)
    assert float(rows[1]["loss"]) != pytest.approx(loss, abs=1e-6)


def test_an_ensemble_is_saved_as_one(tmp_path, finished):
    folder = finished("classification").folder
    for kept in (
        EnsembleMatcher([Matcher.load(folder)] * 2, temperature=2.0, threshold=0.4),
        EnsembleMatcher.load([folder, folder]),
    ):
        out = tmp_path / f"at-{kept.temperature}"
        kept.save(out)
        loaded = EnsembleMatcher.load(out)
        assert len(loaded.members) == 2
        assert (loaded.temperature, loaded.threshold) == (kept.temperature, kept.threshold)
        pairs = tiny_splits()["test"]
        np.testing.assert_allclose(
            loaded.predict_proba(pairs), kept.predict_proba(pairs), atol=1e-6
        )
        one, many = kept.predict(sentence1="w1", sentence2="w2"), kept.predict(pairs)
        assert one == kept.predict([{"sentence1": "w1", "sentence2": "w2"}])[0]
        assert [answer["label"] for answer in many] == [
            answer.label for answer in kept.answers(kept.predict_proba(pairs))
        ]
        with pytest.raises(InputError, match="already holds a run"):
            kept.save(out)


def test_ctrl_c_ends_an_ensemble(tmp_path, caplog):
    caplog.set_level("INFO")
    build = struck_build(KeyboardInterrupt, 2)
    _, report = train_ensemble(
        tiny_recipe(epochs=9), tiny_splits(), tmp_path, [3, 4], build=build, baseline=False
    )
    assert report["interrupted"] and report["seeds"] == [3]
    assert not (tmp_path / "seed-4").exists()
    assert f"is kept in {tmp_path / 'seed-3'}" in caplog.text


def test_bad_ensembles(tmp_path):
    with pytest.raises(InputError, match="no matchers"):
        EnsembleMatcher([])
    with pytest.raises(InputError, match="expected different seeds"):
        train_ensemble(tiny_recipe(), tiny_splits(), tmp_path, [1, 1])
    members = [SimpleNamespace(label_names=n, task="ranking") for n in (("a", "b"), ("b", "a"))]
    with pytest.raises(InputError, match="Member 1 answers .* same labels in the same order"):
        EnsembleMatcher(members)
