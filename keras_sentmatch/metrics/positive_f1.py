"""F1 of one class, as a Keras metric."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.errors import InputError


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class PositiveF1(keras.metrics.Metric):
    """F1 of the positive class, from integer labels and class probabilities.

    The figure of paraphrase data with few positives (Twitter-URL). The predicted class is the one
    of highest probability. Over an epoch it equals `keras_sentmatch.metrics.f1` of all rows. Counts
    are float32: exact up to 16 million rows.

    Args:
        positive: number of the positive class.
        name: name of the metric.
        dtype: dtype of the counts.

    Call arguments:
        y_true: integer labels, [B] or [B, 1].
        y_pred: class probabilities or logits, [B, C].
        sample_weight: weight of each row, [B], or None.

    Example:

    >>> metric = PositiveF1()
    >>> metric.update_state([1, 1, 0], [[0.2, 0.8], [0.7, 0.3], [0.9, 0.1]])
    >>> round(float(metric.result()), 4)
    0.6667
    """

    def __init__(self, positive: int = 1, name: str = "f1", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        if not isinstance(positive, int) or positive < 0:
            raise InputError(f"positive={positive!r}; expected a class number, 0 or more.")
        self._direction = "up"
        self.positive = positive
        self.hits = self.add_weight(shape=(), initializer="zeros", name="hits")
        self.total = self.add_weight(shape=(), initializer="zeros", name="total")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        y_true = ops.reshape(ops.cast(y_true, "int32"), (-1,))
        y_pred = ops.argmax(ops.convert_to_tensor(y_pred), axis=-1)
        true = ops.cast(y_true == self.positive, self.dtype)
        pred = ops.cast(y_pred == self.positive, self.dtype)
        weight = ops.ones_like(true)
        if sample_weight is not None:
            weight = ops.reshape(ops.cast(sample_weight, self.dtype), (-1,))
        self.hits.assign_add(ops.sum(weight * true * pred))
        self.total.assign_add(ops.sum(weight * (true + pred)))

    def result(self) -> Any:
        return ops.divide_no_nan(2.0 * self.hits, self.total)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "positive": self.positive}
