"""A matcher of each model, tiny and untrained, for the tests of explanations."""

from functools import cache
from typing import Any

import keras
import numpy as np

from keras_sentmatch.applications import build_model, get_model_class
from keras_sentmatch.applications.backbone import BackboneModel
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.inference.matcher import Matcher

NAMES = ("entailment", "neutral", "contradiction")
WORDS = "a the dog dogs cat animal runs run moves in park not no big small two . , and is".split()
SIZES: dict[str, dict[str, Any]] = {
    "bimpm": {"units": 3, "aggregation_units": 2, "hidden_units": 4, "perspectives": 2},
    "cafe": {"units": 4, "factors": 2},
    "cross_encoder": {},
    "dabert": {"attention_units": 4},
    "diin": {"max_length": 48, "blocks": 1, "layers_per_block": 2, "growth_rate": 2},
    "din": {"units": 9},
    "drcn": {
        "units": 2,
        "depth": 2,
        "autoencoder_after": (1, 2),
        "autoencoder_units": 4,
        "hidden_units": 5,
    },
    "drr_net": {"units": 3, "depth": 1, "attention_units": 3, "steps": 4, "hidden_units": 4},
    "esim": {"units": 4},
    "hybrid": {"units": 4, "blocks": 2},
    "hyper_lstm": {"units": 4, "hyper_units": 3, "embedding_units": 2},
    "infersent": {"units": 4, "hidden_units": 5},
    "ladra_net": {"hidden_filters": 4, "attention_units": 4, "steps": 3},
    "re2": {"units": 4, "blocks": 2},
    "rlstm": {"units": 4},
    "shortcut_stacked": {"units": (3, 4, 5), "hidden_units": (6,)},
}


@cache
def make(name: str, **options: Any) -> Matcher:
    """The same weights on every backend, large enough for attention to have favorites."""
    if issubclass(get_model_class(name), BackboneModel):
        from keras_hub.models import BertBackbone, BertTokenizer

        from keras_sentmatch.encoders import SubwordPairEncoder

        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s"]
        encoder: Any = SubwordPairEncoder(BertTokenizer(pieces, lowercase=True), max_length=96)
        backbone = BertBackbone(
            vocabulary_size=len(pieces), num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16,
            max_sequence_length=96,
        )  # fmt: skip
        config = {"backbone": backbone}
    else:
        encoder = PairEncoder(WORDS, features=("word",), max_length=48)
        config = {"vocabulary_size": encoder.vocabulary_size, "embedding_dim": 4}
    model = build_model(name, **config, **SIZES.get(name, {}), **options)
    rng = np.random.default_rng(1)
    for weight in model.trainable_weights:
        if len(weight.shape) > 1:
            weight.assign(rng.normal(0, 0.7, weight.shape))
    model.jit_compile = keras.config.backend() == "jax"  # XLA takes TensorFlow long to compile
    names = NAMES if model.output_shape[-1] > 1 else None
    task = "classification" if names else "regression"
    return Matcher(model, encoder, names, task=task, info={"model": name, "seed": 1})
