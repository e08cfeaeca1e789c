"""Accuracy and F1 from integer labels."""

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics.checks import columns, integers


def accuracy(y: ArrayLike, pred: ArrayLike) -> float:
    """Share of rows whose predicted label is the true one.

    Args:
        y: integer labels, [n].
        pred: integer predictions, [n].

    Returns:
        A number in [0, 1].

    Example:

    >>> accuracy([0, 1, 2, 1], [0, 1, 1, 1])
    0.75
    """
    labels, predicted = _labels(y, pred)
    return float(np.mean(labels == predicted))


def f1(y: ArrayLike, pred: ArrayLike, positive: int = 1) -> float:
    """F1 of one class: the harmonic mean of its precision and recall.

    0 if the class is neither in the labels nor predicted.

    Args:
        y: integer labels, [n].
        pred: integer predictions, [n].
        positive: number of the class.

    Returns:
        A number in [0, 1].

    Example:

    >>> f1([1, 1, 0, 0], [1, 0, 0, 0])
    0.6666666666666666
    """
    from sklearn.metrics import f1_score

    labels, predicted = _labels(y, pred)
    return float(f1_score(labels == positive, predicted == positive, zero_division=0.0))


def macro_f1(y: ArrayLike, pred: ArrayLike, num_classes: int | None = None) -> float:
    """Mean of the F1 of every class that occurs in the labels or the predictions.

    A class that occurs in neither was not tested, so it is left out of the mean, as scikit-learn
    does by default.

    Args:
        y: integer labels, [n].
        pred: integer predictions, [n].
        num_classes: if given, labels outside 0 … num_classes−1 are refused.

    Returns:
        A number in [0, 1].

    Example:

    >>> macro_f1([0, 0, 1, 1], [0, 0, 1, 0])
    0.7333333333333334
    """
    from sklearn.metrics import f1_score

    labels, predicted = _labels(y, pred)
    low, high = min(labels.min(), predicted.min()), max(labels.max(), predicted.max())
    if num_classes is not None and (low < 0 or high >= num_classes):
        raise InputError(
            f"Labels run from {low} to {high}; expected 0 to {num_classes - 1} for "
            f"num_classes={num_classes}."
        )
    return float(f1_score(labels, predicted, average="macro", zero_division=0.0))


def _labels(y: ArrayLike, pred: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    labels, predicted = columns(y=y, pred=pred)
    return integers("y", labels), integers("pred", predicted)
