"""Robustness: how well a matcher answers pairs that were changed by rule, and test suites."""

from keras_sentmatch.robustness.lexicon import Lexicon
from keras_sentmatch.robustness.report import robustness_report, save_report
from keras_sentmatch.robustness.rules import TRANSFORMATIONS, Transformation
from keras_sentmatch.robustness.suites import Suite, read_suite
from keras_sentmatch.robustness.transformations import Transformed, get_transformation, transform

__all__ = [
    "TRANSFORMATIONS",
    "Lexicon",
    "Suite",
    "Transformation",
    "Transformed",
    "get_transformation",
    "read_suite",
    "robustness_report",
    "save_report",
    "transform",
]
