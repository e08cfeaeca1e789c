"""Metrics for pairs: functions of arrays, and Keras metrics for `compile`.

Keras (and with it a backend) is imported only when `SparseMacroF1` or `PositiveF1` is used, and
scikit-learn and SciPy when a function needs them.
"""

import importlib
from typing import TYPE_CHECKING, Any

from keras_sentmatch.metrics._significance import mcnemar, paired_bootstrap, wilson_interval
from keras_sentmatch.metrics.calibration import (
    apply_temperature,
    expected_calibration_error,
    fit_temperature,
)
from keras_sentmatch.metrics.evaluation import evaluate_predictions
from keras_sentmatch.metrics.ranking import mean_average_precision, mean_reciprocal_rank

if TYPE_CHECKING:
    from keras_sentmatch.metrics._keras_metrics import PositiveF1, SparseMacroF1

__all__ = [
    "PositiveF1",
    "SparseMacroF1",
    "apply_temperature",
    "evaluate_predictions",
    "expected_calibration_error",
    "fit_temperature",
    "mcnemar",
    "mean_average_precision",
    "mean_reciprocal_rank",
    "paired_bootstrap",
    "wilson_interval",
]


def __getattr__(name: str) -> Any:
    if name in ("PositiveF1", "SparseMacroF1"):
        return getattr(importlib.import_module("keras_sentmatch.metrics._keras_metrics"), name)
    raise AttributeError(f"module 'keras_sentmatch.metrics' has no attribute {name!r}")
