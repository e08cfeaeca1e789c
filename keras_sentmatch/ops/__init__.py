"""Operations on masked, right-padded sequences, written with `keras.ops` for every backend."""

from keras_sentmatch.ops.masking import (
    masked_max,
    masked_mean,
    masked_softmax,
    pair_mask,
    zero_padding,
)
from keras_sentmatch.ops.recurrence import recurrent_states, scan_sequence
from keras_sentmatch.ops.sequence import last_state, reverse_within_length

__all__ = [
    "last_state",
    "masked_max",
    "masked_mean",
    "masked_softmax",
    "pair_mask",
    "recurrent_states",
    "reverse_within_length",
    "scan_sequence",
    "zero_padding",
]
