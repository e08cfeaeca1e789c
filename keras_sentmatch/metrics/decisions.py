"""Thresholds for a metric, a required precision or a required recall, and abstention."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.errors import InputError, argument
from keras_sentmatch.metrics.calibration import (
    apply_temperature,
    check_several_labels,
    check_temperature,
    decide,
    expected_calibration_error,
    fit_temperature,
    negative_log_likelihood,
    reliability,
)
from keras_sentmatch.metrics.scores import accuracy, columns, f1, finite, integers, positive_class

log = logging.getLogger(__name__)


def sure_answers(
    probabilities: np.ndarray, threshold: float | None, abstain_below: Sequence[float] | None
) -> np.ndarray:
    """Return whether the matcher predicts each row instead of abstaining: boolean [n]."""
    if abstain_below is None:
        return np.ones(len(probabilities), bool)
    chosen = decide(probabilities, threshold)
    given = probabilities[np.arange(len(chosen)), chosen].astype(float)
    return np.asarray(given >= np.asarray(abstain_below)[chosen])


def best_threshold(
    labels: ArrayLike, p_second: ArrayLike, metric: str = "accuracy", positive: int = 1
) -> float:
    """Return the threshold on the probability of class 1 with the best accuracy, or F1 of `positive`.

    If several thresholds are equally good, return the one nearest to 0.5.
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
    tried = tried[(tried > 0) & (tried < 1)]
    right = {0: np.searchsorted(np.sort(p[y == 0]), tried, side="right")}
    below = np.searchsorted(np.sort(p), tried, side="right")
    right[1] = (y == 1).sum() - (below - right[0])
    if metric == "f1":
        predicted = below if positive == 0 else len(y) - below
        score = 2 * right[positive] / np.maximum(predicted + (y == positive).sum(), 1)
    else:
        score = (right[0] + right[1]) / len(y)
    best = tried[score == score.max()]
    return float(best[np.abs(best - 0.5).argmin()])


def find_cut(
    labels: ArrayLike,
    scores: ArrayLike,
    wanted: float,
    *,
    goal: str = "precision",
    name: str = "the label",
    confidence: float = 0.95,
    lowest: float = 0.0,
    parts: ArrayLike | None = None,
) -> dict[str, Any]:
    """Return the threshold on scores that reaches a precision (the lowest) or a recall (the highest).

    `labels` says whether each prediction is right (for a recall: whether each pair has the label).
    The share must be reached by the one-sided Clopper-Pearson lower bound, in each part if the number
    of each row's part is given; `lower_bound` is then the lowest of them. Returns `threshold`, and
    for the pairs above it `answers`, `right`, `precision` and `lower_bound`; for a recall also
    `recall`. Raises `InputError` if no threshold reaches the share; the message names the best.
    """
    from scipy.stats import beta

    y, p = np.asarray(labels, dtype=int), np.asarray(scores, "float64")
    order = np.argsort(-p, kind="stable")
    p, hits = p[order], np.cumsum(y[order])
    below = np.append(p[1:], lowest)
    middles = (p + below) / 2
    # Scores between which there is no number are ties.
    last = np.flatnonzero((middles < p) & (middles > below))
    right, answers = hits[last], last + 1
    totals = np.full(len(last), y.sum()) if goal == "recall" else answers

    def bound(rows: Any) -> Any:
        inside = y[order] * rows
        found = np.cumsum(inside)[last]
        of = inside.sum() if goal == "recall" else np.cumsum(rows)[last]
        return beta.ppf(1 - confidence, np.maximum(found, 1), of - found + 1) * (found > 0)

    part = np.zeros(len(y), int) if parts is None else np.asarray(parts)
    each = [bound(part[order] == number) for number in np.unique(part)]
    bounds = np.min(each, axis=0) if each else np.empty(0)
    reached = np.flatnonzero(bounds >= wanted)
    if not len(reached):
        closest = "No pair is predicted to have it"
        if len(bounds):
            best = bounds.argmax()
            where = "" if parts is None else " in the fold where it is lowest"
            closest = (
                f"The best is {bounds[best]:.3f}{where}, with {right[best]:,} right of "
                f"{totals[best]:,} pairs"
            )
        raise InputError(
            f"{argument(goal, wanted)} cannot be reached for {name!r} with {confidence:.0%} "
            f"confidence. {closest}. Lower the {goal} or {argument('confidence')}, or use more pairs."
        )
    place = reached[0] if goal == "recall" else reached[-1]
    found = {
        "threshold": float(middles[last[place]]),
        "answers": int(answers[place]),
        "right": int(right[place]),
        "precision": float(right[place] / answers[place]),
        "lower_bound": float(bounds[place]),
    }
    return found | ({"recall": float(right[place] / y.sum())} if goal == "recall" else {})


