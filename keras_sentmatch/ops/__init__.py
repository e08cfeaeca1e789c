"""Operations on masked, right-padded sequences, written with `keras.ops` for every backend."""

from keras_sentmatch.ops.masking import (
    at_least_float32,
    masked_argmax,
    masked_max,
    masked_mean,
    masked_softmax,
    max_pool_rates,
    pair_mask,
    zero_padding,
)
from keras_sentmatch.ops.recurrence import recurrent_states, scan_sequence
from keras_sentmatch.ops.sequence import (
    equal_lengths,
    last_state,
    reverse_within_length,
    split_pair,
    stack_pair,
)
from keras_sentmatch.ops.similarity import cosine, cosine_matrix, dot_matrix, unit_length

__all__ = [
    "at_least_float32",
    "cosine",
    "cosine_matrix",
    "dot_matrix",
    "equal_lengths",
    "last_state",
    "masked_argmax",
    "masked_max",
    "masked_mean",
    "masked_softmax",
    "max_pool_rates",
    "pair_mask",
    "recurrent_states",
    "reverse_within_length",
    "scan_sequence",
    "split_pair",
    "stack_pair",
    "unit_length",
    "zero_padding",
]
