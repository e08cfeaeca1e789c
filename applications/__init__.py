"""Functional models, one paper a file. Importing this package registers every class for `keras.saving`."""

from keras_sentmatch.applications.backbone import BackboneModel
from keras_sentmatch.applications.base import PairModel, build_model, get_model_class, list_models
from keras_sentmatch.applications.bimpm import BiMPM
from keras_sentmatch.applications.cafe import CAFE
from keras_sentmatch.applications.cross_encoder import CrossEncoder
from keras_sentmatch.applications.dabert import DABERT
from keras_sentmatch.applications.diin import DIIN
from keras_sentmatch.applications.din import DIN
from keras_sentmatch.applications.drcn import DRCN
from keras_sentmatch.applications.drr_net import DRrNet
from keras_sentmatch.applications.esim import ESIM
from keras_sentmatch.applications.hyper_lstm import HyperLSTM
from keras_sentmatch.applications.ladra_net import LadRaNet
from keras_sentmatch.applications.re2 import RE2
from keras_sentmatch.applications.rlstm import RLSTM

__all__ = [
    "BackboneModel",
    "BiMPM",
    "CAFE",
    "CrossEncoder",
    "DABERT",
    "DIIN",
    "DIN",
    "DRCN",
    "DRrNet",
    "ESIM",
    "HyperLSTM",
    "LadRaNet",
    "PairModel",
    "RE2",
    "RLSTM",
    "build_model",
    "get_model_class",
    "list_models",
]
