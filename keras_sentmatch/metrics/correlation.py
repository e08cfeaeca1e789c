"""Pearson and Spearman correlation (NumPy)."""

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.metrics._check import columns, finite


def _pearson(x: np.ndarray, y: np.ndarray) -> float:
    x, y = x - x.mean(), y - y.mean()
    # Scaled first, so that squares neither overflow nor vanish.
    x_scale, y_scale = np.abs(x).max(), np.abs(y).max()
    if x_scale == 0 or y_scale == 0:
        return 0.0
    x, y = x / x_scale, y / y_scale
    return float(np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1.0, 1.0))


def _average_ranks(values: np.ndarray) -> np.ndarray:
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[group]


def pearson(y: ArrayLike, scores: ArrayLike) -> float:
    """Pearson's linear correlation of true and predicted scores.

    Where one side is constant the correlation is undefined (0/0); this returns 0.0, "no linear
    relation found", so that a model that says the same for every pair scores 0 and a monitored run
    goes on.

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
    true, predicted = finite("y", true), finite("scores", predicted)
    if np.ptp(true) == 0 or np.ptp(predicted) == 0:
        return 0.0
    return _pearson(true, predicted)


def spearman(y: ArrayLike, scores: ArrayLike) -> float:
    """Spearman's rank correlation: Pearson's on ranks, equal values sharing the average of their
    ranks.

    0.0 where one side is constant, as in `pearson`.

    Args:
        y: true scores, [n].
        scores: predicted scores, [n].

    Returns:
        A number in [−1, 1], never NaN.

    Example:

    >>> round(spearman([0, 1, 2, 3], [0, 1, 10, 100]), 6)
    1.0
    """
    true, predicted = columns(y=y, scores=scores)
    return _pearson(_average_ranks(finite("y", true)), _average_ranks(finite("scores", predicted)))
