"""Runs compared from the answers they gave, and run folders put together by recipe."""

import json

import numpy as np
import pytest

from keras_sentmatch.analysis.comparing import (
    COLUMNS,
    comparison_report,
    group_runs,
    save_report,
    table,
    to_markdown,
    values_of,
)
from keras_sentmatch.data import PairDataset
from keras_sentmatch.display.tables import shown
from keras_sentmatch.errors import InputError


def answers(share, n=200, seed=0):
    return (np.random.default_rng(seed).random(n) < share).astype(float)


def test_each_two_matchers_are_compared(tmp_path):
    values = {"a": [answers(0.9)], "b": [answers(0.5, seed=1)], "runs/c": [answers(0.5, seed=2)]}
    report = comparison_report(values, samples=500)
    assert [(row["first"], row["second"]) for row in report["pairs"]] == [
        ("a", "b"), ("a", "runs/c"), ("b", "runs/c"),
    ]  # fmt: skip
    best, _, same = report["pairs"]
    assert best["bootstrap"]["p"] < 0.01 and best["mcnemar"][0]["p"] < 1e-6
    assert (
        same["bootstrap"]["p"] > 0.05 and same["bootstrap"]["low"] < 0 < same["bootstrap"]["high"]
    )
    first = report["matchers"][0]
    assert first["mean"] == values["a"][0].mean() and first["low"] < first["mean"] < first["high"]
    save_report({"data": "sick", "split": "test", **report}, tmp_path)
    assert json.loads((tmp_path / "compare.json").read_text())["rows"] == 200
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")
    lines = (tmp_path / "compare.csv").read_text().splitlines()
    assert lines[0] == ",".join(COLUMNS) and len(lines) == 4
    assert "# Comparison on sick test" in (tmp_path / "compare.md").read_text()


def test_a_small_p_is_not_shown_as_none():
    cells = [shown(value) for value in (1234, 0.5, 2.14e-9, -2e-5, 0.0, None)]
    assert cells == ["1,234", "0.5000", "2.1e-09", "-2.0e-05", "0.0000", ""]


def test_seeds_are_one_matcher():
    values = {"a": [answers(0.7, seed=i) for i in range(3)], "b": [answers(0.7, seed=9)] * 2}
    report = comparison_report(values, samples=500)
    a, b = report["matchers"]
    assert len(a["seeds"]) == 3 and a["sd"] > 0 and b["sd"] == 0 and "low" not in a
    assert len(report["pairs"][0]["mcnemar"]) == 2
    assert [row[:2] for row in table(report)[1:]] == [
        ["a, seed 1", "b, seed 1"],
        ["a, seed 2", "b, seed 2"],
    ]
    uneven = comparison_report({**values, "b": values["b"][:1]}, samples=9)
    assert [row[-1] is None for row in table(uneven)] == [True, False], (
        "a seed's test is a row of its own"
    )
    assert "200 pairs" in to_markdown(report)


def test_what_cannot_be_compared():
    with pytest.raises(InputError, match="1 matcher to compare"):
        comparison_report({"a": [answers(0.5)]})
    with pytest.raises(InputError, match="the same pairs"):
        comparison_report({"a": [answers(0.5)], "b": [answers(0.5, n=3)]})


def test_values_of_classes_and_of_questions():
    names = ("no", "yes")
    pairs = PairDataset(["q"] * 4, list("abcd"), [1, 0, 0, 0], label_names=names)
    scores = np.array([[0.4, 0.6], [0.9, 0.1], [0.4, 0.6], [0.4, 0.6]])
    assert values_of(pairs, scores, None).tolist() == [1, 1, 0, 0]
    assert values_of(pairs, scores, 0.7).tolist() == [0, 1, 1, 1]
    groups = ["p", "p", "q", "q"]
    ranking = PairDataset(["q"] * 4, list("abcd"), [0, 1, 0, 0], label_names=names, groups=groups)
    assert values_of(ranking, scores, None).tolist() == [0.5], "q has no right answer"
    report = comparison_report({"a": [np.array([0.5, 1])], "b": [np.array([0.5, 0.2])]})
    assert report["figure"] == "map" and report["pairs"][0]["mcnemar"] == []
    with pytest.raises(InputError, match="return scores"):
        values_of(PairDataset(["a"], ["b"], [0.5]), np.array([0.5]), None)


def a_run(folder, seed=0, units=1):
    folder.mkdir(parents=True)
    (folder / "matcher.json").write_text("{}")
    (folder / "recipe.toml").write_text(
        f'name = "m"\n[model]\nunits = {units}\n[training]\nseed = {seed}\n'
    )
    (folder / "metrics.json").write_text('{"model": "m", "rows": {"train": 5}}')
    return folder


def test_runs_of_one_recipe_are_its_seeds(tmp_path):
    one, two = (a_run(tmp_path / f"one-{seed}", seed) for seed in (0, 1))
    other = a_run(tmp_path / "other", units=2)
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "matcher.json").write_text("{}")
    many = tmp_path / "many"
    members = [a_run(many / f"seed-{seed}", seed) for seed in (0, 1)]
    (many / "ensemble.json").write_text('{"seeds": [0, 1]}')
    entries = group_runs([one, other, two, bare, many])
    assert [entry.folders for entry in entries] == [(one, two), (other,), (bare,), tuple(members)]
    assert entries[0].name == f"{one} … (2 seeds)" and entries[1].name == str(other)
    with pytest.raises(InputError, match="appears twice"):
        group_runs([one, one])
    with pytest.raises(InputError, match="is not a run folder"):
        group_runs([tmp_path])
