"""Explanations of predictions: the model's attention, the importance of words, and an HTML page."""

from keras_sentmatch.explanations.explanation import explain
from keras_sentmatch.explanations.probe import probe

__all__ = ["explain", "probe"]
