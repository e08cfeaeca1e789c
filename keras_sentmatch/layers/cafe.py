"""The layer of CAFE (Tay, Tuan, Hui 2018)."""

import keras
from keras import ops

from keras_sentmatch.layers.base import Layer
from keras_sentmatch.ops import at_least_float32


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class FactorizationMachine(Layer):
    """One number from a vector: its linear part and the products of all pairs of its features.

    `fm(z) = w_0 + w . z + 1/2 sum_f [(v_f . z)^2 - v_f^2 . z^2]`, which is
    `w_0 + w . z + sum_{i<j} <v_i, v_j> z_i z_j` in time linear in D.

    Args:
        factors: how many `v_f`; 0 leaves the linear part. Defaults to `10`.
        kernel_regularizer: for `w` and for the factors. Defaults to `None`.

    Call arguments:
        z: `[..., D]`.

    Output shape:
        `[..., 1]`. Sums are taken in float32 under every policy.

    Masking:
        Works on each position alone; a padded position stays what its own input makes it.

    Raises:
        ValueError: if `factors` is negative.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import FactorizationMachine
        >>> tuple(FactorizationMachine()(np.ones((2, 3, 8), "float32")).shape)
        (2, 3, 1)

    References:
        Rendle 2010; Tay, Tuan, Hui, CAFE, "Alignment Factorization".
    """

    def __init__(self, factors: int = 10, kernel_regularizer=None, **kwargs):
        super().__init__(**kwargs)
        if factors < 0:
            raise ValueError(f"factors must be at least 0. Received: factors={factors!r}")

    def build(self, z_shape):
        def weight(shape, initializer: str, name: str, regularizer=None):
            return self.add_weight(
                shape=shape, initializer=initializer, regularizer=regularizer, name=name
            )

        self.bias = weight((1,), "zeros", "bias")
        self.kernel = weight((z_shape[-1], 1), "glorot_uniform", "kernel", self.kernel_regularizer)
        if self.factors:
            shape = (z_shape[-1], self.factors)
            self.factor_kernel = weight(
                shape, "glorot_uniform", "factor_kernel", self.kernel_regularizer
            )

    def call(self, z):
        z = ops.convert_to_tensor(z)
        wide = at_least_float32(z)
        y = ops.matmul(wide, ops.cast(self.kernel, wide.dtype)) + ops.cast(self.bias, wide.dtype)
        if self.factors:
            v = ops.cast(self.factor_kernel, wide.dtype)
            pairs = ops.sum(ops.square(ops.matmul(wide, v)), axis=-1, keepdims=True)
            squares = ops.matmul(ops.square(wide), ops.sum(ops.square(v), axis=-1, keepdims=True))
            y = y + 0.5 * (pairs - squares)
        return ops.cast(y, z.dtype)

    def compute_output_shape(self, z_shape):
        return (*z_shape[:-1], 1)
