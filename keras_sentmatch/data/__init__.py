"""Sentence pairs: data sets in memory, readers, streams, splits, generated pairs. No Keras."""

from keras_sentmatch.data.dataset import PairDataset
from keras_sentmatch.data.formats import list_formats
from keras_sentmatch.data.generated import natural_logic_pairs
from keras_sentmatch.data.load import PairStream, load_pairs, read_pairs
from keras_sentmatch.data.splits import leak_report, split_pairs

__all__ = [
    "PairDataset",
    "PairStream",
    "leak_report",
    "list_formats",
    "load_pairs",
    "natural_logic_pairs",
    "read_pairs",
    "split_pairs",
]
