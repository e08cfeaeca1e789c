"""Self-attention with a fuse gate: the encoder of DIIN."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.layers.decaying_dropout import DecayingDropout
from keras_sentmatch.ops import (
    at_least_float32,
    dot_matrix,
    masked_softmax,
    pair_mask,
    zero_padding,
)


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class SelfAttentiveEncoder(keras.layers.Layer):
    """Attends from each token to its own sentence and lets gates fuse what it finds.

    `s_ij = w . [x_i; x_j; x_i * x_j]`, `a_i = sum_j softmax_j(s_ij) x_j`, and with `z, r, f` made of `[x_i; a_i]` by a dense
    layer each (tanh, sigmoid, sigmoid) `y_i = r_i * x_i + f_i * z_i`. The scores are computed as
    `w_1 . x_i + w_2 . x_j + (w_3 * x_i) . x_j`, without a tensor `[B, L, L, 3D]`. (`w_1 . x_i` is the same for every j, so
    the softmax drops it: the first third of `w` never learns. The paper has it.)

    Args:
        dropout: rate on what the gates see at the first training step, see `DecayingDropout`. Defaults to `0.0`.
        dropout_decay: its `decay`. Defaults to `1.0`.
        dropout_decay_steps: its `decay_steps`. Defaults to `10_000`.

    Call arguments:
        x: `[B, L, D]`.
        mask: boolean `[B, L]`, True = real token.
        return_attention: whether to return the attention as well. Defaults to `False`.

    Output shape:
        `[B, L, D]`; with `return_attention` also the weights `[B, L, L]`, whose rows sum to 1.

    Masking:
        Padding gets no weight; padded positions of the output, and their rows of the attention, are zero.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import SelfAttentiveEncoder
        >>> x, mask = np.ones((1, 3, 4), "float32"), np.array([[True, True, False]])
        >>> y, weights = SelfAttentiveEncoder()(x, mask, return_attention=True)
        >>> tuple(y.shape), [float(w) for w in weights[0, 0]]
        ((1, 3, 4), [0.5, 0.5, 0.0])

    References:
        Gong, Luo, Zhang, DIIN, eq 1-7.
    """

    def __init__(
        self,
        dropout: float = 0.0,
        dropout_decay: float = 1.0,
        dropout_decay_steps: int = 10_000,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.dropout = dropout
        self.dropout_decay = dropout_decay
        self.dropout_decay_steps = dropout_decay_steps
        self.token_dropout, self.attended_dropout = (
            DecayingDropout(
                dropout, dropout_decay, dropout_decay_steps, dtype=self.dtype_policy, name=name
            )
            for name in ("token_dropout", "attended_dropout")
        )

    def build(self, x_shape: Any, mask_shape: Any = None) -> None:
        width = x_shape[-1]
        self.attention_kernel = self.add_weight(
            shape=(3 * width, 1), initializer="glorot_uniform", name="attention_kernel"
        )
        # The three gates side by side, z, r, f: one layer for the token, one for what it attended to.
        self.token_gates, self.attended_gates = (
            keras.layers.Dense(
                3 * width,
                kernel_initializer=keras.initializers.VarianceScaling(  # Glorot uniform, by gate
                    1.0, "fan_in", "uniform"
                ),
                dtype=self.dtype_policy,
                name=name,
            )
            for name in ("token_gates", "attended_gates")
        )
        for layer in (self.token_gates, self.attended_gates):
            layer.build(x_shape)
        for dropout in (self.token_dropout, self.attended_dropout):
            dropout.build(x_shape)

    def call(
        self,
        x: Any,
        mask: Any,
        return_attention: bool = False,
        training: bool | None = None,
    ) -> Any:
        x = ops.convert_to_tensor(x)
        wide = at_least_float32(x)
        w_1, w_2, w_3 = ops.split(ops.cast(self.attention_kernel, wide.dtype), 3, axis=0)
        scores = (
            ops.matmul(wide, w_1)
            + ops.transpose(ops.matmul(wide, w_2), (0, 2, 1))
            + dot_matrix(wide * w_3[:, 0], wide)
        )
        weights = ops.cast(masked_softmax(scores, pair_mask(mask, mask)), x.dtype)
        attended = ops.matmul(weights, x)
        gates = self.token_gates(self.token_dropout(x, training=training)) + self.attended_gates(
            self.attended_dropout(attended, training=training)
        )
        z, r, f = ops.split(gates, 3, axis=-1)
        y = zero_padding(ops.sigmoid(r) * x + ops.sigmoid(f) * ops.tanh(z), mask)
        return (y, weights) if return_attention else y

    def compute_output_spec(
        self,
        x: Any,
        mask: Any,
        return_attention: bool = False,
        training: bool | None = None,
    ) -> Any:
        y = keras.KerasTensor(x.shape, dtype=self.compute_dtype)
        if not return_attention:
            return y
        return y, keras.KerasTensor((*x.shape[:2], x.shape[1]), dtype=self.compute_dtype)

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        return None  # masks are explicit arguments; Keras is given none to pass on

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "dropout": self.dropout,
            "dropout_decay": self.dropout_decay,
            "dropout_decay_steps": self.dropout_decay_steps,
        }
