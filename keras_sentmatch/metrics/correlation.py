"""Pearson and Spearman correlation."""

import warnings

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.metrics.checks import columns, finite


def pearson(y: ArrayLike, scores: ArrayLike) -> float:
    """Pearson's linear correlation of true and predicted scores.

    If one side is constant, the correlation is undefined (0/0); this returns 0.0, so that a model
    that gives every pair the same score gets 0 and a monitored run goes on.

    Args:
        y: true scores, [n].
        scores: predicted scores, [n].

    Returns:
        A number in [−1, 1], never NaN.

    Example:

    >>> round(pearson([0, 1, 2, 3], [0, 2, 4, 6]), 6)
    1.0
    >>> pearson([0, 1, 2, 3], [5, 5, 5, 5])
    0.0
    """
    true, predicted = columns(y=y, scores=scores)
    return _pearson(finite("y", true), finite("scores", predicted))


def spearman(y: ArrayLike, scores: ArrayLike) -> float:
    """Spearman's rank correlation: Pearson's on ranks; equal values share their average rank.

    0.0 if one side is constant, as in `pearson`.

    Args:
        y: true scores, [n].
        scores: predicted scores, [n].

    Returns:
        A number in [−1, 1], never NaN.

    Example:

    >>> round(spearman([0, 1, 2, 3], [0, 1, 10, 100]), 6)
    1.0
    """
    from scipy.stats import rankdata

    true, predicted = columns(y=y, scores=scores)
    return _pearson(rankdata(finite("y", true)), rankdata(finite("scores", predicted)))


def _pearson(x: np.ndarray, y: np.ndarray) -> float:
    from scipy.stats import pearsonr

    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    with warnings.catch_warnings():  # SciPy warns of values that are almost constant
        warnings.simplefilter("ignore")
        return float(pearsonr(x, y).statistic)
