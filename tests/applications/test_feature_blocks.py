"""Feature attention in the host models: which blocks a host makes, and what they do in it."""

from functools import partial

import keras
import pytest

from keras_sentmatch.applications import DRCN
from keras_sentmatch.applications.feature_blocks import make_feature_blocks
from keras_sentmatch.layers import FeatureAttention, SelectiveFeatureAttention
from keras_sentmatch.training._model import warn_of_narrow_features
from tests import oracles
from tests.applications import test_bimpm, test_cafe, test_diin, test_esim, test_re2
from tests.applications.common import WORDS, gate, model_case
from tests.harness import (
    Case,
    check_batch,
    check_config,
    check_dtypes,
    check_fit,
    check_option,
    check_oracle,
    check_padding,
    check_save,
    name_of,
    run_checks,
    value,
)
from tests.layers import test_dense_co_attentive_rnn


def feature_blocks(kind, config=None, **defaults):
    return make_feature_blocks(kind, config, "here", "mixed_float16", **defaults)


def test_no_blocks():
    assert feature_blocks(None) == ()


@pytest.mark.each_backend
@pytest.mark.parametrize(
    "arguments, cls, attribute, expected",
    [
        (("fa", {"reduction": 2}), FeatureAttention, "reduction", 2),
        (("sfa", {"branches": 2}), SelectiveFeatureAttention, "branches", 2),
        (
            (keras.saving.serialize_keras_object(SelectiveFeatureAttention(r1=2)),),
            SelectiveFeatureAttention,
            "r1",
            2,
        ),
    ],
)
def test_a_block_a_sentence(arguments, cls, attribute, expected):
    one, two = blocks = feature_blocks(*arguments)
    assert [(type(b), b.name, b.dtype_policy.name) for b in blocks] == [
        (cls, f"here_{side}", "mixed_float16") for side in "12"
    ]
    assert one is not two and getattr(one, attribute) == getattr(two, attribute) == expected


def test_the_sentences_can_share_a_block():
    one, two = feature_blocks("fa", {"share": True})
    assert one is two and one.name == "here_both"


@pytest.mark.once
def test_config_beats_the_hosts_defaults():
    regular = keras.regularizers.L2(1)
    one = feature_blocks("fa", {"reduction": 2}, reduction=3, kernel_regularizer=regular)[0]
    assert one.reduction == 2 and one.kernel_regularizer is regular


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


def drcn(model, word_ids_1, word_ids_2):
    """The words as the model has them; the parts of the stack, blocks and the rest by the oracles."""
    layers, ids = named(model), (word_ids_1, word_ids_2)
    xs = [value(layers["word_representation"](a, other_word_ids=b)) for a, b in (ids, ids[::-1])]
    masks = [a > 0 for a in ids]
    for part in sorted(n for n in layers if n.startswith("dense_co")):
        out = test_dense_co_attentive_rnn.forward(layers[part], 1, *xs, *masks)
        xs = [out["p"], out["q"]]
        for i, side in enumerate("12"):
            block = layers.get(f"feature_attention_{part[-1]}_{side}")
            xs[i] = xs[i] if block is None else gate(block, xs[i], masks[i])
    v = oracles.matching_vector(*(oracles.masked_max(x, m)[0] for x, m in zip(xs, masks)))
    for i in "12":
        kernel, bias = (value(w) for w in layers[f"hidden_{i}"].weights)
        v = oracles.relu(v @ kernel + bias)
    kernel, bias = (value(w) for w in layers["logits"].weights)
    return oracles.softmax(v @ kernel + bias)


UNUSED = ("decoder",)  # only the reconstruction loss reaches it
CASES = [
    model_case(partial(SMALL, feature_attention=kind), WORDS, drcn, f"DRCN+{kind}", unused=UNUSED)
    for kind in ("fa", "sfa")
]


test_drcn = run_checks(
    CASES[1:], check_config, check_dtypes, check_fit, check_padding, check_batch, check_save
)


@pytest.mark.each_backend
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_drcn_oracle(case):
    check_oracle(case)


def test_drcn_has_two_blocks_a_sentence():
    names = [n for n in named(CASES[0].make()) if n.startswith("feature_attention")]
    assert sorted(names) == [f"feature_attention_{i}_{side}" for i in "12" for side in "12"]
    model = SMALL(feature_attention="fa", autoencoder_after=(2,))  # a layer without one follows
    assert sorted(n for n in named(model) if n.startswith("feature")) == [
        "feature_attention_1_1",
        "feature_attention_1_2",
    ]


@pytest.mark.once
def test_drcn_options():
    base = Case(SMALL, WORDS, (0, 0))
    check_option(base, "feature_attention", None, "fa")
    check_option(base, "feature_attention", "fa", "sfa")
    fa = Case(partial(SMALL, feature_attention="fa"), WORDS, (0, 0))
    check_option(fa, "feature_attention_config", None, {"reduction": 2})
    check_option(fa, "feature_attention_config", None, {"share": True})
    layer = Case(partial(SMALL, feature_attention=FeatureAttention(2)), WORDS, (0, 0))
    check_config(layer)
    check_save(layer)


# --- in the other hosts ---

MODULES = (test_esim, test_re2, test_diin, test_bimpm, test_cafe)
HOSTS = [  # with SFA and an oracle in the hosts' own files
    Case(partial(module.SMALL, feature_attention="fa"), WORDS, (0, 0), module.oracle)
    for module in MODULES
]


@pytest.mark.once
@pytest.mark.parametrize("case", HOSTS, ids=name_of)
def test_hosts(case):
    check_oracle(case)
    check_option(case, "feature_attention", None, "fa")
    check_option(case, "feature_attention_config", None, {"share": True})


def blocks_of(model):
    kinds = (FeatureAttention, SelectiveFeatureAttention)
    return [layer for layer in model.layers if isinstance(layer, kinds)]


@pytest.mark.once
def test_bimpm_has_the_settings_of_the_paper():
    make = test_bimpm.SMALL
    assert {block.reduction for block in blocks_of(make(feature_attention="fa"))} == {2}
    for config, wanted in (({}, (3.75, 4, 2)), ({"r2": 1, "share": True}, (3.75, 1, 2))):
        blocks = blocks_of(make(feature_attention="sfa", feature_attention_config=config))
        assert {(block.r1, block.r2, block.branches) for block in blocks} == {wanted}
    layer = SelectiveFeatureAttention()  # has its own
    assert {block.branches for block in blocks_of(make(feature_attention=layer))} == {3}


@pytest.mark.once
def test_training_warns_of_narrow_blocks(caplog):
    make = partial(test_esim.SMALL, feature_attention="sfa")
    warn_of_narrow_features(make(feature_attention_config={"r1": 1, "r2": 1}), 2)  # 8 > 5.77
    warn_of_narrow_features(make(feature_attention=None), 10)
    assert not caplog.records
    warn_of_narrow_features(make(), 10)
    (record,) = caplog.records  # for both sentences
    assert record.getMessage() == (
        "Feature attention: 2D/r1 = 2.667, 2D/(r1 r2) = 0.5333 should exceed 8.33 ln(10) = 19.18 for "
        "4 features and sentences of 10 tokens (eq 9 of the SFA paper). Reduce less in "
        "model.feature_attention_config."
    )
