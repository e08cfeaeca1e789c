"""Metrics and decisions against scikit-learn, SciPy and brute force: ties, one class, shuffled rows."""

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from scipy.stats import binomtest, spearmanr
from sklearn.metrics import accuracy_score, f1_score, log_loss

from keras_sentmatch.data import PairDataset, read_pairs
from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics import (
    apply_temperature,
    evaluate_predictions,
    fit_temperature,
    mean_average_precision,
    mean_reciprocal_rank,
    paired_bootstrap,
    wilson_interval,
)
from keras_sentmatch.metrics.calibration import decide, expected_calibration_error, reliability
from keras_sentmatch.metrics.decisions import (
    Goal,
    best_threshold,
    calibrate_predictions,
    find_cut,
    sure_answers,
)
from keras_sentmatch.metrics.ranking import ranking_counts
from keras_sentmatch.metrics.scores import pearson, positive_class, spearman

SEEDS = st.integers(0, 10**6)
often = settings(max_examples=60, deadline=None)
RANKINGS = (mean_average_precision, mean_reciprocal_rank)
NAMES = ("no", "yes")


def drawn(seed, most_rows=30, classes=2):
    """Labels (of one class in one case of four), and probabilities of which many are equal."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, most_rows + 1))
    labels = rng.integers(0, classes if seed % 4 else 1, rows)
    logits = rng.normal(size=(rows, classes)).round(seed % 3)
    return labels, softmax(logits * rng.choice([0.5, 2, 60]), -1).astype("float32")


def pairs(labels, **more):
    return PairDataset(["a"] * len(labels), ["b"] * len(labels), labels, **more)


@often
@given(SEEDS, st.integers(2, 5))
def test_classification_equals_scikit_learn(seed, classes):
    labels, p = drawn(seed, classes=classes)
    names = [f"l{i}" for i in range(classes)]
    found = evaluate_predictions(pairs(labels, label_names=names), p, f1_of="l1")
    predicted = p.argmax(-1)
    assert found["accuracy"] == pytest.approx(accuracy_score(labels, predicted))
    macro = f1_score(labels, predicted, average="macro", zero_division=0)
    assert found["macro_f1"] == pytest.approx(macro)
    assert found["f1:l1"] == pytest.approx(f1_score(labels == 1, predicted == 1, zero_division=0))
    chosen = np.maximum(p[np.arange(len(p)), labels], 1.2e-38)
    assert found["nll"] == pytest.approx(-np.log(chosen, dtype=float).mean(), rel=1e-3)
    gap = 0.0
    for low in np.arange(15) / 15:
        inside = [r for r in range(len(p)) if low < p[r].max() <= low + 1 / 15 + 1e-12]
        gap += abs(sum(float(p[r].max()) - (predicted[r] == labels[r]) for r in inside))
    assert found["ece"] == pytest.approx(gap / len(p), abs=1e-6)
    order = np.random.default_rng(seed).permutation(len(p))
    again = evaluate_predictions(pairs(labels[order], label_names=names), p[order], f1_of="l1")
    assert {k: again[k] for k in found} == pytest.approx(found)


@pytest.mark.parametrize(
    "names, labels, expected",
    [
        (("match", "other"), [1, 1, 0], 0),  # the one with a telling name, not the second
        (("no", "yes"), [1, 1, 0], 1),
        (("True", "False"), [0, 0, 1], 0),
        (("not_duplicate", "duplicate"), [1, 1, 0], 1),
        (("common", "rare"), [0, 0, 1], 1),
        (("a", "b"), [0, 1, 1], 0),  # the rarer one
        (("a", "b"), [0, 1], 1),
        (("a", "b"), None, 1),
    ],
)
def test_f1_is_that_of_the_label_of_interest_and_names_it(names, labels, expected):
    assert positive_class(names, labels) == expected
    if labels is not None:
        p = np.eye(2)[[1] * len(labels)]
        found = evaluate_predictions(pairs(labels, label_names=names), p)
        truth = f1_score(np.equal(labels, expected), [expected == 1] * len(labels))
        (row,) = [name for name in found if name.startswith("f1")]
        assert row == f"f1:{names[expected]}" and found[row] == pytest.approx(truth)


def test_the_label_of_interest_is_the_second_of_two(tmp_path):
    """So rankings, thresholds and losses are of it too."""
    labels = ["match", "other", "other"]
    assert pairs(labels).label_names == ("other", "match")
    assert pairs(labels, label_names=["match", "other"]).label_names == ("match", "other")
    (tmp_path / "x.tsv").write_text("sentence1\tsentence2\tlabel\na\tb\tmatch\nc\td\tother\n")
    assert read_pairs(tmp_path / "x.tsv").label_names == ("other", "match")


def test_bins_include_their_upper_end_and_may_be_empty():
    table = reliability([0, 0, 0], [[0.5, 0.5], [0.8, 0.2], [1.0, 0.0]])
    assert np.flatnonzero(table["count"]).tolist() == [7, 11, 14]  # 0.8 is 12/15
    assert np.isnan(table["accuracy"][0])
    assert expected_calibration_error([0], [[0.75, 0.25]]) == pytest.approx(0.25)


@often
@given(SEEDS, st.sampled_from([1.0, 1e-200, 1e200]))
def test_regression_equals_scipy(seed, scale):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=30).round(seed % 2)
    scores = y + rng.normal(size=30).round(1)
    found = evaluate_predictions(pairs(y), scores[:, None])
    assert found["mse"] == pytest.approx(np.mean((y - scores) ** 2))
    assert pearson(y, scores * scale) == pytest.approx(np.corrcoef(y, scores)[0, 1])
    assert spearman(y, scores * scale) == pytest.approx(spearmanr(y, scores * scale).statistic)
    for metric in (pearson, spearman):
        with warnings.catch_warnings(action="error"):
            assert metric(y, np.full(30, 0.1)) == metric(np.full(30, 0.1), y) == 0.0
            assert -1 <= metric([1.0, 2.0, 3.0], [1.0, 1.0, 1.0 + 1e-15]) <= 1


# --- ranking ---


def brute_force(relevant, scores):
    """Return the mean AP and RR of every order that agrees with the scores."""
    values = []
    for order in itertools.permutations(range(len(scores))):
        if any(scores[a] < scores[b] for a, b in zip(order, order[1:])):
            continue
        ranks = [rank for rank, row in enumerate(order, 1) if relevant[row]]
        precision = [found / rank for found, rank in enumerate(ranks, 1)]
        values.append((np.mean(precision), 1 / ranks[0]))
    return np.mean(values, axis=0)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_rankings_with_ties_are_the_mean_of_all_orders(seed):
    rng = np.random.default_rng(seed)
    groups = np.array(list("aaaabbbbbbccd"))
    relevant = rng.integers(0, 2, 13) * (groups != "d")  # d has no right answer
    relevant[[0, 4]] = 1
    scores = rng.integers(0, 3, 13).astype(float)
    places = [groups == g for g in sorted(set(groups[relevant > 0]))]
    expected = np.mean([brute_force(relevant[at], scores[at]) for at in places], axis=0)
    order = rng.permutation(13)  # rows of a question need not be adjacent
    for metric, value in zip(RANKINGS, expected):
        assert metric(relevant[order], scores[order], groups[order]) == pytest.approx(value)
    counts = ranking_counts(relevant[order], groups[order])
    totals = [relevant[groups == g].mean() for g in "abcd"]
    assert counts == {
        "questions": 4,
        "without_positive": totals.count(0),
        "without_negative": totals.count(1),
    }


@often
@given(SEEDS, st.sampled_from([0.001, 0.05, 0.3, 1.0, 20.0]))
def test_a_temperature_changes_no_order(seed, temperature):
    """Not of probabilities that float32, or even float64, rounds to 1."""
    rng = np.random.default_rng(seed)
    labels, groups = rng.integers(0, 2, 12), list("aaaaaabbbbbb")
    labels[[0, 6]] = 1
    logits = rng.choice([1, 6, 12]) * rng.normal(size=12).round(2)
    p = softmax(np.stack([0 * logits, logits], 1), -1).astype("float32")
    data = pairs(labels, label_names=NAMES, groups=groups)
    found = evaluate_predictions(data, p, temperature=temperature)
    expected = [metric(labels, logits, groups) for metric in RANKINGS]
    assert [found["map"], found["mrr"]] == pytest.approx(expected)
    if temperature >= 0.05:
        told = evaluate_predictions(data, apply_temperature(p, temperature))
        assert [told["map"], told["mrr"]] == pytest.approx(expected)
    scores = evaluate_predictions(data, logits, temperature=temperature)
    assert "accuracy" not in scores and scores["map"] == pytest.approx(expected[0])
    assert (apply_temperature(p, temperature).argmax(-1) == p.argmax(-1)).all()


# --- calibration ---


def calibrated(rows, seed):
    """Return calibrated probabilities of two classes, and labels drawn by them."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.6, 0.6, rows)
    return (rng.random(rows) < p).astype(int), np.stack([1 - p, p], 1)


