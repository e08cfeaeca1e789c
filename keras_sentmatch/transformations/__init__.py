"""Rules that change sentence pairs, and the labels of the changed pairs."""

from keras_sentmatch.transformations.lexicon import Lexicon
from keras_sentmatch.transformations.rules import TRANSFORMATIONS
from keras_sentmatch.transformations.transform import transform

__all__ = ["Lexicon", "TRANSFORMATIONS", "transform"]
