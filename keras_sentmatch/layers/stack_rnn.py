"""Stacked recurrent layers, each of which reads the states and the input of all layers below."""

import math

import keras
from keras import ops

from keras_sentmatch.layers.base import Layer, require_positive
from keras_sentmatch.ops import recurrent_states
from keras_sentmatch.ops.masking import zero_padding


class GlorotPerGate(keras.initializers.GlorotUniform):
    """Glorot's uniform distribution (2010, eq 16) for each gate of a GRU's kernels.

    Keras treats the kernels of the three gates as one matrix, which gives a smaller range.
    """

    def __call__(self, shape, dtype=None):
        inputs, outputs = shape  # [D, 3 units]
        limit = math.sqrt(6 / (inputs + outputs / 3))
        return keras.random.uniform(shape, -limit, limit, dtype=dtype, seed=self.seed)


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class StackRNN(Layer):
    """Stacked GRUs, each of which reads all layers below: `h^l = GRU_l(x^l)`, `x^{l+1} = [h^l; x^l]`.

    Like `BidirectionalRNN`, it runs without a Keras mask. Kernels start from Glorot's uniform
    distribution, gate by gate, and biases from zero.

    Args:
        units: Width of a GRU (`reset_after=True`). Defaults to `256`.
        depth: Number of layers. Defaults to `3`.

    Call arguments:
        x: `[B, L, D]`.
        mask: Boolean `[B, L]`, True = real token, right-padded.

    Output shape:
        `[B, L, depth * units + D]`: the newest states first, the input last.

    Masking:
        Padded positions of the output are zero. An empty row gives zeros.

    Raises:
        InputError: `units` or `depth` is below 1.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import StackRNN
        >>> mask = np.array([[True, True, False]])
        >>> y = StackRNN(units=4, depth=2)(np.ones((1, 3, 5), "float32"), mask)
        >>> tuple(y.shape), [float(v) for v in y[0, 1, -5:]]
        ((1, 3, 13), [1.0, 1.0, 1.0, 1.0, 1.0])

    References:
        Zhang et al., DRr-Net, eq 2.
    """

    def __init__(self, units: int = 256, depth: int = 3, **kwargs):
        super().__init__(**kwargs)
        require_positive(units=units, depth=depth)
        self.forward_rnns = [
            keras.layers.GRU(
                units,
                return_sequences=True,
                kernel_initializer=GlorotPerGate(),
                recurrent_initializer=GlorotPerGate(),
                dtype=self.dtype_policy,
                name=f"forward_{layer}",
            )
            for layer in range(1, depth + 1)
        ]

    def build(self, x_shape):
        for layer, rnn in enumerate(self.forward_rnns):
            rnn.build((*x_shape[:-1], x_shape[-1] + layer * self.units))

    def call(self, x, mask):
        for rnn in self.forward_rnns:
            x = ops.concatenate([recurrent_states(rnn, x), x], axis=-1)  # eq 2
        return zero_padding(x, mask)

    def compute_output_shape(self, x_shape):
        return (*x_shape[:-1], x_shape[-1] + self.depth * self.units)
