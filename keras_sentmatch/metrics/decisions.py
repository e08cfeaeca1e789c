"""Thresholds for a required precision, a required recall or costs, and abstention."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.errors import InputError, argument
from keras_sentmatch.metrics.calibration import decide
from keras_sentmatch.metrics.scores import columns, finite, integers

POINTS = 200  # maximum number of points of a coverage curve
ABSTAIN = "abstain"  # key of `costs`


def lower_bound(right: int, answers: int, confidence: float = 0.95) -> float:
    """Return the Clopper-Pearson lower bound of a share.

    Args:
        right: Number of right predictions.
        answers: Number of predictions.
        confidence: One-sided confidence.

    Example:

    >>> round(lower_bound(59, 59), 3)
    0.95
    """
    from scipy.stats import beta

    return float(beta.ppf(1 - confidence, right, answers - right + 1)) if right else 0.0


def coverage_curve(labels: ArrayLike, probabilities: ArrayLike) -> dict[str, list[float]]:
    """Return the accuracy of the most confident predictions by their share of the pairs.

    Args:
        labels: Integer labels, [n].
        probabilities: Class probabilities, [n, C].

    Returns:
        `coverage` and `accuracy`, lists of at most 200 values.

    Example:

    >>> coverage_curve([0, 1], [[0.9, 0.1], [0.6, 0.4]])
    {'coverage': [0.5, 1.0], 'accuracy': [1.0, 0.5]}
    """
    y, p = np.asarray(labels), np.asarray(probabilities)
    order = np.argsort(-p.max(-1), kind="stable")
    right = np.cumsum(p.argmax(-1)[order] == y[order])
    counts = np.unique(np.linspace(1, len(y), min(POINTS, len(y))).astype(int))
    shares = right[counts - 1] / counts
    return {"coverage": (counts / len(y)).tolist(), "accuracy": shares.tolist()}


def sure_answers(
    probabilities: np.ndarray, threshold: float | None, abstain_below: Sequence[float] | None
) -> np.ndarray:
    """Return whether the matcher predicts each row instead of abstaining: boolean [n]."""
    if abstain_below is None:
        return np.ones(len(probabilities), bool)
    chosen = decide(probabilities, threshold)
    given = probabilities[np.arange(len(chosen)), chosen].astype(float)
    return np.asarray(given >= np.asarray(abstain_below)[chosen])


def for_precision(
    labels: ArrayLike,
    scores: ArrayLike,
    wanted: float,
    *,
    name: str = "the label",
    confidence: float = 0.95,
) -> dict[str, Any]:
    """Return the lowest threshold above which predictions have a required precision.

    Args:
        labels: Whether each prediction is right, [n].
        scores: The probability of each prediction, [n].
        wanted: The precision that `lower_bound` must reach.
        name: The label, for the error message.
        confidence: Confidence of the bound.

    Returns:
        `threshold`, and for the pairs above it `answers`, `right`, `precision` and `lower_bound`.

    Raises:
        InputError: If no threshold reaches the precision; the message names the best.

    Example:

    >>> for_precision([1] * 70 + [0] * 30, [0.9] * 70 + [0.2] * 30, 0.95)["threshold"]
    0.55
    """
    found = _cuts(labels, scores)
    bounds = _bounds(found["right"], found["answers"], confidence)
    reached = np.flatnonzero(bounds >= wanted)
    if not len(reached):
        best = int(bounds.argmax()) if len(bounds) else None
        closest = "The label is never predicted"
        if best is not None:
            right, answers = found["right"][best], found["answers"][best]
            closest = (
                f"The best is {bounds[best]:.3f}, with {right:,} of {answers:,} predictions right "
                f"({right / answers:.3f})"
            )
        raise InputError(
            f"{argument('precision', wanted)} cannot be reached for {name!r} with {confidence:.0%} "
            f"confidence. {closest}. Lower the precision or {argument('confidence')}, or pass more "
            "pairs."
        )
    return _cut(found, int(reached[-1]), bounds)


def for_recall(
    labels: ArrayLike,
    scores: ArrayLike,
    wanted: float,
    *,
    name: str = "the label",
    confidence: float = 0.95,
) -> dict[str, Any]:
    """Return the highest threshold that finds a required share of the pairs with a label.

    Args:
        labels: Whether each pair has the label, [n].
        scores: The probability of the label, [n].
        wanted: The recall that `lower_bound` must reach.
        name: The label, for the error message.
        confidence: Confidence of the bound.

    Returns:
        As for `for_precision`, but `lower_bound` is the bound of `recall`.

    Raises:
        InputError: If there are too few pairs; the message names the best recall.

    Example:

    >>> for_recall([1] * 70 + [0] * 30, [0.9] * 70 + [0.2] * 30, 0.95)["recall"]
    1.0
    """
    found = _cuts(labels, scores)
    whole = int(np.sum(np.asarray(labels) > 0))
    bounds = _bounds(found["right"], np.full(len(found["right"]), whole), confidence)
    reached = np.flatnonzero(bounds >= wanted)
    if not len(reached):
        raise InputError(
            f"{argument('recall', wanted)} cannot be reached with {confidence:.0%} confidence: "
            f"{whole:,} pairs with the label {name!r} are too few. The best is "
            f"{bounds.max(initial=0):.3f}. Lower the recall or {argument('confidence')}, or pass more "
            "pairs."
        )
    cut = _cut(found, int(reached[0]), bounds)
    return {**cut, "recall": cut["right"] / whole}


def for_costs(
    costs: Mapping[str, float], names: Sequence[str]
) -> tuple[float, tuple[float, ...] | None]:
    """Return the threshold, and the probabilities below which to abstain, of the lowest expected cost.

    Args:
        costs: The cost of predicting each of two labels wrongly, by name, and optionally the cost of
            abstaining, under `"abstain"`.
        names: The two labels, in index order.

    Example:

    >>> for_costs({"no": 1, "yes": 4, "abstain": 0.5}, ("no", "yes"))
    (0.8, (0.5, 0.875))
    """
    if len(names) != 2 or set(costs) - {ABSTAIN} != set(names):
        raise InputError(
            f"{argument('costs', dict(costs))} does not fit the labels {', '.join(names)}. Expected the "
            "cost of predicting each of two labels wrongly, and optionally the cost of `abstain`."
        )
    wrong = [costs[name] for name in names]
    least = costs.get(ABSTAIN)
    if min(wrong) <= 0 or (least is not None and least < 0) or not np.isfinite(wrong).all():
        raise InputError(
            f"{argument('costs', dict(costs))} is out of range. Expected numbers above 0."
        )
    threshold = wrong[1] / sum(wrong)
    if least is None:
        return threshold, None
    return threshold, tuple(max(0.0, 1 - least / cost) for cost in wrong)


@dataclass(frozen=True)
class Goal:
    """The goal of `Matcher.calibrate`; at most one of the first four is set."""

    threshold: str | None
    precision: float | None
    recall: float | None
    costs: Mapping[str, float] | None
    label: str | None
    confidence: float

    def check(self, names: Sequence[str]) -> None:
        """Refuse goals that exclude each other or do not fit the labels."""
        goals = ("threshold", "precision", "recall", "costs")
        given = [argument(name) for name in goals if getattr(self, name) is not None]
        if len(given) > 1:
            raise InputError(
                f"{' and '.join(given)} exclude each other, as each sets thresholds. Use one of them."
            )
        for name in ("precision", "recall", "confidence"):
            share = getattr(self, name)
            if share is not None and not 0 < share < 1:
                raise InputError(
                    f"{argument(name, share)} is out of range. Expected a number between 0 and 1."
                )
        if self.recall is not None and len(names) != 2:
            raise InputError(
                f"{argument('recall', self.recall)} needs a matcher with two labels, not {len(names)}."
            )
        shares = self.precision or self.recall
        if self.label is not None and not (shares and len(names) == 2 and self.label in names):
            raise InputError(
                f"{argument('label', self.label)} needs two labels, and {argument('precision')} or "
                f"{argument('recall')}. The labels are {', '.join(names)}."
            )

    def fit(self, y: np.ndarray, p: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
        """Return `threshold`, `abstain_below`, `labels` (metrics of each label) and `goal`."""
        found: dict[str, dict[str, Any]] = {}
        threshold, below, share = None, None, self.precision or self.recall
        if self.costs is not None:
            threshold, below = for_costs(self.costs, names)
        elif share is not None and (self.recall or self.label):
            name = self.label or names[1]
            column = names.index(name)
            search = for_recall if self.recall else for_precision
            cut = search(y == column, p[:, column], share, name=name, confidence=self.confidence)
            found[name] = cut
            threshold = cut["threshold"] if column else 1 - cut["threshold"]
            threshold = min(max(threshold, 1e-6), 1 - 1e-6)
        elif share is not None:
            given = p.argmax(-1)
            for column, name in enumerate(names):
                right, scores = y[given == column] == column, p[given == column, column]
                found[name] = for_precision(
                    right, scores, share, name=name, confidence=self.confidence
                )
            below = tuple(cut["threshold"] for cut in found.values())
        goal = {name: value for name, value in vars(self).items() if value is not None}
        abstain = None if below is None else list(below)
        return {"threshold": threshold, "abstain_below": abstain, "labels": found, "goal": goal}


def check_abstention(abstain_below: Sequence[float] | None, names: Sequence[str] | None) -> None:
    """Refuse values of `abstain_below` that do not fit the labels."""
    if abstain_below is None:
        return
    ok = all(isinstance(value, int | float) and 0 <= value <= 1 for value in abstain_below)
    if names is None or len(abstain_below) != len(names) or not ok:
        raise InputError(
            f"abstain_below={list(abstain_below)!r:.80} does not fit. Expected one probability per "
            f"label ({', '.join(names or ()) or 'this model has none'})."
        )


def _cuts(labels: ArrayLike, scores: ArrayLike) -> dict[str, np.ndarray]:
    """Return the threshold, right predictions and predictions at each cut of the sorted scores."""
    if not np.size(labels):
        return {name: np.zeros(0) for name in ("threshold", "right", "answers")}
    y, p = columns(labels=labels, scores=scores)
    y, p = integers("labels", y), finite("scores", p)
    order = np.argsort(-p, kind="stable")
    p, right = p[order], np.cumsum(y[order])
    last = np.flatnonzero(np.append(p[1:] < p[:-1], True))
    below = np.append(p[last[1:]], 0.0)  # the next lower score
    return {"threshold": (p[last] + below) / 2, "right": right[last], "answers": last + 1}


def _bounds(right: np.ndarray, answers: np.ndarray, confidence: float) -> np.ndarray:
    return np.array([lower_bound(int(r), int(n), confidence) for r, n in zip(right, answers)])


def _cut(found: Mapping[str, np.ndarray], place: int, bounds: np.ndarray) -> dict[str, Any]:
    right, answers = int(found["right"][place]), int(found["answers"][place])
    return {
        "threshold": float(found["threshold"][place]),
        "answers": answers,
        "right": right,
        "precision": right / answers,
        "lower_bound": float(bounds[place]),
    }
