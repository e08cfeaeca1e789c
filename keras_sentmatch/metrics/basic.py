"""Accuracy and F1 from integer labels, and the correlation of scores."""

import warnings

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.metrics.checks import columns, finite, integers


def accuracy(y: ArrayLike, pred: ArrayLike) -> float:
    """Share of rows whose predicted label is the true one.

    Args:
        y: integer labels, [n].
        pred: integer predictions, [n].

    Example:

    >>> accuracy([0, 1, 2, 1], [0, 1, 1, 1])
    0.75
    """
    labels, predicted = _labels(y, pred)
    return float(np.mean(labels == predicted))


def f1(y: ArrayLike, pred: ArrayLike, positive: int = 1) -> float:
    """F1 of one class; 0 if it is neither in the labels nor predicted.

    Args:
        y: integer labels, [n].
        pred: integer predictions, [n].
        positive: number of the class.

    Example:

    >>> round(f1([1, 1, 0, 0], [1, 0, 0, 0]), 4)
    0.6667
    """
    from sklearn.metrics import f1_score

    labels, predicted = _labels(y, pred)
    return float(f1_score(labels == positive, predicted == positive, zero_division=0.0))


def macro_f1(y: ArrayLike, pred: ArrayLike) -> float:
    """Mean of the F1 of every class that occurs in the labels or the predictions.

    Args:
        y: integer labels, [n].
        pred: integer predictions, [n].

    Example:

    >>> round(macro_f1([0, 0, 1, 1], [0, 0, 1, 0]), 4)
    0.7333
    """
    from sklearn.metrics import f1_score

    return float(f1_score(*_labels(y, pred), average="macro", zero_division=0.0))


def pearson(y: ArrayLike, scores: ArrayLike) -> float:
    """Pearson's linear correlation; 0.0, not NaN, if one side is constant.

    Args:
        y: true scores, [n].
        scores: predicted scores, [n].

    Example:

    >>> round(pearson([0, 1, 2, 3], [0, 2, 4, 6]), 6), pearson([0, 1, 2, 3], [5, 5, 5, 5])
    (1.0, 0.0)
    """
    from scipy.stats import pearsonr

    true, predicted = columns(y=y, scores=scores)
    true, predicted = finite("y", true), finite("scores", predicted)
    if np.ptp(true) == 0 or np.ptp(predicted) == 0:
        return 0.0
    with warnings.catch_warnings():  # SciPy warns of values that are almost constant
        warnings.simplefilter("ignore")
        return float(pearsonr(true, predicted).statistic)


def spearman(y: ArrayLike, scores: ArrayLike) -> float:
    """Spearman's rank correlation: `pearson` of the ranks; equal values share their average rank.

    Args:
        y: true scores, [n].
        scores: predicted scores, [n].

    Example:

    >>> round(spearman([0, 1, 2, 3], [0, 1, 10, 100]), 6)
    1.0
    """
    from scipy.stats import rankdata

    true, predicted = columns(y=y, scores=scores)
    return pearson(rankdata(finite("y", true)), rankdata(finite("scores", predicted)))


def _labels(y: ArrayLike, pred: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    labels, predicted = columns(y=y, pred=pred)
    return integers("y", labels), integers("pred", predicted)
