"""Text: tokens, word pieces, tags, and the backbones that they feed. Keras is not imported."""

from keras_sentmatch.text.tokens import Tokenizer

__all__ = ["Tokenizer"]
