"""The masked operations against the oracles, in every precision, with empty rows."""

from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

from keras_sentmatch import ops as sm
from keras_sentmatch.ops import masking, sequence, similarity
from tests import oracles
from tests.case import Case, gradients, lengths_mask, noise, value

pytestmark = pytest.mark.each_backend

X, Y = noise(3, 5, 4), noise(3, 2, 4, seed=1)
MASK, OTHER = lengths_mask([5, 2, 0], 5), lengths_mask([2, 0, 1], 2)
PRECISIONS = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_against_oracles(dtype):
    def check(got, want):
        assert keras.backend.standardize_dtype(got.dtype) == dtype
        np.testing.assert_allclose(value(ops.cast(got, "float32")), want, atol=PRECISIONS[dtype])

    x = ops.cast(X, dtype)
    check(sm.masked_softmax(x[..., 0], MASK), oracles.masked_softmax(X[..., 0], MASK))
    check(
        sm.masked_softmax(x, MASK[..., None], axis=1),
        oracles.masked_softmax(X, MASK[..., None], axis=1),
    )
    check(sm.masked_mean(x, MASK), oracles.masked_mean(X, MASK))
    check(
        sm.masked_max(x - 5, MASK),
        np.where(MASK.any(1)[:, None], oracles.masked_max(X - 5, MASK)[0], 0),
    )
    check(masking.zero_padding(x, MASK), X * MASK[..., None])
    check(sequence.reverse_within_length(x, MASK), oracles.reverse_within_length(X, MASK))
    check(sequence.last_state(x, MASK), np.stack([X[0, 4], X[1, 1], 0 * X[2, 0]]))


def test_large_scores_in_float16_do_not_overflow():
    scores = ops.convert_to_tensor(np.array([[6e4, 6e4, -6e4]], "float16"))
    assert value(sm.masked_softmax(scores, [[True, True, True]])).tolist() == [[0.5, 0.5, 0.0]]
    low = sm.masked_max(scores[..., None], [[False, False, True]])
    assert value(low).tolist() == [[float(np.float16(-6e4))]]


def test_argmax_counts_real_tokens_only():
    np.testing.assert_array_equal(
        value(masking.masked_argmax(X, MASK)), oracles.masked_max(X, MASK)[1]
    )


def test_cosines():
    zeroed = X * MASK[..., None]
    want = oracles.cosine(zeroed[:, :, None], Y[:, None])
    np.testing.assert_allclose(value(similarity.cosine_matrix(zeroed, Y)), want, atol=1e-6)
    half = similarity.cosine_matrix(ops.cast(X, "float16"), ops.cast(Y, "float16"))
    assert keras.backend.standardize_dtype(half.dtype) == "float32"


def test_masks_and_pairs():
    np.testing.assert_array_equal(
        value(masking.pair_mask(MASK, OTHER)), oracles.pair_mask(MASK, OTHER)
    )
    for one, two in ((X, Y), (Y, X), (X, X), (MASK, OTHER)):
        stacked = sequence.stack_pair(ops.convert_to_tensor(one), ops.convert_to_tensor(two))
        assert tuple(stacked.shape)[:2] == (6, max(one.shape[1], two.shape[1]))
        back = sequence.split_pair(stacked, one.shape[1], two.shape[1])
        assert all((value(b) == x).all() for b, x in zip(back, (one, two)))
    with sequence.equal_lengths():
        stacked = sequence.stack_pair(ops.convert_to_tensor(X), ops.convert_to_tensor(X + 1))
        back = sequence.split_pair(stacked, None, None)
    assert all((value(b) == x).all() for b, x in zip(back, (X, X + 1)))


def there_and_back(one, two):
    return sequence.split_pair(sequence.stack_pair(one, two), one.shape[1], ops.shape(two)[1])


@pytest.mark.backend("jax")
def test_pairs_are_stacked_when_a_program_is_exported_with_unknown_lengths():
    import jax
    from jax import export

    n, m = export.symbolic_shape("n, m")
    shapes = (jax.ShapeDtypeStruct((3, length, 4), "float32") for length in (n, m))
    back = export.export(jax.jit(there_and_back))(*shapes).call(X, Y)
    assert all((value(b) == x).all() for b, x in zip(back, (X, Y)))


@pytest.mark.parametrize("name", ["masked_softmax", "masked_mean", "masked_max", "cosine_matrix"])
def test_gradients_are_finite_at_empty_rows_and_zero_vectors(name):
    class Apply(keras.layers.Layer):
        supports_masking = True

        def call(self, x, mask):
            x = masking.zero_padding(x, mask)
            if name == "cosine_matrix":
                return similarity.cosine_matrix(x, x)
            mask = mask[..., None] if name == "masked_softmax" else mask
            return getattr(sm, name)(x, mask, axis=1)

    inputs = {"x": X, "mask": MASK}
    layer = Apply()
    _, (gradient,) = gradients(Case(lambda **k: layer, inputs, (0, 0)), layer, inputs)
    assert np.isfinite(gradient).all() and gradient[:2].any() and not gradient[2].any()


def test_masked_max_in_a_functional_model(tmp_path):
    x = keras.Input((None, X.shape[-1]))
    mask = keras.Input((None,), dtype="bool")
    model = keras.Model([x, mask], sm.masked_max(x, mask))
    model.save(tmp_path / "model.keras")
    for each in (model, keras.models.load_model(tmp_path / "model.keras")):
        np.testing.assert_array_equal(value(each([X, MASK])), value(sm.masked_max(X, MASK)))


@pytest.mark.backend("torch")
@pytest.mark.parametrize("weighted", [False, True])
def test_pairwise_sum_makes_one_feature_at_a_time(weighted):
    """PyTorch saves no tensor `[F, L, L]` for the backward pass, and never makes one."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Sizes(TorchDispatchMode):
        largest = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            made = [t for t in keras.tree.flatten(out) if isinstance(t, torch.Tensor)]
            owned = [t.untyped_storage().nbytes() // t.element_size() for t in made]  # no views
            self.largest = max([self.largest, *owned])
            return out

    x, y = (torch.rand(8, 20, requires_grad=True) for _ in "xy")
    weights = (torch.rand(8, requires_grad=True),) if weighted else ()
    saved = []
    keep = torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t)
    with keep, Sizes() as made:
        similarity.pairwise_sum(x, y, *weights).sum().backward()
    assert made.largest == 400 and max(t.numel() for t in saved) <= 400


@pytest.mark.backend("torch")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory from /proc")
def test_the_gradient_of_pairwise_sum_leaves_the_heap_in_one_piece():
    """At 8 MiB a feature the process grew by 16 MiB with each of them."""
    import torch

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

    x, y = (torch.rand(32, 128, 128, requires_grad=True) for _ in "xy")
    total = similarity.pairwise_sum(x, y)
    before = resident()
    total.backward(torch.ones_like(total))
    assert resident() - before < 160
