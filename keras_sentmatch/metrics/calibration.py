"""Measures of calibration, and the temperature that calibrates probabilities.

A model is calibrated if 80% of the predictions with a probability of 0.8 are right. Most neural
networks are overconfident. A temperature above 1 lowers their probabilities without changing a
prediction (Guo et al. 2017).
"""

import logging
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics.scores import columns, finite, integers

log = logging.getLogger(__name__)
BINS = 15  # as in Guo et al. 2017
LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 0.05, 20.0
_TINY = float(np.finfo("float32").tiny)  # used instead of 0, to which softmax rounds


def reliability(labels: ArrayLike, probabilities: ArrayLike) -> dict[str, np.ndarray]:
    """Return arrays with one value for each of 15 intervals of confidence, which include their upper ends.

    `count` has the rows in the interval, `confidence` their mean confidence (the probability of the
    predicted class), and `accuracy` the share of right predictions. Empty intervals have NaN.
    """
    y, p = _checked(labels, probabilities)
    bins, confidences = BINS, p.max(-1)
    place = np.clip(np.ceil(confidences * bins).astype(int) - 1, 0, bins - 1)
    count = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        confidence = np.bincount(place, confidences, bins) / count
        accuracy = np.bincount(place, p.argmax(-1) == y, bins) / count
    return {"count": count, "confidence": confidence, "accuracy": accuracy}