@pytest.mark.parametrize("sharpness", [0.3, 1.0, 3.0])
def test_the_temperature_undoes_what_was_done_to_the_logits(sharpness):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(20_000, 3))
    labels = (rng.random(20_000)[:, None] > softmax(logits, -1).cumsum(-1)).sum(-1).clip(0, 2)
    found = fit_temperature(labels, softmax(logits * sharpness, -1))
    assert found == pytest.approx(sharpness, rel=0.05)

    def loss(temperature):
        return log_loss(labels, softmax(logits * sharpness / temperature, -1))

    best = minimize_scalar(loss, bounds=(0.05, 20), method="bounded", options={"xatol": 1e-9})
    assert found == pytest.approx(best.x, rel=1e-5)
    scaled = apply_temperature(softmax(logits * sharpness, -1).astype("float32"), 2.5)
    np.testing.assert_allclose(scaled, softmax(logits * sharpness / 2.5, -1), atol=1e-6)


def test_what_no_temperature_calibrates_is_said(caplog):
    certain = np.array([[1, 0], [1, 0], [0, 1]], "float32")
    assert fit_temperature([0, 1, 1], certain) == 20 and "worse than chance" in caplog.text
    scaled = apply_temperature(certain, 20)
    assert np.isfinite(scaled).all() and 0 < scaled[2, 0] < scaled[2, 1]
    assert fit_temperature([0, 0, 1], certain) == 0.05 and "all right" in caplog.text
    assert fit_temperature([1, 0], [[0.5, 0.5]] * 2) == 1, "no temperature changes it"
    p = np.array([[0.4, 0.6], [0.45, 0.55], [0.42, 0.58], [0.5, 0.5]])
    calibrate_predictions([0, 0, 0, 1], p, NAMES, Goal("accuracy"), temperature=False)
    assert "no is predicted for all 4 pairs" in caplog.text


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.sampled_from(["accuracy", "f1"]), st.integers(0, 1))
def test_the_threshold_is_the_best_of_all(seed, metric, positive):
    labels, p = drawn(seed)
    found = best_threshold(labels, p[:, 1], metric, positive)

    def score(threshold):
        predicted = p[:, 1].astype(float) > threshold
        if metric == "accuracy":
            return accuracy_score(labels, predicted)
        return f1_score(labels == positive, predicted == positive, zero_division=0)

    ends = np.unique(np.concatenate([[0.0], p[:, 1], [1.0]]).astype(float))
    middles = [t for t in (ends[1:] + ends[:-1]) / 2 if 0 < t < 1] + [0.5]
    scores = [score(t) for t in middles]
    assert score(found) == pytest.approx(max(scores))
    near = min(abs(t - 0.5) for t, s in zip(middles, scores) if s > max(scores) - 1e-12)
    assert abs(found - 0.5) == pytest.approx(near)


