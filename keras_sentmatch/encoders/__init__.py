"""Encoders turn sentence pairs into arrays, in Python and as a TensorFlow graph; batches of them."""

from keras_sentmatch.encoders.batches import PairBatches
from keras_sentmatch.encoders.subwords import SubwordPairEncoder
from keras_sentmatch.encoders.words import PairEncoder

__all__ = ["PairBatches", "PairEncoder", "SubwordPairEncoder"]
