"""Metrics for pairs: functions of arrays for reports, and Keras metrics for `compile`.

Keras (and with it a backend) is imported only when `SparseMacroF1` or `PositiveF1` is used, and
scikit-learn and SciPy when a function needs them.
"""

import importlib
from typing import TYPE_CHECKING, Any

from keras_sentmatch.metrics.basic import accuracy, f1, macro_f1, pearson, spearman
from keras_sentmatch.metrics.calibration import (
    apply_temperature,
    best_threshold,
    calibrate_predictions,
    expected_calibration_error,
    fit_temperature,
    negative_log_likelihood,
    reliability,
)
from keras_sentmatch.metrics.ranking import (
    mean_average_precision,
    mean_reciprocal_rank,
    ranking_counts,
)
from keras_sentmatch.metrics.report import evaluate_predictions
from keras_sentmatch.metrics.significance import mcnemar, paired_bootstrap, wilson_interval

if TYPE_CHECKING:
    from keras_sentmatch.metrics.keras_metrics import PositiveF1, SparseMacroF1

__all__ = [
    "PositiveF1",
    "SparseMacroF1",
    "accuracy",
    "apply_temperature",
    "best_threshold",
    "calibrate_predictions",
    "evaluate_predictions",
    "expected_calibration_error",
    "f1",
    "fit_temperature",
    "macro_f1",
    "mcnemar",
    "mean_average_precision",
    "mean_reciprocal_rank",
    "negative_log_likelihood",
    "paired_bootstrap",
    "pearson",
    "ranking_counts",
    "reliability",
    "spearman",
    "wilson_interval",
]


def __getattr__(name: str) -> Any:
    if name in ("PositiveF1", "SparseMacroF1"):
        return getattr(importlib.import_module("keras_sentmatch.metrics.keras_metrics"), name)
    raise AttributeError(f"module 'keras_sentmatch.metrics' has no attribute {name!r}")
