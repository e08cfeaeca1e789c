"""Highway."""

from functools import partial

import keras

from keras_sentmatch.layers import Highway
from tests import oracles
from tests.harness import Case, built, check_option, noise, run_checks, value


def oracle(layer, x):
    return oracles.highway(
        x,
        [
            (value(t.kernel), value(t.bias), value(g.kernel), value(g.bias))
            for t, g in zip(layer.transforms, layer.gates)
        ],
    )


# A highway knows no mask: what comes in at a pad goes through it.
CASES = [Case(Highway, {"x": noise(2, 5, 4)}, (80, 0), oracle, zero_pads=False)]

test_checks = run_checks(CASES)


def test_options():
    check_option(CASES[0], "num_layers", 1, 2)
    check_option(CASES[0], "activation", "relu", "tanh")
    assert len(built(CASES[0], kernel_regularizer=keras.regularizers.L2(0.1)).losses) == 4
    assert partial(Highway, num_layers=0)()(noise(1, 2, 3)).shape == (1, 2, 3)
