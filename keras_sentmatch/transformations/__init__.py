"""Rules that change sentence pairs, and the labels that the changed pairs have."""

from keras_sentmatch.transformations.lexicon import Lexicon as Lexicon
from keras_sentmatch.transformations.rules import TRANSFORMATIONS as TRANSFORMATIONS
from keras_sentmatch.transformations.rules import Transformation as Transformation
from keras_sentmatch.transformations.transform import Transformed as Transformed
from keras_sentmatch.transformations.transform import get_transformation as get_transformation
from keras_sentmatch.transformations.transform import transform as transform
