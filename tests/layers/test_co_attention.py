"""CoAttention."""

from functools import partial

import numpy as np

from keras_sentmatch.layers import CoAttention
from tests import oracles
from tests.harness import (
    Case,
    arguments_act,
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


def oracle(layer, x1, x2, mask_1, mask_2):
    return oracles.co_attention(x1, x2, mask_1, mask_2)[:2]


def with_weights(layer, x1, x2, mask_1, mask_2):
    return oracles.co_attention(x1, x2, mask_1, mask_2, value(layer.scale))


def dot_of_keys(layer, x1, x2, mask_1, mask_2, keys_1, keys_2):
    scores = value(layer.scale) * np.einsum("bik,bjk->bij", keys_1, keys_2)
    mask = oracles.pair_mask(mask_1, mask_2)
    return (
        oracles.masked_softmax(scores, mask, axis=2) @ x2,
        oracles.masked_softmax(scores, mask, axis=1).transpose(0, 2, 1) @ x1,
    )


CASES = [
    Case(CoAttention, INPUTS, (0, 0), oracle),
    Case(
        partial(CoAttention, temperature=1.0),
        INPUTS,
        (1, 0),
        with_weights,
        options={"return_attention": True},
        name="with attention",
    ),
    Case(
        partial(CoAttention, similarity="dot", temperature=0.5),
        {**INPUTS, "keys_1": noise(3, 5, 2, seed=2), "keys_2": noise(3, 3, 2, seed=3)},
        (1, 0),
        dot_of_keys,
        name="dot product of keys",
    ),
]

test_checks = run_checks(CASES)


def test_temperature_starts_as_told():
    layer = CASES[2].make()
    CASES[2].call(layer, CASES[2].inputs)
    assert value(layer.scale) == 0.5


test_arguments = arguments_act(CASES, similarity="cosine", temperature=0.5)
