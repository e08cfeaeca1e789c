"""Accuracy and F1 from integer labels (NumPy)."""

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics._check import columns, integers


def _labels(y: ArrayLike, pred: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    labels, predicted = columns(y=y, pred=pred)
    return integers("y", labels), integers("pred", predicted)


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

    0 when the class is neither in the labels nor predicted.

    Args:
        y: integer labels, [n].
        pred: integer predictions, [n].
        positive: number of the class that counts.

    Returns:
        A number in [0, 1].

    Example:

    >>> f1([1, 1, 0, 0], [1, 0, 0, 0])
    0.6666666666666666
    """
    labels, predicted = _labels(y, pred)
    hits = int(np.sum((labels == positive) & (predicted == positive)))
    total = int(np.sum(labels == positive) + np.sum(predicted == positive))
    return 2.0 * hits / total if total else 0.0


def macro_f1(y: ArrayLike, pred: ArrayLike, num_classes: int | None = None) -> float:
    """Mean of the F1 of every class that occurs in the labels or the predictions.

    A class that occurs in neither is left out of the mean (as scikit-learn does by default): it was
    not tested, and counting it as 0 or as 1 would change the score of every model alike.

    Args:
        y: integer labels, [n].
        pred: integer predictions, [n].
        num_classes: when given, labels outside 0 … num_classes−1 are refused.

    Returns:
        A number in [0, 1].

    Example:

    >>> macro_f1([0, 0, 1, 1], [0, 0, 1, 0])
    0.7333333333333334
    """
    labels, predicted = _labels(y, pred)
    classes = np.union1d(labels, predicted)
    if num_classes is not None and (classes[0] < 0 or classes[-1] >= num_classes):
        raise InputError(
            f"Labels run from {classes[0]} to {classes[-1]}; expected 0 to {num_classes - 1} for "
            f"num_classes={num_classes}."
        )
    return float(np.mean([f1(labels, predicted, int(c)) for c in classes]))
