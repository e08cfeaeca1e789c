"""The layer of BiMPM (Wang, Hamza, Florian 2017)."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.layers.base import Layer
from keras_sentmatch.ops import masked_max
from keras_sentmatch.ops.masking import at_least_float32, masked_argmax, pair_mask, zero_padding
from keras_sentmatch.ops.sequence import last_state
from keras_sentmatch.ops.similarity import cosine_matrix, unit_length

STRATEGIES = ("full", "max", "attentive", "max_attentive")


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class MultiPerspectiveMatching(Layer):
    """Match the states of two sentences from several perspectives, in both directions.

    Perspective k weights the features and takes a cosine, `m_k(u, v) = cos(W_k * u, W_k * v)`. With
    `a_ij = cos(h_i, h_j)`, a state `h_i` is matched with

    - `"full"`: the last forward state of the other sentence, or its first backward state;
    - `"max"`: each of its states `h_j`, of which the greatest `m_k` counts;
    - `"attentive"`: `sum_j a_ij h_j / sum_j a_ij`;
    - `"max_attentive"`: the `h_j` with the greatest `a_ij`.

    Each strategy has its own W for each direction, and both sentences share them.

    Args:
        perspectives: Number of rows of each W. Defaults to `20`.

    Call arguments:
        x1: `[B, L1, 2D]`, forward states, then backward states, as `BidirectionalRNN` returns them.
        x2: `[B, L2, 2D]`.
        mask_1: Boolean `[B, L1]`, True = real token.
        mask_2: Boolean `[B, L2]`.
        return_cosines: Whether to return `a` as well. Defaults to `False`.

    Output shape:
        `[B, L1, N]` and `[B, L2, N]` with `N = 8 * perspectives`: for each
        strategy the perspectives of the forward states, then those of the backward states. With
        `return_cosines` also `a` as `[B, 2, L1, L2]`, forward and backward, in float32.

    Masking:
        Padding is matched with nothing, and padded rows are zeros. A match with an empty sentence
        is 0.

    Example:
        >>> rng, mask = np.random.default_rng(0), np.ones((1, 3), bool)
        >>> states = rng.normal(size=(1, 3, 8)).astype("float32")
        >>> m1, m2 = MultiPerspectiveMatching(5)(states, states, mask, mask)
        >>> tuple(m1.shape), round(float(m1[0, 0, 5]), 3)  # a state is its own best match
        ((1, 3, 40), 1.0)

    References:
        Wang, Hamza, Florian, BiMPM, "Multi-perspective Matching Operation", eq 3-6.
    """

    def __init__(self, perspectives: int = 20, **kwargs):
        super().__init__(**kwargs)

    def build(self, x1_shape):
        shape = (self.perspectives, x1_shape[-1] // 2)
        self.kernels = [
            [
                self.add_weight(shape, "glorot_uniform", name=f"{strategy}_{direction}")
                for direction in ("forward", "backward")
            ]
            for strategy in STRATEGIES
        ]

    def call(self, x1, x2, mask_1, mask_2, return_cosines=False):
        x1, x2 = ops.convert_to_tensor(x1), ops.convert_to_tensor(x2)
        both = pair_mask(mask_1, mask_2)
        turned = ops.transpose(both, (0, 2, 1))
        states_1, states_2 = (
            ops.split(zero_padding(at_least_float32(x), mask), 2, axis=-1)
            for x, mask in ((x1, mask_1), (x2, mask_2))
        )
        cosines = [cosine_matrix(h1, h2) for h1, h2 in zip(states_1, states_2)]  # 0 at padding
        found_1, found_2 = [], []
        for strategy, kernels in zip(STRATEGIES, self.kernels):
            for forward, h1, h2, a, kernel in zip(
                (True, False), states_1, states_2, cosines, kernels
            ):
                w = ops.cast(kernel, h1.dtype)
                if strategy == "max":
                    m1, m2 = _best_matches(h1, h2, w, both)
                else:
                    a_turned = ops.transpose(a, (0, 2, 1))
                    v1 = self._partner(strategy, h2, mask_2, a, both, forward)
                    v2 = self._partner(strategy, h1, mask_1, a_turned, turned, forward)
                    m1, m2 = _match(h1, v1, w), _match(h2, v2, w)
                found_1.append(m1)
                found_2.append(m2)
        matches = tuple(
            zero_padding(ops.cast(ops.concatenate(found, axis=-1), x1.dtype), mask)
            for found, mask in ((found_1, mask_1), (found_2, mask_2))
        )
        return (*matches, ops.stack(cosines, axis=1)) if return_cosines else matches

    def _partner(self, strategy: str, h, mask, a, both, forward: bool):
        """The vector of `h` that each state of the other sentence is matched with, `[B, 1 or L, D]`."""
        if strategy == "full":
            return ops.expand_dims(last_state(h, mask) if forward else h[:, 0], 1)
        if strategy == "attentive":
            # A cosine ignores the size of the total that divides the mean, but not its sign.
            total, attended = ops.sum(a, axis=-1, keepdims=True), ops.matmul(a, h)
            return ops.where(total < 0, -attended, attended)
        best = masked_argmax(a, both, axis=2)
        return ops.matmul(ops.one_hot(best, ops.shape(h)[1], dtype=h.dtype), h)

    def compute_output_spec(self, x1, x2, mask_1, mask_2, return_cosines=False):
        width = 8 * self.perspectives
        matches = tuple(self.spec(*x.shape[:2], width) for x in (x1, x2))
        if not return_cosines:
            return matches
        shape = (x1.shape[0], 2, x1.shape[1], x2.shape[1])
        return (*matches, self.spec(*shape, dtype=self.wide_dtype))


def _match(u, v, w):
    """`cos(w_k * u, w_k * v)`: `[B, L, D]` and `[B, 1 or L, D]` to `[B, L, K]`."""
    squares = ops.transpose(ops.square(w))

    def inverse_norm(x):
        return ops.rsqrt(ops.maximum(ops.matmul(ops.square(x), squares), 1e-16))

    return ops.matmul(u * v, squares) * inverse_norm(u) * inverse_norm(v)


def _best_matches(h1, h2, w, both) -> tuple[Any, Any]:
    """The greatest match of each state with any other: `[B, L1, K]` and `[B, L2, K]`."""

    def weighted(h):  # [B, K, L, D]
        return unit_length(ops.expand_dims(h, 1) * ops.expand_dims(w, 1))

    matches = ops.matmul(weighted(h1), ops.transpose(weighted(h2), (0, 1, 3, 2)))
    best_1, best_2 = (masked_max(matches, ops.expand_dims(both, 1), axis=axis) for axis in (3, 2))
    return ops.transpose(best_1, (0, 2, 1)), ops.transpose(best_2, (0, 2, 1))
