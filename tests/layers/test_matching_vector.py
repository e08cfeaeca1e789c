"""MatchingVector."""

from functools import partial

import pytest

from keras_sentmatch.layers import MatchingVector
from tests import oracles
from tests.harness import Case, check_option, noise, run_checks

INPUTS = {"p": noise(3, 4), "q": noise(3, 4, seed=1)}
CASES = [
    Case(MatchingVector, INPUTS, (0, 0), lambda layer, p, q: oracles.matching_vector(p, q)),
    Case(
        partial(MatchingVector, parts=("second", "product")),
        INPUTS,
        (0, 0),
        lambda layer, p, q: oracles.np.concatenate([q, p * q], -1),
        name="product",
    ),
]

test_checks = run_checks(CASES)


def test_options():
    check_option(CASES[0], "parts", ("first",), ("second",))
    with pytest.raises(ValueError, match="parts must be some of"):
        MatchingVector(("first", "third"))
