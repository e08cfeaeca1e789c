"""Dual attention: to what a token is like, and to what it differs from."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.ops import at_least_float32, masked_softmax, pair_mask
from keras_sentmatch.ops.pairwise import pairwise_sum

DISTANCES = ("l1", "l2", "l2_squared", "sum")


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class DualAttention(keras.layers.Layer):
    """Self-attention twice over the same queries, keys and values: by affinity and by difference.

    `A = softmax(Q K^T / sqrt(k)) V` and `D = softmax(dist(Q, K) / sqrt(k)) V` for each head: the farther a key is from the
    query, the more it weighs in D. A is what `keras.layers.MultiHeadAttention` has before its output projection. The
    sublayers `query`, `key` and `value` have kernels `[D, heads, key_dim]` and biases `[heads, key_dim]`, as its own:
    `dual.query.set_weights(attention.query_dense.get_weights())` and so on.

    Args:
        num_heads: number of heads.
        key_dim: width of a head, of queries, keys and values alike.
        distance: between a query and a key. `"l1"` is the sum of absolute differences. `"l2"` is Euclidean: its scores are
            nearly equal, so the softmax is nearly flat. `"l2_squared"` is its square. `"sum"` is the plain sum of the
            differences as eq 4 prints it: all queries of a sentence pair then get the same D. Defaults to `"l1"`.
        cross: whether a token's difference channel sees the other sentence only. Defaults to `False`.
        dropout: rate on the weights of both channels. Defaults to `0.1`.

    Call arguments:
        x: `[B, L, D]`, both sentences in one sequence.
        mask: boolean `[B, L]`, True = real token.
        segment_ids: integers `[B, L]`, which sentence a token belongs to; needed with `cross=True`, else not used.
        return_attention: whether to return the weights as well. Defaults to `False`.

    Output shape:
        Affinity and difference, each `[B, L, num_heads * key_dim]`, the heads side by side; with `return_attention` also the
        weights of both, `[B, num_heads, L, L]` float32 before dropout: rows sum to 1.

    Masking:
        Padding gets no weight and padded rows are zeros. With `cross`, a token with nobody in the other sentence has a
        difference of zeros. Scores and softmax are float32 under every policy.

    Memory:
        `"l1"` needs the differences of all features of all pairs, `[B, num_heads, L, L, key_dim]`, but never holds them: it
        goes feature by feature, and beside the weights, `[B, num_heads, L, L]`, there are a few tensors as large as those,
        which are let go at once and computed again in the backward pass. TensorFlow without XLA may work on ten features
        side by side. The other distances need none of this.

    Raises:
        ValueError: for an unknown distance, a number that is not positive, or `cross` without `segment_ids`.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import DualAttention
        >>> x, mask = np.ones((1, 4, 6), "float32"), np.array([[True, True, True, False]])
        >>> layer = DualAttention(num_heads=2, key_dim=3, cross=True)
        >>> a, d, _, weights = layer(x, mask, np.array([[0, 1, 1, 1]]), return_attention=True)
        >>> tuple(a.shape), tuple(d.shape), [float(w) for w in weights[0, 0, 0]]
        ((1, 4, 6), (1, 4, 6), [0.0, 0.5, 0.5, 0.0])

    References:
        Wang et al., DABERT, eq 1-4.
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        distance: str = "l1",
        cross: bool = False,
        dropout: float = 0.1,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        for name, number in (("num_heads", num_heads), ("key_dim", key_dim)):
            if number < 1:
                raise ValueError(f"{name} must be at least 1. Received: {name}={number!r}")
        if distance not in DISTANCES:
            raise ValueError(
                f"distance must be one of {DISTANCES}. Received: distance={distance!r}"
            )
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.distance = distance
        self.cross = cross
        self.dropout = dropout
        self.query, self.key, self.value = (
            keras.layers.EinsumDense(
                "bld,dhk->blhk",
                (None, num_heads, key_dim),
                bias_axes="hk",
                dtype=self.dtype_policy,
                name=name,
            )
            for name in ("query", "key", "value")
        )
        self.drop = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="drop")

    def build(self, x_shape: Any, mask_shape: Any = None, segment_ids_shape: Any = None) -> None:
        for layer in (self.query, self.key, self.value):
            layer.build(x_shape)

    def call(
        self,
        x: Any,
        mask: Any,
        segment_ids: Any = None,
        return_attention: bool = False,
        training: bool | None = None,
    ) -> Any:
        self._check(segment_ids)
        query, key = (ops.transpose(f(x), (0, 2, 1, 3)) for f in (self.query, self.key))
        query, key, value = at_least_float32(query), at_least_float32(key), self.value(x)
        products = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
        visible = ops.expand_dims(pair_mask(mask, mask), 1)
        weights = [masked_softmax(products * self.key_dim**-0.5, visible)]
        if self.cross:
            one, two = ops.expand_dims(segment_ids, (1, 3)), ops.expand_dims(segment_ids, (1, 2))
            visible = ops.logical_and(visible, ops.not_equal(one, two))
        distances = self._distances(query, key, products)
        weights.append(masked_softmax(distances * self.key_dim**-0.5, visible))
        shape = (*ops.shape(x)[:2], self.num_heads * self.key_dim)
        outputs = []
        for w in weights:
            w = self.drop(ops.cast(w, value.dtype), training=training)
            outputs.append(ops.reshape(ops.einsum("bhij,bjhk->bihk", w, value), shape))
        return (*outputs, *weights) if return_attention else tuple(outputs)

    def _distances(self, query: Any, key: Any, products: Any) -> Any:
        """`[B, heads, L, k]` twice, and their products, to `[B, heads, L, L]`."""
        if self.distance == "l1":
            first = (3, 0, 1, 2)  # the features, which are summed over
            one, two = ops.transpose(query, first), -ops.transpose(key, first)
            return pairwise_sum(one, two)
        one, two = query, key
        if self.distance != "sum":
            one, two = ops.square(query), ops.square(key)
        one = ops.sum(one, axis=-1, keepdims=True)
        two = ops.expand_dims(ops.sum(two, axis=-1), -2)
        if self.distance == "sum":
            return one - two
        squared = one + two - 2.0 * products
        if self.distance == "l2_squared":
            return squared
        # Below the rounding error of the products: there the root has no gradient, not an infinite one.
        return ops.sqrt(ops.maximum(squared, 1e-6))

    def _check(self, segment_ids: Any) -> None:
        if self.cross and segment_ids is None:
            raise ValueError(
                "cross=True needs the call argument `segment_ids`, the sentence of each token. Received: None"
            )

    def compute_output_spec(
        self,
        x: Any,
        mask: Any,
        segment_ids: Any = None,
        return_attention: bool = False,
        training: bool | None = None,
    ) -> Any:
        self._check(segment_ids)
        batch, length = x.shape[:2]
        out = (batch, length, self.num_heads * self.key_dim)
        outputs = tuple(keras.KerasTensor(out, dtype=self.compute_dtype) for _ in range(2))
        if not return_attention:
            return outputs
        pairs = (batch, self.num_heads, length, length)
        return (*outputs, *(keras.KerasTensor(pairs, dtype="float32") for _ in range(2)))

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        return None  # masks are explicit arguments; Keras is given none to pass on

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "distance": self.distance,
            "cross": self.cross,
            "dropout": self.dropout,
        }
