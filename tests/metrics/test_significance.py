import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_sentmatch.metrics import mcnemar, paired_bootstrap, wilson_interval

pytestmark = pytest.mark.once

RIGHT = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)


@settings(deadline=None)
@given(st.integers(0, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_solves_its_equation(counts):
    """An end p of the interval lies 1.96 standard errors of p from the share."""
    hits, total = counts
    low, high = wilson_interval(hits, total)
    if not total:
        assert (low, high) == (0, 1)
        return
    assert 0 <= low <= hits / total <= high <= 1
    for end, outermost in ((low, 0), (high, total)):
        if hits != outermost:
            error = math.sqrt(end * (1 - end) / total)
            assert abs(hits / total - end) == pytest.approx(1.959963985 * error, abs=1e-9)
        else:
            assert end == hits / total


@settings(deadline=None)
@given(RIGHT)
def test_mcnemar_is_the_exact_binomial_test(rows):
    first, second = zip(*rows)
    found = mcnemar(first, second)
    assert found["only1"] == sum(a and not b for a, b in rows)
    fewer, tosses = min(found["only1"], found["only2"]), found["only1"] + found["only2"]
    tail = sum(math.comb(tosses, k) for k in range(fewer + 1)) / 2**tosses
    assert found["p"] == pytest.approx(min(1.0, 2 * tail))
    assert mcnemar(second, first) == {
        "only1": found["only2"],
        "only2": found["only1"],
        "p": found["p"],
    }


def test_mcnemar_of_many_pairs():
    first = np.arange(20_000) < 9_000
    found = mcnemar(first, ~first)
    assert (found["only1"], found["only2"]) == (9_000, 11_000) and 0 < found["p"] < 1e-40


@settings(max_examples=25, deadline=None)
@given(RIGHT, st.integers(0, 5))
def test_the_bootstrap_is_of_the_difference(rows, seed):
    first, second = zip(*rows)
    found = paired_bootstrap(first, second, samples=400, seed=seed)
    assert found["difference"] == pytest.approx(np.mean(first) - np.mean(second))
    assert found["low"] - 1e-9 <= found["high"] and 0 < found["p"] <= 1
    assert found == paired_bootstrap(first, second, samples=400, seed=seed)
    mirror = paired_bootstrap(second, first, samples=400, seed=seed)
    assert mirror["difference"] == pytest.approx(-found["difference"])


def test_the_bootstrap_interval_is_the_normal_one_for_many_pairs():
    rng = np.random.default_rng(0)
    first, second = rng.random(4000) < 0.80, rng.random(4000) < 0.77
    found = paired_bootstrap(first, second)
    error = 1.96 * np.std(first.astype(float) - second) / math.sqrt(4000)
    assert found["high"] - found["difference"] == pytest.approx(error, rel=0.05)
    assert found["difference"] - found["low"] == pytest.approx(error, rel=0.05)
    assert found["p"] < 0.01
    assert paired_bootstrap(first, rng.random(4000) < 0.80)["p"] > 0.01


def test_seeds_are_drawn_too():
    """Runs that differ from seed to seed leave the difference open, though each of them is sure."""
    rng = np.random.default_rng(1)
    steady = rng.random((3, 2000)) < 0.8
    wild = np.array([rng.random(2000) < share for share in (0.70, 0.78, 0.86)])
    narrow = paired_bootstrap(steady[0], wild[2])
    wide = paired_bootstrap(steady, wild)
    assert wide["high"] - wide["low"] > 2 * (narrow["high"] - narrow["low"])
    assert wide["difference"] == pytest.approx(steady.mean() - wild.mean())
    assert paired_bootstrap(steady[:1], wild[:1]) == paired_bootstrap(steady[0], wild[0])
