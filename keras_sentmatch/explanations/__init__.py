"""What a matcher looked at to answer a pair: arrays, pictures, an HTML page, and word erasure."""

from keras_sentmatch.explanations.erasure import Erasure, erase_words
from keras_sentmatch.explanations.explanation import Explanation, explain, save_index
from keras_sentmatch.explanations.pictures import Picture

__all__ = ["Erasure", "Explanation", "Picture", "erase_words", "explain", "save_index"]
