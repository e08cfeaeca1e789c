"""Text: tokens, word pieces, tags. No Keras, no TensorFlow."""

from keras_sentmatch.text.tokens import Tokenizer as Tokenizer
from keras_sentmatch.text.tokens import Vocabulary as Vocabulary
from keras_sentmatch.text.tokens import read_word_pairs as read_word_pairs
