"""The losses of labels that Keras does not have."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class SmoothedCrossEntropy(keras.losses.Loss):
    """Cross-entropy of class numbers with label smoothing.

    With the share `s`: `-(1 - s) log p[label] - s mean(log p)`.

    Args:
        label_smoothing: The share that is spread evenly over all classes. Defaults to `0.1`.
        name: of the loss. Defaults to `"smoothed_cross_entropy"`.
        reduction: as in Keras. Defaults to `"sum_over_batch_size"`.

    Call arguments:
        y_true: `[B]` class numbers.
        y_pred: `[B, C]` probabilities.

    References:
        Szegedy et al. 2016, arXiv 1512.00567.
    """

    def __init__(
        self,
        label_smoothing: float = 0.1,
        name: str = "smoothed_cross_entropy",
        reduction: str = "sum_over_batch_size",
    ):
        super().__init__(name=name, reduction=reduction)
        self.label_smoothing = label_smoothing

    def call(self, y_true: Any, y_pred: Any) -> Any:
        labels = ops.reshape(ops.convert_to_tensor(y_true), (-1, 1))
        return cross_entropy(labels, log_of(ops.convert_to_tensor(y_pred)), self.label_smoothing)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


def cross_entropy(labels: Any, log_p: Any, label_smoothing: float) -> Any:
    """`[B]` from class numbers `[B, 1]` and log-probabilities `[B, C]`; 0 for other numbers."""
    classes = log_p.shape[-1]
    named = ops.cast(ops.equal(labels, ops.arange(classes, dtype=labels.dtype)), log_p.dtype)
    if label_smoothing:
        known = ops.sum(named, axis=-1, keepdims=True)
        named = (1 - label_smoothing) * named + label_smoothing * known / classes
    return -ops.sum(named * log_p, axis=-1)


def log_of(p: Any) -> Any:
    """The logarithms of probabilities, which may be 0."""
    return ops.log(ops.maximum(p, keras.config.epsilon()))
