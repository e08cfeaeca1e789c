"""DABERT: whole forward passes against the oracle."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.applications import DABERT
from tests import oracles_encoders as oracles
from tests.applications.backbones import (
    BERT,
    PAIRS,
    ROBERTA,
    ROBERTA_PAIRS,
    ROBERTA_SEGMENTS,
    UNUSED,
    oracle_inputs,
)
from tests.applications.common import classified, model_case
from tests.case import name_of, weights_of
from tests.harness import check_oracle, run_checks
from tests.layers.test_dabert import block


def oracle(model, **inputs):
    x, mask, layers, options = oracle_inputs(model, **inputs)
    segments = inputs.get("segment_ids", ROBERTA_SEGMENTS[:, : x.shape[1]])
    for i, weights in enumerate(layers):
        if i in model.duals:
            x = block(model.duals[i], x, mask, segments)[0]
        else:
            x, _ = oracles.transformer_encoder(x, mask, weights, **options)
    pooler = next(layer for layer in model.layers if layer.name in ("pooled_dense", "pooler"))
    return classified([model.logits], np.tanh(oracles.dense(x[:, 0], weights_of(pooler))))


def case(name, inputs=PAIRS, **config):
    make = partial(DABERT, **{"backbone": BERT, "attention_units": 3, **config})
    return model_case(make, inputs, oracle, name, unused=(*UNUSED, "context_bias"))


CASES = [case("DABERT")]
VARIANTS = [
    case(
        "both layers",
        dual_layers=(0, 1),
        distance="sum",
        cross=True,
        gate=False,
        channels="affinity",
    ),
    case(
        "RoBERTa, the second",
        ROBERTA_PAIRS,
        backbone=ROBERTA,
        dual_layers=(1,),
        cross=True,
        alignment="none",
        filter_gate=False,
        num_classes=1,
    ),
]


test_checks = run_checks(CASES)


@pytest.mark.backend("torch")  # the same operations on the others
@pytest.mark.parametrize("case", VARIANTS, ids=name_of)
def test_variants(case):
    check_oracle(case)
