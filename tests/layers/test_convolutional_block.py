"""ConvolutionalBlock."""

from functools import partial

from keras_sentmatch.layers.re2 import ConvolutionalBlock
from tests import oracles_blocks, oracles_hosts
from tests.harness import Case, arguments_act, lengths_mask, noise, run_checks, value

INPUTS = {"x": noise(3, 5, 4), "mask": lengths_mask([5, 2, 1], 5)}


def kernel_and_bias(layer):
    kernel = oracles_hosts.weight_norm(value(layer.kernel), value(layer.scale))
    return kernel, value(layer.bias)


def oracle(layer, x, mask):
    for convolution in layer.convolutions:
        y = oracles_blocks.conv1d_same(x, mask, *kernel_and_bias(convolution))
        x = oracles_blocks.zero_pads(oracles_hosts.gelu(y), mask)
    return x


SMALL = partial(ConvolutionalBlock, units=3)
CASES = [Case(SMALL, INPUTS, (42 + 33, 0), oracle)]

test_checks = run_checks(CASES)


test_arguments = arguments_act(CASES)
