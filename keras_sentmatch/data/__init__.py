"""Pairs: readers, generator, splits, vocabularies, vectors, batches. No Keras, no TensorFlow."""

from keras_sentmatch.data.base_encoder import EncodingReport as EncodingReport
from keras_sentmatch.data.dataset import PairDataset as PairDataset
from keras_sentmatch.data.dataset import ReadReport as ReadReport
from keras_sentmatch.data.encoder import PairEncoder as PairEncoder
from keras_sentmatch.data.encoders import Encoder as Encoder
from keras_sentmatch.data.encoders import load_encoder as load_encoder
from keras_sentmatch.data.extract import extract_vectors as extract_vectors
from keras_sentmatch.data.formats import list_formats as list_formats
from keras_sentmatch.data.pipeline import PairBatches as PairBatches
from keras_sentmatch.data.readers import load_pairs as load_pairs
from keras_sentmatch.data.readers import read_pairs as read_pairs
from keras_sentmatch.data.splits import leak_report as leak_report
from keras_sentmatch.data.splits import split_pairs as split_pairs
from keras_sentmatch.data.streams import PairStream as PairStream
from keras_sentmatch.data.subword_encoder import SubwordPairEncoder as SubwordPairEncoder
from keras_sentmatch.data.synthetic import natural_logic_pairs as natural_logic_pairs
from keras_sentmatch.data.text import Tokenizer as Tokenizer
from keras_sentmatch.data.text import Vocabulary as Vocabulary
from keras_sentmatch.data.text import read_word_pairs as read_word_pairs
from keras_sentmatch.data.vector_extractor import VectorExtractor as VectorExtractor
from keras_sentmatch.data.vector_reading import read_vectors as read_vectors
from keras_sentmatch.data.vector_sources import load_vectors as load_vectors
from keras_sentmatch.data.vectors import WordVectors as WordVectors
from keras_sentmatch.data.word_encoder import WordEncoder as WordEncoder
from keras_sentmatch.data.word_table import WordTable as WordTable
from keras_sentmatch.data.word_table import load_word_table as load_word_table
