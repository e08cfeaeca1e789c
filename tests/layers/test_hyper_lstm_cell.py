"""HyperLSTMCell: one step by the harness, and whole sequences in `keras.layers.RNN` against the oracle."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_sentmatch.layers import HyperLSTMCell
from tests import oracles_blocks
from tests.harness import (
    Case,
    arguments_act,
    built,
    check_fit,
    check_gradients,
    check_oracle,
    check_save,
    lengths_mask,
    name_of,
    noise,
    run_checks,
    value,
)


def weights_of(cell):
    """The cell's weights as the oracle takes them."""
    weights = {
        "kernel": value(cell.kernel),
        "recurrent": value(cell.recurrent_kernel),
        "bias": value(cell.bias),
        "small": [value(w) for w in cell.hyper_cell.weights],
    }
    for role, w, d in zip("xhb", cell.embedding_kernels, cell.scale_kernels):
        by_gate = value(w).reshape(cell.hyper_units, 4, cell.embedding_units)
        weights[f"w_{role}"], weights[f"d_{role}"] = by_gate.transpose(1, 0, 2), value(d)
    for role, c in zip("xh", cell.embedding_biases):
        weights[f"c_{role}"] = value(c).reshape(4, cell.embedding_units)
    if cell.norms:
        weights["norm"] = [[value(w) for w in norm.weights] for norm in cell.norms]
    return weights


def states_of(layer, sequences):
    mask = np.ones(sequences.shape[:2], bool)
    return oracles_blocks.hyper_lstm(sequences, mask, weights_of(layer.cell))[0]


def recurrent(**config):
    return keras.layers.RNN(
        HyperLSTMCell(**{"units": 4, "hyper_units": 3, "embedding_units": 2, **config}),
        return_sequences=True,
    )


MAKE = partial(HyperLSTMCell, units=4, hyper_units=3, embedding_units=2)
MAIN = 16 * (5 + 4 + 1)
SMALL = 12 * (5 + 4 + 3 + 1)
MADE = 3 * 3 * 8 + 2 * 8 + 3 * 4 * 2 * 4
NORMS = 5 * 2 * 4
CASES = [
    Case(
        partial(MAKE, layer_norm=True),
        {"inputs": noise(3, 5)},
        (MAIN + SMALL + MADE + NORMS, 0),
        # The first step starts from zeros: nothing reaches what they are multiplied with.
        unused=("recurrent_kernel", "h_", "forget_norm"),
    )
]
SEQUENCES = [
    Case(lambda **config: recurrent(**config), {"sequences": noise(3, 6, 5)}, (0, 0), states_of),
    Case(
        lambda **config: recurrent(**{"layer_norm": True, **config}),
        {"sequences": noise(3, 6, 5)},
        (0, 0),
        states_of,
        "layer norm",
    ),
]

test_checks = run_checks(CASES)


@pytest.mark.parametrize(
    "check", [check_oracle, check_gradients, check_fit, check_save], ids=name_of
)
@pytest.mark.parametrize("case", SEQUENCES, ids=["plain", "layer norm"])
def test_in_a_recurrent_layer(case, check):
    check(case)


def test_right_padding_needs_no_mask():
    layer = built(SEQUENCES[0])
    x, mask = SEQUENCES[0].inputs["sequences"], lengths_mask([6, 2, 4], 6)
    want, _ = oracles_blocks.hyper_lstm(x, mask, weights_of(layer.cell))
    assert abs(value(layer(x)) * mask[..., None] - want).max() < 1e-5


@pytest.mark.each_backend
def test_it_starts_as_an_lstm_with_weights_a_tenth_as_large():
    cell, x = MAKE(), noise(3, 6, 5)
    states = value(keras.layers.RNN(cell, return_sequences=True)(x))
    lstm = keras.layers.LSTM(4, return_sequences=True)
    lstm.build(x.shape)
    bias = np.repeat([0.0, 1.0, 0.0, 0.0], 4)  # the cell adds the 1 itself
    lstm.set_weights([0.1 * value(cell.kernel), 0.1 * value(cell.recurrent_kernel), bias])
    assert abs(states - value(lstm(x))).max() < 1e-6


test_arguments = arguments_act(CASES)
