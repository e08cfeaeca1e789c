"""Feature attention in the host models: which blocks a host makes, and what they do in it."""

from functools import partial

import keras
import pytest

from keras_sentmatch.applications import DRCN
from keras_sentmatch.layers import FeatureAttention, SelectiveFeatureAttention
from tests.applications.common import WORDS, model_case
from tests.applications.test_hosts import HOSTS, PLAIN
from tests.applications.test_hosts import SMALL as SMALL_HOSTS
from tests.case import Case
from tests.harness import (
    check_batch,
    check_config,
    check_dtypes,
    check_fit,
    check_option,
    check_padding,
    run_checks,
)


def blocks_of(model):
    kinds = (FeatureAttention, SelectiveFeatureAttention)
    return [layer for layer in model.layers if isinstance(layer, kinds)]


def blocks(kind, config=None, host="esim", **more):
    given = {"feature_attention": kind, "feature_attention_config": config}
    return blocks_of(SMALL_HOSTS[host](**given, **more))


def test_each_sentence_has_its_block():
    assert blocks(None) == []
    found = blocks("sfa", {"r1": 2}, dtype="mixed_float16")
    assert [(type(b), b.name, b.dtype_policy.name, b.r1) for b in found] == [
        (SelectiveFeatureAttention, f"feature_attention_{side}", "mixed_float16", 2)
        for side in "12"
    ]
    assert [b.name for b in blocks("fa", {"share": True})] == ["feature_attention_both"]


def test_config_beats_the_defaults_of_the_host():
    (one, two), penalty = blocks("fa", {"reduction": 3}, "cafe"), keras.regularizers.L2
    assert one.reduction == two.reduction == 3 and isinstance(one.kernel_regularizer, penalty)
    assert {b.reduction for b in blocks("fa", host="bimpm")} == {2}  # as in the paper
    for config, wanted in (({}, (3.75, 4, 2)), ({"r2": 1}, (3.75, 1, 2))):
        assert {(b.r1, b.r2, b.branches) for b in blocks("sfa", config, "bimpm")} == {wanted}


# --- in DRCN ---

SMALL = partial(
    DRCN,
    vocabulary_size=10,
    embedding_dim=3,
    units=2,
    depth=3,
    autoencoder_units=6,
    hidden_units=5,
    autoencoder_after=(1, 3),
)


def named(model):
    return {layer.name: layer for layer in model.layers}


UNUSED = ("decoder",)  # only the reconstruction loss reaches it
CASES = [
    model_case(partial(SMALL, feature_attention="sfa"), WORDS, None, "DRCN+SFA", unused=UNUSED)
]

test_drcn = run_checks(CASES, check_config, check_dtypes, check_fit, check_padding, check_batch)


def test_drcn_has_two_blocks_a_sentence():
    names = [n for n in named(SMALL(feature_attention="fa")) if n.startswith("feature_attention")]
    assert sorted(names) == [f"feature_attention_{i}_{side}" for i in "12" for side in "12"]
    model = SMALL(feature_attention="fa", autoencoder_after=(2,))  # a layer without one follows
    names = sorted(n for n in named(model) if n.startswith("feature"))
    assert names == ["feature_attention_1_1", "feature_attention_1_2"]


def test_drcn_options():
    base = Case(SMALL, WORDS, (0, 0))
    check_option(base, "feature_attention", None, "fa")
    check_option(base, "feature_attention", "fa", "sfa")
    fa = Case(partial(SMALL, feature_attention="fa"), WORDS, (0, 0))
    check_option(fa, "feature_attention_config", None, {"reduction": 2})
    check_option(fa, "feature_attention_config", None, {"share": True})


# --- in the other hosts ---


@pytest.mark.parametrize("name", HOSTS)
def test_hosts(name):
    check_option(PLAIN[name], "feature_attention", None, "fa")
    sfa = Case(partial(PLAIN[name].make, feature_attention="sfa"), PLAIN[name].inputs, (0, 0))
    check_option(sfa, "feature_attention_config", None, {"share": True})
    check_option(sfa, "feature_attention_config", None, {"branches": 2, "r1": 2})
