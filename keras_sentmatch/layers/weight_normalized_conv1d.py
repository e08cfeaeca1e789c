"""A convolution whose filters are directions and lengths."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.layers.weight_normalized_dense import add_normalized_kernel, normalized


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class WeightNormalizedConv1D(keras.layers.Layer):
    """A convolution over tokens, of the same length, with weight normalization: filter k is `g_k v_k / ||v_k||`.

    The norm is that of the whole filter. `v` is the weight `kernel`, `g` the weight `scale`. `g` starts at `||v||`, so the
    first output is that of `keras.layers.Conv1D(filters, kernel_size, padding="same")` with the kernel `v`.

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
        activation: Any = None,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.filters = filters
        self.kernel_size = kernel_size
        self.activation = keras.activations.get(activation)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, x_shape: Any) -> None:
        shape = (self.kernel_size, x_shape[-1], self.filters)
        self.kernel, self.scale = add_normalized_kernel(self, shape)
        self.bias = self.add_weight(shape=(self.filters,), initializer="zeros", name="bias")

    def call(self, x: Any) -> Any:
        kernel = normalized(self.kernel, self.scale)
        y = ops.conv(x, kernel, padding="same", data_format="channels_last")
        return self.activation(y + self.bias)

    def compute_output_shape(self, x_shape: Any) -> Any:
        return (*x_shape[:-1], self.filters)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "filters": self.filters,
            "kernel_size": self.kernel_size,
            "activation": keras.activations.serialize(self.activation),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
