"""ConvolutionalEncoder."""

from functools import partial

import numpy as np

from keras_sentmatch.layers import ConvolutionalEncoder
from tests import oracles_blocks, oracles_hosts
from tests.harness import Case, arguments_act, lengths_mask, noise, refuses, run_checks, value

INPUTS = {"x": noise(3, 5, 4), "mask": lengths_mask([5, 2, 1], 5)}


def kernel_and_bias(layer):
    kernel = value(layer.kernel)
    if hasattr(layer, "scale"):
        kernel = oracles_hosts.weight_norm(kernel, value(layer.scale))
    return kernel, value(layer.bias)


def oracle(layer, x, mask):
    for convolution in layer.convolutions:
        y = oracles_blocks.conv1d_same(x, mask, *kernel_and_bias(convolution))
        y = oracles_hosts.gelu(y) if layer.weight_normalization else np.maximum(y, 0)
        x = oracles_blocks.zero_pads(y, mask)
    return x


SMALL = partial(ConvolutionalEncoder, units=3)
CASES = [
    Case(SMALL, INPUTS, (42 + 33, 0), oracle),
    Case(
        partial(SMALL, num_layers=3, activation="relu", weight_normalization=False),
        INPUTS,
        (39 + 2 * 30, 0),
        oracle,
        name="plain ReLU",
    ),
]

test_checks = run_checks(CASES)


test_arguments = arguments_act(CASES)


test_errors = refuses(
    SMALL, [({"num_layers": 0}, "num_layers must be at least 1. Received: num_layers=0")]
)
