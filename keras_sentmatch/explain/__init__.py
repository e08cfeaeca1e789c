"""What a matcher looked at, pair by pair: arrays, pictures, one HTML page; and word erasure."""

from keras_sentmatch.explain.erasure import Erasure, erase_words
from keras_sentmatch.explain.explanation import Explanation, explain
from keras_sentmatch.explain.pictures import Picture

__all__ = ["Erasure", "Explanation", "Picture", "erase_words", "explain"]
