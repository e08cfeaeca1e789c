"""MatchingVector."""

from functools import partial

from keras_sentmatch.layers import MatchingVector
from tests import oracles
from tests.harness import Case, arguments_act, noise, run_checks

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


test_arguments = arguments_act(CASES, parts=("first",))
