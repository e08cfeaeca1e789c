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
    check_oracle,
    lengths_mask,
    noise,
    refuses,
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
        oracles_hosts.bimpm_match(*one, *two, *masks, weights, layer.max_attentive),
        oracles_hosts.bimpm_match(*two, *one, *masks[::-1], weights, layer.max_attentive),
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
ELEMENTWISE = Case(
    partial(SMALL, max_attentive="elementwise"), INPUTS, (8 * 2 * 3, 0), oracle, "elementwise"
)

test_checks = run_checks(CASES)


def test_elementwise():
    check_oracle(ELEMENTWISE)


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


def test_swapping_the_sentences_swaps_the_outputs():
    layer = built(CASES[0])
    m1, m2 = layer(X1, X2, M1, M2)
    n2, n1 = layer(X2, X1, M2, M1)
    np.testing.assert_allclose(value(m1), value(n1), atol=1e-6)
    np.testing.assert_allclose(value(m2), value(n2), atol=1e-6)


def test_the_scale_of_the_states_does_not_matter():
    layer = built(CASES[0])
    for one, two in zip(layer(X1, X2, M1, M2), layer(1e-3 * X1, 50 * X2, M1, M2)):
        np.testing.assert_allclose(value(one), value(two), atol=1e-4)


def test_a_sum_is_a_mean_but_for_its_sign():
    means, sums = (
        built(CASES[0], strategies=("attentive",), attentive=kind) for kind in ("mean", "sum")
    )
    *of_means, cosines = (value(t) for t in means(**INPUTS, return_cosines=True))
    for axis, mean, total in zip((3, 2), of_means, sums(**INPUTS)):
        signs = np.where(cosines.sum(axis=axis) < 0, -1, 1)  # [B, 2, L]
        assert (signs < 0).any() and (signs > 0).any()
        signs = np.repeat(signs.transpose(0, 2, 1), 2, axis=-1)  # of 2 perspectives
        np.testing.assert_allclose(value(total), signs * mean, atol=1e-6)


test_arguments = arguments_act(
    CASES, strategies=("full", "max"), attentive="sum", max_attentive="elementwise"
)

test_errors = refuses(
    MultiPerspectiveMatching,
    [
        ({"strategies": ("full", "mean")}, "each once. Received: strategies=.'full', 'mean'"),
        ({"strategies": ("full", "full")}, "each once"),
        ({"strategies": ()}, "each once"),
        ({"attentive": "max"}, "one of .'mean', 'sum'.. Received: attentive='max'"),
        ({"max_attentive": "max"}, "one of .'argmax', 'elementwise'.. Received: max_att"),
    ],
)


def test_an_odd_width():
    with pytest.raises(ValueError, match=r"Received: x1 of shape \(3, 5, 5\)"):
        SMALL().build((3, 5, 5))
