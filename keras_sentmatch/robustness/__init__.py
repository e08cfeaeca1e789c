"""Robustness: pairs changed by rule with the label that they have then, and how a matcher stands it."""

from keras_sentmatch.robustness.lexicon import Lexicon as Lexicon
from keras_sentmatch.robustness.report import robustness_report as robustness_report
from keras_sentmatch.robustness.report import save_report as save_report
from keras_sentmatch.robustness.suites import Suite as Suite
from keras_sentmatch.robustness.suites import read_suite as read_suite
from keras_sentmatch.robustness.transformations import TRANSFORMATIONS as TRANSFORMATIONS
from keras_sentmatch.robustness.transformations import Transformation as Transformation
from keras_sentmatch.robustness.transformations import Transformed as Transformed
from keras_sentmatch.robustness.transformations import get_transformation as get_transformation
from keras_sentmatch.robustness.transformations import transform as transform
