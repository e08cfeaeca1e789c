"""Encoders: strings to arrays, in Python and as a TensorFlow graph; batches."""

from keras_sentmatch.encoders.base import EncodingReport as EncodingReport
from keras_sentmatch.encoders.batches import PairBatches as PairBatches
from keras_sentmatch.encoders.loading import Encoder as Encoder
from keras_sentmatch.encoders.loading import load_encoder as load_encoder
from keras_sentmatch.encoders.subwords import SubwordPairEncoder as SubwordPairEncoder
from keras_sentmatch.encoders.words import PairEncoder as PairEncoder
