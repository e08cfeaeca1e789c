"""WeightNormalizedDense."""

from functools import partial

import keras
import numpy as np

from keras_sentmatch.layers.re2 import WeightNormalizedDense
from tests import oracles_hosts
from tests.harness import Case, arguments_act, noise, run_checks, value

X = noise(2, 5, 4)


def oracle(layer, x):
    kernel = oracles_hosts.weight_norm(value(layer.kernel), value(layer.scale))
    return np.tanh(x @ kernel + value(layer.bias))


SMALL = partial(WeightNormalizedDense, units=3, activation="tanh")
CASES = [Case(SMALL, {"x": X}, (18, 0), oracle, zero_pads=False)]

test_checks = run_checks(CASES)


def test_starts_as_the_plain_layer():
    layer, plain = SMALL(), keras.layers.Dense(3, "tanh")
    y = value(layer(X))
    plain.build(X.shape)
    plain.set_weights([value(layer.kernel), value(layer.bias)])
    assert abs(y - value(plain(X))).max() < 1e-6


test_arguments = arguments_act(CASES, "kernel_initializer", activation=None)


def test_initializer():
    layer = SMALL(kernel_initializer="ones")
    layer.build(X.shape)
    assert (value(layer.kernel) == 1).all() and abs(value(layer.scale) - 2).max() < 1e-6
