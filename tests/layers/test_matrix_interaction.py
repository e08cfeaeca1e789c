"""MatrixInteraction."""

import numpy as np

from keras_sentmatch.layers.din import MatrixInteraction
from tests import oracles_recurrent
from tests.harness import (
    Case,
    built,
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
    weights = value(layer.kernel), value(layer.bias)
    every = oracles_recurrent.matrix_interaction(*words, *weights)
    norms = np.sqrt(np.square(every).sum((-2, -1)))
    real = mask_2[:, :, None] & mask_1[:, None, :]
    return every[:, :, -1].reshape(x2.shape), np.where(real, norms, 0)


NORMS = {"return_norms": True}
CASES = [Case(MatrixInteraction, INPUTS, (8, 0), oracle, options=NORMS)]

test_checks = run_checks(CASES)


def test_the_order_of_sentence_1_matters_and_that_of_sentence_2_does_not():
    layer = built(CASES[0])
    full = {**INPUTS, "mask_1": lengths_mask([5] * 3, 5), "mask_2": lengths_mask([3] * 3, 3)}
    y = value(layer(**full))
    assert abs(value(layer(**{**full, "x2": INPUTS["x2"][:, ::-1]}))[:, ::-1] - y).max() < 1e-6
    assert abs(value(layer(**{**full, "x1": INPUTS["x1"][:, ::-1]})) - y).max() > 1e-3
