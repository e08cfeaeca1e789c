"""SelfAttentionFusion."""

from functools import partial

import numpy as np

from keras_sentmatch.layers.diin import SelfAttentionFusion
from tests import oracles_hosts
from tests.harness import Case, built, check_option, lengths_mask, noise, run_checks, value

INPUTS = {"x": noise(3, 5, 4), "mask": lengths_mask([5, 2, 1], 5)}


def gates(layer):
    """(W, b) of z, r and f on [x; a]."""
    kernel = np.concatenate(
        [value(layer.token_gates.kernel), value(layer.attended_gates.kernel)], axis=0
    )
    bias = value(layer.token_gates.bias) + value(layer.attended_gates.bias)
    return list(zip(np.split(kernel, 3, axis=1), np.split(bias, 3)))


def both(layer, x, mask):
    return oracles_hosts.diin_encoder(x, mask, value(layer.attention_kernel), *gates(layer))


def oracle(layer, x, mask):
    return both(layer, x, mask)[0]


WEIGHTS = (3 * 4 + 2 * (4 * 12 + 12), 2)  # and two counters of steps
CASES = [
    Case(SelfAttentionFusion, INPUTS, WEIGHTS, oracle),
    Case(
        partial(SelfAttentionFusion, dropout=0.3),
        INPUTS,
        WEIGHTS,
        both,
        options={"return_attention": True},
        name="with attention",
    ),
]

test_checks = run_checks(CASES)


def test_dropout():
    layer = SelfAttentionFusion(0.5, 0.25, 7)
    for dropout in (layer.token_dropout, layer.attended_dropout):
        assert (dropout.rate, dropout.decay, dropout.decay_steps) == (0.5, 0.25, 7)
    check_option(CASES[0], "dropout", 0.0, 0.5)


def test_the_first_third_of_the_attention_does_nothing():
    layer = built(CASES[1])
    _, before = layer(**INPUTS, return_attention=True)
    kernel = value(layer.attention_kernel)
    for third, matters in ((0, False), (1, True), (2, True)):
        changed = np.array(kernel)
        changed[4 * third : 4 * third + 4] += 1 + np.arange(4)[:, None]
        layer.attention_kernel.assign(changed)
        _, after = layer(**INPUTS, return_attention=True)
        assert (abs(value(after) - value(before)).max() > 1e-3) == matters