@often
@given(SEEDS, st.sampled_from(["precision", "recall"]), st.floats(0.2, 0.9))
def test_a_cut_is_the_outermost_that_is_sure(seed, goal, wanted):
    labels, p = drawn(seed, most_rows=60)
    scores = p[:, 1].astype(float)
    sure = {}
    for low in np.unique(scores[scores > 0]):
        above = scores >= low
        right = int(labels[above].sum())
        total = int(labels.sum()) if goal == "recall" else int(above.sum())
        test = binomtest(right, max(total, 1), alternative="greater")
        if total and test.proportion_ci(0.95).low >= wanted:
            sure[low] = above
    if not sure:
        with pytest.raises(InputError, match="cannot be reached"):
            find_cut(labels, scores, wanted, goal=goal)
        return
    found = find_cut(labels, scores, wanted, goal=goal)
    above = sure[max(sure) if goal == "recall" else min(sure)]
    assert ((scores > found["threshold"]) == above).all() and 0 < found["threshold"] < 1
    assert ((scores >= found["threshold"]) == above).all()
    assert (found["answers"], found["right"]) == (above.sum(), labels[above].sum())


@often
@given(SEEDS, st.sampled_from([0.05, 1.0]))
def test_what_a_goal_promises_is_what_is_predicted(seed, temperature):
    y, p = calibrated(400, seed)
    p = apply_temperature(p.astype("float32"), temperature)  # at 0.05 most round to 0 or 1
    for label in ("yes", "no", None):
        for goal in (Goal(precision=0.8, label=label), Goal(recall=0.8, label=label)):
            if goal.recall is None and label is None:
                continue
            try:
                found = goal.fit(y, p, NAMES)
            except InputError:
                continue
            (name, row), *_ = found["labels"].items()
            column = NAMES.index(name)
            given = decide(p, found["threshold"]) == column
            assert (given.sum(), (y[given] == column).sum()) == (row["answers"], row["right"])
            assert name == (label or "yes") and 0 < found["threshold"] < 1
    try:
        found = Goal(precision=0.7).fit(y, p, NAMES)
    except InputError:
        return
    sure = sure_answers(p, None, found["abstain_below"])
    for column, name in enumerate(NAMES):
        mine = sure & (p.argmax(-1) == column)
        row = found["labels"][name]
        assert (mine.sum(), (y[mine] == column).sum()) == (row["answers"], row["right"])


