"""MaskedMaxPooling, and where its maxima come from."""

import numpy as np

from keras_sentmatch.layers import MaskedMaxPooling
from keras_sentmatch.ops import max_pool_rates
from tests import oracles
from tests.harness import Case, lengths_mask, noise, run_checks, value

INPUTS = {"x": noise(3, 5, 4) - 3, "mask": lengths_mask([5, 2, 1], 5)}
CASES = [
    Case(MaskedMaxPooling, INPUTS, (0, 0), lambda layer, x, mask: oracles.masked_max(x, mask)[0])
]

test_checks = run_checks(CASES)


def test_rates_are_shares_of_the_maxima():
    rates = value(max_pool_rates(**INPUTS))
    np.testing.assert_allclose(rates, oracles.max_pool_rates(**INPUTS), atol=1e-6)
    np.testing.assert_allclose(rates.sum(axis=1), 1, atol=1e-6)
