"""DualAttention."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_sentmatch.layers import DualAttention
from tests import oracles_encoders
from tests.harness import (
    Case,
    arguments_act,
    built,
    check_build,
    check_oracle,
    gradients,
    lengths_mask,
    noise,
    run_checks,
    value,
)

INPUTS = {"x": noise(3, 5, 6), "mask": lengths_mask([5, 3, 2], 5)}
PAIRS = {**INPUTS, "segment_ids": np.array([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0], [0, 1, 0, 0, 0]])}
SMALL = partial(DualAttention, num_heads=2, key_dim=4)
WEIGHTS = (3 * (6 * 8 + 8), 0)


def everything(layer, x, mask, segment_ids=None):
    weights = [[value(w) for w in f.weights] for f in (layer.query, layer.key, layer.value)]
    return oracles_encoders.dual_attention(
        x, mask, *weights, layer.distance, segment_ids, layer.cross
    )


def channels(layer, **inputs):
    return everything(layer, **inputs)[:2]


SHOWN = {"options": {"return_attention": True}, "float32_outputs": (2, 3)}
CASES = [
    Case(SMALL, INPUTS, WEIGHTS, everything, name="l1", **SHOWN),
    Case(partial(SMALL, cross=True), PAIRS, WEIGHTS, channels, name="cross"),
]
VARIANTS = [
    Case(partial(SMALL, distance="sum"), INPUTS, WEIGHTS, everything, name="sum", **SHOWN),
    Case(partial(SMALL, cross=True), PAIRS, WEIGHTS, everything, name="cross, shown", **SHOWN),
]


def seen(case, inputs=INPUTS, **overrides):
    return [value(t) for t in built(case, **overrides)(**inputs, return_attention=True)]


test_checks = run_checks(CASES)

test_variants = run_checks(VARIANTS, check_build, check_oracle)


test_arguments = arguments_act(CASES[1:], distance="sum")


def test_affinity_is_keras_attention_before_its_output_projection():
    """With the weights of a `MultiHeadAttention`, as a layer of KerasHub's BERT has one."""
    theirs = keras.layers.MultiHeadAttention(num_heads=2, key_dim=3)
    x, mask = INPUTS["x"], INPUTS["mask"]
    theirs.build(x.shape, x.shape)
    rng = np.random.default_rng(1)
    theirs.set_weights([rng.normal(size=w.shape) for w in theirs.get_weights()])
    want, map_ = theirs(x, x, attention_mask=mask[:, None, :], return_attention_scores=True)
    ours = DualAttention(num_heads=2, key_dim=3)
    ours.build(x.shape)
    for name in ("query", "key", "value"):
        getattr(ours, name).set_weights(getattr(theirs, f"{name}_dense").get_weights())
    affinity, _, weights, _ = ours(x, mask, return_attention=True)
    got = theirs.output_dense(keras.ops.reshape(affinity, (3, 5, 2, 3)))
    np.testing.assert_allclose(value(got)[mask], value(want)[mask], atol=1e-5)
    got, want = (value(w).transpose(0, 2, 1, 3)[mask] for w in (weights, map_))
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_the_literal_sum_gives_every_token_the_same_difference():
    for distance, same in (("sum", True), ("l1", False)):
        difference = seen(CASES[0], distance=distance)[1][0]
        assert bool(np.ptp(difference, axis=0).max() < 1e-5) is same


@pytest.mark.backend("torch")
def test_training_keeps_no_differences_of_features_for_the_backward_pass():
    """`[B, heads, L, L, key_dim]`: PyTorch saves none of it, and never makes more than one feature's."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Sizes(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.largest = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            made = [t for t in keras.tree.flatten(out) if isinstance(t, torch.Tensor)]
            owned = [t.untyped_storage().nbytes() // t.element_size() for t in made]  # no views
            self.largest = max([self.largest, *owned])
            return out

    x, mask = noise(1, 20, 6), np.ones((1, 20), bool)
    pairs, saved = 2 * 20 * 20, []
    keep = torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t)
    layer = DualAttention(num_heads=2, key_dim=16)
    layer.build(x.shape)
    with keep, Sizes() as made:
        _, difference = layer(x, mask)
        difference.sum().backward()
    assert made.largest == max(t.numel() for t in saved) == pairs


@pytest.mark.each_backend
@pytest.mark.parametrize("distance", ["l1", "sum"])
def test_finite_gradient_where_a_query_is_its_key(distance):
    """Projected alike, each token is at no distance from itself; all of them, if the sentence repeats one word."""
    case = Case(
        partial(SMALL, distance=distance), {**INPUTS, "x": np.ones_like(INPUTS["x"])}, WEIGHTS
    )
    layer = built(case)
    layer.key.set_weights(layer.query.get_weights())
    for inputs in (case.inputs, INPUTS):
        for group in gradients(case, layer, inputs):
            assert all(np.isfinite(g).all() and abs(g).max() < 1e3 for g in group)
