"""Max-pooling over the real tokens."""

import keras

from keras_sentmatch.layers.base import Layer
from keras_sentmatch.ops import masked_max


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class MaskedMaxPooling(Layer):
    """The maximum of each feature over the real tokens, `[B, L, D]` to `[B, D]`.

    `keras_sentmatch.ops.max_pool_rates` gives the share of the maxima that came from each token.

    Call arguments:
        x: `[B, L, D]`.
        mask: boolean `[B, L]`, True = real token.

    Output shape:
        `[B, D]`.

    Masking:
        Padding never wins. An empty sentence gives zeros.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import MaskedMaxPooling
        >>> x = np.array([[[1.0, 5.0], [2.0, 4.0], [9.0, 9.0]]], "float32")
        >>> [float(v) for v in MaskedMaxPooling()(x, np.array([[True, True, False]]))[0]]
        [2.0, 5.0]

    References:
        Kim et al., DRCN, "Interaction and prediction layer".
    """

    def call(self, x, mask):
        return masked_max(x, mask)

    def compute_output_shape(self, x_shape):
        return (x_shape[0], x_shape[-1])
