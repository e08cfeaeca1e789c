"""Cross-validation: what the folds hold, what they say together, and going on after a kill."""

import json

import numpy as np
import pytest

from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.splits import sentence_groups
from keras_sentmatch.errors import InputError
from keras_sentmatch.training import cross_validate
from keras_sentmatch.training.crossval import fold_parts
from tests.cli.test_cli import error_of, run, write_pairs
from tests.toys.training import build_tiny, tiny_pairs, tiny_recipe

pytestmark = pytest.mark.backend("torch")  # nothing in it depends on the backend


def rows_of(pairs):
    return set(zip(pairs.sentence1, pairs.sentence2))


def chained_pairs():
    """Pairs in chains of three: a-b, b-c, c-d share sentences, the second and third on other sides."""
    first = [f"{word} {i}" for i in range(20) for word in ("a", "B", "d")]
    second = [f"{word}  {i}" for i in range(20) for word in ("b", "c", "c")]
    return PairDataset(first, second, [0, 1, 1] * 20, label_names=("no", "yes"))


def test_each_pair_is_tested_once_and_labels_keep_their_shares():
    pairs = tiny_pairs(100, 0)
    tested = []
    for parts in fold_parts(pairs, 4):
        assert sum(map(len, parts.values())) == 100
        assert not rows_of(parts["test"]) & (rows_of(parts["train"]) | rows_of(parts["validation"]))
        assert abs(np.mean(parts["test"].labels) - np.mean(pairs.labels)) < 0.06
        tested += zip(parts["test"].sentence1, parts["test"].sentence2)
    assert sorted(tested) == sorted(zip(pairs.sentence1, pairs.sentence2))


def test_pairs_that_share_a_sentence_stay_together():
    pairs = chained_pairs()
    groups = sentence_groups(pairs)
    assert [list(groups[3 * i : 3 * i + 3]) for i in range(20)] == [
        [groups[3 * i]] * 3 for i in range(20)
    ]
    assert len(set(groups)) == 20

    def torn(parts):
        chains = [{s.split()[1] for s in part.sentence1} for part in parts.values()]
        return sum(map(len, chains)) > 20

    assert not any(torn(parts) for parts in fold_parts(pairs, 5, group_by_sentence=True))
    assert any(torn(parts) for parts in fold_parts(pairs, 5))


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


@pytest.mark.parametrize(
    "pairs, folds, grouped, message",
    [
        (tiny_pairs(6, 0), 7, False, "folds=7: expected 2 to 6, the number of pairs"),
        (tiny_pairs(6, 0), 1, False, "expected 2 to 6"),
        (chained_pairs(), 30, True, "60 pairs make only 20 groups that share no sentence"),
        (PairDataset(["a", "b"], ["c", "d"]), 2, False, "no labels"),
    ],
)
def test_folds_that_cannot_be_are_refused(pairs, folds, grouped, message, tmp_path):
    with pytest.raises(InputError, match=message):
        cross_validate(tiny_recipe(), pairs, tmp_path, folds=folds, group_by_sentence=grouped)
    assert not list(tmp_path.iterdir())


def test_on_the_command_line(tmp_path, capsys):
    data = write_pairs(tmp_path / "own.tsv", 60)
    given = [
        "bag_of_words",
        "--data",
        data,
        "--columns",
        "claim,answer,verdict",
        "--vectors",
        "none",
    ]
    out = ["--out", tmp_path / "a"]
    assert run("crossval", *given, *out, "--folds", 3, "--group-by-sentence") == 0
    shown = capsys.readouterr()
    assert "standard error" in shown.out and "bag of words" in shown.out and "macro_f1" in shown.out
    assert "next: keras-sentmatch train bag_of_words --data" in shown.err
    assert (
        run("crossval", *given, *out, "--folds", 3, "--group-by-sentence", "--resume", "--json")
        == 0
    )
    report = json.loads(capsys.readouterr().out)
    assert report["rows"] == 60 and sorted(p.name for p in (tmp_path / "a").iterdir()) == [
        "crossval.json",
        "fold-1",
        "fold-2",
        "fold-3",
    ]
    (tmp_path / "parts").mkdir()
    for part, rows in (("train", 50), ("validation", 20), ("test", 10)):
        write_pairs(tmp_path / "parts" / f"{part}.tsv", rows)
    given[2] = tmp_path / "parts"
    whole = ["--out", tmp_path / "b", "--folds", 2, "--json"]
    assert run("crossval", *given, *whole) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 70, "without the test pairs"
    assert run("crossval", *given, *whole[2:], "--out", tmp_path / "c", "--limit", 30) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 30
    (tmp_path / "parts" / "train.tsv").unlink()
    assert "has no training pairs to cut into folds" in error_of(capsys, "crossval", *given)
    given[2] = write_pairs(data, 60)
    assert "--folds 61: expected 2 to 60" in error_of(capsys, "crossval", *given, "--folds", 61)
    assert "--resume needs --out" in error_of(capsys, "crossval", *given, "--resume")
