"""Recipes trained on the same seeds and parts: the verdict, and going on after a stop."""

import numpy as np
import pytest

from keras_sentmatch.analysis import ablate, ablation
from keras_sentmatch.analysis.ablation import smallest_difference, verdict
from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.training import load_recipe
from keras_sentmatch.training.resume import locked

pytestmark = pytest.mark.once
SMALL = ["vectors.source=none", "vectors.dim=8", "model.units=6", "training.epochs=6"]


def overlapping(count=60, seed=0):
    """Pairs whose label is whether the sentences share their words: words in the same order or not."""
    rng = np.random.default_rng(seed)
    words = [f"word{n}" for n in range(12)]
    one = [" ".join(rng.choice(words, 4)) for _ in range(count)]
    same = rng.integers(0, 2, count)
    two = [text if same[n] else " ".join(rng.choice(words, 4)) for n, text in enumerate(one)]
    return PairDataset(one, two, ["yes" if label else "no" for label in same])


def recipe(*more):
    return load_recipe("esim", "pairs", overrides=[*SMALL, *more])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A recipe that learns nothing, against one that learns."""
    out = tmp_path_factory.mktemp("ablation")
    good = load_recipe("bag_of_words", "pairs")
    bad = recipe("training.learning_rate=1e-9", "training.epochs=1")
    both = {"learns": good, "does not": bad}
    return out, both, ablate(both, overlapping(), out, seeds=2, folds=2, progress=False)


def test_what_learns_is_better_than_what_does_not(made):
    _, _, found = made
    assert found["rows"] == 60 and found["seeds"] == 2 and found["folds"] == 2
    (pair,) = found["pairs"]
    assert pair["verdict"] == "worse" and (pair["first"], pair["second"]) == ("does not", "learns")
    assert pair["low"] <= pair["difference"] <= pair["high"] < 0
    assert found["smallest_difference"] == smallest_difference(60, 2)


def test_a_stopped_comparison_goes_on(made, monkeypatch):
    """Only the training whose file is missing is done again, and the result is the same."""
    out, both, found = made
    (out / "right-does-not-seed-1-part-0.npy").unlink()
    trained = []
    train = ablation.train
    monkeypatch.setattr(ablation, "train", lambda *a, **k: trained.append(k) or train(*a, **k))
    again = ablate(both, overlapping(), out, seeds=2, folds=2, progress=False)
    assert [one["seed"] for one in trained] == [1]
    assert again["pairs"] == found["pairs"]
    with pytest.raises(InputError, match="another comparison, in which 'does not' was different"):
        ablate(both | {"does not": recipe()}, overlapping(), out, seeds=2, folds=2)


def test_equal_recipes_and_pairs_without_a_test_part_are_refused(tmp_path):
    with pytest.raises(InputError, match="a and b are the same recipe"):
        ablate({"a": recipe(), "b": recipe()}, overlapping(), tmp_path, folds=2)
    with pytest.raises(InputError, match="no test pairs"):
        ablate({"a": recipe(), "b": recipe("model.units=7")}, overlapping(), tmp_path)
    with pytest.raises(InputError, match="There is 1 recipe"):
        ablate({"a": recipe()}, overlapping(), tmp_path, folds=2)


BAG = load_recipe("bag_of_words", "pairs", overrides=["vectors.source=none", "training.epochs=1"])
FAST = BAG.with_training(learning_rate=0.5)
BOTH = {"bag": BAG, "fast": FAST}
EMPTY, SCORES = PairDataset([], [], []), PairDataset(["a"] * 2, ["b"] * 2, [0.5, 1.5])


@pytest.mark.parametrize(
    ("recipes", "pairs", "options", "said"),
    [
        (
            {"a": BAG, "b": BAG.with_training(seed=3)},
            overlapping(),
            {"folds": 2},
            "the same recipe",
        ),
        ({"a": BAG, "b": BAG.with_training(folds=3)}, overlapping(), {"folds": 2}, "same recipe"),
        ({"a b": BAG, "a+b": FAST}, overlapping(), {"folds": 2}, "'a b' and 'a.b' would have"),
        ({"+": BAG, "-": FAST}, overlapping(), {"folds": 2}, "would have the same files"),
        ({"parts": BAG, "b": FAST}, overlapping(), {"folds": 2}, "cannot be called 'parts'"),
        (BOTH, overlapping(), {"folds": 2, "seeds": 0}, "seeds=0 is too small"),
        (BOTH, {"test": EMPTY}, {}, "The test pairs have no pairs"),
        (BOTH, {"test": PairDataset(["a"], ["b"])}, {}, "The test pairs have no labels"),
        (BOTH, {"test": SCORES}, {}, "The test pairs have scores"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_training(
    recipes, pairs, options, said, tmp_path
):
    with pytest.raises(InputError, match=said):
        ablate(recipes, pairs, tmp_path / "out", **options)


def test_files_of_others_are_kept(tmp_path):
    kept = tmp_path / "run" / "mine.txt"
    kept.parent.mkdir()
    kept.write_text("mine")
    with pytest.raises(InputError, match="holds files of something else"):
        ablate(BOTH, overlapping(), tmp_path, folds=2)
    assert kept.read_text() == "mine"
    with locked(tmp_path / "out"), pytest.raises(InputError, match="in use by another process"):
        ablate(BOTH, overlapping(), tmp_path / "out", folds=2)


def test_rankings_are_compared_by_map(tmp_path):
    """The metric has its name, and a damaged file is refused."""
    pairs = overlapping(120)
    groups = [n // 6 for n in range(120)]
    first = [pairs.sentence1[6 * group] for group in groups]
    labels = [int(n % 6 == 2) for n in range(120)]
    ranked = PairDataset(first, pairs.sentence2, labels, groups=groups)
    options = {"seeds": 1, "folds": 2, "progress": False}
    found = ablate(BOTH, ranked, tmp_path, **options)
    assert found["metric"] == "map" and found["rows"] == 20
    assert found["smallest_difference"] == smallest_difference(20, 1)
    np.save(tmp_path / "right-bag-seed-0-part-0.npy", np.ones(3, "float32"))
    with pytest.raises(InputError, match=r"part-0\.npy is damaged. Delete it"):
        ablate(BOTH, ranked, tmp_path, **options)
    with pytest.raises(InputError, match="'bag' and 'bag!' would have the same files"):
        ablate({"bag!": FAST, "fast": BAG}, ranked, tmp_path, **options)


def test_more_pairs_and_seeds_show_smaller_differences():
    assert smallest_difference(500, 3) > smallest_difference(5000, 3) > smallest_difference(5000, 9)
    assert [verdict(0.01, 0.02), verdict(-0.02, -0.01), verdict(-0.01, 0.01)] == [
        "better",
        "worse",
        "cannot tell at this size",
    ]
