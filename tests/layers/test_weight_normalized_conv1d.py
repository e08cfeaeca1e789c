"""WeightNormalizedConv1D."""

from functools import partial

import keras
import numpy as np

from keras_sentmatch.layers.re2 import WeightNormalizedConv1D
from tests import oracles_blocks, oracles_hosts
from tests.harness import Case, arguments_act, noise, run_checks, value

X = noise(2, 5, 4)


def oracle(layer, x):
    kernel = oracles_hosts.weight_norm(value(layer.kernel), value(layer.scale))
    return oracles_blocks.conv1d_same(x, np.ones(x.shape[:2], bool), kernel, value(layer.bias))


SMALL = partial(WeightNormalizedConv1D, filters=3, kernel_size=3)
CASES = [  # it knows no masks, so padding may change it
    Case(SMALL, {"x": X}, (42, 0), oracle, zero_pads=False, pad_axes={"x": ()})
]

test_checks = run_checks(CASES)


def test_starts_as_the_plain_layer():
    layer, plain = SMALL(), keras.layers.Conv1D(3, 3, padding="same")
    y = value(layer(X))
    plain.build(X.shape)
    plain.set_weights([value(layer.kernel), value(layer.bias)])
    assert abs(y - value(plain(X))).max() < 1e-6


test_arguments = arguments_act(CASES, "kernel_initializer")


def test_initializer():
    layer = SMALL(kernel_initializer="ones")
    layer.build(X.shape)
    assert (value(layer.kernel) == 1).all() and abs(value(layer.scale) - 12**0.5).max() < 1e-6
