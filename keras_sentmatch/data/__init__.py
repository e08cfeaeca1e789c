"""Sentence pairs: data sets in memory, readers, streams and splits. Keras is not imported."""

from keras_sentmatch.data.dataset import PairDataset
from keras_sentmatch.data.generated import natural_logic_pairs
from keras_sentmatch.data.load import load_pairs, read_pairs
from keras_sentmatch.data.splits import leak_report, split_pairs
from keras_sentmatch.data.stream import PairStream

__all__ = [
    "PairDataset",
    "PairStream",
    "leak_report",
    "load_pairs",
    "natural_logic_pairs",
    "read_pairs",
    "split_pairs",
]
