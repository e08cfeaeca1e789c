"""Calibration: metrics of it, and fitting a temperature and a threshold.

A model is calibrated if 80% of the predictions with a probability of 0.8 are right. Most neural
networks are overconfident. A temperature above 1 lowers their probabilities without changing a
prediction (Guo et al. 2017).
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.errors import InputError, argument
from keras_sentmatch.metrics.scores import accuracy, columns, f1, finite, integers

BINS = 15  # as in Guo et al. 2017
LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 0.05, 20.0
_TINY = float(np.finfo("float32").tiny)  # used instead of 0, to which softmax rounds


def reliability(
    labels: ArrayLike, probabilities: ArrayLike, bins: int = BINS
) -> dict[str, np.ndarray]:
    """Return the share of right predictions by confidence, the probability of the predicted class.

    Args:
        labels: Integer labels, [n].
        probabilities: Class probabilities, [n, C].
        bins: Number of intervals of [0, 1]; each includes its upper end.

    Returns:
        Arrays [bins] by name: `count`, the rows in the interval; `confidence`, their mean
        confidence; `accuracy`, the share of right predictions. Empty intervals have NaN.

    Example:

    >>> table = reliability([0, 1, 1], [[0.9, 0.1], [0.7, 0.3], [0.3, 0.7]], bins=2)
    >>> table["count"].tolist(), table["accuracy"][1].round(2).item()
    ([0, 3], 0.67)
    """
    y, p = _checked(labels, probabilities)
    if bins < 1:
        raise InputError(f"bins={bins} is too small. Expected at least 1.")
    confidences = p.max(-1)
    place = np.clip(np.ceil(confidences * bins).astype(int) - 1, 0, bins - 1)
    count = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        confidence = np.bincount(place, confidences, bins) / count
        accuracy = np.bincount(place, p.argmax(-1) == y, bins) / count
    return {"count": count, "confidence": confidence, "accuracy": accuracy}


def expected_calibration_error(
    labels: ArrayLike, probabilities: ArrayLike, bins: int = BINS
) -> float:
    """Return the mean gap between confidence and accuracy, weighted by the rows of each interval.

    Args:
        labels: Integer labels, [n].
        probabilities: Class probabilities, [n, C].
        bins: Number of intervals of [0, 1].

    Example:

    >>> round(expected_calibration_error([0, 1], [[0.75, 0.25], [0.75, 0.25]]), 6)
    0.25
    """
    table = reliability(labels, probabilities, bins)
    gaps = np.abs(table["confidence"] - table["accuracy"])
    full = table["count"] > 0
    return float(np.sum(gaps[full] * table["count"][full]) / table["count"].sum())


def negative_log_likelihood(labels: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the mean negative log-probability of the true class; 0 counts as 1e-38.

    Args:
        labels: Integer labels, [n].
        probabilities: Class probabilities, [n, C].

    Example:

    >>> round(negative_log_likelihood([0, 1], [[0.5, 0.5], [0.5, 0.5]]), 4)
    0.6931
    """
    y, p = _checked(labels, probabilities)
    return float(-np.mean(_log(p)[np.arange(len(y)), y]))


def apply_temperature(probabilities: ArrayLike, temperature: float) -> np.ndarray:
    """Return the probabilities after dividing the logits by a temperature; their order stays.

    Args:
        probabilities: Class probabilities, [n, C].
        temperature: A number from 0.001 to 1000. Above 1, probabilities become more equal.

    Example:

    >>> apply_temperature([[0.8, 0.2]], 2.0).round(4).tolist()
    [[0.6667, 0.3333]]
    """
    p = np.asarray(probabilities)
    _check_temperature(temperature)
    if temperature == 1:
        return p
    logits = _log(p.astype("float64")) / temperature
    scaled: np.ndarray = np.exp(logits - logits.max(axis=-1, keepdims=True, initial=-np.inf))
    scaled = scaled / scaled.sum(axis=-1, keepdims=True)
    return scaled.astype(p.dtype) if p.dtype.kind == "f" else scaled


