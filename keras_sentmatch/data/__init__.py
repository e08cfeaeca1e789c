"""Sentence pairs: data sets in memory, formats, readers, splits, generated pairs. No Keras, no TensorFlow."""

from keras_sentmatch.data.dataset import PairDataset as PairDataset
from keras_sentmatch.data.dataset import ReadReport as ReadReport
from keras_sentmatch.data.formats import list_formats as list_formats
from keras_sentmatch.data.readers import load_pairs as load_pairs
from keras_sentmatch.data.readers import read_pairs as read_pairs
from keras_sentmatch.data.splits import leak_report as leak_report
from keras_sentmatch.data.splits import split_pairs as split_pairs
from keras_sentmatch.data.streams import PairStream as PairStream
from keras_sentmatch.data.synthetic import natural_logic_pairs as natural_logic_pairs