def test_precision_holds_on_other_pairs():
    """The bound is that of one threshold, but the threshold was chosen among many."""
    kept = []
    for seed in range(60):
        y, p = calibrated(600, seed)
        cut = find_cut(y, p[:, 1], 0.9)["threshold"]
        kept.append(p[:, 1][p[:, 1] >= cut].mean() >= 0.9)  # the true precision
    assert np.mean(kept) >= 0.9


def test_a_goal_is_reached_in_every_fold():
    y, p = calibrated(3000, 0)
    parts = np.arange(3000) % 3
    for goal in (Goal(precision=0.8), Goal(precision=0.8, label="no"), Goal(recall=0.6)):
        found = goal.fit(y, p, NAMES, parts)
        for name, row in found["labels"].items():
            column = NAMES.index(name)
            given = decide(p, found["threshold"]) == column
            if found["abstain_below"]:
                given &= sure_answers(p, None, found["abstain_below"])
            of = y == column if goal.recall else given
            each = [
                binomtest(
                    int((given & (y == column) & (parts == n)).sum()),
                    int((of & (parts == n)).sum()),
                    alternative="greater",
                ).proportion_ci(0.95)
                for n in range(3)
            ]
            lowest = min(interval.low for interval in each)
            assert lowest >= (goal.recall or goal.precision)
            assert abs(lowest - row["lower_bound"]) < 1e-9
    # In one fold the model is never sure of "yes", as a model that was trained differently.
    p[parts == 2] = np.where(p[parts == 2][:, 1:] > 0.5, [[0.49, 0.51]], p[parts == 2])
    wrong = (parts == 2) & (p[:, 1] > 0.5)
    with pytest.raises(InputError, match="in the fold where it is lowest"):
        Goal(precision=0.95).fit(np.where(wrong, 0, y), p, NAMES, parts)


