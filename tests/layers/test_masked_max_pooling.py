"""MaskedMaxPooling."""

import pytest

from keras_sentmatch.layers import MaskedMaxPooling
from tests import oracles
from tests.harness import Case, lengths_mask, noise, run_checks, value

INPUTS = {"x": noise(3, 5, 4) - 3, "mask": lengths_mask([5, 2, 1], 5)}


def with_positions(layer, x, mask):
    return *oracles.masked_max(x, mask), oracles.max_pool_rates(x, mask)


CASES = [
    Case(MaskedMaxPooling, INPUTS, (0, 0), lambda layer, x, mask: oracles.masked_max(x, mask)[0]),
    Case(
        MaskedMaxPooling,
        INPUTS,
        (0, 0),
        with_positions,
        options={"return_positions": True},
        name="positions",
        float32_outputs=(2,),
    ),
]

test_checks = run_checks(CASES)


def test_rates_sum_to_one():
    *_, rates = MaskedMaxPooling()(**INPUTS, return_positions=True)
    assert value(rates).sum(axis=1).tolist() == pytest.approx([1.0, 1.0, 1.0])
