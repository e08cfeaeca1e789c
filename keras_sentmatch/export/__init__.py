"""Trained matchers as artifacts that answer without this library."""

from keras_sentmatch.export.examples import TOLERANCE
from keras_sentmatch.export.exporting import FORMATS, export

__all__ = ["FORMATS", "TOLERANCE", "export"]
