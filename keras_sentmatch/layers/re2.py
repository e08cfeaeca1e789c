"""The layers of RE2 (Yang et al. 2019)."""

from functools import partial
from typing import Any

import keras
from keras import ops

from keras_sentmatch.layers.base import Layer, require_choice, require_positive
from keras_sentmatch.ops import at_least_float32, zero_padding


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class WeightNormalizedDense(Layer):
    """A dense layer with weight normalization: column k of its kernel is `g_k v_k / ||v_k||`.

    `v` is the weight `kernel`, `g` the weight `scale`. `g` starts at `||v||`, so the first output
    is that of a plain dense layer with the kernel `v`.

    Args:
        units: width of the output.
        activation: of the output. Defaults to `None`.
        kernel_initializer: of `v`. Defaults to `"glorot_uniform"`.

    Call arguments:
        x: `[..., D]`.

    Output shape:
        `[..., units]`.

    Masking:
        Works on each position alone; a padded position stays what its own input makes it.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import WeightNormalizedDense
        >>> layer = WeightNormalizedDense(1, kernel_initializer="ones")
        >>> float(layer(np.array([[3.0, 4.0]]))[0, 0])
        7.0
        >>> [w.name for w in layer.weights]
        ['kernel', 'scale', 'bias']

    References:
        Salimans, Kingma: "Weight Normalization", NeurIPS 2016, eq 2.
    """

    def __init__(self, units: int, activation=None, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)

    def build(self, x_shape):
        self.kernel, self.scale = add_normalized_kernel(self, (x_shape[-1], self.units))
        self.bias = self.add_weight(shape=(self.units,), initializer="zeros", name="bias")

    def call(self, x):
        y = ops.matmul(x, self.kernel)
        return self.activation(y * kernel_rate(self.kernel, self.scale) + self.bias)

    def compute_output_shape(self, x_shape):
        return (*x_shape[:-1], self.units)


