import itertools

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics import (
    mean_average_precision,
    mean_reciprocal_rank,
    ranking_counts,
)

pytestmark = pytest.mark.once


def brute_force(relevant, scores):
    """(AP, RR) of every order that agrees with the scores, straight from the definitions."""
    values = []
    for order in itertools.permutations(range(len(scores))):
        if any(scores[a] < scores[b] for a, b in zip(order, order[1:])):
            continue
        ranks = [rank for rank, row in enumerate(order, 1) if relevant[row]]
        precision = [found / rank for found, rank in enumerate(ranks, 1)]
        values.append((np.mean(precision), 1 / ranks[0]))
    return np.array(values)


@pytest.mark.parametrize("seed", range(12))
def test_ties_equal_all_permutations(seed):
    rng = np.random.default_rng(seed)
    size = 6
    relevant = rng.permutation(np.arange(size) < rng.integers(1, size + 1)).astype(int)
    scores = rng.integers(0, 3, size).astype(float)
    values, groups = brute_force(relevant, scores), ["q"] * size
    for column, metric in enumerate([mean_average_precision, mean_reciprocal_rank]):
        average = metric(relevant, scores, groups, ties="average")
        worst = metric(relevant, scores, groups, ties="worst")
        assert average == pytest.approx(values[:, column].mean(), abs=1e-12)
        assert worst == pytest.approx(values[:, column].min(), abs=1e-12)


def test_without_ties_equals_sklearn_for_every_question():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 20, 400).astype(str)
    y, scores = rng.integers(0, 2, 400), rng.normal(size=400)
    expected = [average_precision_score(y[groups == g], scores[groups == g]) for g in set(groups)]
    for ties in ("average", "worst"):
        assert mean_average_precision(y, scores, groups, ties) == pytest.approx(np.mean(expected))


def test_the_order_of_rows_never_matters():
    rng = np.random.default_rng(1)
    groups, y = np.repeat(["a", "b", "c"], 5), np.tile([1, 1, 0, 0, 0], 3)
    scores = rng.integers(0, 2, 15)
    order = rng.permutation(15)
    for metric in (mean_average_precision, mean_reciprocal_rank):
        for ties in ("average", "worst"):
            assert metric(y, scores, groups, ties) == pytest.approx(
                metric(y[order], scores[order], groups[order], ties), abs=1e-12
            )


def test_questions_without_a_positive():
    y, scores, groups = [1, 0, 0, 0], [2.0, 1.0, 2.0, 1.0], ["a", "a", "b", "b"]
    assert mean_average_precision(y, scores, groups) == 1.0
    assert mean_average_precision(y, scores, groups, empty="zero") == 0.5
    assert mean_reciprocal_rank(y, scores, groups, empty="zero") == 0.5
    counts = ranking_counts(y, groups)
    assert counts == {"questions": 2, "without_positive": 1, "without_negative": 0}
    with pytest.raises(InputError, match="None of the 1 questions has a right answer"):
        mean_average_precision([0, 0], [1.0, 2.0], ["a", "a"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], [0.5, 0.1], ["a", "a"]), "unequal length: y 1, scores 2"),
        (([1, 0], [np.nan, 0.1], ["a", "a"]), "1 of 2 values of `scores` are NaN"),
        (([], [], []), "No rows"),
        (([1], [0.5], ["a"], "best"), "ties='best'"),
        (([1], [0.5], ["a"], "worst", "one"), "empty='one'"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(InputError, match=message):
        mean_average_precision(*arguments)
