"""Convolutions over the words of a sentence."""

from functools import partial
from typing import Any

import keras
from keras import ops

from keras_sentmatch.layers.weight_normalized_conv1d import WeightNormalizedConv1D
from keras_sentmatch.ops import zero_padding


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class ConvolutionalEncoder(keras.layers.Layer):
    """Stacked convolutions over words, of the same length as the sentence.

    Padding is set to zero before each convolution and after the last one, so it looks like the end of the sentence.

    Args:
        units: filters of each convolution.
        num_layers: how many are stacked. Defaults to `2`.
        kernel_size: words in a window. Defaults to `3`.
        activation: of each. Defaults to `"gelu"`.
        dropout: rate between the convolutions and after the last one. Defaults to `0.2`.
        weight_normalization: whether the kernels are normalised. Defaults to `True`.

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
        activation: Any = "gelu",
        dropout: float = 0.2,
        weight_normalization: bool = True,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if num_layers < 1:
            raise ValueError(f"num_layers must be at least 1. Received: num_layers={num_layers}")
        self.units = units
        self.num_layers = num_layers
        self.kernel_size = kernel_size
        self.activation = keras.activations.get(activation)
        self.dropout = dropout
        self.weight_normalization = weight_normalization
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

    def build(self, x_shape: Any, mask_shape: Any = None) -> None:
        for i, convolution in enumerate(self.convolutions):
            convolution.build((None, None, self.units if i else x_shape[-1]))

    def call(self, x: Any, mask: Any, training: bool | None = None) -> Any:
        x = zero_padding(ops.convert_to_tensor(x), mask)
        for convolution, dropout in zip(self.convolutions, self.dropouts):
            x = zero_padding(dropout(convolution(x), training=training), mask)
        return x

    def compute_output_shape(self, x_shape: Any, mask_shape: Any = None) -> Any:
        return (*x_shape[:-1], self.units)

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        return None  # masks are explicit arguments; Keras is given none to pass on

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "num_layers": self.num_layers,
            "kernel_size": self.kernel_size,
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
            "weight_normalization": self.weight_normalization,
        }
