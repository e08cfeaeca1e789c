"""MultiPerspectiveMatching."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.layers import MultiPerspectiveMatching
from tests import oracles, oracles_hosts
from tests.harness import (
    Case,
    arguments_act,
    built,
    lengths_mask,
    noise,
    run_checks,
    value,
)

X1, X2 = noise(3, 5, 6), noise(3, 3, 6, seed=1)
M1, M2 = lengths_mask([5, 2, 1], 5), lengths_mask([3, 3, 2], 3)
INPUTS = {"x1": X1, "x2": X2, "mask_1": M1, "mask_2": M2}


def oracle(layer, x1, x2, mask_1, mask_2):
    weights = {s: [value(w) for w in pair] for s, pair in zip(layer.strategies, layer.kernels)}
    one, two = np.split(x1, 2, axis=-1), np.split(x2, 2, axis=-1)
    masks = mask_1, mask_2
    return (
        oracles_hosts.bimpm_match(*one, *two, *masks, weights),
        oracles_hosts.bimpm_match(*two, *one, *masks[::-1], weights),
    )


def with_cosines(layer, x1, x2, mask_1, mask_2):
    both = oracles.pair_mask(mask_1, mask_2)
    cosines = [
        np.where(both, oracles.cosine(h1[:, :, None], h2[:, None]), 0)
        for h1, h2 in zip(np.split(x1, 2, axis=-1), np.split(x2, 2, axis=-1))
    ]
    return (*oracle(layer, x1, x2, mask_1, mask_2), np.stack(cosines, axis=1))


SMALL = partial(MultiPerspectiveMatching, perspectives=2)
CASES = [
    Case(
        SMALL,
        INPUTS,
        (8 * 2 * 3, 0),
        with_cosines,
        options={"return_cosines": True},
        float32_outputs=(2,),
    )
]

test_checks = run_checks(CASES)


@pytest.mark.parametrize("strategy", ["full", "max", "attentive", "max_attentive"])
def test_a_strategy_alone_is_its_part_of_all(strategy):
    layer = built(CASES[0])
    alone = built(CASES[0], strategies=(strategy,))
    place = layer.strategies.index(strategy)
    for mine, theirs in zip(alone.kernels[0], layer.kernels[place]):
        mine.assign(theirs)
    for all_of_them, one in zip(layer(**INPUTS), alone(**INPUTS)):
        part = value(all_of_them)[..., place * 4 : place * 4 + 4]
        np.testing.assert_allclose(part, value(one), atol=1e-6)


test_arguments = arguments_act(CASES, strategies=("full", "max"))
