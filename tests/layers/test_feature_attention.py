"""FeatureAttention."""

import warnings
from functools import partial

import numpy as np
import pytest

from keras_sentmatch.layers import FeatureAttention
from tests import oracles_blocks
from tests.harness import (
    Case,
    arguments_act,
    built,
    lengths_mask,
    noise,
    refuses,
    run_checks,
    value,
)

INPUTS = {"x": noise(3, 5, 8), "mask": lengths_mask([5, 2, 1], 5)}


def oracle(layer, x, mask):
    weights = []
    for dense in (layer.squeeze, layer.excitation):
        weights += [value(dense.kernel), value(dense.bias) if layer.use_bias else None]
    norm = [value(w) for w in layer.normalization.weights] if layer.batch_norm else None
    return oracles_blocks.feature_attention(x, mask, *weights, norm=norm)


CASES = [
    Case(
        partial(FeatureAttention, reduction=2),
        INPUTS,
        (8 * 4 + 4 + 4 * 8 + 8, 0),
        oracle,
        options={"return_gates": True},
    ),
    Case(
        partial(FeatureAttention, use_bias=False, batch_norm=True),
        INPUTS,
        (2 * 64 + 2 * 8, 2 * 8),
        lambda layer, **inputs: oracle(layer, **inputs)[0],
        name="as released, but tanh",
    ),
]

test_checks = run_checks(CASES)


@pytest.mark.parametrize("reduction, count", [(1, 360_000), (2, 180_000), (3.75, 96_000)])
def test_counts_of_the_paper(reduction, count):
    """What two branches 300 features wide add to Table 1: .36M (r = 1), .18M (r = 2)."""
    layer = FeatureAttention(reduction, use_bias=False)
    layer.build((None, None, 300))
    assert 2 * layer.count_params() == count


def test_gates_are_between_0_and_1_and_the_same_at_every_token():
    layer = built(CASES[0])
    u, gates = (value(t) for t in layer(**INPUTS, return_gates=True))
    assert (gates > 0).all() and (gates < 1).all()
    np.testing.assert_allclose(
        u, gates[:, None] * INPUTS["x"] * INPUTS["mask"][..., None], atol=1e-6
    )


test_arguments = arguments_act(
    CASES, "max_length", raise_widths={"raise_widths": True, "max_length": 20}
)


def test_eq_9_is_a_warning():
    layer = FeatureAttention(reduction=10, max_length=35, name="fa")
    with pytest.warns(UserWarning, match=r"fa: D/r = 2[.]5 should exceed 8[.]33 ln.35. = 29[.]62"):
        layer.build((None, None, 25))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FeatureAttention(max_length=35).build((None, None, 30))
        FeatureAttention(reduction=10, max_length=35, raise_widths=True).build((None, None, 25))
    assert built(CASES[0], max_length=20, raise_widths=True).squeeze.units == 24  # as released


test_errors = refuses(
    FeatureAttention,
    [
        ({"reduction": 0}, "reduction must be above 0. Received: reduction=0"),
        ({"raise_widths": True}, "raise_widths=True needs max_length"),
        ({"max_length": 0}, "max_length must be at least 1"),
    ],
)
