"""Accuracy, F1 and correlations against their definitions."""

import warnings

import numpy as np
import pytest

from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics import accuracy, f1, macro_f1, pearson, spearman

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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: accuracy([0, 1], [0.2, 0.8]), "dtype float64; expected integer"),
        (lambda: accuracy([0, 1], [[1, 0], [0, 1]]), r"`pred` has shape \(2, 2\)"),
        (lambda: pearson([1.0, 2.0], [1.0, float("nan")]), "NaN or infinite"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError, match=message):
        call()
