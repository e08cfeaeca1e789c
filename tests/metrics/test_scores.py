"""Metrics against their definitions: accuracy, F1, correlations, MAP and MRR, and those of a task."""

import itertools
import warnings

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from keras_sentmatch.data import PairDataset
from keras_sentmatch.metrics import (
    evaluate_predictions,
    mean_average_precision,
    mean_reciprocal_rank,
)
from keras_sentmatch.metrics.ranking import ranking_counts
from keras_sentmatch.metrics.scores import accuracy, f1, macro_f1, pearson, spearman

pytestmark = pytest.mark.once


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_accuracy_and_f1(classes):
    rng = np.random.default_rng(classes)
    y, pred = rng.integers(0, classes, 50), rng.integers(0, classes, 50)
    scores = []
    for k in range(classes):
        both = sum(a == b == k for a, b in zip(y, pred))
        precision, recall = both / max(1, sum(pred == k)), both / max(1, sum(y == k))
        scores.append(2 * precision * recall / (precision + recall) if both else 0.0)
        assert f1(y, pred, positive=k) == pytest.approx(scores[k])
    assert macro_f1(y, pred) == pytest.approx(np.mean(scores))
    assert accuracy(y, pred) == pytest.approx(sum(a == b for a, b in zip(y, pred)) / 50)


def test_a_class_that_never_occurs_is_left_out():
    assert macro_f1([0, 2], [0, 2]) == 1.0
    assert f1([0, 0], [0, 0]) == 0.0
    assert macro_f1([0, 0], [1, 1]) == 0.0


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_correlations(scale):
    rng = np.random.default_rng(0)
    y = rng.normal(size=60)
    scores = y + rng.normal(size=60)
    assert pearson(y, scores * scale) == pytest.approx(np.corrcoef(y, scores)[0, 1])
    ranks = [(side[:, None] > side).sum(1) for side in (y, scores)]
    assert spearman(y, scores * scale) == pytest.approx(np.corrcoef(*ranks)[0, 1])


def test_equal_scores_share_their_average_rank():
    y, scores = [1, 2, 2, 3, 3, 3, 4], [0, 0, 1, 1, 5, 2, 2]
    ranks = [1, 2.5, 2.5, 5, 5, 5, 7], [1.5, 1.5, 3.5, 3.5, 7, 5.5, 5.5]
    assert spearman(y, scores) == pytest.approx(np.corrcoef(*ranks)[0, 1])


@pytest.mark.parametrize("metric", [pearson, spearman])
def test_constant_scores_give_zero_without_a_warning(metric):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metric([1.0, 2.0, 3.0], [0.1, 0.1, 0.1]) == 0.0
        assert metric([0.1, 0.1, 0.1], [1.0, 2.0, 3.0]) == 0.0
        assert metric([1.0], [2.0]) == 0.0
        assert -1 <= metric([1.0, 2.0, 3.0], [1.0, 1.0, 1.0 + 1e-15]) <= 1


# --- ranking ---


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
        expected = values[:, column].mean()
        assert metric(relevant, scores, groups) == pytest.approx(expected, abs=1e-12)


def test_without_ties_equals_sklearn_whatever_the_order_of_rows():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 20, 400).astype(str)
    y, scores = rng.integers(0, 2, 400), rng.normal(size=400)
    expected = [average_precision_score(y[groups == g], scores[groups == g]) for g in set(groups)]
    assert mean_average_precision(y, scores, groups) == pytest.approx(np.mean(expected))
    order, scores = rng.permutation(400), scores.round()
    for metric in (mean_average_precision, mean_reciprocal_rank):
        assert metric(y, scores, groups) == pytest.approx(
            metric(y[order], scores[order], groups[order]), abs=1e-12
        )


def test_questions_without_a_positive_are_left_out():
    y, scores, groups = [1, 0, 0, 0], [2.0, 1.0, 2.0, 1.0], ["a", "a", "b", "b"]
    assert mean_average_precision(y, scores, groups) == 1.0
    assert mean_reciprocal_rank(y, scores, groups) == 1.0
    counts = ranking_counts(y, groups)
    assert counts == {"questions": 2, "without_positive": 1, "without_negative": 0}


# --- the metrics of a task ---


def pairs(labels, **more):
    return PairDataset(["a"] * len(labels), ["b"] * len(labels), labels, **more)


def test_classification():
    data = pairs([0, 1, 1, 0], label_names=("no", "yes"))
    figures = evaluate_predictions(data, [[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.8, 0.2]])
    assert figures["primary"] == "accuracy" and figures["rows"] == 4
    assert figures["accuracy"] == 0.75
    assert figures["f1"] == pytest.approx(2 / 3)


def test_ranking_takes_probabilities_or_scores():
    data = pairs([0, 1, 0, 1, 0], label_names=("no", "yes"), groups=["q", "q", "r", "r", "s"])
    scores = np.array([0.8, 0.6, 0.1, 0.7, 0.5])
    figures = evaluate_predictions(data, scores)
    assert figures["primary"] == "map"
    assert figures["map"] == 0.75 and figures["mrr"] == 0.75
    assert figures["questions"] == 3 and figures["without_positive"] == 1
    both = evaluate_predictions(data, np.stack([1 - scores, scores], 1))
    assert both["map"] == figures["map"] and both["accuracy"] == 0.8


def test_regression():
    data = pairs(np.array([1.0, 2.0, 4.0]))
    figures = evaluate_predictions(data, np.array([[1.0], [2.0], [3.0]]))
    assert figures["primary"] == "pearson" and figures["spearman"] == pytest.approx(1.0)
    assert figures["mse"] == pytest.approx(1 / 3)
