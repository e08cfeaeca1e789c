"""Operations on masked, right-padded sequences, written with `keras.ops` for every backend."""

from keras_sentmatch.ops.masking import masked_max, masked_mean, masked_softmax
from keras_sentmatch.ops.recurrence import recurrent_states

__all__ = ["masked_max", "masked_mean", "masked_softmax", "recurrent_states"]