def expected_calibration_error(labels: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the mean gap between confidence and accuracy, weighted by the rows of each interval."""
    table = reliability(labels, probabilities)
    gaps = np.abs(table["confidence"] - table["accuracy"])
    full = table["count"] > 0
    return float(np.sum(gaps[full] * table["count"][full]) / table["count"].sum())


def negative_log_likelihood(labels: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the mean negative log-probability of the true class; 0 counts as 1e-38."""
    y, p = _checked(labels, probabilities)
    return float(-np.mean(_log(p)[np.arange(len(y)), y]))


def apply_temperature(probabilities: ArrayLike, temperature: float) -> np.ndarray:
    """Return the probabilities after dividing the logits by a temperature.

    The result is float64, because float32 would round confident probabilities to 1. If the
    temperature is 1, the probabilities are returned as they are.

    Args:
        probabilities: Class probabilities, [n, C].
        temperature: A number from 0.001 to 1000. Above 1, probabilities become more equal.

    Example:

    >>> apply_temperature([[0.8, 0.2]], 2.0).round(4).tolist()
    [[0.6667, 0.3333]]
    """
    p = np.asarray(probabilities)
    check_temperature(temperature)
    if temperature == 1:
        return p
    sums = p.sum(axis=-1, dtype="float64")
    if p.size and not ((p >= 0).all() and np.abs(sums - 1).max() < 0.01):
        raise InputError(
            f"The values range from {p.min():.3g} to {p.max():.3g}, and rows sum to {sums.min():.3g} "
            f"to {sums.max():.3g}. Expected probabilities. Take the softmax of logits first."
        )
    logits = _log(p.astype("float64")) / temperature
    scaled: np.ndarray = np.exp(logits - logits.max(axis=-1, keepdims=True, initial=-np.inf))
    scaled /= scaled.sum(axis=-1, keepdims=True)
    return scaled


def log_odds(
    probabilities: ArrayLike, column: int | np.ndarray, temperature: float = 1.0
) -> np.ndarray:
    """Return the log odds of a class (or of one class per row), float64 [n], after a temperature.

    They order rows as the probability does, also if the probability is rounded to 0 or 1.
    """
    p = np.asarray(probabilities)
    least = np.finfo(p.dtype if p.dtype.kind == "f" else "float64").smallest_subnormal
    logits = np.log(np.maximum(p.astype("float64"), least)) / temperature
    rows = np.arange(len(logits))
    own = logits[rows, column]
    logits[rows, column] = -np.inf
    return np.asarray(own - np.logaddexp.reduce(logits, axis=1))


def fit_temperature(labels: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the temperature, from 0.05 to 20, that minimizes the negative log-likelihood.

    If it is at an end of this range, a warning is logged.

    Args:
        labels: Integer labels, [n], of pairs that the model was not trained on.
        probabilities: Class probabilities, [n, C].

    Raises:
        InputError: If all labels are the same.

    Example:

    >>> sure = [[0.9, 0.1]] * 4
    >>> round(fit_temperature([0, 0, 0, 1], sure), 3)  # 3 of 4 are right
    2.0
    """
    from scipy.optimize import brentq
    from scipy.special import softmax

    y, p = _checked(labels, probabilities)
    check_several_labels(y)
    logits = _log(p)
    logits -= logits[np.arange(len(y)), y][:, None]

    def slope(log_inverse: float) -> float:
        """Return the slope of the negative log-likelihood, which is convex in 1/temperature."""
        return float(np.mean((softmax(np.exp(log_inverse) * logits, axis=-1) * logits).sum(-1)))

    low, high = -np.log(HIGHEST_TEMPERATURE), -np.log(LOWEST_TEMPERATURE)
    if slope(0.0) == 0:
        return 1.0
    if slope(low) < 0 < slope(high):
        return float(np.exp(-brentq(slope, low, high, xtol=1e-13)))
    found = HIGHEST_TEMPERATURE if slope(low) >= 0 else LOWEST_TEMPERATURE
    log.warning(
        f"The best temperature is {found}, the end of the range that is searched: the predictions of "
        f"these {len(y):,} pairs are {'worse than chance' if found > 1 else 'all right'}. Use more pairs."
    )
    return found


def decide(probabilities: np.ndarray, threshold: float | None) -> np.ndarray:
    """Return the predicted class of each row: the most probable, or class 1 above the threshold."""
    if threshold is None:
        return np.asarray(probabilities.argmax(-1))
    return (probabilities[:, 1].astype(float) > threshold).astype(int)


def check_several_labels(y: np.ndarray) -> None:
    """Refuse to calibrate on pairs that all have one label."""
    if len(np.unique(y)) < 2:
        raise InputError(
            f"All pairs ({len(y):,}) have the same label. Calibration needs pairs of at least two "
            "labels that the model was not trained on."
        )


def check_temperature(temperature: Any) -> None:
    """Refuse a temperature that is not a number from 0.001 to 1000."""
    number = isinstance(temperature, int | float) and not isinstance(temperature, bool)
    if not number or not 0.001 <= temperature <= 1000:
        raise InputError(
            f"temperature={temperature!r:.60} is out of range. Expected a number from 0.001 to 1000; 1 "
            "changes nothing. `calibrate` finds the best."
        )


def _log(probabilities: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(np.maximum(probabilities, _TINY)))


def _checked(labels: ArrayLike, probabilities: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return checked labels as integers and probabilities as float64."""
    p: np.ndarray = np.asarray(probabilities)
    if p.ndim != 2 or p.shape[-1] < 2:
        raise InputError(
            f"The probabilities have shape {p.shape}. Expected [rows, classes] with at least two "
            "classes."
        )
    y, sums = columns(labels=labels, probabilities=p.sum(-1))
    y = integers("labels", y)
    values = finite("probabilities", p.ravel())
    if values.min() < 0 or np.abs(sums - 1).max() > 0.01:
        raise InputError(
            f"The values range from {values.min():.3g} to {values.max():.3g}, and rows sum to "
            f"{sums.min():.3g} to {sums.max():.3g}. Expected probabilities. Take the softmax of "
            "logits first."
        )
    if y.min() < 0 or y.max() >= p.shape[-1]:
        raise InputError(
            f"The labels range from {y.min()} to {y.max()}. Expected 0 to {p.shape[-1] - 1}, the "
            "columns of the probabilities."
        )
    return y, values.reshape(p.shape)
