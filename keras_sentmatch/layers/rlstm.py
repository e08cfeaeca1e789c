"""The layer of rLSTM (Sha, Chang, Sui, Li 2016)."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.layers.base import Layer, require
from keras_sentmatch.ops import masked_softmax
from keras_sentmatch.ops.masking import zero_padding
from keras_sentmatch.ops.recurrence import scan_sequence
from keras_sentmatch.ops.sequence import reverse_within_length


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class RereadingLSTM(Layer):
    """An LSTM over sentence 2 that reads the states `Y` of sentence 1 at each step.

    `m_t = sum_j a_t,j Y_j`; `c_t` as in an LSTM; `h_t = o_t * tanh(c_t) + o_t * tanh(m_t)`. The first
    step reads all states alike. The next weights depend on what was read and remembered:
    `a_t+1 = softmax_j(w . tanh(Y_j W_p + m_t W_m + c_t-1 W_c))`.

    Args:
        units: Width of a state, and of the states of sentence 1.
        tanh: Whether the score has its tanh. Without it, as printed in the paper, `m` and `c` add the same
            number to the scores of all words, so the softmax drops them. Defaults to `True`.
        go_backwards: Whether to read sentence 2 from its last word to its first. Defaults to `False`.

    Call arguments:
        x1: `[B, L1, units]`, the states of sentence 1.
        x2: `[B, L2, D]`, the words of sentence 2.
        mask_1: Boolean `[B, L1]`, True = real token.
        mask_2: Boolean `[B, L2]`, right-padded.
        return_attention: Whether to return `a` as well. Defaults to `False`.

    Output shape:
        `[B, L2, units]`, always in the order of the words; with `return_attention` also
        `[B, L2, L1]`, whose rows sum to 1.

    Masking:
        Padding gets no weight, and padded rows are zeros. An empty sentence 1 is read as zeros.

    Raises:
        InputError: The width of sentence 1 is not `units`.

    Example:
        >>> y, x = np.ones((1, 2, 4), "float32"), np.ones((1, 3, 5), "float32")
        >>> mask_1, mask_2 = np.array([[True, True]]), np.array([[True, True, False]])
        >>> _, attention = RereadingLSTM(4)(y, x, mask_1, mask_2, return_attention=True)
        >>> [[float(a) for a in row] for row in attention[0]]
        [[0.5, 0.5], [0.5, 0.5], [0.0, 0.0]]

    References:
        Sha, Chang, Sui, Li: "Reading and Thinking: Re-read LSTM Unit for Textual Entailment
        Recognition", COLING 2016.
    """

    def __init__(self, units: int, tanh: bool = True, go_backwards: bool = False, **kwargs):
        super().__init__(**kwargs)

    def build(self, x1_shape, x2_shape=None):
        wrong = f"Received: x1.shape={tuple(x1_shape)}, units={self.units}"
        require(x1_shape[-1] == self.units, f"x1 must be as wide as the state. {wrong}")
        units = self.units

        def weight(name: str, *shape: int, initializer="glorot_uniform"):
            return self.add_weight(shape=shape, initializer=initializer, name=name)

        self.kernel = weight("kernel", x2_shape[-1], 4 * units)
        self.recurrent_kernel = weight(
            "recurrent_kernel", units, 4 * units, initializer="orthogonal"
        )
        self.bias = weight("bias", 4 * units, initializer=_forget_one)
        self.premise_kernel = weight("premise_kernel", units, units)  # W_p
        self.read_kernel = weight("read_kernel", units, units)  # W_m
        self.cell_kernel = weight("cell_kernel", units, units)  # W_c
        self.score_kernel = weight("score_kernel", units, 1)  # w

    def call(self, x1, x2, mask_1, mask_2, return_attention=False):
        dtype = x1.dtype
        recurrent, read, cell, score = (
            ops.cast(w, dtype)
            for w in (self.recurrent_kernel, self.read_kernel, self.cell_kernel, self.score_kernel)
        )
        keys = ops.matmul(x1, ops.cast(self.premise_kernel, dtype))

        def attend(query):
            hidden = keys + ops.expand_dims(query, 1)
            hidden = ops.tanh(hidden) if self.tanh else hidden
            return masked_softmax(ops.matmul(hidden, score)[:, :, 0], mask_1)

        def step(x, states) -> tuple[Any, list[Any]]:
            h, c, attention = states
            m = ops.matmul(ops.expand_dims(attention, 1), x1)[:, 0]
            following = attend(ops.matmul(m, read) + ops.matmul(c, cell))
            i, f, g, o = ops.split(x + ops.matmul(h, recurrent), 4, axis=-1)
            c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
            h = ops.sigmoid(o) * (ops.tanh(c) + ops.tanh(m))
            output = ops.concatenate([h, attention], axis=-1) if return_attention else h
            return output, [h, c, following]

        start = ops.zeros((ops.shape(x1)[0], self.units), dtype=dtype)
        attention = masked_softmax(ops.zeros_like(keys[:, :, 0]), mask_1)
        x = ops.matmul(x2, ops.cast(self.kernel, dtype)) + ops.cast(self.bias, dtype)
        x = reverse_within_length(x, mask_2) if self.go_backwards else x
        y, _ = scan_sequence(step, x, [start, start, attention])
        y = reverse_within_length(y, mask_2) if self.go_backwards else y
        y = zero_padding(y, mask_2)
        return (y[:, :, : self.units], y[:, :, self.units :]) if return_attention else y

    def compute_output_spec(self, x1, x2, mask_1, mask_2, return_attention=False):
        states = self.spec(*x2.shape[:2], self.units)
        attention = self.spec(*x2.shape[:2], x1.shape[1])
        return (states, attention) if return_attention else states


def _forget_one(shape: tuple[int, ...], dtype=None):
    """Return a bias of 0 for all gates but the forget gate, whose bias is 1."""
    units = shape[0] // 4
    parts = [ops.zeros((units,), dtype), ops.ones((units,), dtype), ops.zeros((2 * units,), dtype)]
    return ops.concatenate(parts)
