"""A stack of recurrent layers in which each sees the states and the input of all below it."""

from itertools import zip_longest

import keras
from keras import ops

from keras_sentmatch.layers.base import Layer, require_positive
from keras_sentmatch.layers.initializers import GlorotPerGate
from keras_sentmatch.ops import recurrent_states, reverse_within_length, zero_padding


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class StackRNN(Layer):
    """Stacked GRUs, each of which sees all below it: `h^l = GRU_l(x^l)`, `x^{l+1} = [h^l; x^l]`.

    It runs without a Keras mask, as `BidirectionalRNN` does: with padding on the right, states at
    the real tokens don't depend on it. Kernels and recurrent kernels start from Glorot's uniform
    distribution, gate by gate, biases from zero.

    Args:
        units: width of a GRU (`reset_after=True`). Defaults to `256`.
        depth: number of layers. Defaults to `3`.
        bidirectional: whether each layer has a backward GRU too, which doubles its width. Defaults
            to `False`.

    Call arguments:
        x: `[B, L, D]`.
        mask: boolean `[B, L]`, True = real token, right-padded.

    Output shape:
        `[B, L, depth * units + D]` (`2 * depth * units + D` if bidirectional): the newest states
        first, the input last.

    Masking:
        Padded positions of the output are zero; an empty row is all zeros.

    Raises:
        ValueError: if `units` or `depth` is not positive.

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

    def __init__(self, units: int = 256, depth: int = 3, bidirectional: bool = False, **kwargs):
        super().__init__(**kwargs)
        require_positive(units=units, depth=depth)

        def stack(direction: str) -> list[keras.layers.GRU]:
            return [
                keras.layers.GRU(
                    units,
                    return_sequences=True,
                    kernel_initializer=GlorotPerGate(),
                    recurrent_initializer=GlorotPerGate(),
                    dtype=self.dtype_policy,
                    name=f"{direction}_{layer}",
                )
                for layer in range(1, depth + 1)
            ]

        self.forward_rnns = stack("forward")
        self.backward_rnns = stack("backward") if bidirectional else []

    def build(self, x_shape):
        step = self.units * (2 if self.bidirectional else 1)
        for rnns in (self.forward_rnns, self.backward_rnns):
            for layer, rnn in enumerate(rnns):
                rnn.build((*x_shape[:-1], x_shape[-1] + layer * step))

    def call(self, x, mask):
        for forward, backward in zip_longest(self.forward_rnns, self.backward_rnns):
            states = [recurrent_states(forward, x)]
            if backward is not None:
                reverse = recurrent_states(backward, reverse_within_length(x, mask))
                states.append(reverse_within_length(reverse, mask))
            x = ops.concatenate([*states, x], axis=-1)
        return zero_padding(x, mask)

    def compute_output_shape(self, x_shape):
        directions = 2 if self.bidirectional else 1
        return (*x_shape[:-1], x_shape[-1] + directions * self.depth * self.units)
