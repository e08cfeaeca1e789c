"""Metrics for pairs: functions of arrays, and a Keras metric for `compile`.

Keras is imported only when `SparseMacroF1` is used, and scikit-learn and SciPy when a function
needs them.
"""

from typing import TYPE_CHECKING

from keras_sentmatch.lazy import lazy

if TYPE_CHECKING:
    from keras_sentmatch.metrics._macro_f1 import SparseMacroF1 as SparseMacroF1
    from keras_sentmatch.metrics.calibration import apply_temperature as apply_temperature
    from keras_sentmatch.metrics.calibration import fit_temperature as fit_temperature
    from keras_sentmatch.metrics.evaluation import evaluate_predictions as evaluate_predictions
    from keras_sentmatch.metrics.ranking import mean_average_precision as mean_average_precision
    from keras_sentmatch.metrics.ranking import mean_reciprocal_rank as mean_reciprocal_rank
    from keras_sentmatch.metrics.scores import paired_bootstrap as paired_bootstrap
    from keras_sentmatch.metrics.scores import wilson_interval as wilson_interval

_modules = {
    "SparseMacroF1": "metrics._macro_f1",
    "apply_temperature": "metrics.calibration",
    "evaluate_predictions": "metrics.evaluation",
    "fit_temperature": "metrics.calibration",
    "mean_average_precision": "metrics.ranking",
    "mean_reciprocal_rank": "metrics.ranking",
    "paired_bootstrap": "metrics.scores",
    "wilson_interval": "metrics.scores",
}
__all__, __getattr__, __dir__ = lazy(__name__, _modules)
