"""A transformer block that attends to what a token is like and to what it differs from."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.layers.adaptive_fusion import AdaptiveFusion
from keras_sentmatch.layers.dual_attention import DualAttention
from keras_sentmatch.ops import zero_padding

CHANNELS = ("both", "affinity", "difference")


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class DualAttentionEncoder(keras.layers.Layer):
    """BERT's transformer block with `DualAttention` and `AdaptiveFusion` in place of its attention.

    `y = norm(x + join(fusion(A, D)))`, `norm(y + narrow(activation(wide(y))))`. Beside the fusion it has the weights of
    BERT's block, in the shapes of `keras_hub.layers.TransformerEncoder`; `encoder_layers` are the sublayers that hold
    them. With the weights of such a block a new layer gives what the block gives: the fusion starts by returning the
    affinity.

    Args:
        intermediate_dim: width of the feed-forward layer.
        num_heads: number of heads; the width of `x` must be a multiple of it.
        dropout: rate on the attention weights and after either half of the block. Defaults to `0.1`.
        activation: of the feed-forward layer. Defaults to `"gelu"`.
        layer_norm_epsilon: of both layer normalizations. Defaults to `1e-12`.
        channels: what is fused: `"both"`, or `"affinity"` or `"difference"` twice, which leaves the other out. Defaults to
            `"both"`.
        distance: `"l1"`, `"l2"`, `"l2_squared"` or `"sum"`, see `DualAttention`. Defaults to `"l1"`.
        cross: whether a token's difference channel sees the other sentence only. Defaults to `False`.
        attention_units: width of the alignment's hidden layer, see `AdaptiveFusion`. Defaults to `128`.
        hidden_units: width of the fused vector. Defaults to `None`, the width of `x`.
        alignment: `"additive"`, `"literal"` or `"none"`. Defaults to `"additive"`.
        gate: whether the fusion computes the gate between both channels. Defaults to `True`.
        filter_gate: whether it computes the gate on what is added. Defaults to `True`.
        output_mode: `"residual"` or `"replace"`. Defaults to `"residual"`.
        regulation: with `False` the fusion is the mean of both channels. Defaults to `True`.

    Call arguments:
        x: `[B, L, D]`, both sentences in one sequence.
        mask: boolean `[B, L]`, True = real token.
        segment_ids: integers `[B, L]`, which sentence a token belongs to; needed with `cross=True`, else not used.
        return_attention: whether to return what the layer did as well. Defaults to `False`.

    Output shape:
        `[B, L, D]`; with `return_attention` also the weights of affinity and of difference, `[B, num_heads, L, L]`, and the
        gate and the filter of the fusion, `[B, L]`, all float32.

    Masking:
        Padding is never attended to; padded rows are zeros.

    Memory:
        See `DualAttention` and `AdaptiveFusion`.

    Raises:
        ValueError: for an unknown option, a number that is not positive, or a width that the heads cannot share.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import DualAttentionEncoder
        >>> x, mask = np.ones((1, 4, 6), "float32"), np.array([[True, True, True, False]])
        >>> layer = DualAttentionEncoder(intermediate_dim=8, num_heads=2)
        >>> y, affinity, difference, gate, kept = layer(x, mask, return_attention=True)
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
        activation: Any = "gelu",
        layer_norm_epsilon: float = 1e-12,
        channels: str = "both",
        distance: str = "l1",
        cross: bool = False,
        attention_units: int = 128,
        hidden_units: int | None = None,
        alignment: str = "additive",
        gate: bool = True,
        filter_gate: bool = True,
        output_mode: str = "residual",
        regulation: bool = True,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        for name, number in (("intermediate_dim", intermediate_dim), ("num_heads", num_heads)):
            if number < 1:
                raise ValueError(f"{name} must be at least 1. Received: {name}={number!r}")
        if channels not in CHANNELS:
            raise ValueError(f"channels must be one of {CHANNELS}. Received: channels={channels!r}")
        self.intermediate_dim = intermediate_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.activation = keras.activations.get(activation)
        self.layer_norm_epsilon = layer_norm_epsilon
        self.channels = channels
        self.distance = distance
        self.cross = cross
        self.attention_units = attention_units
        self.hidden_units = hidden_units
        self.alignment = alignment
        self.gate = gate
        self.filter_gate = filter_gate
        self.output_mode = output_mode
        self.regulation = regulation
        self.fusion = AdaptiveFusion(
            attention_units,
            hidden_units,
            alignment,
            gate,
            filter_gate,
            output_mode,
            regulation,
            dtype=self.dtype_policy,
            name="fusion",
        )

    def build(self, x_shape: Any, mask_shape: Any = None, segment_ids_shape: Any = None) -> None:
        width, heads = x_shape[-1], self.num_heads
        if width % heads:
            raise ValueError(
                f"The width of x must be a multiple of num_heads={heads}. Received: shape={x_shape}"
            )
        policy = {"dtype": self.dtype_policy}
        self.attention = DualAttention(
            heads,
            width // heads,
            self.distance,
            self.cross,
            self.dropout,
            name="attention",
            **policy,
        )
        self.join = keras.layers.EinsumDense(
            "blhk,hkd->bld", (None, width), bias_axes="d", name="join", **policy
        )
        self.attention_norm, self.feedforward_norm = (
            keras.layers.LayerNormalization(epsilon=self.layer_norm_epsilon, name=name, **policy)
            for name in ("attention_norm", "feedforward_norm")
        )
        self.wide = keras.layers.Dense(
            self.intermediate_dim, self.activation, name="wide", **policy
        )
        self.narrow = keras.layers.Dense(width, name="narrow", **policy)
        self.drop = keras.layers.Dropout(self.dropout, name="drop", **policy)
        for layer in (
            self.attention,
            self.attention_norm,
            self.feedforward_norm,
            self.wide,
            self.drop,
        ):
            layer.build(x_shape)
        self.fusion.build(x_shape, x_shape)
        self.join.build((*x_shape[:-1], heads, width // heads))
        self.narrow.build((*x_shape[:-1], self.intermediate_dim))

    @property
    def encoder_layers(self) -> list[keras.layers.Layer]:
        """The sublayers with the weights of a plain transformer block, so without the fusion."""
        norms = [self.attention_norm, self.feedforward_norm]
        return [self.attention, self.join, *norms, self.wide, self.narrow]

    def call(
        self,
        x: Any,
        mask: Any,
        segment_ids: Any = None,
        return_attention: bool = False,
        training: bool | None = None,
    ) -> Any:
        a, d, *maps = self.attention(x, mask, segment_ids, return_attention=True, training=training)
        pair = {"both": (a, d), "affinity": (a, a), "difference": (d, d)}[self.channels]
        fused, *gates = self.fusion(*pair, mask, return_gates=True)
        by_head = (*ops.shape(x)[:2], self.num_heads, x.shape[-1] // self.num_heads)
        attended = self.join(ops.reshape(fused, by_head))
        y = self.attention_norm(x + self.drop(attended, training=training))
        change = self.narrow(self.wide(y))
        y = self.feedforward_norm(y + self.drop(change, training=training))
        y = zero_padding(y, mask)
        return (y, *maps, *gates) if return_attention else y

    def compute_output_spec(
        self,
        x: Any,
        mask: Any,
        segment_ids: Any = None,
        return_attention: bool = False,
        training: bool | None = None,
    ) -> Any:
        batch, length, _ = x.shape
        y = keras.KerasTensor(x.shape, dtype=self.compute_dtype)
        if not return_attention:
            return y
        maps, gates = (batch, self.num_heads, length, length), (batch, length)
        shapes = (maps, maps, gates, gates)
        return (y, *(keras.KerasTensor(shape, dtype="float32") for shape in shapes))

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        return None  # masks are explicit arguments; Keras is given none to pass on

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "num_heads": self.num_heads,
            "dropout": self.dropout,
            "activation": keras.activations.serialize(self.activation),
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "channels": self.channels,
            "distance": self.distance,
            "cross": self.cross,
            "attention_units": self.attention_units,
            "hidden_units": self.hidden_units,
            "alignment": self.alignment,
            "gate": self.gate,
            "filter_gate": self.filter_gate,
            "output_mode": self.output_mode,
            "regulation": self.regulation,
        }
