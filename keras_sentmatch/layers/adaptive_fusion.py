"""Adaptive fusion of two views of the same tokens, such as the two channels of dual attention."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.ops import at_least_float32, masked_softmax, zero_padding
from keras_sentmatch.ops.pairwise import pairwise_sum

ALIGNMENTS = ("additive", "literal", "none")
OUTPUT_MODES = ("residual", "replace")


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class AdaptiveFusion(keras.layers.Layer):
    """Adds to the affinity of each token what its difference tells, as much of it as two gates let through.

    1. Alignment: each token's affinity `a_i` attends to the differences of all tokens, which gives `d'_i`; that attends to
       all affinities, which gives `a'_i`; `d*_i = tanh([d_i; d'_i] W + b)`, and `a*_i` in the same way.
    2. Gate: `d^_i = tanh(d*_i W + b)`, `a^_i` in the same way; `g_i = sigmoid([d^_i; a^_i] w)`;
       `v_i = g_i a^_i + (1 - g_i) d^_i`.
    3. Filter: `f_i = sigmoid([a_i; v_i W_v + b_v] w)`, `l_i = f_i tanh(v_i W_l + b_l)`. The output is `a_i + l_i`.

    `W_l` and `b_l` start at zero, so a new layer returns the affinity: put into a trained network, it changes nothing yet.

    Args:
        attention_units: width of the hidden layer that scores a token in the alignment. Defaults to `128`.
        hidden_units: width of `v_i`. Defaults to `None`, the width of the affinity.
        alignment: the scores `u_ij` of token j for token i, of their vectors times a matrix each. `"additive"` is
            `w . tanh(x_j + y_i)`. `"literal"` is eq 5 as printed, `w . tanh([x_j; y_i])`, where y_i adds the same to the
            score of every j: it guides nothing. `"none"` leaves alignment out: `d* = d`, `a* = a`. Defaults to `"additive"`.
        gate: whether to compute `g_i`; otherwise it is 1/2. Defaults to `True`.
        filter_gate: whether to compute `f_i`; otherwise it is 1. Defaults to `True`.
        output_mode: `"residual"` returns `a_i + l_i`, `"replace"` `l_i` as eq 7 prints it, so zeros at first.
            Defaults to `"residual"`.
        regulation: with `False` all of the above is left out and the output is `(a_i + d_i) / 2`. Defaults to `True`.

    Call arguments:
        affinity: `[B, L, D]`.
        difference: `[B, L, D]`.
        mask: boolean `[B, L]`, True = real token.
        return_gates: whether to return both gates as well. Defaults to `False`.

    Output shape:
        `[B, L, D]`; with `return_gates` also `g` and `f`, `[B, L]` float32.

    Masking:
        Padding is never attended to; outputs and gates are zero there. Scores, softmax and gates are float32 under every
        policy.

    Memory:
        The additive scores need a tanh for each pair of tokens and attention unit, `[B, L, L, attention_units]`, but one
        unit's is held at a time, in the backward pass too.

    Raises:
        ValueError: for an unknown option, a number that is not positive, or inputs of unequal widths.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import AdaptiveFusion
        >>> a, d = np.ones((1, 2, 4), "float32"), np.zeros((1, 2, 4), "float32")
        >>> mask = np.array([[True, False]])
        >>> fused, g, f = AdaptiveFusion(attention_units=3)(a, d, mask, return_gates=True)
        >>> [float(v) for v in fused[0, 0]], [float(v) for v in fused[0, 1]], tuple(g.shape)
        ([1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0], (1, 2))

    References:
        Wang et al., DABERT, eq 5-7.
    """

    def __init__(
        self,
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
        for name, number in (
            ("attention_units", attention_units),
            ("hidden_units", 1 if hidden_units is None else hidden_units),
        ):
            if number < 1:
                raise ValueError(f"{name} must be at least 1. Received: {name}={number!r}")
        for name, value, allowed in (
            ("alignment", alignment, ALIGNMENTS),
            ("output_mode", output_mode, OUTPUT_MODES),
        ):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {allowed}. Received: {name}={value!r}")
        self.attention_units = attention_units
        self.hidden_units = hidden_units
        self.alignment = alignment
        self.gate = gate
        self.filter_gate = filter_gate
        self.output_mode = output_mode
        self.regulation = regulation

    def build(
        self, affinity_shape: Any, difference_shape: Any = None, mask_shape: Any = None
    ) -> None:
        width = affinity_shape[-1]
        if difference_shape is not None and difference_shape[-1] != width:
            raise ValueError(
                "affinity and difference must have the same width. "
                f"Received: shapes {affinity_shape} and {difference_shape}"
            )
        if not self.regulation:
            return
        hidden = self.hidden_units or width

        def dense(
            inputs: int, units: int, name: str, activation: str | None = "tanh", **options: Any
        ) -> keras.layers.Dense:
            layer = keras.layers.Dense(
                units, activation, dtype=self.dtype_policy, name=name, **options
            )
            layer.build((None, None, inputs))
            return layer

        def column(inputs: int, name: str) -> Any:
            return self.add_weight(shape=(inputs, 1), name=name, autocast=False)

        if self.alignment != "none":
            self.align_difference, self.align_affinity = (
                _GuidedAlignment(
                    self.attention_units,
                    self.alignment == "additive",
                    dtype=self.dtype_policy,
                    name=name,
                )
                for name in ("align_difference", "align_affinity")
            )
            for layer in (self.align_difference, self.align_affinity):
                layer.build(affinity_shape)
            self.join_difference = dense(2 * width, width, "join_difference")
            self.join_affinity = dense(2 * width, width, "join_affinity")
        self.hidden_difference = dense(width, hidden, "hidden_difference")
        self.hidden_affinity = dense(width, hidden, "hidden_affinity")
        if self.gate:
            self.gate_kernel = column(2 * hidden, "gate_kernel")
        if self.filter_gate:
            self.filter_value = dense(hidden, width, "filter_value", None)
            self.filter_kernel = column(2 * width, "filter_kernel")
        self.fused = dense(hidden, width, "fused", kernel_initializer="zeros")

    def call(self, affinity: Any, difference: Any, mask: Any, return_gates: bool = False) -> Any:
        if self.regulation:
            fused, gate, kept = self._regulated(affinity, difference, mask)
        else:
            fused, gate, kept = (affinity + difference) * 0.5, *_constants(mask)
        fused = zero_padding(fused, mask)
        if not return_gates:
            return fused
        return fused, *(ops.squeeze(zero_padding(x, mask), -1) for x in (gate, kept))

    def _regulated(self, a: Any, d: Any, mask: Any) -> tuple[Any, Any, Any]:
        new_a, new_d = a, d
        if self.alignment != "none":
            guided = self.align_difference(d, a, mask)
            new_d = self.join_difference(ops.concatenate([d, guided], axis=-1))
            guided = self.align_affinity(a, guided, mask)
            new_a = self.join_affinity(ops.concatenate([a, guided], axis=-1))
        new_a, new_d = self.hidden_affinity(new_a), self.hidden_difference(new_d)
        gate, kept = _constants(mask)
        if self.gate:
            gate = _share(self.gate_kernel, new_d, new_a)
        v = ops.cast(gate, a.dtype) * new_a + ops.cast(1.0 - gate, a.dtype) * new_d
        if self.filter_gate:
            kept = _share(self.filter_kernel, a, self.filter_value(v))
        fused = ops.cast(kept, a.dtype) * self.fused(v)
        return (a + fused if self.output_mode == "residual" else fused), gate, kept

    def compute_output_spec(
        self, affinity: Any, difference: Any, mask: Any, return_gates: bool = False
    ) -> Any:
        fused = keras.KerasTensor(affinity.shape, dtype=self.compute_dtype)
        if not return_gates:
            return fused
        gates = (keras.KerasTensor(affinity.shape[:2], dtype="float32") for _ in range(2))
        return fused, *gates

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        return None  # masks are explicit arguments; Keras is given none to pass on

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "attention_units": self.attention_units,
            "hidden_units": self.hidden_units,
            "alignment": self.alignment,
            "gate": self.gate,
            "filter_gate": self.filter_gate,
            "output_mode": self.output_mode,
            "regulation": self.regulation,
        }


class _GuidedAlignment(keras.layers.Layer):
    """For each guide vector the weighted sum of all values: `[B, L, D]` twice to `[B, L, D]`."""

    def __init__(self, units: int, additive: bool, **kwargs: Any):
        super().__init__(**kwargs)
        self.units = units
        self.additive = additive
        self.key = keras.layers.Dense(units, use_bias=False, dtype=self.dtype_policy, name="key")
        self.guide = keras.layers.Dense(units, dtype=self.dtype_policy, name="guide")

    def build(self, values_shape: Any, guides_shape: Any = None, mask_shape: Any = None) -> None:
        for layer in (self.key, self.guide):
            layer.build(values_shape)
        size = self.units if self.additive else 2 * self.units
        self.context = self.add_weight(shape=(size, 1), name="context", autocast=False)
        # In eq 5, and in the count of parameters; a constant on all scores, it changes no softmax.
        self.bias = self.add_weight(
            shape=(1,), initializer="zeros", name="context_bias", autocast=False
        )

    def call(self, values: Any, guides: Any, mask: Any) -> Any:
        keys = at_least_float32(self.key(values))
        guides = at_least_float32(self.guide(guides))
        if self.additive:
            first = (2, 0, 1)  # the attention units, which are summed over
            guides, keys = ops.transpose(guides, first), ops.transpose(keys, first)
            weights = ops.squeeze(ops.convert_to_tensor(self.context), -1)
            scores = pairwise_sum(guides, keys, weights)
        else:
            own = ops.matmul(ops.tanh(keys), self.context[: self.units])
            scores = ops.matmul(ops.tanh(guides), self.context[self.units :])
            scores = scores + ops.transpose(own, (0, 2, 1))
        weights = masked_softmax(scores + self.bias, ops.expand_dims(mask, 1))
        return ops.matmul(ops.cast(weights, values.dtype), values)

    def compute_output_shape(
        self, values_shape: Any, guides_shape: Any = None, mask_shape: Any = None
    ) -> Any:
        return values_shape

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        return None


def _share(kernel: Any, *parts: Any) -> Any:
    """One sigmoid for each token, `[B, L, 1]`, of its vectors side by side."""
    return ops.sigmoid(ops.matmul(at_least_float32(ops.concatenate(parts, axis=-1)), kernel))


def _constants(mask: Any) -> tuple[Any, Any]:
    """The gates that are not computed: one half, and one."""
    ones = ops.ones_like(ops.expand_dims(mask, -1), dtype="float32")
    return ones * 0.5, ones