@dataclass(frozen=True)
class Goal:
    """The goal of `Matcher.calibrate`; at most one of the first three is set."""

    threshold: str | None = None
    precision: float | None = None
    recall: float | None = None
    label: str | None = None
    confidence: float = 0.95

    def check(self, names: Sequence[str]) -> None:
        """Refuse goals that exclude each other or do not fit the labels."""
        goals = ("threshold", "precision", "recall")
        given = [argument(name) for name in goals if getattr(self, name) is not None]
        if len(given) > 1:
            raise InputError(f"{' and '.join(given)} exclude each other. Use one of them.")
        for name in ("precision", "recall", "confidence"):
            share = getattr(self, name)
            if share is not None and not 0 < share < 1:
                raise InputError(
                    f"{argument(name, share)} is out of range. Expected a number between 0 and 1."
                )
        for name in ("threshold", "recall"):
            if (value := getattr(self, name)) is not None and len(names) != 2:
                raise InputError(
                    f"{argument(name, value)} needs a matcher with two labels, not {len(names)}."
                )
        share = self.precision or self.recall
        if self.label is not None and not (share and len(names) == 2 and self.label in names):
            raise InputError(
                f"{argument('label', self.label)} needs two labels, and {argument('precision')} or "
                f"{argument('recall')}. The labels are {', '.join(names)}."
            )

    def fit(
        self, y: np.ndarray, p: np.ndarray, names: Sequence[str], parts: np.ndarray | None = None
    ) -> dict[str, Any]:
        """Return `threshold`, `abstain_below` and `labels`, the metrics of each label."""
        share = self.precision or self.recall
        goal = "recall" if self.recall else "precision"
        given: dict[str, Any] = {"goal": goal, "confidence": self.confidence}
        if share is None:
            best: float | None = None
            if self.threshold is not None:
                best = best_threshold(y, p[:, 1], self.threshold, positive_class(names, y))
            return {"threshold": best, "abstain_below": None, "labels": {}}
        if self.recall or self.label:
            column = names.index(self.label) if self.label else positive_class(names, y)
            name, sign = names[column], 1 if column else -1
            scores, lowest = sign * p[:, 1].astype("float64"), 0.0 if column else -1.0
            cut = find_cut(
                y == column, scores, share, name=name, lowest=lowest, parts=parts, **given
            )
            cut["threshold"] *= sign
            return {"threshold": cut["threshold"], "abstain_below": None, "labels": {name: cut}}
        predicted, labels = p.argmax(-1), {}
        for column, name in enumerate(names):
            rows = predicted == column
            right, scores = rows & (y == column), np.where(rows, p[:, column], 0)
            labels[name] = find_cut(right, scores, share, name=name, parts=parts, **given)
        below = [cut["threshold"] for cut in labels.values()]
        return {"threshold": None, "abstain_below": below, "labels": labels}


def calibrate_predictions(
    labels: ArrayLike,
    probabilities: ArrayLike,
    names: Sequence[str],
    goal: Goal = Goal(),  # noqa: B008
    *,
    temperature: bool = True,
    folds: ArrayLike | None = None,
) -> dict[str, Any]:
    """Fit a temperature and thresholds to `[n, C]` probabilities, and measure their effect.

    The pairs must not be those that the model was trained on. If several models predicted them, pass
    the number of the fold of each: a precision or recall must then be reached in every fold. Returns
    what `Matcher.calibrate` returns.
    """
    goal.check(names)
    y, raw = np.asarray(labels), np.asarray(probabilities)
    check_several_labels(y)
    fitted = fit_temperature(y, raw) if temperature else 1.0
    p = apply_temperature(raw, fitted)
    found = goal.fit(y, p, names, None if folds is None else np.asarray(folds))
    threshold, below = found["threshold"], found["abstain_below"]
    sure = sure_answers(p, threshold, below)
    predicted = decide(p, threshold)
    if threshold is not None and len(np.unique(predicted)) == 1:
        log.warning(
            f"With this threshold, {names[predicted[0]]} is predicted for all {len(y):,} pairs. Use more "
            "pairs, or another goal."
        )
    right = predicted == y
    return {
        "temperature": fitted,
        **found,
        "rows": len(y),
        "before": _measure(y, raw, None, names, goal),
        "after": _measure(y, p, threshold, names, goal),
        "goal": {name: value for name, value in vars(goal).items() if value is not None},
        "coverage": float(sure.mean()),
        "answered_accuracy": float(right[sure].mean()) if sure.any() else None,
    }


def _measure(
    y: np.ndarray, p: np.ndarray, threshold: float | None, names: Sequence[str], goal: Goal
) -> dict[str, Any]:
    predicted = decide(p, threshold)
    figures: dict[str, Any] = {
        "nll": negative_log_likelihood(y, p),
        "ece": expected_calibration_error(y, p),
        "accuracy": accuracy(y, predicted),
    }
    if goal.threshold == "f1":
        positive = positive_class(names, y)
        figures[f"f1:{names[positive]}"] = f1(y, predicted, positive)
    figures["reliability"] = {
        name: [None if np.isnan(value) else value for value in column.tolist()]
        for name, column in reliability(y, p).items()
    }
    return figures


def check_calibration(
    temperature: float,
    threshold: float | None,
    abstain_below: Sequence[float] | None,
    names: Sequence[str] | None,
) -> None:
    """Refuse a temperature, a threshold or values of `abstain_below` that do not fit the labels."""
    check_temperature(temperature)
    if names is None and temperature != 1:
        raise InputError(
            f"temperature={temperature} needs a model with probabilities, but this model returns a "
            "score. Leave it out."
        )
    labels = ", ".join(names or ()) or "this model has none"
    number = isinstance(threshold, int | float) and 0 < threshold < 1
    if threshold is not None and (not number or len(names or ()) != 2):
        raise InputError(
            f"threshold={threshold!r} does not fit. Expected a number between 0 and 1, the "
            f"probability of the second of two labels ({labels})."
        )
    below = [isinstance(value, int | float) and 0 <= value <= 1 for value in abstain_below or ()]
    if abstain_below is not None and (len(below) != len(names or ()) or not all(below)):
        raise InputError(
            f"abstain_below={list(abstain_below)!r:.80} does not fit. Expected one probability per "
            f"label ({labels})."
        )
