"""A search from recipe and pairs to trials, the best recipe and its run, on a model that trains in a moment."""

import csv
import json
import os
import socket
from dataclasses import replace

import numpy as np
import pytest

from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.training import EncoderConfig, load_recipe, prepare, train
from keras_sentmatch.training.lock import LOCK
from keras_sentmatch.tuning import Choice, Space, search, searching
from tests.toys.training import build_tiny, struck_build, tiny_recipe, tiny_splits

pytest.importorskip("keras_tuner")
SIZES = (10, 25, 50)


def tiny_space(recipe):
    return Space(recipe, [Choice("training.batch_size", SIZES, aliases=["B"])])


def recipe_of(**training):
    return tiny_recipe(**{"epochs": 2, "batch_size": 25, "seed": 0, **training})


def run(out, *, tuner="grid", build=build_tiny, space=tiny_space, recipe=None, splits=None, **more):
    recipe = recipe or recipe_of()
    more = {"retrain": 0, "progress": False, "report": False, **more}
    splits = splits or tiny_splits()
    return search(recipe, splits, out, space=space(recipe), tuner=tuner, build=build, **more)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return run(tmp_path_factory.mktemp("search") / "grid", retrain=2, progress=True, report=True)


def rows_of(folder):
    with open(folder / "trials.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_the_table(found):
    rows = rows_of(found.folder)
    assert [row["training.batch_size"] for row in rows] == ["25", "10", "50"], "the default first"
    assert {row["status"] for row in rows} == {"completed"}
    assert [float(row["score"]) for row in rows] == [row["score"] for row in found.trials]
    assert found.score == max(row["score"] for row in found.trials)
    for row in rows:
        metrics = json.loads((found.folder / "trials" / row["trial"] / "metrics.json").read_text())
        assert metrics["validation"]["accuracy"] == float(row["score"])
        assert metrics["parameters"] == int(row["parameters"])
        assert metrics["seed"] == 0 and "test" not in metrics
        assert metrics["pair_seconds"] == float(row["pair_seconds"]) > 0
        assert metrics["pairs_per_second"] == float(row["pairs_per_second"]) > 0


def test_the_report(found):
    page = (found.folder / "report.md").read_text()
    assert f"validation accuracy {found.score:.4f}: B = " in page
    mean = found.retrained["test"]["mean"]["accuracy"]
    assert "Retrained with the seeds 1, 2: validation" in page and f"test {mean:.4f} ±" in page
    assert (found.folder / "best_recipe.toml").read_text().strip() in page
    for name in ("sensitivity", "cost", "parallel"):
        assert (found.folder / f"{name}.png").exists()


def test_only_the_best_model_is_kept(found):
    best = max(found.trials, key=lambda row: row["score"])["trial"]
    assert [p.parent.name for p in found.folder.glob("trials/*/model.keras")] == [best]
    assert Matcher.load(found.folder / "trials" / best)
    other = next(row["trial"] for row in found.trials if row["trial"] != best)
    names = {path.name for path in (found.folder / "trials" / other).iterdir()}
    assert names == {"history.csv", "metrics.json", "recipe.toml"}


def test_a_trial_is_what_train_makes_of_its_recipe(found, tmp_path):
    again = load_recipe("tiny", file=found.folder / "best_recipe.toml")
    assert again == found.best
    assert again.training.batch_size == found.configuration["training.batch_size"]
    result = train(
        again, tiny_splits(), tmp_path / "a", progress=False, baseline=False, build=build_tiny
    )
    assert result.metrics["validation"]["accuracy"] == found.score
    trial = max(found.trials, key=lambda row: row["score"])["trial"]
    kept = Matcher.load(found.folder / "trials" / trial)
    for now, then in zip(result.matcher.model.get_weights(), kept.model.get_weights()):
        np.testing.assert_array_equal(now, then)


def test_the_best_is_trained_anew_with_other_seeds(found):
    assert found.retrained["seeds"] == [1, 2]
    assert {"validation", "test"} <= set(found.retrained) and "sd" in found.retrained["validation"]
    for seed in (1, 2):
        metrics = json.loads((found.folder / f"best/seed-{seed}/metrics.json").read_text())
        assert metrics["seed"] == seed and "test" in metrics
        same = replace(found.best.training, seed=seed)
        assert (
            load_recipe("tiny", file=found.folder / f"best/seed-{seed}/recipe.toml").training
            == same
        )


@pytest.mark.backend("torch")
def test_ctrl_c_in_a_trial_ends_the_search(found, tmp_path):
    built = []

    def build(name, **config):
        built.append(name)
        last = len(built) == 4  # after the dry run's two and a trial
        return (struck_build(KeyboardInterrupt, 1) if last else build_tiny)(name, **config)

    result = run(tmp_path / "a", build=build)
    assert result.interrupted and result.score == found.trials[0]["score"]
    assert [row["score"] for row in result.trials] == [result.score, None]


@pytest.mark.backend("torch")
def test_a_trial_that_diverges_fails(tmp_path, caplog):
    def space(recipe):
        return Space(recipe, [Choice("training.learning_rate", (0.02, 1e30))])

    recipe = recipe_of(monitor="val_loss")
    result = run(tmp_path / "a", space=space, recipe=recipe)
    assert [row["status"] for row in result.trials] == ["completed", "failed"]
    assert "its training diverged" in result.trials[1]["error"]
    assert "The loss became NaN in epoch 1: lower training.learning_rate" in caplog.text


@pytest.mark.backend("torch")  # nothing in it depends on the backend, and this one is the fastest
def test_pairs_are_encoded_once_for_each_encoder(tmp_path, monkeypatch):
    fitted, encoded = [], []
    fit, encode = prepare.fit_encoder, prepare.encode_dataset
    monkeypatch.setattr(prepare, "fit_encoder", lambda *a: fitted.append(a) or fit(*a))
    monkeypatch.setattr(prepare, "encode_dataset", lambda *a: encoded.append(a) or encode(*a))

    def space(recipe):
        choices = [Choice("encoder.max_length", (3, 4)), Choice("training.batch_size", (25, 50))]
        return Space(recipe, choices)

    result = run(tmp_path / "a", space=space, recipe=with_length(3), retrain=1)
    assert len(result.trials) == 4
    assert (len(fitted), len(encoded)) == (2, 4)
    notes = [
        json.loads((p / "metrics.json").read_text()) for p in (tmp_path / "a/trials").iterdir()
    ]
    assert len({m["encoding"] for m in notes}) == 2, "the counts of a trial are its own"


def with_length(length):
    return replace(recipe_of(epochs=1), encoder=EncoderConfig(max_length=length))


@pytest.mark.slow
@pytest.mark.backend("torch")  # nothing in it depends on the backend, and this one is the fastest
@pytest.mark.parametrize("objective", ["loss", "f1"])
def test_the_objective_chooses_epoch_and_trial(objective, tmp_path):
    result = run(tmp_path / "a", objective=objective, trials=2)
    assert result.best.training.monitor == result.objective == f"val_{objective}"
    scores = [row["score"] for row in result.trials]
    assert result.score == (min(scores) if objective == "loss" else max(scores))
    row = result.trials[0]
    with open(tmp_path / "a/trials" / row["trial"] / "history.csv", newline="") as file:
        history = [float(epoch[f"val_{objective}"]) for epoch in csv.DictReader(file)]
    assert row["score"] == pytest.approx(history[row["best_epoch"] - 1], abs=1e-6)
    assert history[row["best_epoch"] - 1] == (min if objective == "loss" else max)(history)


@pytest.mark.once
@pytest.mark.slow
@pytest.mark.parametrize("task, objective", [("ranking", "map"), ("regression", "pearson")])
def test_other_tasks(task, objective, tmp_path):
    result = run(tmp_path / "a", splits=tiny_splits(task), trials=1)
    assert result.objective == f"val_{objective}"
    with pytest.raises(InputError, match=f"'bleu'|objective 'f1' does not exist for {task}"):
        run(tmp_path / "b", splits=tiny_splits(task), objective="f1")


# --- what goes wrong, before anything runs; test_search_logic.py has the rest ---


@pytest.mark.parametrize(
    "more, message",
    [
        ({"tuner": "genetic"}, "no tuner 'genetic'; there is bayesian, random, hyperband, grid"),
        ({"trials": 0}, "trials is 0; at least 1"),
        (
            {"objective": "bleu"},
            "objective 'bleu' does not exist .*there is accuracy, macro_f1, f1",
        ),
        ({"objective": "map"}, "objective 'map' does not exist for classification with 2 classes"),
        ({"fix": {"B": 10}}, "nothing left to search"),
        ({"fix": {"C": 10}}, "tiny has no 'C'"),
    ],
)
def test_what_is_refused(more, message, tmp_path):
    with pytest.raises(InputError, match=message):
        run(tmp_path / "a", **more)
    assert not (tmp_path / "a").exists()


@pytest.mark.backend("torch")  # nothing in it depends on the backend, and this one is the fastest
def test_one_search_at_a_time_in_a_folder(tmp_path):
    out = tmp_path / "a"
    messages = []

    def build(name, **config):
        with pytest.raises(InputError) as error:
            run(out, resume=True)
        messages.append(str(error.value))
        return build_tiny(name, **config)

    run(out, build=build, trials=1)
    assert f"a is in use: process {os.getpid()} on" in messages[0]
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    noted = {"pid": child, "host": socket.gethostname(), "started": "2026-01-01 00:00:00"}
    (out / LOCK).write_text(json.dumps(noted))  # of a search that was killed
    assert len(run(out, resume=True, trials=2).trials) == 2
    assert not (out / LOCK).exists()


@pytest.mark.parametrize("module, tuner", [("keras_tuner", "grid"), ("sklearn", "bayesian")])
def test_what_is_missing_is_named(module, tuner, tmp_path, monkeypatch):
    there = searching.importlib.util.find_spec
    monkeypatch.setattr(
        searching.importlib.util, "find_spec", lambda name: None if name == module else there(name)
    )
    with pytest.raises(InputError, match=r'not installed.*pip install "keras-sentmatch\[tuner\]"'):
        run(tmp_path / "a", tuner=tuner)
