"""Word vectors: the built-in table, files, and extraction from a backbone."""

from keras_sentmatch.vectors.built_in import load_vectors
from keras_sentmatch.vectors.files import WordVectors

__all__ = ["WordVectors", "load_vectors"]