def fit_temperature(labels: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the temperature, from 0.05 to 20, that minimizes `negative_log_likelihood`.

    Args:
        labels: Integer labels, [n], of pairs that the model was not trained on.
        probabilities: Class probabilities, [n, C].

    Example:

    >>> sure = [[0.9, 0.1]] * 4
    >>> round(fit_temperature([0, 0, 0, 1], sure), 3)  # 3 of 4 are right
    2.0
    """
    from scipy.optimize import brentq
    from scipy.special import softmax

    y, p = _checked(labels, probabilities)
    logits = _log(p)
    logits -= logits[np.arange(len(y)), y][:, None]

    def slope(log_inverse: float) -> float:
        """Return the slope of the negative log-likelihood, which is convex in 1/temperature."""
        return float(np.mean((softmax(np.exp(log_inverse) * logits, axis=-1) * logits).sum(-1)))

    low, high = -np.log(HIGHEST_TEMPERATURE), -np.log(LOWEST_TEMPERATURE)
    if slope(0.0) == 0:
        return 1.0
    if slope(low) >= 0:
        return HIGHEST_TEMPERATURE
    if slope(high) <= 0:
        return LOWEST_TEMPERATURE
    return float(np.exp(-brentq(slope, low, high, xtol=1e-13)))


def best_threshold(labels: ArrayLike, p_second: ArrayLike, metric: str = "accuracy") -> float:
    """Return the threshold on the probability of the second class with the best metric.

    Of equally good thresholds, the one nearest to 0.5 is returned.

    Args:
        labels: 0 or 1, [n].
        p_second: Probability of class 1, [n]. Above the threshold, class 1 is predicted.
        metric: `"accuracy"`, or `"f1"` of class 1.

    Example:

    >>> best_threshold([0, 0, 1, 1], [0.1, 0.2, 0.3, 0.4])
    0.25
    """
    if metric not in ("accuracy", "f1"):
        raise InputError(f"metric={metric!r} is unknown. Expected accuracy or f1.")
    y, p = columns(labels=labels, p_second=p_second)
    y, p = integers("labels", y), finite("p_second", p)
    if y.min() < 0 or y.max() > 1 or p.min() < 0 or p.max() > 1:
        raise InputError(
            f"The labels range from {y.min()} to {y.max()} and the probabilities from {p.min():.3g} "
            f"to {p.max():.3g}. Expected labels 0 and 1, and probabilities from 0 to 1."
        )
    values = np.unique(np.concatenate([[0.0], p, [1.0]]))
    tried = np.append((values[1:] + values[:-1]) / 2, 0.5)
    wrong, right = np.sort(p[y == 0]), np.sort(p[y == 1])
    false = len(wrong) - np.searchsorted(wrong, tried, side="right")
    hits = len(right) - np.searchsorted(right, tried, side="right")
    if metric == "f1":
        score = 2 * hits / np.maximum(hits + false + len(right), 1)
    else:
        score = (hits + len(wrong) - false) / len(y)
    best = tried[score == score.max()]
    return float(best[np.abs(best - 0.5).argmin()])


def decide(probabilities: np.ndarray, threshold: float | None) -> np.ndarray:
    """Return the predicted class of each row: the most probable, or class 1 above the threshold."""
    if threshold is None:
        return np.asarray(probabilities.argmax(-1))
    return (probabilities[:, 1].astype(float) > threshold).astype(int)


def calibrate_predictions(
    labels: ArrayLike,
    probabilities: ArrayLike,
    *,
    temperature: bool = True,
    threshold: str | None = None,
) -> dict[str, Any]:
    """Fit a temperature and a threshold, and measure their effect.

    Args:
        labels: Integer labels, [n], of pairs that the model was not trained on.
        probabilities: Class probabilities of the model, [n, C].
        temperature: Whether to fit a temperature; otherwise it is 1.
        threshold: `"accuracy"` or `"f1"`, the metric that the threshold of two classes maximizes.
            By default there is no threshold, and the most probable class is predicted.

    Returns:
        `temperature`, `threshold` (a number or `None`), `rows`, and `before` and `after`, each with
        `nll`, `ece`, `accuracy` (with a threshold for f1 also `f1`) and `reliability`, as lists for
        JSON, with `None` instead of NaN.

    Example:

    >>> report = calibrate_predictions([0, 0, 0, 1], [[0.9, 0.1]] * 4)
    >>> round(report["before"]["ece"], 2), round(report["after"]["ece"], 2)
    (0.15, 0.0)
    """
    y, p = _checked(labels, np.asarray(probabilities))
    if threshold is not None and p.shape[1] != 2:
        raise InputError(
            f"{argument('threshold', threshold)} needs two classes, but there are {p.shape[1]}. "
            "Leave it out."
        )
    fitted = fit_temperature(y, p) if temperature else 1.0
    scaled = apply_temperature(np.asarray(probabilities), fitted)
    best = None if threshold is None else best_threshold(y, scaled[:, 1], threshold)
    return {
        "temperature": fitted,
        "threshold": best,
        "rows": len(y),
        "before": _measure(y, p, None, threshold),
        "after": _measure(y, scaled, best, threshold),
    }


def check_calibration(temperature: float, threshold: float | None, outputs: int) -> None:
    """Refuse a temperature or a threshold that does not fit the number of a model's outputs."""
    _check_temperature(temperature)
    if outputs == 1 and temperature != 1:
        raise InputError(
            f"temperature={temperature} needs a model with probabilities, but this model returns a "
            "score. Leave it out."
        )
    if threshold is not None and not (outputs == 2 and _is_number(threshold) and 0 < threshold < 1):
        raise InputError(
            f"threshold={threshold!r} does not fit a model with {outputs} output(s). Expected a number "
            "between 0 and 1, the probability of the second of two classes."
        )


def _check_temperature(temperature: float) -> None:
    if not _is_number(temperature) or not 0.001 <= temperature <= 1000:
        raise InputError(
            f"temperature={temperature!r:.60} is out of range. Expected a number from 0.001 to 1000; 1 "
            "changes nothing. `calibrate` finds the best."
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _measure(
    y: np.ndarray, p: np.ndarray, threshold: float | None, metric: str | None
) -> dict[str, Any]:
    predicted = decide(p, threshold)
    figures: dict[str, Any] = {
        "nll": negative_log_likelihood(y, p),
        "ece": expected_calibration_error(y, p),
        "accuracy": accuracy(y, predicted),
    }
    if metric == "f1":
        figures["f1"] = f1(y, predicted)
    figures["reliability"] = {
        name: [None if np.isnan(value) else value for value in column.tolist()]
        for name, column in reliability(y, p).items()
    }
    return figures


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