def add_normalized_kernel(layer, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The weights `v`, of `shape`, and `g`, one number for each output: at first `||v||`."""
    kernel = layer.add_weight(shape=shape, initializer=layer.kernel_initializer, name="kernel")
    scale = layer.add_weight(
        shape=shape[-1:],
        initializer=lambda shape, dtype=None: ops.cast(_lengths(kernel), dtype),
        name="scale",
    )
    return kernel, scale


def kernel_rate(kernel, scale):
    """`g / ||v||`, one number for each output: products are scaled, which is cheaper than kernels."""
    lengths = _lengths(kernel)
    return ops.cast(ops.cast(scale, lengths.dtype) / lengths, kernel.dtype)


def _lengths(kernel):
    kernel = at_least_float32(kernel)
    squares = ops.sum(ops.square(kernel), axis=tuple(range(len(kernel.shape) - 1)))
    return ops.sqrt(ops.maximum(squares, 1e-16))


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class WeightNormalizedConv1D(Layer):
    """A convolution over tokens, of the same length, with weight normalization.

    Filter k is `g_k v_k / ||v_k||`. The norm is that of the whole filter. `v` is the weight
    `kernel`, `g` the weight `scale`. `g` starts at `||v||`, so the first output is that of
    `keras.layers.Conv1D(filters, kernel_size, padding="same")` with the kernel `v`.

    Args:
        filters: width of the output.
        kernel_size: tokens in a window.
        activation: of the output. Defaults to `None`.
        kernel_initializer: of `v`. Defaults to `"glorot_uniform"`.

    Call arguments:
        x: `[B, L, D]`.

    Output shape:
        `[B, L, filters]`.

    Masking:
        None: set padded positions to zero before (see `zero_padding`) and after.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import WeightNormalizedConv1D
        >>> tuple(WeightNormalizedConv1D(4, 3)(np.ones((2, 5, 8), "float32")).shape)
        (2, 5, 4)

    References:
        Salimans, Kingma: "Weight Normalization", NeurIPS 2016, eq 2.
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
        shape = (self.kernel_size, x_shape[-1], self.filters)
        self.kernel, self.scale = add_normalized_kernel(self, shape)
        self.bias = self.add_weight(shape=(self.filters,), initializer="zeros", name="bias")

    def call(self, x):
        y = ops.conv(x, self.kernel, padding="same", data_format="channels_last")
        return self.activation(y * kernel_rate(self.kernel, self.scale) + self.bias)

    def compute_output_shape(self, x_shape):
        return (*x_shape[:-1], self.filters)


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class ConvolutionalEncoder(Layer):
    """Stacked convolutions over words, of the same length as the sentence.

    Padding is set to zero before each convolution and after the last one, so it looks like the end
    of the sentence.

    Args:
        units: filters of each convolution.
        num_layers: how many are stacked. Defaults to `2`.
        kernel_size: words in a window. Defaults to `3`.
        activation: of each. Defaults to `"gelu"`.
        dropout: rate between the convolutions and after the last one. Defaults to `0.2`.
        weight_normalization: whether the kernels are normalized. Defaults to `True`.

    Call arguments:
        x: `[B, L, D]`.
        mask: boolean `[B, L]`, True = real token.

    Output shape:
        `[B, L, units]`.

    Masking:
        Padding changes nothing at the real tokens; padded positions of the output are zero.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import ConvolutionalEncoder
        >>> x, mask = np.ones((1, 3, 6), "float32"), np.array([[True, True, False]])
        >>> tuple(ConvolutionalEncoder(4)(x, mask).shape)
        (1, 3, 4)

    References:
        Yang et al., RE2, section 2.1 (encoder).
    """

    def __init__(
        self,
        units: int,
        num_layers: int = 2,
        kernel_size: int = 3,
        activation="gelu",
        dropout: float = 0.2,
        weight_normalization: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        require_positive(num_layers=num_layers)
        plain = partial(keras.layers.Conv1D, padding="same", data_format="channels_last")
        convolution = WeightNormalizedConv1D if weight_normalization else plain
        self.convolutions = [
            convolution(
                units,
                kernel_size,
                activation=self.activation,
                kernel_initializer=keras.initializers.VarianceScaling(
                    2.0, distribution="untruncated_normal"
                ),
                dtype=self.dtype_policy,
                name=f"convolution_{i + 1}",
            )
            for i in range(num_layers)
        ]
        self.dropouts = [
            keras.layers.Dropout(dropout, dtype=self.dtype_policy) for _ in range(num_layers)
        ]

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


MODES = ("full", "simple")


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class AlignmentFusion(Layer):
    """Compares each token with what it attended to in the other sentence, in three ways.

    `G([G_1([x; a]); G_2([x; x - a]); G_3([x; x * a])])`, or with `mode="simple"` just
    `G_1([x; a])`; each `G` is a dense layer with activation.

    Args:
        units: width of every dense layer.
        mode: `"full"` or `"simple"`. Defaults to `"full"`.
        activation: of every dense layer. Defaults to `"gelu"`.
        dropout: rate before the last dense layer of `"full"`. Defaults to `0.2`.
        weight_normalization: whether the kernels are normalized. Defaults to `True`.

    Call arguments:
        x: `[B, L, D]`, the tokens.
        attended: `[B, L, D]`, what each attended to.
        mask: boolean `[B, L]`, True = real token.

    Output shape:
        `[B, L, units]`.

    Masking:
        Works on each position alone; padded positions of the output are zero.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import AlignmentFusion
        >>> x, mask = np.ones((1, 3, 6), "float32"), np.array([[True, True, False]])
        >>> tuple(AlignmentFusion(4)(x, x, mask).shape)
        (1, 3, 4)

    References:
        Yang et al., RE2, eq 4-7.
    """

    def __init__(
        self,
        units: int,
        mode: str = "full",
        activation="gelu",
        dropout: float = 0.2,
        weight_normalization: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        require_choice(MODES, mode=mode)
        cls = WeightNormalizedDense if weight_normalization else keras.layers.Dense

        def dense(name: str) -> keras.layers.Layer:
            return cls(
                units,
                self.activation,
                kernel_initializer=keras.initializers.VarianceScaling(
                    2.0, distribution="untruncated_normal"
                ),
                dtype=self.dtype_policy,
                name=name,
            )

        views = ("concatenation", "difference", "product")
        self.views = [dense(name) for name in (views if mode == "full" else views[:1])]
        self.output_dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        self.output_dense = dense("fusion") if mode == "full" else None

    def build(self, x_shape):
        for view in self.views:
            view.build((None, None, 2 * x_shape[-1]))
        if self.output_dense:
            self.output_dense.build((None, None, 3 * self.units))

    def call(self, x, attended, mask, training=None):
        x, attended = ops.convert_to_tensor(x), ops.convert_to_tensor(attended)
        compared = (attended, x - attended, x * attended)
        width, views = x.shape[-1], self.views
        # [x; y] K is x K[:width] + y K[width:]. One product gives the first term for all views.
        of_x = ops.matmul(x, ops.concatenate([view.kernel[:width] for view in views], axis=-1))
        fused = []
        for view, product, other in zip(views, ops.split(of_x, len(views), axis=-1), compared):
            product = product + ops.matmul(other, view.kernel[width:])
            if self.weight_normalization:
                product = product * kernel_rate(view.kernel, view.scale)
            fused.append(view.activation(product + view.bias))
        if not self.output_dense:
            return zero_padding(fused[0], mask)
        y = self.output_dropout(ops.concatenate(fused, axis=-1), training=training)
        return zero_padding(self.output_dense(y), mask)

    def compute_output_shape(self, x_shape):
        return (*x_shape[:-1], self.units)
