"""Macro F1 from integer labels, as a Keras metric."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.errors import InputError


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class SparseMacroF1(keras.metrics.Metric):
    """Macro F1 from integer labels and class probabilities.

    `keras.metrics.F1Score` wants one-hot labels; this takes the integers that
    `SparseCategoricalCrossentropy` takes. Classes that occur neither in the labels nor in the
    predictions are left out of the mean. Over an epoch it equals `keras_sentmatch.metrics.macro_f1`
    of all rows. Counts are float32: exact up to 16 million rows a class.

    Args:
        num_classes: number of classes, at least 2.
        name: name of the metric.
        dtype: dtype of the counts.

    Call arguments:
        y_true: integer labels, [B] or [B, 1].
        y_pred: class probabilities or logits, [B, num_classes].
        sample_weight: weight of each row, [B], or None.

    Example:

    >>> metric = SparseMacroF1(num_classes=2)
    >>> metric.update_state([0, 0, 1, 1], [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
    >>> round(float(metric.result()), 4)
    0.7333
    """

    def __init__(self, num_classes: int, name: str = "macro_f1", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        if not isinstance(num_classes, int) or num_classes < 2:
            raise InputError(f"num_classes={num_classes!r}; expected an integer of at least 2.")
        self._direction = "up"
        self.num_classes = num_classes
        self.hits = self._count("hits")
        self.labelled = self._count("labelled")
        self.predicted = self._count("predicted")

    def _count(self, name: str) -> Any:
        return self.add_weight(shape=(self.num_classes,), initializer="zeros", name=name)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        y_true = ops.reshape(ops.cast(y_true, "int32"), (-1,))
        y_pred = ops.argmax(ops.convert_to_tensor(y_pred), axis=-1)
        true = ops.one_hot(y_true, self.num_classes, dtype=self.dtype)
        pred = ops.one_hot(y_pred, self.num_classes, dtype=self.dtype)
        weight = ops.ones_like(true[:, :1])
        if sample_weight is not None:
            weight = ops.reshape(ops.cast(sample_weight, self.dtype), (-1, 1))
        self.hits.assign_add(ops.sum(weight * true * pred, axis=0))
        self.labelled.assign_add(ops.sum(weight * true, axis=0))
        self.predicted.assign_add(ops.sum(weight * pred, axis=0))

    def result(self) -> Any:
        total = self.labelled + self.predicted
        scores = ops.divide_no_nan(2.0 * self.hits, total)
        present = ops.cast(total > 0, self.dtype)
        return ops.divide_no_nan(ops.sum(scores * present), ops.sum(present))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_classes": self.num_classes}
