"""BidirectionalRNN: the harness, and values and gradients against Keras's own masked layer."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_sentmatch.layers import BidirectionalRNN
from keras_sentmatch.layers.bidirectional_rnn import CELLS
from tests import oracles
from tests.case import gradients
from tests.harness import (
    Case,
    arguments_act,
    built,
    close,
    lengths_mask,
    name_of,
    noise,
    run_checks,
    value,
    values,
)

INPUTS = {"x": noise(3, 5, 4), "mask": lengths_mask([5, 2, 3], 5)}


def oracle(layer, x, mask):
    forward, backward = (
        [value(w) for w in rnn.weights] for rnn in (layer.forward_rnn, layer.backward_rnn)
    )
    return oracles.bidirectional_rnn(layer.cell, x, mask, forward, backward)[0]


CASES = [
    Case(partial(BidirectionalRNN, units=3, cell=cell), INPUTS, (weights, 0), oracle, name=cell)
    for cell, weights in (
        ("lstm", 2 * 4 * 3 * (4 + 3 + 1)),
        ("gru", 2 * 3 * 3 * (4 + 3 + 2)),
        ("rnn", 2 * 3 * (4 + 3 + 1)),
    )
]

test_checks = run_checks(CASES)


@pytest.mark.each_backend
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_equals_keras_masked_bidirectional(case):
    """Forward values, gradients of the weights and of the input, with an empty row among them."""

    class Masked(keras.layers.Layer):
        supports_masking = True

        def __init__(self, cell):
            super().__init__()
            self.rnn = keras.layers.Bidirectional(
                CELLS[cell](3, return_sequences=True, zero_output_for_mask=True)
            )

        def call(self, x, mask):
            return self.rnn(x, mask=mask)

    ours, inputs = built(case), {"x": INPUTS["x"], "mask": lengths_mask([5, 2, 0], 5)}
    theirs = Masked(ours.cell)
    theirs(**inputs)
    for one, two in zip(theirs.weights, ours.weights):
        one.assign(two)
    reference = Case(lambda **k: theirs, inputs, (0, 0))
    # TensorFlow's masked layer gives the last state, not zeros, at an empty row: compare the real tokens.
    real = inputs["mask"][..., None]
    close(
        values(case.call(ours, inputs))[0] * real,
        values(reference.call(theirs, inputs))[0] * real,
        case.name,
    )
    full = {"x": INPUTS["x"], "mask": lengths_mask([5, 2, 3], 5)}
    (w1, x1), (w2, x2) = (
        gradients(c, layer, full) for c, layer in ((case, ours), (reference, theirs))
    )
    close([*w1, *x1], [*w2, *x2], f"gradients of {case.name}")


test_arguments = arguments_act(CASES, cell="gru")


def test_penalty():
    layer = built(CASES[0], kernel_regularizer=keras.regularizers.L2(0.1))
    kernels = [value(w) for w in layer.weights if "bias" not in w.path]
    assert len(layer.losses) == len(kernels) == 4
    assert np.isclose(sum(map(float, layer.losses)), oracles.l2_penalty(kernels, 0.1), rtol=1e-5)
