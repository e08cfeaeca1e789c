"""SelfAttentionPooling."""

from functools import partial

import numpy as np

from keras_sentmatch.layers import SelfAttentionPooling
from tests import oracles_recurrent
from tests.harness import (
    Case,
    arguments_act,
    lengths_mask,
    noise,
    run_checks,
    value,
)

INPUTS = {"x": noise(3, 5, 4), "mask": lengths_mask([5, 2, 1], 5)}
SMALL = partial(SelfAttentionPooling, units=3)


def pooled_and_weights(layer, x, mask):
    weights = (value(w) for w in (layer.kernel, layer.bias, layer.context))
    return oracles_recurrent.self_attention_pooling(x, mask, *weights)


CASES = [
    Case(SMALL, INPUTS, (4 * 3 + 3 + 3, 0), lambda layer, **i: pooled_and_weights(layer, **i)[0]),
    Case(
        SMALL,
        INPUTS,
        (4 * 3 + 3 + 3, 0),
        pooled_and_weights,
        options={"return_attention": True},
        name="with attention",
        float32_outputs=(1,),
    ),
]

test_checks = run_checks(CASES)


test_arguments = arguments_act(CASES, "context_initializer")


def test_the_pooled_vector_is_a_mean_without_a_context():
    layer = SelfAttentionPooling(3, context_initializer="zeros")
    x, mask = INPUTS["x"], INPUTS["mask"][..., None]
    mean = (x * mask).sum(1) / mask.sum(1)
    np.testing.assert_allclose(value(layer(**INPUTS)), mean, atol=1e-6)


def test_the_papers_initial_range():
    """Every weight within sqrt(6 / (n_in + n_out)) and not far within; biases 0."""
    layer = SelfAttentionPooling(200)
    layer.build((None, None, 100))
    assert 0.9 < abs(value(layer.kernel)).max() / np.sqrt(6 / 300) <= 1
    assert 0.9 < abs(value(layer.context)).max() / np.sqrt(6 / 201) <= 1
    assert not value(layer.bias).any()
