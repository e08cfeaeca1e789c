"""FeatureAttention."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.layers import FeatureAttention
from tests import oracles_blocks
from tests.harness import (
    Case,
    arguments_act,
    lengths_mask,
    noise,
    run_checks,
    value,
)

INPUTS = {"x": noise(3, 5, 8), "mask": lengths_mask([5, 2, 1], 5)}


def oracle(layer, x, mask):
    weights = []
    for dense in (layer.squeeze, layer.excitation):
        weights += [value(dense.kernel), value(dense.bias)]
    return oracles_blocks.feature_attention(x, mask, *weights)


CASES = [
    Case(
        partial(FeatureAttention, reduction=2),
        INPUTS,
        (8 * 4 + 4 + 4 * 8 + 8, 0),
        oracle,
        options={"return_gates": True},
    ),
]

test_checks = run_checks(CASES)


@pytest.mark.parametrize("reduction, count", [(1, 360_000), (2, 180_000), (3.75, 96_000)])
def test_counts_of_the_paper(reduction, count):
    """What two branches 300 features wide add to Table 1: .36M (r = 1), .18M (r = 2)."""
    layer = FeatureAttention(reduction)
    layer.build((None, None, 300))
    assert 2 * sum(int(np.prod(w.shape)) for w in layer.weights if w.name == "kernel") == count


test_arguments = arguments_act(CASES)


def test_eq_9():
    narrow = FeatureAttention(reduction=10).too_narrow
    assert narrow(25, 35).startswith("D/r = 2.5 should exceed 8.33 ln(35) = 29.62")
    assert narrow(300, 35) == ""
