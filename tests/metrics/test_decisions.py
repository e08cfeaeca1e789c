"""When to answer: bounds, thresholds for precision, recall and costs, and what cannot be had."""

import numpy as np
import pytest
from scipy.stats import binom

from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics.decisions import (
    Goal,
    coverage_curve,
    for_costs,
    for_precision,
    for_recall,
    lower_bound,
    sure_answers,
)

pytestmark = pytest.mark.once
NAMES = ("no", "yes")


def drawn(rows, seed):
    """Calibrated probabilities of two classes, and labels drawn by them."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.6, 0.6, rows)
    return (rng.random(rows) < p).astype(int), np.stack([1 - p, p], 1)


def goal(**given):
    empty = dict.fromkeys(("threshold", "precision", "recall", "costs", "label"))
    return Goal(**{**empty, "confidence": 0.95, **given})


def test_the_bound_is_clopper_and_pearson():
    assert lower_bound(0, 9) == 0
    for right, answers in ((5, 10), (48, 50), (20, 20)):
        bound = lower_bound(right, answers, 0.9)
        assert binom.sf(right - 1, answers, bound) == pytest.approx(0.1)


def test_precision_takes_the_lowest_threshold_that_is_sure():
    y, p = drawn(2000, 0)
    found = for_precision(y, p[:, 1], 0.9)
    above = p[:, 1] >= found["threshold"]
    assert (above.sum(), y[above].sum()) == (found["answers"], found["right"])
    assert found["lower_bound"] == lower_bound(found["right"], found["answers"]) >= 0.9
    for lower in np.sort(p[:, 1][~above])[::-1]:
        more = p[:, 1] >= lower
        assert lower_bound(int(y[more].sum()), int(more.sum())) < 0.9
    ties = for_precision([1] * 80 + [1, 0, 0, 0, 0], [0.9] * 80 + [0.4] * 5, 0.95)
    assert ties["answers"] == 80 and 0.4 < ties["threshold"] < 0.9


def test_precision_holds_on_other_pairs():
    """The bound is that of one threshold, but the threshold was chosen among many."""
    kept = []
    for seed in range(60):
        y, p = drawn(600, seed)
        cut = for_precision(y, p[:, 1], 0.9)["threshold"]
        kept.append(
            p[:, 1][p[:, 1] >= cut].mean() >= 0.9
        )  # the true precision: they are calibrated
    assert np.mean(kept) >= 0.9


def test_recall_takes_the_highest_threshold_that_is_sure():
    y, p = drawn(2000, 1)
    found = for_recall(y, p[:, 1], 0.9)
    above = p[:, 1] >= found["threshold"]
    assert found["recall"] == y[above].sum() / y.sum() > 0.9
    assert lower_bound(found["right"] - 1, int(y.sum())) < 0.9 <= found["lower_bound"]


def test_goals_become_thresholds():
    y, p = drawn(2000, 2)
    both = goal(precision=0.9).fit(y, p, NAMES)
    assert both["threshold"] is None and set(both["labels"]) == set(NAMES)
    sure = sure_answers(p, None, both["abstain_below"])
    assert 0 < sure.mean() < 1
    for column, name in enumerate(NAMES):
        mine = sure & (p.argmax(-1) == column)
        assert mine.sum() == both["labels"][name]["answers"]
        assert (y[mine] == column).mean() == both["labels"][name]["precision"] > 0.9
    one = goal(precision=0.9, label="no").fit(y, p, NAMES)
    assert one["abstain_below"] is None and list(one["labels"]) == ["no"]
    answered = p[:, 1] <= one["threshold"]
    assert (y[answered] == 0).mean() == pytest.approx(one["labels"]["no"]["precision"])
    found = goal(recall=0.9).fit(y, p, NAMES)
    assert (p[y == 1, 1] > found["threshold"]).mean() == found["labels"]["yes"]["recall"]


def test_costs_are_least():
    y, p = drawn(20_000, 3)
    costs = {"no": 1.0, "yes": 4.0, "abstain": 0.4}
    threshold, below = for_costs(costs, NAMES)

    def cost(threshold, below):
        chosen = (p[:, 1] > threshold).astype(int)
        sure = p[np.arange(len(p)), chosen] >= np.asarray(below)[chosen]
        wrong = np.where(chosen == 1, 4.0, 1.0) * (p[np.arange(len(p)), 1 - chosen])
        return np.where(sure, wrong, 0.4).mean()

    best = cost(threshold, below)
    for other in ((0.5, (0.0, 0.0)), (threshold, (0.5, 0.5)), (0.9, (0.7, 0.95))):
        assert best < cost(*other)
    assert for_costs({"no": 1, "yes": 1}, NAMES) == (0.5, None)


def test_the_curve_ends_with_the_accuracy_of_all():
    y, p = drawn(1000, 4)
    curve = coverage_curve(y, p)
    assert len(curve["coverage"]) == 200 and curve["coverage"][-1] == 1
    assert curve["accuracy"][-1] == pytest.approx((p.argmax(-1) == y).mean())
    assert curve["accuracy"][20] > curve["accuracy"][-1]


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: for_precision([1] * 40 + [0] * 10, [0.9] * 50, 0.95, name="yes"),
            r"precision=0.95: .* 'yes' with 95% confidence; the best is 0.684, of 40 right among 50",
        ),
        (lambda: for_precision([], [], 0.9), "it is never answered"),
        (lambda: for_recall([1, 0], [0.9, 0.1], 0.9, name="yes"), "1 pairs .* the best is 0.050"),
        (lambda: for_costs({"no": 1}, NAMES), "answer each of two labels wrongly"),
        (lambda: for_costs({"no": 0, "yes": 1}, NAMES), "numbers above 0"),
        (lambda: goal(precision=0.9, recall=0.9).check(NAMES), "precision=… and recall=…: .* one"),
        (lambda: goal(precision=95.0).check(NAMES), "precision=95.0: expected a number between"),
        (lambda: goal(recall=0.9).check("abc"), "a recall needs two labels"),
        (lambda: goal(label="yes").check(NAMES), "with precision=… or recall=…"),
        (lambda: goal(precision=0.9, label="maybe").check(NAMES), "the labels are no, yes"),
    ],
)
def test_what_cannot_be_had_is_said(call, message):
    with pytest.raises(InputError, match=message):
        call()
