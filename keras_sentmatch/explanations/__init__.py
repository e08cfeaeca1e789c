"""Explanations of predictions: the model's attention, the importance of words, and an HTML page."""

from keras_sentmatch.explanations._explanation import Explanation, explain, save_overview

__all__ = ["Explanation", "explain", "save_overview"]
