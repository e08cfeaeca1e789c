"""DABERT: whole forward passes against the oracle."""

from functools import partial

import pytest

from keras_sentmatch.applications import DABERT
from tests import oracles_encoders
from tests.applications.backbones import (
    BERT,
    PAIRS,
    ROBERTA,
    ROBERTA_PAIRS,
    ROBERTA_SEGMENTS,
    UNUSED,
    oracle_inputs,
)
from tests.applications.common import model_case
from tests.harness import check_oracle, name_of, refuses, run_checks


def everything(model, **inputs):
    embedded, mask, weights, options = oracle_inputs(model, **inputs)
    dual = {name: getattr(model, name) for name in ("distance", "cross", "alignment", "gate")}
    dual |= {"filter_gate": model.filter_gate, "regulation": model.regulation}
    dual |= {"output": model.output_mode, "use_affinity": model.channels != "difference"}
    dual["use_difference"] = model.channels != "affinity"
    segments = inputs.get("segment_ids")
    if model.cross and segments is None:
        ids = inputs["token_ids"]
        segments = ROBERTA_SEGMENTS[:, : ids.shape[1]]
    return oracles_encoders.dabert(embedded, mask, weights, segments, dual, **options)


def oracle(model, **inputs):
    return everything(model, **inputs)["probabilities"]


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


test_errors = refuses(
    CASES[0].make,
    [
        ({"dual_layers": layers}, "some of the 2 layers of the backbone, 0 to 1")
        for layers in ((), (2,), (-1,), ("0",))
    ],
)
