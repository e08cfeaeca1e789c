"""LadRa-Net: a whole forward pass against the oracle, every switch, what it shows."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.applications import LadRaNet
from tests import oracles_encoders as oracles
from tests.applications.backbones import BERT, PAIRS, ROBERTA, ROBERTA_PAIRS, UNUSED, oracle_inputs
from tests.applications.common import classified, model_case
from tests.case import name_of, weights_of
from tests.harness import check_oracle, run_checks
from tests.layers.test_drr_net import pooled
from tests.layers.test_ladra_net import convolved, read
from tests.oracles_recurrent import zero_pads


def oracle(model, **inputs):
    x, mask, layers, options = oracle_inputs(model, **inputs)
    states = []
    for weights in layers:
        x, _ = oracles.transformer_encoder(x, mask, weights, **options)
        states.append(x)
    (scalars,) = weights_of(model.weigh)
    words = oracles.layer_weighted_sum(states, scalars, model.layer_weighting == "softmax")
    words = zero_pads(words, mask)
    units, vectors = words[:, None], [zero_pads(states[-1], mask)[:, 0]]
    if model.widths:
        phrases = convolved(model.phrase_cnn, words, mask)
        units = np.concatenate([units, phrases], 1)
        for r, pooling in enumerate(model.phrase_poolings):
            vectors.append(pooled(pooling, phrases[:, r], mask)[0])
    pair = sum(vectors) / len(vectors)
    parts = [pair] if model.use_global else []
    parts += list(np.moveaxis(read(model.rereading, units, mask, pair)[0], 1, 0))
    v = {"mean": np.mean, "max": np.max}[model.fusion](np.stack(parts), axis=0)  # eq 15
    return classified([model.hidden, model.logits], v)


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
