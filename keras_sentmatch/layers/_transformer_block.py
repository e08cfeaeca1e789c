"""A transformer block on masked sequences, for layers of this package."""

import keras
from keras import ops

from keras_sentmatch.layers.base import Layer
from keras_sentmatch.ops import masked_softmax
from keras_sentmatch.ops.masking import at_least_float32


class TransformerBlock(Layer):
    """`y = norm(x + attention(x))`, `norm(y + feed_forward(y))`, as wide as `x`.

    A head is `ceil(D / heads)` wide, so any number of heads fits any width. The feed-forward layer
    is `4 D` wide. Keys have no bias, because the softmax would cancel it. The block adds no
    positions: its input has them.
    """

    def __init__(self, heads: int, kernel_regularizer=None, **kwargs):
        super().__init__(**kwargs)

    def build(self, x_shape):
        width = x_shape[-1]
        self.head_width = -(-width // self.heads)
        per_head = (None, self.heads, self.head_width)
        options = {"kernel_regularizer": self.kernel_regularizer, "dtype": self.dtype_policy}

        def project(name: str, bias: str | None = "hs") -> keras.layers.EinsumDense:
            return keras.layers.EinsumDense(
                "bld,dhs->blhs", per_head, bias_axes=bias, name=name, **options
            )

        self.query, self.key, self.value = project("query"), project("key", None), project("value")
        self.join = keras.layers.EinsumDense(
            "blhs,hsd->bld", (None, width), bias_axes="d", name="join", **options
        )
        self.wide = self.dense(4 * width, "wide", "relu", width)
        self.narrow = self.dense(width, "narrow", inputs=4 * width)
        self.norms = [
            keras.layers.LayerNormalization(dtype=self.dtype_policy, name=name)
            for name in ("norm_1", "norm_2")
        ]
        for layer in (self.query, self.key, self.value, *self.norms):
            layer.build(x_shape)
        self.join.build((*x_shape[:-1], self.heads, self.head_width))

    def call(self, x, mask):
        query, key = at_least_float32(self.query(x)), at_least_float32(self.key(x))
        scores = ops.einsum("bihs,bjhs->bhij", query, key) * self.head_width**-0.5
        weights = masked_softmax(scores, ops.expand_dims(mask, (1, 2)))
        value = self.value(x)
        attended = ops.einsum("bhij,bjhs->bihs", ops.cast(weights, value.dtype), value)
        y = self.norms[0](x + self.join(attended))
        return self.norms[1](y + self.narrow(self.wide(y)))

    def compute_output_shape(self, x_shape):
        return x_shape
