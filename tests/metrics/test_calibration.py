import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics import (
    accuracy,
    apply_temperature,
    best_threshold,
    calibrate_predictions,
    expected_calibration_error,
    f1,
    fit_temperature,
    negative_log_likelihood,
    reliability,
)

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


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: fit_temperature([0, 1], [[2.0, -1.0]] * 2), "softmax of logits first"),
        (lambda: fit_temperature([0, 1], [[3.0, 5.0]] * 2), "sum to 8 to 8"),
        (lambda: fit_temperature([0, 2], [[0.5, 0.5]] * 2), "run from 0 to 2; expected 0 to 1"),
        (lambda: fit_temperature([0], [[0.5, 0.5]] * 2), "unequal length"),
        (lambda: fit_temperature([0.5, 1], [[0.5, 0.5]] * 2), "integer label"),
        (lambda: fit_temperature([0, 1], [[0.5, np.nan]] * 2), "NaN"),
        (lambda: fit_temperature([0, 1], [0.5, 0.5]), "at least two classes"),
        (lambda: reliability([0], [[0.5, 0.5]], bins=0), "bins=0"),
        (lambda: apply_temperature([[0.5, 0.5]], 0), "temperature=0"),
        (lambda: apply_temperature([[0.5, 0.5]], 1e-320), "temperature=1e-320"),
        (lambda: apply_temperature([[0.5, 0.5]], 10**400), "temperature=1000.*0.001 to 1000"),
        (lambda: apply_temperature([[0.5, 0.5]], float("nan")), "temperature=nan"),
        (lambda: best_threshold([0, 2], [0.5, 0.5]), "labels 0 and 1"),
        (lambda: best_threshold([0, 1], [0.5, 1.5]), "probabilities from 0.5 to 1.5"),
        (lambda: best_threshold([0, 1], [0.5, 0.5], "auc"), "one of accuracy, f1"),
        (lambda: calibrate_predictions([0], [[0.2, 0.3, 0.5]], threshold="f1"), "with 3 classes"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError, match=message):
        call()
