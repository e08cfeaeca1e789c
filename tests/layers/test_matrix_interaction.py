"""MatrixInteraction."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.layers import MatrixInteraction
from tests import oracles_recurrent
from tests.harness import (
    Case,
    arguments_act,
    built,
    check_build,
    check_gradients,
    check_oracle,
    lengths_mask,
    noise,
    run_checks,
    value,
)

INPUTS = {
    "x1": noise(3, 5, 4),
    "x2": noise(3, 3, 4, seed=1),
    "mask_1": lengths_mask([5, 2, 1], 5),
    "mask_2": lengths_mask([3, 3, 2], 3),
}


def matrices(x):
    return x.reshape(*x.shape[:2], 2, 2)


def oracle(layer, x1, x2, mask_1, mask_2):
    words = matrices(x1), matrices(x2), mask_1, mask_2
    weights = value(layer.kernel), value(layer.bias), layer.transpose_premise
    every = oracles_recurrent.matrix_interaction(*words, *weights)
    norms = np.sqrt(np.square(every).sum((-2, -1)))
    real = mask_2[:, :, None] & mask_1[:, None, :]
    return every[:, :, -1].reshape(x2.shape), np.where(real, norms, 0)


NORMS = {"return_norms": True}
CASES = [Case(MatrixInteraction, INPUTS, (8, 0), oracle, options=NORMS)]
REST = [
    Case(
        partial(MatrixInteraction, transpose_premise=True),
        INPUTS,
        (8, 0),
        oracle,
        "transposed",
        NORMS,
    )
]

test_checks = run_checks(CASES)

test_variants = run_checks(REST, check_build, check_oracle, check_gradients)

test_arguments = arguments_act(CASES)


@pytest.mark.once
@pytest.mark.parametrize("transpose_premise", [True, False])
def test_which_product_tells_a_word_from_others(transpose_premise):
    """The trace after the first word: of the transpose, greatest for the word that is the same."""
    words = np.tanh(noise(1, 40, 144))
    layer = MatrixInteraction(transpose_premise=transpose_premise)
    mask = lengths_mask([40], 40)
    found = [
        value(layer(words[:, s : s + 1], words, mask[:, :1], mask))[0].reshape(40, 12, 12)
        for s in range(40)
    ]
    traces = np.trace(np.array(found), axis1=2, axis2=3)  # [word of sentence 1, word of sentence 2]
    hits = (traces.argmax(1) == np.arange(40)).mean()
    assert hits == 1 if transpose_premise else hits < 0.5


def test_the_norms_change_nothing():
    layer = built(CASES[0])
    assert (value(layer(**INPUTS)) == value(CASES[0].call(layer, INPUTS)[0])).all()


def test_the_order_of_sentence_1_matters_and_that_of_sentence_2_does_not():
    layer = built(CASES[0])
    full = {**INPUTS, "mask_1": lengths_mask([5] * 3, 5), "mask_2": lengths_mask([3] * 3, 3)}
    y = value(layer(**full))
    assert abs(value(layer(**{**full, "x2": INPUTS["x2"][:, ::-1]}))[:, ::-1] - y).max() < 1e-6
    assert abs(value(layer(**{**full, "x1": INPUTS["x1"][:, ::-1]})) - y).max() > 1e-3


def test_widths():
    for x1, x2 in ((noise(1, 2, 5), noise(1, 2, 5)), (noise(1, 2, 4), noise(1, 2, 9))):
        with pytest.raises(ValueError, match=r"a perfect square.* Received: x1.shape=\(1, 2"):
            MatrixInteraction()(x1, x2, lengths_mask([2], 2), lengths_mask([2], 2))
