"""Macro F1 from integer labels, as a Keras metric for `compile`."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.errors import InputError


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class SparseMacroF1(keras.metrics.Metric):
    """Macro F1 from integer labels and class probabilities.

    `keras.metrics.F1Score` needs one-hot labels; this metric accepts the integers of
    `SparseCategoricalCrossentropy`. The mean is over the classes that occur in the labels or the
    predictions, as in scikit-learn's `f1_score(average="macro")`. Counts are float32, which is
    exact up to 16 million rows per class.

    Args:
        num_classes: Number of classes, at least 2.
        name: Name of the metric.
        dtype: Dtype of the counts.

    Call arguments:
        y_true: Integer labels, [B] or [B, 1].
        y_pred: Class probabilities or logits, [B, num_classes].
        sample_weight: Weight of each row, [B], or None.

    Example:

    >>> metric = SparseMacroF1(num_classes=2)
    >>> metric.update_state([0, 0, 1, 1], [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
    >>> round(float(metric.result()), 4)
    0.7333
    """

    def __init__(self, num_classes: int, name: str = "macro_f1", dtype: Any = None) -> None:
        if not isinstance(num_classes, int) or num_classes < 2:
            raise InputError(
                f"num_classes={num_classes!r} is out of range. Expected an integer of at least 2."
            )
        super().__init__(name=name, dtype=dtype)
        self._direction = "up"
        self.num_classes = num_classes
        self.hits = self.add_weight(shape=(num_classes,), initializer="zeros", name="hits")
        self.total = self.add_weight(shape=(num_classes,), initializer="zeros", name="total")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        predicted = ops.argmax(ops.convert_to_tensor(y_pred), axis=-1)
        true, pred = (
            ops.one_hot(
                ops.reshape(ops.cast(y, "int32"), (-1,)), self.num_classes, dtype=self.dtype
            )
            for y in (y_true, predicted)
        )
        weight = 1.0
        if sample_weight is not None:
            weight = ops.reshape(ops.cast(sample_weight, self.dtype), (-1, 1))
        self.hits.assign_add(ops.sum(weight * true * pred, axis=0))
        self.total.assign_add(ops.sum(weight * (true + pred), axis=0))

    def result(self) -> Any:
        scores = ops.divide_no_nan(2.0 * self.hits, self.total)
        return ops.divide_no_nan(ops.sum(scores), ops.sum(ops.cast(self.total > 0, self.dtype)))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_classes": self.num_classes}
