"""PhraseCNN."""

from functools import partial

import numpy as np

from keras_sentmatch.layers import PhraseCNN
from tests import oracles_encoders
from tests.harness import (
    Case,
    arguments_act,
    built,
    lengths_mask,
    noise,
    run_checks,
    value,
)

INPUTS = {"x": noise(3, 6, 4), "mask": lengths_mask([6, 2, 1], 6)}
SMALL = partial(PhraseCNN, hidden_filters=3)


def oracle(layer, x, mask):
    pairs = zip(layer.hidden_convolutions, layer.output_convolutions)
    units = [[value(w) for convolution in pair for w in convolution.weights] for pair in pairs]
    return oracles_encoders.phrase_cnn(x, mask, units, "relu")


def count(*widths):
    return sum(width * 4 * 3 + 3 + width * 3 * 4 + 4 for width in widths)


CASES = [
    Case(SMALL, INPUTS, (count(2, 3), 0), oracle),
    Case(
        partial(SMALL, widths=(1, 4, 2)), INPUTS, (count(1, 4, 2), 0), oracle, name="three widths"
    ),
]

test_checks = run_checks(CASES)


test_arguments = arguments_act(CASES, widths=(3, 2))


def test_windows():
    """A token is seen by the windows it stands in: those of width 2 reach to the right, of width 3 both ways."""
    layer = built(CASES[0])
    for weight in layer.weights:
        weight.assign(abs(value(weight)))  # so that no ReLU hides a token
    x, mask = abs(INPUTS["x"][:1]), np.ones((1, 6), bool)
    other = x.copy()
    other[:, 3] += 1
    moved = abs(value(layer(x, mask)) - value(layer(other, mask)))[0].max(-1) > 1e-6
    np.testing.assert_array_equal(
        moved, [[False, True, True, True, False, False], [False, True, True, True, True, True]]
    )
