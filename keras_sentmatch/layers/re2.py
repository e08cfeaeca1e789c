"""The layers of RE2 (Yang et al. 2019)."""

import keras
from keras import ops

from keras_sentmatch.layers.base import Layer, require_choice, require_positive
from keras_sentmatch.layers.dropout import Dropout
from keras_sentmatch.ops.masking import at_least_float32, zero_padding


@keras.saving.register_keras_serializable(package="keras_sentmatch")
def gelu(x):
    """GELU by its tanh approximation, as in the authors' PyTorch code."""
    return ops.gelu(x, approximate=True)


def he_normal() -> keras.Initializer:
    return keras.initializers.VarianceScaling(2.0, distribution="untruncated_normal")


class _WeightNormalized(Layer):
    """A layer whose output k has the kernel `g_k v_k / ||v_k||` (Salimans, Kingma 2016, eq 2).

    `v` is the weight `kernel`, `g` the weight `scale`. `g` starts at `||v||`, so the layer starts as a
    plain one with the kernel `v`.
    """

    def _add_weights(self, *shape: int) -> None:
        self.kernel = self.add_weight(
            shape=shape, initializer=self.kernel_initializer, name="kernel"
        )
        self.scale = self.add_weight(
            shape=shape[-1:],
            initializer=lambda shape, dtype=None: ops.cast(ops.sqrt(_squares(self.kernel)), dtype),
            name="scale",
        )
        self.bias = self.add_weight(shape=shape[-1:], initializer="zeros", name="bias")

    def normalized(self):
        """Return the kernel `g v / ||v||`."""
        kernel = ops.convert_to_tensor(self.kernel)
        inverse = ops.rsqrt(_squares(kernel))  # fewer operations, backward too, than to divide
        rate = ops.cast(ops.cast(self.scale, inverse.dtype) * inverse, kernel.dtype)
        return kernel * rate


def _squares(kernel):
    """The squared length of each output's kernel, in float32 at least, and never zero."""
    kernel = at_least_float32(kernel)
    return ops.sum(ops.square(kernel), axis=tuple(range(len(kernel.shape) - 1))) + 1e-16


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class WeightNormalizedDense(_WeightNormalized):
    """A dense layer with weight normalization, `[..., D]` to `[..., units]`."""

    def __init__(self, units: int, activation=None, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)

    def build(self, x_shape):
        self._add_weights(x_shape[-1], self.units)

    def call(self, x):
        return self.activation(ops.matmul(x, self.normalized()) + self.bias)

    def compute_output_shape(self, x_shape):
        return (*x_shape[:-1], self.units)


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class WeightNormalizedConv1D(_WeightNormalized):
    """A convolution with weight normalization, `[B, L, D]` to `[B, L, filters]`.

    The norm is that of the whole filter. Set padded positions to zero before and after.
    """

    def __init__(
        self,
        filters: int,
        kernel_size: int,
        activation=None,
        kernel_initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)

    def build(self, x_shape):
        self._add_weights(self.kernel_size, x_shape[-1], self.filters)

    def call(self, x):
        x = ops.conv(x, self.normalized(), padding="same", data_format="channels_last")
        return self.activation(x + self.bias)

    def compute_output_shape(self, x_shape):
        return (*x_shape[:-1], self.filters)


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class ConvolutionalBlock(Layer):
    """Convolutions over windows of three words, `[B, L, D]` to `[B, L, units]` (RE2, section 2.1).

    Each has GELU, weight normalization and dropout. Padding is set to zero before each convolution and
    after the last one, so it looks like the end of the sentence.
    """

    def __init__(self, units: int, num_layers: int = 2, dropout: float = 0.2, **kwargs):
        super().__init__(**kwargs)
        require_positive(num_layers=num_layers)
        self.convolutions = [
            WeightNormalizedConv1D(
                units, 3, gelu, he_normal(), dtype=self.dtype_policy, name=f"convolution_{i + 1}"
            )
            for i in range(num_layers)
        ]
        self.dropouts = [Dropout(dropout, dtype=self.dtype_policy) for _ in range(num_layers)]

    def build(self, x_shape):
        for i, convolution in enumerate(self.convolutions):
            convolution.build((None, None, self.units if i else x_shape[-1]))

    def call(self, x, mask, training=None):
        x = zero_padding(ops.convert_to_tensor(x), mask)
        for convolution, dropout in zip(self.convolutions, self.dropouts):
            x = zero_padding(dropout(convolution(x), training=training), mask)
        return x

    def compute_output_shape(self, x_shape):
        return (*x_shape[:-1], self.units)


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class AlignmentFusion(Layer):
    """Compare each token in three ways with the vector it attended to (RE2, eq 4-7).

    `G([G_1([x; a]); G_2([x; x - a]); G_3([x; x * a])])`, or only `G_1([x; a])` with `mode="simple"`.
    Each `G` is a dense layer with GELU and weight normalization, and `dropout` stands before the last.
    `x` and `attended` are `[B, L, D]`; the output is `[B, L, units]`, zeros at padding.
    """

    def __init__(self, units: int, mode: str = "full", dropout: float = 0.2, **kwargs):
        super().__init__(**kwargs)
        require_choice(("full", "simple"), mode=mode)

        def dense(name: str) -> WeightNormalizedDense:
            return WeightNormalizedDense(
                units, gelu, he_normal(), dtype=self.dtype_policy, name=name
            )

        self.views = [dense("concatenation")]
        if mode == "full":
            self.views += [dense("difference"), dense("product")]
            self.output_dropout = Dropout(dropout, dtype=self.dtype_policy)
            self.output_dense = dense("fusion")

    def build(self, x_shape):
        for view in self.views:
            view.build((None, None, 2 * x_shape[-1]))
        if self.mode == "full":
            self.output_dense.build((None, None, 3 * self.units))

    def call(self, x, attended, mask, training=None):
        x, attended = ops.convert_to_tensor(x), ops.convert_to_tensor(attended)
        width, kernels = x.shape[-1], [view.normalized() for view in self.views]
        # [x; a] K = x U + a V, where K = [U; V]. So [x; x - a] K = x (U + V) - a V.
        upper, lower = zip(*((kernel[:width], kernel[width:]) for kernel in kernels))
        of_x, of_attended, of_product = [*upper], [lower[0]], []
        if self.mode == "full":
            of_x[1] = upper[1] + lower[1]
            of_attended.append(-lower[1])
            of_product.append(ops.matmul(x * attended, lower[2]))
        others = [ops.matmul(attended, ops.concatenate(of_attended, axis=-1)), *of_product]
        y = ops.matmul(x, ops.concatenate(of_x, axis=-1)) + ops.concatenate(others, axis=-1)
        y = gelu(y + ops.concatenate([view.bias for view in self.views], axis=-1))
        if self.mode == "full":
            y = self.output_dense(self.output_dropout(y, training=training))
        return zero_padding(y, mask)

    def compute_output_shape(self, x_shape):
        return (*x_shape[:-1], self.units)
