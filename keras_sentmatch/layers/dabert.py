"""The layers of DABERT (Wang et al. 2022)."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_sentmatch.layers.base import Layer, require, require_choice, require_positive
from keras_sentmatch.layers.dropout import Dropout
from keras_sentmatch.ops import masked_softmax
from keras_sentmatch.ops.masking import at_least_float32, pair_mask, zero_padding
from keras_sentmatch.ops.similarity import pairwise_sum

DISTANCES = ("l1", "sum")


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class DualAttention(Layer):
    """Self-attention twice over the same queries, keys and values: by affinity and by difference.

    `A = softmax(Q K^T / sqrt(k)) V` and `D = softmax(dist(Q, K) / sqrt(k)) V` for each head: the
    farther a key is from the query, the more it weighs in D. A is the input of the output projection
    of `keras.layers.MultiHeadAttention`, whose weights fit the sublayers `query`, `key` and `value`.

    Args:
        num_heads: Number of heads.
        key_dim: Width of a head, for queries, keys and values.
        distance: Between a query and a key. `"l1"` is the sum of absolute differences. `"sum"` is the
            plain sum of the differences as eq 4 prints it, which gives all queries of a sentence pair
            the same D. Defaults to `"l1"`.
        cross: Whether a token's difference channel sees the other sentence only. Defaults to `False`.
        dropout: Dropout rate on the weights of both channels. Defaults to `0.1`.

    Call arguments:
        x: `[B, L, D]`, both sentences in one sequence.
        mask: Boolean `[B, L]`, True = real token.
        segment_ids: Integers `[B, L]`, the sentence of each token; needed with `cross=True`.
        return_attention: Whether to return the weights as well. Defaults to `False`.

    Output shape:
        Affinity and difference, each `[B, L, num_heads * key_dim]`, the heads side by side; with
        `return_attention` also the weights of both, `[B, num_heads, L, L]` float32 before dropout,
        whose rows sum to 1.

    Masking:
        Padding gets no weight, and padded rows are zeros. With `cross`, a token with nobody in the
        other sentence has a difference of zeros. Scores and softmax are float32 under every
        half-precision policy.

    Raises:
        InputError: The distance is unknown, a number is not positive, or `segment_ids` is missing.

    Example:
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
        **kwargs,
    ):
        super().__init__(**kwargs)
        require_positive(num_heads=num_heads, key_dim=key_dim)
        require_choice(DISTANCES, distance=distance)
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
        self.drop = Dropout(dropout, dtype=self.dtype_policy, name="drop")

    def build(self, x_shape):
        for layer in (self.query, self.key, self.value):
            layer.build(x_shape)

    def call(self, x, mask, segment_ids=None, return_attention=False, training=None):
        given = segment_ids is not None or not self.cross
        require(given, "cross=True needs `segment_ids`, the sentence of each token.")
        query, key = (ops.transpose(f(x), (0, 2, 1, 3)) for f in (self.query, self.key))
        query, key, value = at_least_float32(query), at_least_float32(key), self.value(x)
        products = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
        visible = ops.expand_dims(pair_mask(mask, mask), 1)
        weights = [masked_softmax(products * self.key_dim**-0.5, visible)]  # eq 1-3
        if self.cross:
            one, two = ops.expand_dims(segment_ids, (1, 3)), ops.expand_dims(segment_ids, (1, 2))
            visible = ops.logical_and(visible, ops.not_equal(one, two))
        distances = self._distances(query, key)
        weights.append(masked_softmax(distances * self.key_dim**-0.5, visible))
        shape = (*ops.shape(x)[:2], self.num_heads * self.key_dim)
        outputs = []
        for w in weights:
            w = self.drop(ops.cast(w, value.dtype), training=training)
            outputs.append(ops.reshape(ops.einsum("bhij,bjhk->bihk", w, value), shape))
        return (*outputs, *weights) if return_attention else tuple(outputs)

    def _distances(self, query, key):
        """Return the distances `[B, heads, L, L]` of `[B, heads, L, k]` twice (eq 4)."""
        if self.distance == "sum":
            sums = ops.expand_dims(ops.sum(key, axis=-1), -2)
            return ops.sum(query, axis=-1, keepdims=True) - sums
        first = (3, 0, 1, 2)  # the features, which are summed over
        return pairwise_sum(ops.transpose(query, first), -ops.transpose(key, first))

    def compute_output_spec(self, x, mask, segment_ids=None, return_attention=False, training=None):
        batch, length = x.shape[:2]
        out = (batch, length, self.num_heads * self.key_dim)
        outputs = tuple(self.spec(*out) for _ in range(2))
        if not return_attention:
            return outputs
        pairs = (batch, self.num_heads, length, length)
        return (*outputs, *(self.spec(*pairs, dtype=self.wide_dtype) for _ in range(2)))


