"""Runs compared by what they predicted, and run folders put together by their identity."""

import json

import numpy as np
import pytest

from keras_sentmatch.analysis.comparing import (
    COLUMNS,
    comparison_report,
    group_runs,
    save_comparison,
    values_of,
)
from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.training.resume import run_identity
from tests.toys.training import tiny_recipe


def answers(share, n=200, seed=0):
    return (np.random.default_rng(seed).random(n) < share).astype(float)


def test_each_two_matchers_are_compared(tmp_path):
    values = {"a": [answers(0.9)], "b": [answers(0.5, seed=1)], "runs/c": [answers(0.5, seed=2)]}
    report = comparison_report("accuracy", values, samples=500)
    assert [(row["first"], row["second"]) for row in report["pairs"]] == [
        ("a", "b"), ("a", "runs/c"), ("b", "runs/c"),
    ]  # fmt: skip
    best, _, same = report["pairs"]
    assert best["p"] < 0.01 and same["p"] > 0.05 and same["low"] < 0 < same["high"]
    first = report["matchers"][0]
    assert first["mean"] == values["a"][0].mean() and first["low"] < first["mean"] < first["high"]
    save_comparison({"data": "sick", "split": "test", **report}, tmp_path)
    assert json.loads((tmp_path / "compare.json").read_text())["rows"] == 200
    lines = (tmp_path / "compare.csv").read_text().splitlines()
    assert lines[0] == ",".join(COLUMNS) and len(lines) == 4
    assert "# Comparison on sick test\n\n200 pairs" in (tmp_path / "compare.md").read_text()
    with pytest.raises(InputError, match="1 matcher to compare"):
        comparison_report("accuracy", {"a": [answers(0.5)]})


def test_seeds_are_one_matcher_and_a_metric_keeps_its_name():
    values = {"a": [answers(0.7, seed=i) for i in range(3)], "b": [answers(0.7, seed=9)] * 2}
    a, b = comparison_report("accuracy", values, samples=500)["matchers"]
    assert len(a["seeds"]) == 3 and a["sd"] > 0 and b["sd"] == 0 and "low" not in a
    always = comparison_report("map", {"a": [np.ones(9)], "b": [np.ones(9)]}, samples=9)
    assert always["metric"] == "map", "also if each is 0 or 1"
    assert "low" not in always["matchers"][0]


def test_values_of_classes_and_of_questions():
    names = ("no", "yes")
    pairs = PairDataset(["q"] * 4, list("abcd"), [1, 0, 0, 0], label_names=names)
    scores = np.array([[0.4, 0.6], [0.9, 0.1], [0.4, 0.6], [0.4, 0.6]])
    metric, values = values_of(pairs, scores, None)
    assert metric == "accuracy" and values.tolist() == [1, 1, 0, 0]
    assert values_of(pairs, scores, 0.7)[1].tolist() == [0, 1, 1, 1]
    groups = ["p", "p", "q", "q"]
    ranking = PairDataset(["q"] * 4, list("abcd"), [0, 1, 0, 0], label_names=names, groups=groups)
    metric, values = values_of(ranking, scores, None)
    assert metric == "map" and values.tolist() == [0.5], "q has no right answer"
    with pytest.raises(InputError, match="return scores"):
        values_of(PairDataset(["a"], ["b"], [0.5]), np.array([0.5]), None)


def a_run(folder, seed=0, labels=(0, 1, 1), weights=(1.0, 1.0, 1.0)):
    """A folder with the identity of a run on three pairs."""
    pairs = PairDataset(list("abc"), list("def"), list(labels), columns={"weight": list(weights)})
    identity = run_identity(tiny_recipe(seed=seed), {"train": pairs})
    folder.mkdir(parents=True)
    (folder / "matcher.json").write_text("{}")
    (folder / "metrics.json").write_text(json.dumps({"model": "m", "identity": identity}))
    return folder


def test_only_runs_with_the_same_identity_are_seeds_of_one_matcher(tmp_path):
    one, two = (a_run(tmp_path / f"one-{seed}", seed=seed) for seed in (0, 1))
    relabeled = a_run(tmp_path / "labels", labels=(1, 1, 1))  # the same name and number of pairs
    weighted = a_run(tmp_path / "weights", weights=(2.0, 1.0, 1.0))
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "matcher.json").write_text("{}")
    many = tmp_path / "many"
    members = [a_run(many / f"seed-{seed}", seed=seed) for seed in (0, 1)]
    (many / "ensemble.json").write_text('{"seeds": [0, 1]}')
    groups = group_runs([one, relabeled, two, weighted, bare, many])
    assert list(groups.values()) == [[one, two], [relabeled], [weighted], [bare], members]
    assert list(groups)[:2] == [f"{one} … (2 seeds)", str(relabeled)]
    with pytest.raises(InputError, match="appears twice"):
        group_runs([one, one])
    with pytest.raises(InputError, match="is not a run folder"):
        group_runs([tmp_path])
