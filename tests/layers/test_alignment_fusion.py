"""AlignmentFusion."""

from functools import partial

from keras_sentmatch.layers.re2 import AlignmentFusion
from tests import oracles_hosts
from tests.harness import Case, arguments_act, lengths_mask, noise, run_checks
from tests.layers.test_convolutional_block import kernel_and_bias
from tests.oracles_blocks import zero_pads

INPUTS = {
    "x": noise(3, 5, 4),
    "attended": noise(3, 5, 4, seed=1),
    "mask": lengths_mask([5, 2, 1], 5),
}


def oracle(layer, x, attended, mask):
    layers = layer.views + ([layer.output_dense] if layer.mode == "full" else [])
    fused = oracles_hosts.re2_fusion(x, attended, [kernel_and_bias(each) for each in layers])
    return zero_pads(fused, mask)


SMALL = partial(AlignmentFusion, units=3)
CASES = [
    Case(SMALL, INPUTS, (3 * 30 + 33, 0), oracle),
    Case(partial(SMALL, mode="simple"), INPUTS, (30, 0), oracle, name="simple"),
]

test_checks = run_checks(CASES)


test_arguments = arguments_act(CASES, mode="simple")
