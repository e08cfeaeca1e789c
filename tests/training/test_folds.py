"""Folds: what they hold, what they choose for a run, cross-validation, and going on after a kill."""

import contextlib
import csv
import json

import keras
import numpy as np
import pytest

from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.splits import part_numbers
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference import Matcher
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from keras_sentmatch.metrics import evaluate_predictions
from keras_sentmatch.metrics.calibration import fit_temperature
from keras_sentmatch.training import cross_validate, load_recipe, train
from keras_sentmatch.training.folds import fold_parts
from keras_sentmatch.training.training_data import joined_splits
from tests.cli.test_cli import run
from tests.toys.training import (
    build_tiny,
    tiny_pairs,
    tiny_recipe,
    tiny_run,
    tiny_splits,
)
from tests.training.test_resume import Killed

pytestmark = pytest.mark.backend("torch")  # nothing in it depends on the backend


def few_splits():
    return {"train": tiny_pairs(60, 1), "validation": tiny_pairs(20, 2)}


@pytest.mark.parametrize("task", ["classification", "ranking", "regression"])
def test_a_run_with_folds_is_measured_and_calibrated_by_out_of_fold_predictions(
    task, tmp_path, capsys, caplog
):
    splits = {role: tiny_pairs(n, n, task, role) for role, n in (("train", 60), ("validation", 20))}
    result = tiny_run(tmp_path / "a", splits=splits, epochs=2, folds=3)
    pairs, loaded = joined_splits(splits), Matcher.load(tmp_path / "a")
    part = part_numbers(pairs, [1 / 3] * 3, seed=0)
    scores = np.empty_like(result.matcher.predict_proba(pairs))
    for fold in range(3):
        with np.load(tmp_path / f"a/folds/{fold + 1}/scores.npz") as file:
            scores[part == fold] = file["scores"]
    expected = evaluate_predictions(pairs, scores)
    assert result.metrics["validation"] == loaded.evaluate() == expected
    assert expected["rows"] == 80 and "val_loss" not in result.history
    own = evaluate_predictions(splits["validation"], scores[60:])
    if task == "classification":
        assert loaded.evaluate(splits["validation"]) == own
        asked = tmp_path / "a", "--split", "validation", "--json"
        assert run("evaluate", *asked) == 0
        assert json.loads(capsys.readouterr().out).items() >= expected.items()
        assert run("calibrate", tmp_path / "a") == 0 == run("evaluate", *asked)
        assert "was calibrated on these pairs" in capsys.readouterr().err
        report = loaded.calibrate()
        assert report["temperature"] == fit_temperature(pairs.labels, scores)
        with contextlib.suppress(InputError):  # with so few pairs it may be out of reach
            loaded.calibrate(precision=0.3)
        assert "may still be more or less confident" in caplog.text
        assert sorted(set(loaded.learned.folds)) == [0, 1, 2]
        spaced = PairDataset([f"{s} " for s in pairs.sentence1], pairs.sentence2)
        assert (loaded.learned.rows(spaced) >= 80).all(), "learned, but not the same pair"
        assert EnsembleMatcher([loaded, result.matcher]).calibrate()["rows"] == 80


def test_pairs_that_a_run_has_learned_from_are_named_or_refused(tmp_path, caplog):
    splits = tiny_splits()
    matcher = tiny_run(tmp_path / "a", splits=splits, epochs=1).matcher
    with pytest.raises(InputError, match="learned from 100 of these 100 pairs"):
        matcher.calibrate(splits["train"])
    with pytest.raises(InputError, match="not trained with folds"):
        matcher.evaluate()
    train = splits["train"]
    upper, spaced = ([change(s) for s in train.sentence1] for change in (str.upper, " {} ".format))
    for sides in (upper, train.sentence2), (spaced, train.sentence2), (train.sentence2, upper):
        other = PairDataset(*sides, train.labels, label_names=train.label_names)
        with pytest.raises(InputError, match="learned from 100 of these 100 pairs"):
            matcher.calibrate(other)
    both = joined_splits(splits)
    assert matcher.calibrate(both)["rows"] == 40
    matcher.evaluate(both)
    matcher.warn_of_learned(both)
    assert caplog.text.count("learned from 100 of these 140 pairs") == 3
    others = {"train": tiny_pairs(60, 1), "validation": both}
    taught = tiny_run(tmp_path / "b", splits=others, epochs=1, teacher=[str(tmp_path / "a")])
    assert "first run learned from 100 of 140 validation pairs" in caplog.text
    with pytest.raises(InputError, match="learned from 100 of these 100 pairs"):
        taught.matcher.calibrate(splits["train"])


