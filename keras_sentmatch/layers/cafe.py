"""The layer of CAFE (Tay, Tuan, Hui 2018)."""

import keras
from keras import ops

from keras_sentmatch.layers.base import Layer
from keras_sentmatch.ops.masking import at_least_float32


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class FactorizationMachine(Layer):
    """Compute one number from a vector: a linear part and the products of all pairs of features.

    `fm(z) = w_0 + w . z + 1/2 sum_f [(v_f . z)^2 - v_f^2 . z^2]`, which equals
    `w_0 + w . z + sum_{i<j} <v_i, v_j> z_i z_j` and takes time linear in D.

    Args:
        factors: Number of vectors `v_f`. Defaults to `10`.
        kernel_regularizer: Penalty on `w` and on the factors. Defaults to `None`.

    Call arguments:
        z: `[..., D]`.

    Output shape:
        `[..., 1]`. Sums are computed in float32 or wider under every policy.

    Masking:
        Each position is computed alone.

    Example:
        >>> tuple(FactorizationMachine()(np.ones((2, 3, 8), "float32")).shape)
        (2, 3, 1)

    References:
        Rendle 2010; Tay, Tuan, Hui, CAFE, "Alignment Factorization".
    """

    def __init__(self, factors: int = 10, kernel_regularizer=None, **kwargs):
        super().__init__(**kwargs)

    def build(self, z_shape):
        def kernel(columns: int, name: str):
            return self.add_weight(
                shape=(z_shape[-1], columns), regularizer=self.kernel_regularizer, name=name
            )

        self.bias = self.add_weight(shape=(1,), initializer="zeros", name="bias")
        self.kernel = kernel(1, "kernel")
        self.factor_kernel = kernel(self.factors, "factor_kernel")

    def call(self, z):
        z = ops.convert_to_tensor(z)
        wide = at_least_float32(z)
        y = ops.matmul(wide, ops.cast(self.kernel, wide.dtype)) + ops.cast(self.bias, wide.dtype)
        v = ops.cast(self.factor_kernel, wide.dtype)
        pairs = ops.sum(ops.square(ops.matmul(wide, v)), axis=-1, keepdims=True)
        squares = ops.matmul(ops.square(wide), ops.sum(ops.square(v), axis=-1, keepdims=True))
        y = y + 0.5 * (pairs - squares)
        return ops.cast(y, z.dtype)

    def compute_output_shape(self, z_shape):
        return (*z_shape[:-1], 1)
