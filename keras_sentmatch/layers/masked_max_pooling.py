"""Max-pooling over the real tokens that remembers where each maximum came from."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.ops import masked_argmax, masked_max


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class MaskedMaxPooling(keras.layers.Layer):
    """Step-wise max-pooling, `[B, L, D]` to `[B, D]`.

    Call arguments:
        x: `[B, L, D]`.
        mask: boolean `[B, L]`, True = real token.
        return_positions: whether to return where the maxima were. Defaults to `False`.

    Output shape:
        `[B, D]`; with `return_positions` also the positions, int32 `[B, D]`, and each token's rate, `[B, L]` float32: the
        share of the D features whose maximum is that token. Rates sum to 1 over the real tokens.

    Masking:
        Padding never wins. An empty sentence gives zeros, positions 0 and rates 0.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import MaskedMaxPooling
        >>> x = np.array([[[1.0, 5.0], [2.0, 4.0], [9.0, 9.0]]], "float32")
        >>> pooled, positions, rates = MaskedMaxPooling()(
        ...     x, np.array([[True, True, False]]), return_positions=True
        ... )
        >>> (
        ...     [float(v) for v in pooled[0]],
        ...     [int(v) for v in positions[0]],
        ...     [float(v) for v in rates[0]],
        ... )
        ([2.0, 5.0], [1, 0], [0.5, 0.5, 0.0])

    References:
        Kim et al., DRCN, "Interaction and prediction layer" and Fig 5.
    """

    def build(self, x_shape: Any, mask_shape: Any = None) -> None:
        pass

    def call(self, x: Any, mask: Any, return_positions: bool = False) -> Any:
        pooled = masked_max(x, mask)
        if not return_positions:
            return pooled
        positions = masked_argmax(x, mask)
        rates = ops.mean(ops.one_hot(positions, ops.shape(x)[1], dtype="float32"), axis=1)
        return pooled, positions, rates * ops.cast(mask, "float32")

    def compute_output_spec(self, x: Any, mask: Any, return_positions: bool = False) -> Any:
        batch, length, width = x.shape
        pooled = keras.KerasTensor((batch, width), dtype=self.compute_dtype)
        if not return_positions:
            return pooled
        return (
            pooled,
            keras.KerasTensor((batch, width), dtype="int32"),
            keras.KerasTensor((batch, length), dtype="float32"),
        )

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        return None  # masks are explicit arguments; Keras is given none to pass on
