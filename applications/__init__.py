"""Functional models, one paper per file. Importing them registers them with `keras.saving`.

Every file here is imported, and every model in it is known by its name: a new model needs no line in
another file.
"""

import importlib
import pkgutil
from typing import TYPE_CHECKING

from keras_sentmatch.applications.feature_blocks import FeatureHost, make_feature_blocks
from keras_sentmatch.applications.hyperparameters import (
    DATA_ARGUMENTS,
    Choice,
    LogUniform,
    Parameter,
)
from keras_sentmatch.applications.linear_part import solve_linear
from keras_sentmatch.applications.pair_model import PairModel, Sentence
from keras_sentmatch.applications.picture_specs import PictureSpec
from keras_sentmatch.applications.registry import (
    build_model,
    get_model_class,
    list_models,
    load_models,
    load_own_models,
    register_model,
)

if TYPE_CHECKING:
    from keras_sentmatch.applications.backbone import BackboneModel as BackboneModel
    from keras_sentmatch.applications.bag_of_words import BagOfWords as BagOfWords
    from keras_sentmatch.applications.bimpm import BiMPM as BiMPM
    from keras_sentmatch.applications.cafe import CAFE as CAFE
    from keras_sentmatch.applications.cross_encoder import CrossEncoder as CrossEncoder
    from keras_sentmatch.applications.dabert import DABERT as DABERT
    from keras_sentmatch.applications.diin import DIIN as DIIN
    from keras_sentmatch.applications.din import DIN as DIN
    from keras_sentmatch.applications.drcn import DRCN as DRCN
    from keras_sentmatch.applications.drr_net import DRrNet as DRrNet
    from keras_sentmatch.applications.esim import ESIM as ESIM
    from keras_sentmatch.applications.hybrid import Hybrid as Hybrid
    from keras_sentmatch.applications.hyper_lstm import HyperLSTM as HyperLSTM
    from keras_sentmatch.applications.ladra_net import LadRaNet as LadRaNet
    from keras_sentmatch.applications.re2 import RE2 as RE2
    from keras_sentmatch.applications.rlstm import RLSTM as RLSTM

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
load_own_models()
_models = {cls.__name__: cls for cls in map(get_model_class, list_models())}
globals().update(
    _models, BackboneModel=importlib.import_module(f"{__name__}.backbone").BackboneModel
)

__all__ = [
    "DATA_ARGUMENTS",
    "BackboneModel",
    "Choice",
    "FeatureHost",
    "LogUniform",
    "PairModel",
    "Parameter",
    "PictureSpec",
    "Sentence",
    "build_model",
    "get_model_class",
    "list_models",
    "load_models",
    "make_feature_blocks",
    "register_model",
    "solve_linear",
    *_models,
]
