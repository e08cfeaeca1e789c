"""The layers of RE2 (Yang et al. 2019)."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.layers.base import Layer, require_choice, require_positive
from keras_sentmatch.ops.masking import at_least_float32, zero_padding


@keras.saving.register_keras_serializable(package="keras_sentmatch")
def gelu(x):
    """GELU by its tanh approximation, as in the authors' PyTorch code."""
    return ops.gelu(x, approximate=True)


def he_normal() -> keras.Initializer:
    return keras.initializers.VarianceScaling(2.0, distribution="untruncated_normal")


class _WeightNormalized(Layer):
    """A layer whose output k has the kernel `g_k v_k / ||v_k||`.

    `v` is the weight `kernel`, `g` the weight `scale`. `g` starts at `||v||`.
    """

    def _add_weights(self, *shape: int) -> None:
        self.kernel = self.add_weight(
            shape=shape, initializer=self.kernel_initializer, name="kernel"
        )
        self.scale = self.add_weight(
            shape=shape[-1:],
            initializer=lambda shape, dtype=None: ops.cast(_lengths(self.kernel), dtype),
            name="scale",
        )
        self.bias = self.add_weight(shape=shape[-1:], initializer="zeros", name="bias")

    def finish(self, product):
        """The output from the product of the input and `v`: scaling it is cheaper than kernels."""
        lengths = _lengths(self.kernel)
        rate = ops.cast(ops.cast(self.scale, lengths.dtype) / lengths, self.kernel.dtype)
        return self.activation(product * rate + self.bias)


def _lengths(kernel):
    kernel = at_least_float32(kernel)
    squares = ops.sum(ops.square(kernel), axis=tuple(range(len(kernel.shape) - 1)))
    return ops.sqrt(ops.maximum(squares, 1e-16))


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class WeightNormalizedDense(_WeightNormalized):
    """A dense layer with weight normalization: column k of its kernel is `g_k v_k / ||v_k||`.

    `v` is the weight `kernel`, `g` the weight `scale`. `g` starts at `||v||`, so the first output
    is that of a plain dense layer with the kernel `v`.

    Args:
        units: Width of the output.
        activation: Activation of the output. Defaults to `None`.
        kernel_initializer: Initializer of `v`. Defaults to `"glorot_uniform"`.

    Call arguments:
        x: `[..., D]`.

    Output shape:
        `[..., units]`.

    Masking:
        Works on each position alone.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers.re2 import WeightNormalizedDense
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
        self._add_weights(x_shape[-1], self.units)

    def call(self, x):
        return self.finish(ops.matmul(x, self.kernel))

    def compute_output_shape(self, x_shape):
        return (*x_shape[:-1], self.units)


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class WeightNormalizedConv1D(_WeightNormalized):
    """A convolution over words with weight normalization; the output has the length of the input.

    Filter k is `g_k v_k / ||v_k||`, with the norm of the whole filter. The first output is that of
    `keras.layers.Conv1D(filters, kernel_size, padding="same")` with the kernel `v`.

    Args:
        filters: Width of the output.
        kernel_size: Number of words in a window.
        activation: Activation of the output. Defaults to `None`.
        kernel_initializer: Initializer of `v`. Defaults to `"glorot_uniform"`.

    Call arguments:
        x: `[B, L, D]`.

    Output shape:
        `[B, L, filters]`.

    Masking:
        None. Set padded positions to zero before and after.

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
        self._add_weights(self.kernel_size, x_shape[-1], self.filters)

    def call(self, x):
        return self.finish(ops.conv(x, self.kernel, padding="same", data_format="channels_last"))

    def compute_output_shape(self, x_shape):
        return (*x_shape[:-1], self.filters)


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class ConvolutionalBlock(Layer):
    """Stacked convolutions over windows of three words, with GELU and weight normalization.

    Padding is set to zero before each convolution and after the last one, so it looks like the end
    of the sentence.

    Args:
        units: Number of filters of each convolution.
        num_layers: Number of convolutions. Defaults to `2`.
        dropout: Dropout rate between the convolutions and after the last one. Defaults to `0.2`.

    Call arguments:
        x: `[B, L, D]`.
        mask: boolean `[B, L]`, True = real token.

    Output shape:
        `[B, L, units]`.

    Masking:
        Padding changes nothing at the real tokens. Padded positions of the output are zero.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers.re2 import ConvolutionalBlock
        >>> x, mask = np.ones((1, 3, 6), "float32"), np.array([[True, True, False]])
        >>> tuple(ConvolutionalBlock(4)(x, mask).shape)
        (1, 3, 4)

    References:
        Yang et al., RE2, section 2.1 (encoder).
    """

    def __init__(self, units: int, num_layers: int = 2, dropout: float = 0.2, **kwargs):
        super().__init__(**kwargs)
        require_positive(num_layers=num_layers)
        self.convolutions = [
            WeightNormalizedConv1D(
                units,
                3,
                gelu,
                he_normal(),
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


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class AlignmentFusion(Layer):
    """Compare each token in three ways with what it attended to in the other sentence.

    `G([G_1([x; a]); G_2([x; x - a]); G_3([x; x * a])])`, or only `G_1([x; a])` with
    `mode="simple"`. Each `G` is a dense layer with GELU and weight normalization.

    Args:
        units: Width of every dense layer.
        mode: `"full"` or `"simple"`. Defaults to `"full"`.
        dropout: Dropout rate before the last dense layer of `"full"`. Defaults to `0.2`.

    Call arguments:
        x: `[B, L, D]`, the tokens.
        attended: `[B, L, D]`, what each attended to.
        mask: boolean `[B, L]`, True = real token.

    Output shape:
        `[B, L, units]`.

    Masking:
        Works on each position alone. Padded positions of the output are zero.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers.re2 import AlignmentFusion
        >>> x, mask = np.ones((1, 3, 6), "float32"), np.array([[True, True, False]])
        >>> tuple(AlignmentFusion(4)(x, x, mask).shape)
        (1, 3, 4)

    References:
        Yang et al., RE2, eq 4-7.
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
            self.output_dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
            self.output_dense = dense("fusion")

    def build(self, x_shape):
        for view in self.views:
            view.build((None, None, 2 * x_shape[-1]))
        if self.mode == "full":
            self.output_dense.build((None, None, 3 * self.units))

    def call(self, x, attended, mask, training=None):
        x, attended = ops.convert_to_tensor(x), ops.convert_to_tensor(attended)
        compared = (attended, x - attended, x * attended)
        width, views = x.shape[-1], self.views
        # [x; y] K is x K[:width] + y K[width:]. One product gives the first term for all views.
        of_x = ops.matmul(x, ops.concatenate([view.kernel[:width] for view in views], axis=-1))
        fused: list[Any] = []
        for view, product, other in zip(views, ops.split(of_x, len(views), axis=-1), compared):
            fused.append(view.finish(product + ops.matmul(other, view.kernel[width:])))
        if self.mode == "simple":
            return zero_padding(fused[0], mask)
        y = self.output_dropout(ops.concatenate(fused, axis=-1), training=training)
        return zero_padding(self.output_dense(y), mask)

    def compute_output_shape(self, x_shape):
        return (*x_shape[:-1], self.units)
