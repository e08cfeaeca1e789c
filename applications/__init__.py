"""Functional models, one paper per file. Importing them registers them with `keras.saving`."""

from keras_sentmatch.applications.bag_of_words import BagOfWords
from keras_sentmatch.applications.bimpm import BiMPM
from keras_sentmatch.applications.cafe import CAFE
from keras_sentmatch.applications.cross_encoder import CrossEncoder
from keras_sentmatch.applications.dabert import DABERT
from keras_sentmatch.applications.decatt import DecomposableAttention
from keras_sentmatch.applications.diin import DIIN
from keras_sentmatch.applications.din import DIN
from keras_sentmatch.applications.drcn import DRCN
from keras_sentmatch.applications.drr_net import DRrNet
from keras_sentmatch.applications.esim import ESIM
from keras_sentmatch.applications.hybrid import Hybrid
from keras_sentmatch.applications.hyper_lstm import HyperLSTM
from keras_sentmatch.applications.infersent import InferSent
from keras_sentmatch.applications.ladra_net import LadRaNet
from keras_sentmatch.applications.pair_model import PairModel, Sentence
from keras_sentmatch.applications.re2 import RE2
from keras_sentmatch.applications.registry import (
    build_model,
    get_model_class,
    list_models,
    load_own_models,
    register_model,
)
from keras_sentmatch.applications.rlstm import RLSTM
from keras_sentmatch.applications.shortcut_stacked import ShortcutStacked

load_own_models()

__all__ = [
    "BagOfWords",
    "BiMPM",
    "CAFE",
    "CrossEncoder",
    "DABERT",
    "DIIN",
    "DIN",
    "DRCN",
    "DRrNet",
    "DecomposableAttention",
    "ESIM",
    "Hybrid",
    "HyperLSTM",
    "InferSent",
    "LadRaNet",
    "PairModel",
    "RE2",
    "RLSTM",
    "ShortcutStacked",
    "Sentence",
    "build_model",
    "get_model_class",
    "list_models",
    "register_model",
]
