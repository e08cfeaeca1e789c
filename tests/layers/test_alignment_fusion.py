"""AlignmentFusion."""

from functools import partial

import numpy as np

from keras_sentmatch.layers import AlignmentFusion
from tests import oracles_hosts
from tests.case import randomize
from tests.harness import Case, arguments_act, lengths_mask, noise, refuses, run_checks, value
from tests.layers.test_convolutional_encoder import kernel_and_bias
from tests.oracles_blocks import zero_pads

INPUTS = {
    "x": noise(3, 5, 4),
    "attended": noise(3, 5, 4, seed=1),
    "mask": lengths_mask([5, 2, 1], 5),
}


def oracle(layer, x, attended, mask):
    layers = [*layer.views, *([layer.output_dense] if layer.output_dense else [])]
    fused = oracles_hosts.re2_fusion(x, attended, [kernel_and_bias(each) for each in layers])
    return zero_pads(fused, mask)


SMALL = partial(AlignmentFusion, units=3)
CASES = [
    Case(SMALL, INPUTS, (3 * 30 + 33, 0), oracle),
    Case(partial(SMALL, mode="simple"), INPUTS, (30, 0), oracle, name="simple"),
]

test_checks = run_checks(CASES)


test_arguments = arguments_act(CASES, mode="simple")

test_errors = refuses(SMALL, [({"mode": "half"}, "mode must be one of .* Received: mode='half'")])


def test_nothing_to_compare_with():
    """Where nothing was attended to (zeros), the three views see [x; 0], [x; x] and [x; 0]."""
    layer = SMALL()
    x, mask = INPUTS["x"], INPUTS["mask"]
    zeros = np.zeros_like(x)
    layer(x, zeros, mask)
    y = randomize(layer)(x, zeros, mask)
    views = [kernel_and_bias(view) for view in layer.views]
    made = [
        oracles_hosts.gelu(np.concatenate([x, z], -1) @ w + b)
        for z, (w, b) in zip((zeros, x, zeros), views)
    ]
    w, b = kernel_and_bias(layer.output_dense)
    want = zero_pads(oracles_hosts.gelu(np.concatenate(made, -1) @ w + b), mask)
    np.testing.assert_allclose(value(y), want, atol=1e-5)
