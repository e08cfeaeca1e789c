"""One vector per sentence: its tokens weighted by a small attention network."""

import keras
from keras import ops

from keras_sentmatch.layers.base import Layer, require_positive
from keras_sentmatch.ops import masked_softmax
from keras_sentmatch.ops.masking import at_least_float32


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class SelfAttentionPooling(Layer):
    """Weighted sum of the tokens, `[B, L, D]` to `[B, D]`, by scores `w . tanh(x_i W + b)`.

    Args:
        units: Width of the hidden layer that scores a token. Defaults to `256`.
        context_initializer: Initializer of `w`. With `"zeros"` all tokens start with equal weights.
            Defaults to `"glorot_uniform"`.

    Call arguments:
        x: `[B, L, D]`.
        mask: Boolean `[B, L]`, True = real token.
        return_attention: Whether to return the weights as well. Defaults to `False`.

    Output shape:
        `[B, D]`; with `return_attention` also the weights, `[B, L]` float32, which sum to 1 over the
        real tokens.

    Masking:
        Padding gets no weight. An empty sentence gives zeros. Scores and softmax are float32 under
        every half-precision policy.

    Raises:
        InputError: `units` is below 1.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import SelfAttentionPooling
        >>> x, mask = np.ones((1, 3, 4), "float32"), np.array([[True, True, False]])
        >>> pooled, weights = SelfAttentionPooling(8)(x, mask, return_attention=True)
        >>> tuple(pooled.shape), [float(w) for w in weights[0]]
        ((1, 4), [0.5, 0.5, 0.0])

    References:
        Zhang et al., DRr-Net, eq 3; LadRa-Net, eq 11.
    """

    def __init__(self, units: int = 256, context_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        require_positive(units=units)

    def build(self, x_shape):
        self.kernel = self.add_weight(shape=(x_shape[-1], self.units), name="kernel")
        self.bias = self.add_weight(shape=(self.units,), initializer="zeros", name="bias")
        # A column gives Glorot's range the paper's n_in = units, n_out = 1.
        self.context = self.add_weight(
            shape=(self.units, 1),
            initializer=self.context_initializer,
            name="context",
            autocast=False,
        )

    def call(self, x, mask, return_attention=False):
        hidden = at_least_float32(ops.tanh(ops.matmul(x, self.kernel) + self.bias))  # [B, L, units]
        scores = ops.squeeze(ops.matmul(hidden, ops.cast(self.context, hidden.dtype)), -1)  # [B, L]
        weights = masked_softmax(scores, mask)
        pooled = ops.squeeze(ops.matmul(ops.expand_dims(ops.cast(weights, x.dtype), 1), x), 1)
        return (pooled, weights) if return_attention else pooled

    def compute_output_spec(self, x, mask, return_attention=False):
        batch, length, width = x.shape
        pooled = self.spec(batch, width)
        if not return_attention:
            return pooled
        return pooled, self.spec(batch, length, dtype=self.wide_dtype)
