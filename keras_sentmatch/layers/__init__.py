"""Keras layers for sentence pairs: `keras.ops` only, explicit boolean masks, every backend and dtype policy."""

from keras_sentmatch.layers.autoencoder_bottleneck import AutoencoderBottleneck
from keras_sentmatch.layers.bidirectional_rnn import BidirectionalRNN
from keras_sentmatch.layers.char_cnn import CharCNN
from keras_sentmatch.layers.co_attention import CoAttention
from keras_sentmatch.layers.dense_co_attentive_rnn import DenseCoAttentiveRNN
from keras_sentmatch.layers.highway import Highway
from keras_sentmatch.layers.masked_max_pooling import MaskedMaxPooling
from keras_sentmatch.layers.matching_vector import MatchingVector
from keras_sentmatch.layers.word_representation import WordRepresentation

__all__ = [
    "AutoencoderBottleneck",
    "BidirectionalRNN",
    "CharCNN",
    "CoAttention",
    "DenseCoAttentiveRNN",
    "Highway",
    "MaskedMaxPooling",
    "MatchingVector",
    "WordRepresentation",
]