ALIGNMENTS = ("additive", "literal", "none")
OUTPUT_MODES = ("residual", "replace")


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class AdaptiveFusion(Layer):
    """Add to the affinity of each token the part of its difference that two gates let through.

    1. Alignment: each token's affinity `a_i` attends to the differences of all tokens, which gives
       `d'_i`; that attends to all affinities, which gives `a'_i`; `d*_i = tanh([d_i; d'_i] W + b)`,
       and `a*_i` in the same way.
    2. Gate: `d^_i = tanh(d*_i W + b)`, `a^_i` in the same way; `g_i = sigmoid([d^_i; a^_i] w)`;
       `v_i = g_i a^_i + (1 - g_i) d^_i`.
    3. Filter: `f_i = sigmoid([a_i; v_i W_v + b_v] w)`, `l_i = f_i tanh(v_i W_l + b_l)`. The output is
       `a_i + l_i`.

    `W_l` and `b_l` start at zero, so a new layer returns the affinity. Inserted into a trained network,
    it changes nothing at first, and only these two weights learn in the first step.

    Args:
        attention_units: Width of the hidden layer that scores a token in the alignment. Defaults to
            `128`.
        alignment: The score of token j for token i, from projections of their vectors. `"additive"` is
            `w . tanh(x_j + y_i)`. `"literal"` is eq 5 as printed, `w . tanh([x_j; y_i])`, where y_i
            adds the same to every score and so guides nothing. `"none"` leaves alignment out: `d* = d`,
            `a* = a`. Defaults to `"additive"`.
        gate: Whether to compute `g_i`; otherwise it is 1/2. Defaults to `True`.
        filter_gate: Whether to compute `f_i`; otherwise it is 1. Defaults to `True`.
        output_mode: `"residual"` returns `a_i + l_i`; `"replace"` returns `l_i` as eq 7 prints it, so
            zeros at first. Defaults to `"residual"`.
        output_stddev: Standard deviation of the random numbers that `W_l` starts with. Defaults to
            `0.0`, zeros.
        regulation: Whether to compute all of the above; otherwise the output is `(a_i + d_i) / 2`.
            Defaults to `True`.

    Call arguments:
        affinity: `[B, L, D]`.
        difference: `[B, L, D]`.
        mask: Boolean `[B, L]`, True = real token.
        return_gates: Whether to return the gates and the size of the change too. Defaults to `False`.

    Output shape:
        `[B, L, D]`; with `return_gates` also `g`, `f` and the relative change `|l_i| / |a_i|` (without
        regulation that of `(d_i - a_i) / 2`), `[B, L]` float32 each. The change has no gradient.

    Masking:
        Padding is never attended to; outputs and gates are zero there. Scores, softmax and gates are
        float32 under every half-precision policy.

    Raises:
        InputError: An option is unknown, a number is not positive, or the inputs differ in width.

    Example:
        >>> a, d = np.ones((1, 2, 4), "float32"), np.zeros((1, 2, 4), "float32")
        >>> mask = np.array([[True, False]])
        >>> fused, g, f, change = AdaptiveFusion(attention_units=3)(a, d, mask, return_gates=True)
        >>> [float(v) for v in fused[0, 0]], [float(v) for v in change[0]], tuple(g.shape)
        ([1.0, 1.0, 1.0, 1.0], [0.0, 0.0], (1, 2))

    References:
        Wang et al., DABERT, eq 5-7.
    """

    def __init__(
        self,
        attention_units: int = 128,
        alignment: str = "additive",
        gate: bool = True,
        filter_gate: bool = True,
        output_mode: str = "residual",
        output_stddev: float = 0.0,
        regulation: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        require_positive(attention_units=attention_units)
        require_choice(ALIGNMENTS, alignment=alignment)
        require_choice(OUTPUT_MODES, output_mode=output_mode)

    def build(self, affinity_shape, difference_shape=None):
        width = affinity_shape[-1]
        same = difference_shape is None or difference_shape[-1] == width
        require(same, f"Both need the same width. Received: {affinity_shape}, {difference_shape}")
        if not self.regulation:
            return

        def column(inputs: int, name: str):
            return self.add_weight(shape=(inputs, 1), name=name, autocast=False)

        if self.alignment != "none":
            options = {"units": self.attention_units, "additive": self.alignment == "additive"}
            self.align_difference, self.align_affinity = (
                self.sublayer(_GuidedAlignment, name, **options)
                for name in ("align_difference", "align_affinity")
            )
            for layer in (self.align_difference, self.align_affinity):
                layer.build(affinity_shape)
            self.join_difference = self.dense(width, "join_difference", "tanh", 2 * width)
            self.join_affinity = self.dense(width, "join_affinity", "tanh", 2 * width)
        self.hidden_difference = self.dense(width, "hidden_difference", "tanh", width)
        self.hidden_affinity = self.dense(width, "hidden_affinity", "tanh", width)
        if self.gate:
            self.gate_kernel = column(2 * width, "gate_kernel")
        if self.filter_gate:
            self.filter_value = self.dense(width, "filter_value", inputs=width)
            self.filter_kernel = column(2 * width, "filter_kernel")
        random = keras.initializers.TruncatedNormal(stddev=self.output_stddev)
        start = random if self.output_stddev else "zeros"
        self.fused = self.dense(width, "fused", "tanh", width, kernel_initializer=start)

    def call(self, affinity, difference, mask, return_gates=False):
        if self.regulation:
            change, gate, kept = self._change(affinity, difference, mask)
        else:
            change, gate, kept = (difference - affinity) * 0.5, *_constants(mask, self.wide_dtype)
        replaces = self.regulation and self.output_mode == "replace"
        fused = zero_padding(change if replaces else affinity + change, mask)
        if not return_gates:
            return fused
        size = ops.divide_no_nan(_norm(change), _norm(affinity))
        return fused, *(ops.squeeze(zero_padding(x, mask), -1) for x in (gate, kept, size))

    def _change(self, a, d, mask) -> tuple[Any, Any, Any]:
        """Return `l`, g and f."""
        new_a, new_d = a, d
        if self.alignment != "none":
            guided = self.align_difference(d, a, mask)
            new_d = self.join_difference(ops.concatenate([d, guided], axis=-1))
            guided = self.align_affinity(a, guided, mask)
            new_a = self.join_affinity(ops.concatenate([a, guided], axis=-1))
        new_a, new_d = self.hidden_affinity(new_a), self.hidden_difference(new_d)
        gate, kept = _constants(mask, self.wide_dtype)
        if self.gate:
            gate = _share(self.gate_kernel, new_d, new_a)
        v = ops.cast(gate, a.dtype) * new_a + ops.cast(1.0 - gate, a.dtype) * new_d
        if self.filter_gate:
            kept = _share(self.filter_kernel, a, self.filter_value(v))
        return ops.cast(kept, a.dtype) * self.fused(v), gate, kept

    def compute_output_spec(self, affinity, difference, mask, return_gates=False):
        fused, gate = self.spec(*affinity.shape), affinity.shape[:2]
        gates = (self.spec(*gate, dtype=self.wide_dtype) for _ in range(3))
        return (fused, *gates) if return_gates else fused


class _GuidedAlignment(Layer):
    """Return the weighted sum of all values for each guide vector: `[B, L, D]` twice to `[B, L, D]`."""

    def __init__(self, units: int, additive: bool, **kwargs):
        super().__init__(**kwargs)
        self.key = self.dense(units, "key", use_bias=False)
        self.guide = self.dense(units, "guide")

    def build(self, values_shape):
        for layer in (self.key, self.guide):
            layer.build(values_shape)
        size = self.units if self.additive else 2 * self.units
        self.context = self.add_weight(shape=(size, 1), name="context", autocast=False)
        # Eq 5 has it and the paper counts it. It adds the same to all scores, so no weight changes.
        self.bias = self.add_weight(
            shape=(1,), initializer="zeros", name="context_bias", autocast=False
        )

    def call(self, values, guides, mask):
        keys = at_least_float32(self.key(values))
        guides = at_least_float32(self.guide(guides))
        if self.additive:
            first = (2, 0, 1)  # the attention units, which are summed over
            guides, keys = ops.transpose(guides, first), ops.transpose(keys, first)
            weights = ops.cast(ops.squeeze(self.context, -1), keys.dtype)
            scores = pairwise_sum(guides, keys, weights)
        else:
            context = ops.cast(self.context, keys.dtype)
            own = ops.matmul(ops.tanh(keys), context[: self.units])
            scores = ops.matmul(ops.tanh(guides), context[self.units :])
            scores = scores + ops.transpose(own, (0, 2, 1))
        scores = scores + ops.cast(self.bias, scores.dtype)
        weights = masked_softmax(scores, ops.expand_dims(mask, 1))
        return ops.matmul(ops.cast(weights, values.dtype), values)

    def compute_output_shape(self, values_shape):
        return values_shape


def _share(kernel, *parts):
    """One sigmoid per token, `[B, L, 1]`, of its vectors side by side."""
    joined = at_least_float32(ops.concatenate(parts, axis=-1))
    return ops.sigmoid(ops.matmul(joined, ops.cast(kernel, joined.dtype)))


def _norm(x):
    """The norm of each token's vector, `[B, L, 1]`, without a gradient."""
    x = at_least_float32(ops.stop_gradient(x))
    return ops.sqrt(ops.sum(ops.square(x), axis=-1, keepdims=True))


def _constants(mask, dtype: str) -> tuple[Any, Any]:
    """The gates that are not computed: 1/2 and 1."""
    ones = ops.ones_like(ops.expand_dims(mask, -1), dtype=dtype)
    return ones * 0.5, ones


CHANNELS = ("both", "affinity", "difference")


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class DualAttentionBlock(Layer):
    """BERT's transformer block with `DualAttention` and `AdaptiveFusion` instead of its attention.

    `y = norm(x + join(fusion(A, D)))`, `norm(y + narrow(activation(wide(y))))`. All weights but those
    of the fusion have the shapes of `keras_hub.layers.TransformerEncoder`; `backbone_layers` are the
    sublayers that hold them. With the weights of such a block, a new layer computes the same as the
    block, because the fusion starts by returning the affinity.

    Args:
        intermediate_dim: Width of the feed-forward layer.
        num_heads: Number of heads; the width of `x` must be a multiple of it.
        dropout: Dropout rate on the attention weights and after both halves of the block. Defaults to
            `0.1`.
        activation: Activation of the feed-forward layer. Defaults to `"gelu"`.
        layer_norm_epsilon: Epsilon of both layer normalizations. Defaults to `1e-12`.
        channels: `"both"` is the default. `"affinity"` or `"difference"` passes that channel to the
            fusion twice and leaves the other one out. Defaults to `"both"`.
        distance: See `DualAttention`. Defaults to `"l1"`.
        cross: See `DualAttention`. Defaults to `False`.
        fusion_options: Arguments of `AdaptiveFusion`. Defaults to `None`, its own defaults.

    Call arguments:
        x: `[B, L, D]`, both sentences in one sequence.
        mask: Boolean `[B, L]`, True = real token.
        segment_ids: Integers `[B, L]`, the sentence of each token; needed with `cross=True`.
        return_attention: Whether to return weights and gates as well. Defaults to `False`.

    Output shape:
        `[B, L, D]`; with `return_attention` also the weights of affinity and of difference,
        `[B, num_heads, L, L]`, and the gate, the filter and the relative change of the fusion,
        `[B, L]`, all float32.

    Masking:
        Padding is never attended to; padded rows are zeros.

    Raises:
        InputError: An option is unknown, a number is not positive, or the width of `x` is no multiple
            of `num_heads`.

    Example:
        >>> x, mask = np.ones((1, 4, 6), "float32"), np.array([[True, True, True, False]])
        >>> layer = DualAttentionBlock(intermediate_dim=8, num_heads=2)
        >>> y, affinity, difference, gate, kept, change = layer(x, mask, return_attention=True)
        >>> tuple(y.shape), tuple(difference.shape), tuple(gate.shape)
        ((1, 4, 6), (1, 2, 4, 4), (1, 4))

    References:
        Wang et al., DABERT, eq 1-7.
    """

    def __init__(
        self,
        intermediate_dim: int,
        num_heads: int,
        dropout: float = 0.1,
        activation="gelu",
        layer_norm_epsilon: float = 1e-12,
        channels: str = "both",
        distance: str = "l1",
        cross: bool = False,
        fusion_options: Mapping[str, Any] | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        require_positive(intermediate_dim=intermediate_dim, num_heads=num_heads)
        require_choice(CHANNELS, channels=channels)
        self.fusion = self.sublayer(AdaptiveFusion, "fusion", **(fusion_options or {}))

    def build(self, x_shape):
        width, heads = x_shape[-1], self.num_heads
        require(not width % heads, f"{width=} must be a multiple of num_heads={heads}.")
        policy = {"dtype": self.dtype_policy}
        self.attention = self.sublayer(DualAttention, "attention", key_dim=width // heads)
        self.join = keras.layers.EinsumDense(
            "blhk,hkd->bld", (None, width), bias_axes="d", name="join", **policy
        )
        self.attention_norm, self.feedforward_norm = (
            keras.layers.LayerNormalization(epsilon=self.layer_norm_epsilon, name=name, **policy)
            for name in ("attention_norm", "feedforward_norm")
        )
        self.wide = self.dense(self.intermediate_dim, "wide", self.activation, width)
        self.narrow = self.dense(width, "narrow", inputs=self.intermediate_dim)
        self.drop = Dropout(self.dropout, name="drop", **policy)
        for layer in (self.attention, self.attention_norm, self.feedforward_norm):
            layer.build(x_shape)
        self.fusion.build(x_shape, x_shape)
        self.join.build((*x_shape[:-1], heads, width // heads))

    @property
    def backbone_layers(self) -> list[keras.layers.Layer]:
        """The sublayers with the weights of a plain transformer block."""
        norms = [self.attention_norm, self.feedforward_norm]
        return [self.attention, self.join, *norms, self.wide, self.narrow]

    def call(self, x, mask, segment_ids=None, return_attention=False, training=None):
        a, d, *maps = self.attention(x, mask, segment_ids, return_attention=True, training=training)
        pair = {"both": (a, d), "affinity": (a, a), "difference": (d, d)}[self.channels]
        fused = self.fusion(*pair, mask, return_gates=return_attention)
        fused, *gates = fused if return_attention else (fused,)
        by_head = (*ops.shape(x)[:2], self.num_heads, x.shape[-1] // self.num_heads)
        attended = self.join(ops.reshape(fused, by_head))
        y = self.attention_norm(x + self.drop(attended, training=training))
        change = self.narrow(self.wide(y))
        y = self.feedforward_norm(y + self.drop(change, training=training))
        y = zero_padding(y, mask)
        return (y, *maps, *gates) if return_attention else y

    def compute_output_spec(self, x, mask, segment_ids=None, return_attention=False, training=None):
        batch, length, _ = x.shape
        y = self.spec(*x.shape)
        if not return_attention:
            return y
        maps, gates = (batch, self.num_heads, length, length), (batch, length)
        shapes = (maps, maps, gates, gates, gates)
        return (y, *(self.spec(*shape, dtype=self.wide_dtype) for shape in shapes))
