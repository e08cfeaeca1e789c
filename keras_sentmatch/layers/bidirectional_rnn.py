"""A bidirectional recurrent layer that runs unmasked and is exact on right-padded sequences."""

import keras
from keras import ops

from keras_sentmatch.layers.base import Layer, require_choice
from keras_sentmatch.ops import recurrent_states
from keras_sentmatch.ops.masking import zero_padding
from keras_sentmatch.ops.recurrence import fused_bidirectional_states
from keras_sentmatch.ops.sequence import reverse_within_length

CELLS = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU, "rnn": keras.layers.SimpleRNN}


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class BidirectionalRNN(Layer):
    """Bidirectional LSTM, GRU or simple RNN over right-padded sequences.

    A mask makes Keras loop step by step. It is not needed: with padding on the right, the forward
    states at real tokens do not depend on the padding, and the backward direction becomes a forward one
    if each row is reversed within its own length. Values and gradients equal those of a masked
    `keras.layers.Bidirectional`.

    Args:
        units: Width of each direction.
        cell: `"lstm"`, `"gru"` (`reset_after=True`) or `"rnn"`. Defaults to `"lstm"`.
        kernel_regularizer: Penalty on the input and the recurrent kernels. Defaults to `None`.

    Call arguments:
        x: `[B, L, D]`.
        mask: Boolean `[B, L]`, True = real token, right-padded.

    Output shape:
        `[B, L, 2 units]`, forward then backward.

    Masking:
        Padded positions of the output are zero. An empty row gives zeros.

    Raises:
        InputError: `cell` is unknown.

    Example:
        >>> mask = np.array([[True, True, False], [True, True, True]])
        >>> y = BidirectionalRNN(4)(np.ones((2, 3, 5), "float32"), mask)
        >>> tuple(y.shape), [float(v) for v in y[0, 2, :3]]
        ((2, 3, 8), [0.0, 0.0, 0.0])
    """

    def __init__(self, units: int, cell: str = "lstm", kernel_regularizer=None, **kwargs):
        super().__init__(**kwargs)
        require_choice(CELLS, cell=cell)
        self.forward_rnn, self.backward_rnn = (
            CELLS[cell](
                units,
                return_sequences=True,
                kernel_regularizer=self.kernel_regularizer,
                recurrent_regularizer=self.kernel_regularizer,
                dtype=self.dtype_policy,
                name=name,
            )
            for name in ("forward", "backward")
        )

    def build(self, x_shape):
        self.forward_rnn.build(x_shape)
        self.backward_rnn.build(x_shape)

    def call(self, x, mask):
        states = fused_bidirectional_states(self.forward_rnn, self.backward_rnn, x, mask)
        if states is not None:
            return states
        forward = recurrent_states(self.forward_rnn, x)
        backward = recurrent_states(self.backward_rnn, reverse_within_length(x, mask))
        backward = reverse_within_length(backward, mask)
        return zero_padding(ops.concatenate([forward, backward], axis=-1), mask)

    def compute_output_shape(self, x_shape):
        return (*x_shape[:-1], 2 * self.units)