def test_a_calibration_reports_what_changed():
    y, p = calibrated(2000, 0)
    p = apply_temperature(p, 0.4).astype("float32")
    report = calibrate_predictions(y, p, NAMES, Goal("f1"))
    before, after = report["before"], report["after"]
    assert after["nll"] < before["nll"] and after["f1:yes"] >= before["f1:yes"]
    assert sum(after["reliability"]["count"]) == report["rows"] == 2000
    assert None in before["reliability"]["accuracy"], "below 1/2 nothing is answered"
    scaled = apply_temperature(p, report["temperature"])
    assert after["accuracy"] == accuracy_score(y, scaled[:, 1] > report["threshold"])
    assert report["coverage"] == 1 and report["answered_accuracy"] == after["accuracy"]
    bare = calibrate_predictions(y, p, NAMES, temperature=False)
    assert (bare["temperature"], bare["threshold"], bare["after"]) == (1.0, None, bare["before"])


# --- intervals ---


def test_labels_and_questions_of_tables_keep_their_values():
    """Text labels are numbers, not all right answers; the questions 1 and "1" are two."""
    assert mean_average_precision(["1", "0"], [0.1, 0.9], ["a", "a"]) == 0.5
    assert ranking_counts(["1", "0"], [1, "1"])["questions"] == 2
    assert mean_average_precision([1, 0], [0.1, 0.9], np.array(["a", 1], object)) == 1


@pytest.mark.parametrize("hits, total, expected", [(9, 10, (0.596, 0.982)), (0, 0, (0, 1))])
def test_the_interval_of_wilson(hits, total, expected):
    assert wilson_interval(hits, total) == pytest.approx(expected, abs=1e-3)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60), SEEDS)
def test_the_bootstrap_is_of_the_difference(rows, seed):
    first, second = zip(*rows)
    found = paired_bootstrap(first, second, samples=400, seed=seed)
    assert found["difference"] == pytest.approx(np.mean(first) - np.mean(second))
    assert found["low"] - 1e-9 <= found["high"] and 0 < found["p"] <= 1
    assert found == paired_bootstrap(first[::-1], second[::-1], samples=400, seed=seed)
    mirror = paired_bootstrap(second, first, samples=400, seed=seed)
    assert mirror["difference"] == pytest.approx(-found["difference"])


def test_the_bootstrap_is_the_normal_interval_for_many_pairs_and_draws_seeds():
    rng = np.random.default_rng(0)
    first, second = rng.random(4000) < 0.80, rng.random(4000) < 0.77
    found = paired_bootstrap(first, second)
    error = 1.96 * np.std(first.astype(float) - second) / math.sqrt(4000)
    assert found["high"] - found["difference"] == pytest.approx(error, rel=0.05)
    assert found["p"] < 0.01 and paired_bootstrap(first, rng.random(4000) < 0.80)["p"] > 0.01
    wild = np.array([rng.random(4000) < share for share in (0.70, 0.78, 0.86)])
    narrow, wide = paired_bootstrap(first, wild[2]), paired_bootstrap([first] * 3, wild)
    assert wide["high"] - wide["low"] > 2 * (narrow["high"] - narrow["low"])
    assert wide["difference"] == pytest.approx(first.mean() - wild.mean())
