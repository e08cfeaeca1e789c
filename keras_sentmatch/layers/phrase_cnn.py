"""Convolutions that see phrases of several lengths."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_sentmatch.ops import zero_padding


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class PhraseCNN(keras.layers.Layer):
    """What stands around each token: for each phrase length a unit of two stacked convolutions, as wide as the input.

    A window of width 2 is (t, t+1), one of width 3 is (t-1, t, t+1): an even width reaches further to the right. The
    first convolution of a unit has the activation, the second is linear, as its output is averaged with that of the encoder.

    Args:
        widths: tokens in a window, one unit each, d_k. Defaults to `(2, 3)`.
        hidden_filters: width between the two convolutions. Defaults to `500`.
        activation: of the first convolution. Defaults to `"relu"`.

    Call arguments:
        x: `[B, L, D]`.
        mask: boolean `[B, L]`, True = real token.

    Output shape:
        `[B, R, L, D]`, R units in the order of `widths`.

    Masking:
        Padding is set to zero before each convolution and after the last one: it looks like the end of the sentence.

    Raises:
        ValueError: for no widths, or a number below 1.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import PhraseCNN
        >>> x, mask = np.ones((1, 4, 6), "float32"), np.array([[True, True, True, False]])
        >>> tuple(PhraseCNN(widths=(1, 2, 3), hidden_filters=5)(x, mask).shape)
        (1, 3, 4, 6)

    References:
        Zhang et al., LadRa-Net, eq 10.
    """

    def __init__(
        self,
        widths: Sequence[int] = (2, 3),
        hidden_filters: int = 500,
        activation: Any = "relu",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if not isinstance(widths, (tuple, list)) or not widths or min(widths) < 1:
            raise ValueError(
                f"widths must be a sequence of numbers of at least 1. Received: widths={widths!r}"
            )
        if hidden_filters < 1:
            raise ValueError(
                f"hidden_filters must be at least 1. Received: hidden_filters={hidden_filters!r}"
            )
        self.widths = tuple(widths)
        self.hidden_filters = hidden_filters
        self.activation = keras.activations.get(activation)

    def build(self, x_shape: Any, mask_shape: Any = None) -> None:
        def convolution(name: str, inputs: int, filters: int, width: int, activation: Any) -> Any:
            layer = keras.layers.Conv1D(
                filters,
                width,
                padding="same",
                data_format="channels_last",
                activation=activation,
                dtype=self.dtype_policy,
                name=name,
            )
            layer.build((None, None, inputs))
            return layer

        size, hidden = x_shape[-1], self.hidden_filters
        self.hidden_convolutions = [
            convolution(f"hidden_{r}", size, hidden, width, self.activation)
            for r, width in enumerate(self.widths, 1)
        ]
        self.output_convolutions = [
            convolution(f"output_{r}", hidden, size, width, None)
            for r, width in enumerate(self.widths, 1)
        ]

    def call(self, x: Any, mask: Any) -> Any:
        x = zero_padding(ops.convert_to_tensor(x), mask)
        units = [
            zero_padding(last(zero_padding(first(x), mask)), mask)
            for first, last in zip(self.hidden_convolutions, self.output_convolutions)
        ]
        return ops.stack(units, axis=1)

    def compute_output_shape(self, x_shape: Any, mask_shape: Any = None) -> Any:
        return (x_shape[0], len(self.widths), *x_shape[1:])

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        return None  # masks are explicit arguments; Keras is given none to pass on

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "widths": self.widths,
            "hidden_filters": self.hidden_filters,
            "activation": keras.activations.serialize(self.activation),
        }
