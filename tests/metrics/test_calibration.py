"""Calibration and thresholds: against definitions, brute force and other pairs."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from scipy.stats import binom

from keras_sentmatch.metrics.calibration import (
    apply_temperature,
    best_threshold,
    calibrate_predictions,
    expected_calibration_error,
    fit_temperature,
    negative_log_likelihood,
    reliability,
)
from keras_sentmatch.metrics.decisions import (
    Goal,
    coverage_curve,
    for_costs,
    for_precision,
    for_recall,
    lower_bound,
    sure_answers,
)
from keras_sentmatch.metrics.scores import accuracy, f1

pytestmark = pytest.mark.once


def drawn(rows=4000, classes=3, sharpness=1.0, seed=0):
    """Labels drawn from probabilities, and the logits of those times `sharpness`."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(rows, classes))
    labels = (rng.random(rows)[:, None] > softmax(logits, -1).cumsum(-1)).sum(-1)
    return np.minimum(labels, classes - 1), logits * sharpness


def test_ece_is_the_mean_gap_of_the_bins():
    labels, logits = drawn(500, sharpness=2.0)
    p = softmax(logits, -1)
    total = 0.0
    for low in np.arange(7) / 7:
        inside = [r for r in range(500) if low < p[r].max() <= low + 1 / 7 + 1e-12]
        gap = sum(p[r].max() - (p[r].argmax() == labels[r]) for r in inside)
        total += abs(gap) / 500
    assert expected_calibration_error(labels, p, bins=7) == pytest.approx(total)
    table = reliability(labels, p, bins=7)
    assert table["count"].sum() == 500
    assert table["count"][0] == 0 and np.isnan(table["accuracy"][0])  # of three, one is above 1/3


def test_bins_hold_their_upper_end():
    p = [[0.5, 0.5], [0.75, 0.25], [1.0, 0.0]]
    assert reliability([0, 0, 0], p, bins=4)["count"].tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("sharpness", [0.3, 1.0, 3.0])
def test_the_temperature_undoes_what_was_done_to_the_logits(sharpness):
    labels, logits = drawn(20000, sharpness=sharpness)
    p = softmax(logits, -1)
    found = fit_temperature(labels, p)
    assert found == pytest.approx(sharpness, rel=0.05)

    def loss(temperature):
        return -np.log(softmax(logits / temperature, -1)[np.arange(len(labels)), labels]).mean()

    best = minimize_scalar(loss, bounds=(0.05, 20), method="bounded", options={"xatol": 1e-9})
    assert found == pytest.approx(best.x, rel=1e-5)
    assert negative_log_likelihood(labels, apply_temperature(p, found)) == pytest.approx(best.fun)


def test_a_temperature_is_a_division_of_the_logits():
    _, logits = drawn(50)
    p = softmax(logits, -1).astype("float32")
    scaled = apply_temperature(p, 2.5)
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled, softmax(logits / 2.5, -1), atol=1e-6)
    assert (scaled.argsort() == p.argsort()).all()
    assert apply_temperature(p, 1.0) is p


def test_certain_answers_survive():
    certain = np.array([[1, 0], [1, 0], [0, 1]], "float32")
    temperature = fit_temperature([0, 1, 1], certain)
    scaled = apply_temperature(certain, temperature)
    assert np.isfinite(scaled).all() and np.allclose(scaled.sum(-1), 1)
    assert temperature == 20 and 0 < scaled[2, 0] < scaled[2, 1]
    assert np.isfinite(negative_log_likelihood([0, 1, 1], certain))
    assert fit_temperature([0, 0, 1], certain) == 0.05, "all right: as cold as can be"
    assert fit_temperature([1, 0], [[0.5, 0.5]] * 2) == 1, "no temperature changes it"


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
@pytest.mark.parametrize("seed", range(5))
def test_the_threshold_is_the_best_of_all(metric, seed):
    rng = np.random.default_rng(seed)
    p = rng.random(40).round(1 + seed % 2)
    labels = (rng.random(40) < p**2).astype(int)
    score = {"accuracy": accuracy, "f1": f1}[metric]
    found = best_threshold(labels, p, metric)
    scores = [score(labels, (p > t).astype(int)) for t in np.linspace(0.001, 0.999, 999)]
    assert score(labels, (p > found).astype(int)) == pytest.approx(max(scores))


def test_equal_thresholds_keep_to_the_middle():
    assert best_threshold([0, 1], [0.2, 0.9]) == 0.5
    assert best_threshold([0, 0], [0.2, 0.6]) == 0.8
    assert best_threshold([1, 1], [0.0, 1.0]) == 0.5, "nothing is above 1 and below 0"
    assert 0 < best_threshold([1, 1], [1e-40, 0.6]) < 1e-40


def test_a_report_says_what_changed():
    labels, logits = drawn(2000, classes=2, sharpness=4.0)
    p = softmax(logits + [0.0, 2.0], -1).astype("float32")
    report = calibrate_predictions(labels, p, threshold="accuracy")
    before, after = report["before"], report["after"]
    assert after["nll"] < before["nll"] and after["accuracy"] > before["accuracy"]
    assert sum(after["reliability"]["count"]) == report["rows"] == 2000
    assert None in before["reliability"]["accuracy"], "below 1/2 nothing is answered"
    scaled = apply_temperature(p, report["temperature"])
    answered = (scaled[:, 1] > report["threshold"]).astype(int)
    assert after["accuracy"] == accuracy(labels, answered)
    assert before["accuracy"] == accuracy(labels, p.argmax(-1))
    bare = calibrate_predictions(labels, p, temperature=False)
    assert (bare["temperature"], bare["threshold"], bare["after"]) == (1.0, None, bare["before"])
    assert {"f1"} < set(calibrate_predictions(labels, p, threshold="f1")["before"])


# --- thresholds for precision, recall and costs ---

NAMES = ("no", "yes")


def calibrated(rows, seed):
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
    y, p = calibrated(2000, 0)
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
        y, p = calibrated(600, seed)
        cut = for_precision(y, p[:, 1], 0.9)["threshold"]
        kept.append(
            p[:, 1][p[:, 1] >= cut].mean() >= 0.9
        )  # the true precision: they are calibrated
    assert np.mean(kept) >= 0.9


def test_recall_takes_the_highest_threshold_that_is_sure():
    y, p = calibrated(2000, 1)
    found = for_recall(y, p[:, 1], 0.9)
    above = p[:, 1] >= found["threshold"]
    assert found["recall"] == y[above].sum() / y.sum() > 0.9
    assert lower_bound(found["right"] - 1, int(y.sum())) < 0.9 <= found["lower_bound"]


def test_goals_become_thresholds():
    y, p = calibrated(2000, 2)
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
    y, p = calibrated(20_000, 3)
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
    y, p = calibrated(1000, 4)
    curve = coverage_curve(y, p)
    assert len(curve["coverage"]) == 200 and curve["coverage"][-1] == 1
    assert curve["accuracy"][-1] == pytest.approx((p.argmax(-1) == y).mean())
    assert curve["accuracy"][20] > curve["accuracy"][-1]
