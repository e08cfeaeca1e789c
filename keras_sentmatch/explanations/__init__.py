"""Explanations of predictions: the model's attention, the importance of words, and an HTML page."""

from keras_sentmatch.explanations.explanation import explain

__all__ = ["explain"]
