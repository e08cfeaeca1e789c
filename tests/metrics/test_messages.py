"""What is refused, and the words that a message must have."""

import numpy as np
import pytest

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics import (
    SparseMacroF1,
    evaluate_predictions,
    mean_average_precision,
    paired_bootstrap,
    wilson_interval,
)
from keras_sentmatch.metrics.calibration import apply_temperature, fit_temperature
from keras_sentmatch.metrics.decisions import (
    Goal,
    best_threshold,
    calibrate_predictions,
    check_calibration,
    find_cut,
)
from keras_sentmatch.metrics.ranking import ranking_counts
from keras_sentmatch.metrics.scores import accuracy, pearson

NAMES = ("no", "yes")
HALF = [[0.5, 0.5]]


def pairs(labels, **more):
    return PairDataset(["a"] * len(labels), ["b"] * len(labels), labels, **more)


def goal(names=NAMES, **given):
    Goal(**given).check(names)


TWO = pairs([0, 1], label_names=("a", "b"))
LOW = [1] * 40 + [0] * 10, [0.9] * 50
MESSAGES = [
    (lambda: accuracy([0, 1], [0.2, 0.8]), "dtype float64. Expected integer"),
    (lambda: accuracy([0, 1], [[1, 0], [0, 1]]), r"`pred` has shape \(2, 2\)"),
    (lambda: pearson([1.0, 2.0], [1.0, np.nan]), "1 of 2 values of `scores` are NaN"),
    (lambda: mean_average_precision([1], [0.5, 0.1], ["a"] * 2), "lengths: y 1, scores 2"),
    (lambda: accuracy([], []), "no rows"),
    (lambda: mean_average_precision([0, 0], [1, 2], ["a", "a"]), "None of the 1 questions"),
    (lambda: mean_average_precision([1, 0], [1, 2], ["a", None]), "1 of 2 rows have no question"),
    (lambda: mean_average_precision([1, 0], [1, 2], [np.nan, 1.0]), "1 of 2 rows have no question"),
    (lambda: ranking_counts([1, 0], ["a", float("nan")]), "1 of 2 rows have no question"),
    (lambda: mean_average_precision([1, np.nan], [1, 2], "aa"), "values of `y` are NaN"),
    (lambda: paired_bootstrap([1, np.nan], [1, 0]), "1 of 2 values of `right1` are NaN"),
    (lambda: apply_temperature([[3.0, -1.0]], 2.0), "softmax of logits first"),
    (lambda: evaluate_predictions(TWO, HALF * 2, threshold=5), "threshold=5 does not fit"),
    (
        lambda: evaluate_predictions(pairs([0, 1, 2], label_names="abc"), np.eye(3), threshold=0.5),
        "threshold=0.5 does not fit",
    ),
    (lambda: evaluate_predictions(TWO, HALF * 2, f1_of="c"), "'c' is not a label"),
    (lambda: evaluate_predictions(TWO, np.ones((3, 2))), "3 predictions for the 2 rows"),
    (lambda: evaluate_predictions(TWO, np.ones((2, 3))), r"Expected \[rows, 2\]"),
    (lambda: evaluate_predictions(TWO, np.full((2, 2), np.nan)), "2 of 2 predictions"),
    (lambda: evaluate_predictions(pairs([0.5, 1.0]), np.ones((2, 2))), "one score per row"),
    (lambda: evaluate_predictions(PairDataset(["a"], ["b"]), HALF), "no labels"),
    (lambda: fit_temperature([0, 1], [[2.0, -1.0]] * 2), "softmax of logits first"),
    (lambda: fit_temperature([0, 1], [[3.0, 5.0]] * 2), "sum to 8 to 8"),
    (lambda: fit_temperature([0, 2], HALF * 2), "range from 0 to 2. Expected 0 to 1"),
    (lambda: fit_temperature([1, 1], HALF * 2), "have the same label"),
    (
        lambda: calibrate_predictions([0, 0], HALF * 2, NAMES, Goal("f1"), temperature=False),
        "have the same label",
    ),
    (lambda: fit_temperature([0, 1], [0.5, 0.5]), "at least two classes"),
    (lambda: apply_temperature(HALF, 10**400), "temperature=1000.*0.001 to 1000"),
    (lambda: apply_temperature(HALF, float("nan")), "temperature=nan"),
    (lambda: best_threshold([0, 2], [0.5, 0.5]), "labels 0 and 1"),
    (lambda: best_threshold([0, 1], [0.5, 1.5]), "probabilities from 0.5 to 1.5"),
    (lambda: best_threshold([0, 1], [0.5, 0.5], "auc"), "Expected accuracy or f1"),
    (
        lambda: find_cut(*LOW, 0.95, name="yes"),
        "precision=0.95 .* 'yes' with 95% confidence. The best is 0.684, with 40 right of 50",
    ),
    (
        lambda: find_cut(*LOW, 0.95, name="yes", parts=np.arange(50) % 2),
        "The best is 0.[0-9]+ in the fold where it is lowest",
    ),
    (lambda: find_cut([], [], 0.9), "No pair is predicted"),
    (
        lambda: find_cut([1, 0], [0.9, 0.1], 0.9, name="yes", goal="recall"),
        "recall=0.9 .* The best is 0.050, with 1 right of 1 pairs",
    ),
    (lambda: check_calibration(2.0, None, None, None), "model returns a score"),
    (lambda: check_calibration(1.0, 0.5, None, "abc"), r"two labels \(a, b, c\)"),
    (lambda: check_calibration(1.0, 1.0, None, NAMES), "between 0 and 1"),
    (lambda: check_calibration(1.0, None, [0.5], NAMES), r"one probability per label \(no, yes\)"),
    (lambda: goal(precision=0.9, recall=0.9), "precision=… and recall=… exclude .* one of them"),
    (lambda: goal(precision=95.0), "precision=95.0 .* Expected a number between"),
    (lambda: goal("abc", recall=0.9), "recall=0.9 needs a matcher with two labels, not 3"),
    (lambda: goal("abc", threshold="f1"), "threshold='f1' needs a matcher with two labels"),
    (lambda: goal(label="yes"), "needs two labels, and precision=… or recall=…"),
    (lambda: goal(precision=0.9, label="maybe"), "The labels are no, yes"),
    (lambda: wilson_interval(3, 2), "3 hits in 2 rows"),
    (lambda: paired_bootstrap([True], [True, False]), "same pairs"),
    (lambda: paired_bootstrap([1], [0], samples=0), "samples=0"),
    (lambda: SparseMacroF1(1), "num_classes=1"),
]


@pytest.mark.parametrize("call, words", MESSAGES)
def test_messages(call, words):
    with pytest.raises(InputError, match=words):
        call()
