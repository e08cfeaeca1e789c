"""Word vectors: the built-in table, files, and extraction from a backbone."""

from keras_sentmatch.vectors.backbone_words import WordEncoder as WordEncoder
from keras_sentmatch.vectors.built_in import WordTable as WordTable
from keras_sentmatch.vectors.built_in import load_word_table as load_word_table
from keras_sentmatch.vectors.extraction import extract_vectors as extract_vectors
from keras_sentmatch.vectors.extractor import VectorExtractor as VectorExtractor
from keras_sentmatch.vectors.reading import read_vectors as read_vectors
from keras_sentmatch.vectors.sources import load_vectors as load_vectors
from keras_sentmatch.vectors.word_vectors import WordVectors as WordVectors
