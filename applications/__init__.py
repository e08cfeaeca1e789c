"""Functional models, one paper a file. Importing this package registers every class for `keras.saving`."""

from keras_sentmatch.applications.base import PairModel, build_model, get_model_class, list_models
from keras_sentmatch.applications.drcn import DRCN

__all__ = ["DRCN", "PairModel", "build_model", "get_model_class", "list_models"]
