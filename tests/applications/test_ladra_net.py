"""LadRa-Net: a whole forward pass against the oracle, every switch, what it shows."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.applications import LadRaNet
from tests import oracles_encoders
from tests.applications.backbones import (
    BERT,
    PAIRS,
    ROBERTA,
    ROBERTA_PAIRS,
    UNUSED,
    oracle_inputs,
    weights_of,
)
from tests.applications.common import model_case
from tests.harness import check_oracle, name_of, refuses, run_checks, value


def everything(model, **inputs):
    embedded, mask, encoder, options = oracle_inputs(model, **inputs)
    layers = {layer.name: layer for layer in model.layers}
    cnn = layers["phrase_cnn"]
    weights = {
        "layer_logits": weights_of(layers["layer_weighting"])[0],
        "normalize_layers": model.layer_weighting == "softmax",
        "phrase": [
            [*weights_of(one), *weights_of(two)]
            for one, two in zip(cnn.hidden_convolutions, cnn.output_convolutions)
        ],
        "dsa": dsa_weights(layers["rereading"]),
        "pooling": [weights_of(layers[f"pooling_{r + 1}"]) for r in range(len(model.widths))],
        "use_pair": model.use_global,
        "fusion": model.fusion,
        "mlp": [weights_of(layers["hidden"]), weights_of(layers["logits"])],
    }
    return oracles_encoders.ladra_net(embedded, mask, {**weights, **encoder}, **options)


def dsa_weights(layer):
    units = range(len(layer.token_kernels))
    parts = {
        "W": layer.token_kernels,
        "U": layer.state_kernels,
        "M": layer.guide_kernels,
        "V": [None, *layer.earlier_kernels],
        "w": layer.contexts,
        "phi": layer.fertility_kernels or [None for _ in units],
    }
    per_unit = [{n: None if p[r] is None else value(p[r]) for n, p in parts.items()} for r in units]
    width = layer.token_kernels[0].shape[0]
    several = sum(layer.fused) > 1  # a single unit has the weight 1 whatever its score
    return {
        "per_unit": per_unit,
        "W_f": value(layer.fusion_kernel) if several else np.zeros((width, 1)),
        "w_f": value(layer.fusion_context) if several else np.zeros(1),
        "gru": weights_of(layer.cell),
        "beta": layer.beta,
        "steps": layer.steps,
        "fuse_word": layer.fuse_word,
        "coverage": layer.coverage,
        "clip": layer.clip_coverage,
        "update": layer.coverage_update,
    }


def oracle(model, **inputs):
    return everything(model, **inputs)["probabilities"]


SMALL = {
    "backbone": BERT,
    "hidden_filters": 3,
    "attention_units": 3,
    "steps": 2,
    "beta": 2.0,
    "units": 3,
    "depth": 2,
    "hidden_units": 5,
}


def case(name, inputs=PAIRS, **config):
    make = partial(LadRaNet, **{**SMALL, **config})
    return model_case(make, inputs, oracle, name, unused=UNUSED)


CASES = [case("LadRaNet")]
VARIANTS = [
    case("free", layer_weighting="free", fuse_word=False, clip_coverage=False),
    case("score", widths=(3,), coverage_update="score"),
    case("RoBERTa", ROBERTA_PAIRS, backbone=ROBERTA, coverage="off"),
]


test_checks = run_checks(CASES)


@pytest.mark.backend("torch")  # the same operations on the others
@pytest.mark.parametrize("case", VARIANTS, ids=name_of)
def test_variants(case):
    check_oracle(case)


test_errors = refuses(
    CASES[0].make,
    [
        ({"contextual": "lstm"}, "contextual must be one of .*contextual='lstm'"),
        ({"layer_weighting": None}, "layer_weighting must be one of .*layer_weighting=None"),
        ({"fusion": "sum"}, "fusion must be one of .*Received: fusion='sum'"),
        ({"steps": -1}, "steps must be at least 0. Received: steps=-1"),
        ({"steps": 0, "use_global": False}, "Nothing is left to classify"),
    ],
)