@pytest.mark.parametrize("schedule", ["constant", "cosine_warm_up_decay"])
def test_a_run_with_folds_goes_on_after_a_kill(schedule, tmp_path):
    """Killed in a fold, and again when it learns from all pairs."""
    settings = {"splits": few_splits(), "epochs": 4, "folds": 3, "patience": 2}
    settings["schedule"] = schedule
    whole = tiny_run(tmp_path / "whole", **settings)
    metrics = whole.metrics
    fold, *_ = json.loads((whole.folder / "folds/chosen.json").read_text())["folds"]
    assert fold["rows"]["train"] + fold["rows"]["validation"] == metrics["rows"]["train"] == 80
    assert metrics["validation"]["rows"] == 80
    assert metrics["best_epoch"] == metrics["epochs"] == len(whole.history["loss"]) <= 4
    assert metrics["notes"][0].startswith("Validation accuracy")
    kept = {path.name for path in whole.folder.glob("folds/*/*")}
    assert kept == {"history.csv", "scores.npz"}

    seen = []

    class Strike(keras.callbacks.Callback):
        """Kills the given call of `fit` in its epoch."""

        def on_train_batch_end(self, batch, logs=None):
            if len(seen) == self.at and batch == 1:
                raise Killed

    strike = Strike()

    def build(name, **config):
        model = build_tiny(name, **config)
        fit = model.fit

        def counted(*a, callbacks, **more):
            seen.append(more["epochs"])
            return fit(*a, callbacks=[*callbacks, strike], **more)

        model.fit = counted
        return model

    def killed(call, resume=True):
        """Run until a call of `fit`, and return the epochs of all calls."""
        seen.clear()
        strike.at = call
        options = {"build": build, "options": {"resume": resume}}
        with pytest.raises(Killed):
            tiny_run(tmp_path / "a", **options, **settings)
        return seen.copy()

    assert killed(5, resume=False) == [1, 1, 1, 2, 2], "the folds train in turn"
    assert killed(3) == [2, 2, 3], "the first fold has done two epochs"
    with pytest.raises(InputError, match="unfinished run .*--resume"):
        tiny_run(tmp_path / "a", build=build, **settings)
    rounds = len(list(csv.DictReader(open(whole.folder / "folds/3/history.csv"))))
    calls = 3 * (rounds - 2)
    assert killed(calls + 1)[-1] == metrics["epochs"], "then one model learns from all pairs"
    seen.clear()
    strike.at = 0
    again = tiny_run(tmp_path / "a", build=build, options={"resume": True}, **settings)
    assert seen == [metrics["epochs"]], "no fold that is done runs again"
    assert again.history == whole.history
    for now, then in zip(again.matcher.model.get_weights(), whole.matcher.model.get_weights()):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize(
    ("patience", "accuracies", "rounds"),
    [
        (20, [0.9, 0.8, 0.7, 0.6], 4),
        (20, [0.9, 0.8, 0.7, 0.7, 0.6, 0.5, 0.4], 7),
        (3, [0.9, 0.8], 3),
    ],
)
def test_folds_stop_after_three_worse_epochs_or_half_the_patience(patience, accuracies, rounds):
    seen = []

    def build(name, **config):
        model = build_tiny(name, **config)

        def evaluate(*args, **more):
            seen.append(accuracies[min(len(seen) // 3, len(accuracies) - 1)])
            return {"loss": 0.5, "accuracy": seen[-1]}

        model.evaluate = evaluate
        return model

    settings = {"splits": few_splits(), "epochs": 9, "folds": 3, "patience": patience}
    metrics = tiny_run(None, build=build, **settings).metrics
    assert len(seen) == 3 * rounds and metrics["best_epoch"] == 1


HYBRID = ["model.units=4", "model.blocks=1", "vectors.source=none", "vectors.dim=8"]


@pytest.mark.parametrize("folds", [0, 2])
def test_the_share_of_a_hybrid_s_network_is_chosen_by_validation_pairs(folds, tmp_path):
    sets = [*HYBRID, "training.epochs=2", f"training.folds={folds}"]
    recipe = load_recipe("hybrid", "mine", overrides=sets)
    result = train(recipe, few_splits(), tmp_path / "a", progress=False, baseline=False)
    share, model = result.metrics["network_share"], result.matcher.model
    assert float(model.joint.deep_share) == pytest.approx(share)
    assert float(Matcher.load(tmp_path / "a").model.joint.deep_share) == pytest.approx(share)
    if folds:
        found = json.loads((tmp_path / "a/folds/chosen.json").read_text())["folds"]
        assert share == pytest.approx(np.mean([one["network_share"] for one in found]))
        strength = np.median([one["linear_strength"] for one in found])
        assert result.metrics["linear_strength"] == pytest.approx(strength)
        met = np.asarray(model.wide.matching.facts)[2:, 0] > 0
        words = {
            word for pairs in few_splits().values() for s in pairs.sentence1 for word in s.split()
        }
        assert met.sum() >= len(words), "the linear part learns from all pairs"
    else:
        losses = {}
        for other in np.linspace(0, 1, 11):
            model.joint.deep_share.assign(other)
            losses[other] = result.matcher.evaluate(few_splits()["validation"])["nll"]
        assert losses[share] == pytest.approx(min(losses.values()), abs=1e-6)


# --- cross-validation ---


def rows_of(pairs):
    return set(zip(pairs.sentence1, pairs.sentence2))


def test_each_pair_is_tested_once_and_labels_keep_their_shares():
    pairs = tiny_pairs(100, 0)
    tested = []
    for parts in fold_parts(pairs, 4):
        assert sum(map(len, parts.values())) == 100
        assert not rows_of(parts["test"]) & (rows_of(parts["train"]) | rows_of(parts["validation"]))
        assert abs(np.mean(parts["test"].labels) - np.mean(pairs.labels)) < 0.06
        tested += zip(parts["test"].sentence1, parts["test"].sentence2)
    assert sorted(tested) == sorted(zip(pairs.sentence1, pairs.sentence2))


def test_figures_are_those_of_the_folds_and_a_kill_loses_one_of_them(tmp_path):
    pairs, built = tiny_pairs(60, 0), []

    def build(name, **config):
        built.append(name)
        if len(built) == 2:
            raise SystemError("killed")
        return build_tiny(name, **config)

    recipe, options = tiny_recipe(epochs=2), {"progress": False, "folds": 3}
    whole = cross_validate(recipe, pairs, tmp_path / "whole", build=build_tiny, **options)
    with pytest.raises(SystemError):
        cross_validate(recipe, pairs, tmp_path / "a", build=build, **options)
    options |= {"build": build, "resume": True}
    again = cross_validate(recipe, pairs, tmp_path / "a", **options)
    assert len(built) == 4, "the finished fold runs no more"
    assert {**again, "seconds": 0} == {**whole, "seconds": 0}
    assert {**json.loads((tmp_path / "a/crossval.json").read_text())} == again
    values = [fold["accuracy"] for fold in again["test"]["members"]]
    assert len(values) == 3 and again["test"]["mean"]["accuracy"] == pytest.approx(np.mean(values))
    error = np.std(values, ddof=1) / np.sqrt(3)
    assert again["test"]["standard_error"]["accuracy"] == pytest.approx(error)
    assert again["baseline"]["mean"]["accuracy"] > 0.8
    with pytest.raises(InputError, match="another run"):
        cross_validate(tiny_recipe(epochs=1), pairs, tmp_path / "a", **options)
