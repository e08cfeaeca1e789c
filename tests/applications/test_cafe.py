"""CAFE: a whole forward pass against the oracle, its halves, every switch."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.applications import CAFE
from tests import oracles_hosts
from tests.applications.common import WORDS, adapt, check_halves, features, model_case
from tests.harness import Case, arguments_act, built, check_oracle, refuses, run_checks, value


def weights_of(layer):
    return [value(w) for w in layer.weights]


def all_weights(model):
    layers = {layer.name: layer for layer in model.layers}

    def highway(name):
        pairs = zip(layers[name].transforms, layers[name].gates)
        return [(*weights_of(transform), *weights_of(gate)) for transform, gate in pairs]

    def machine(name):
        layer = layers[name]
        return value(layer.bias), value(layer.kernel), value(layer.factor_kernel)

    words, lstm = layers["word_representation"], layers["lstm"]
    characters = {}
    if cnn := words.char_cnn:
        characters["char"] = [value(cnn.embedding.embeddings), *weights_of(cnn.convolution)]
    if rnn := words.char_lstm:
        characters["char_lstm"] = [value(rnn.embedding.embeddings), weights_of(rnn.lstm)]
    return {
        "embeddings": [value(words.word_embeddings[0].embeddings)],
        **characters,
        "pos": np.eye(words.pos_tags) if words.pos_tags else None,
        "projection": weights_of(layers["word_projection"]),
        "highway": highway("word_highway"),
        "inter": weights_of(layers["inter_keys"]),
        "intra": weights_of(layers["intra_keys"]),
        "fm": [
            machine(f"{kind}_{name}")
            for kind in ("inter", "intra")
            for name in ("concat", "product", "difference")
        ],
        "encoder": [weights_of(lstm.forward_rnn), weights_of(lstm.backward_rnn)]
        if model.bidirectional
        else weights_of(lstm),
        "head": weights_of(layers["projection"]),
        "head_highway": highway("highway"),
        "output": weights_of(layers["logits"]),
        "adapt": adapt(model),
    }


def oracle(model, **inputs):
    return oracles_hosts.cafe(inputs, all_weights(model))["probabilities"]


FULL = {n: a for n, a in features().items() if not n.startswith("antonym")}
SMALL = partial(
    CAFE,
    vocabulary_size=10,
    embedding_dim=3,
    char_dim=2,
    char_filters=2,
    char_kernel_size=3,
    max_word_length=6,
    units=4,
    factors=2,
)
FEATURES = {"char_vocabulary_size": 6, "pos_tags": 3}
CASES = [model_case(partial(SMALL, **FEATURES), FULL, oracle, "CAFE")]
WORDS_ONLY = Case(SMALL, WORDS, (0, 0))


test_checks = run_checks(CASES)


@pytest.mark.once
@pytest.mark.parametrize("preset", [None, "released", "no_intra_attention", "no_inter_attention"])
def test_halves(preset):
    check_halves(CASES[0], **(CAFE.presets[preset] if preset else {}))


@pytest.mark.once
@pytest.mark.parametrize(
    "config", [{"bidirectional": True}, {**FEATURES, "char_encoder": "lstm"}], ids=str
)
def test_variants(config):
    check_oracle(
        Case(partial(SMALL, **config), FULL if "pos_tags" in config else WORDS, (0, 0), oracle)
    )


test_arguments = arguments_act(
    CASES,
    "max_word_length",
    "feature_attention",
    "feature_attention_config",
    char_encoder="lstm",
    char_kernel_size=2,
    alignment_features=("concat", "product"),
)


def test_penalties():
    assert not SMALL(l2=0.0).losses
    penalized = [v for v in SMALL(**FEATURES).trainable_weights if "kernel" in v.path]
    assert len(SMALL(**FEATURES).losses) == len(penalized)


@pytest.mark.once
@pytest.mark.parametrize("preset", CAFE.presets)
def test_presets(preset):
    assert SMALL(**CAFE.presets[preset]).count_params()


def test_what_a_switch_leaves_out():
    """By counts: of F, and of three machines and as many inputs of the LSTM, nothing is left."""
    whole, d, k = SMALL().count_params(), 4, 2
    machines = (2 * d * (k + 1) + 1) + 2 * (d * (k + 1) + 1)
    for switch in ("inter_attention", "intra_attention"):
        left = SMALL(**{switch: False}).count_params()
        assert whole - left == d * (d + 1) + machines + 3 * 4 * d
    with_meta = SMALL(meta_factors=3).count_params()
    assert with_meta - whole == 6 * 3 + 6 + 1 + 4 * d
    assert SMALL(append_intra=True).count_params() - whole == d * 4 * d


test_errors = refuses(
    SMALL,
    [
        ({"alignment_features": ("sum",)}, "each once. Received: alignment_features=.'sum',"),
        ({"alignment_features": ()}, "each once"),
        ({"append_intra": True, "intra_attention": False}, "needs intra_attention=True"),
        (
            {"meta_factors": 4, "intra_attention": False, "inter_attention": False},
            "switch an attention on",
        ),
    ],
)


def test_no_attention_at_all():
    assert SMALL(inter_attention=False, intra_attention=False).count_params()


@pytest.mark.once
def test_explainer():
    model = built(CASES[0])
    shown = {n: value(t) for n, t in model.explainer()(FULL).items()}
    want = oracles_hosts.cafe(FULL, all_weights(model))
    for name in ("probabilities", "attention_1", "attention_2", "features_1", "features_2"):
        np.testing.assert_allclose(shown[name], want[name], atol=1e-4)
    for side in "12":
        weights, real = shown[f"intra_attention_{side}"], FULL[f"word_ids_{side}"] > 0
        np.testing.assert_allclose(weights, want[f"intra_{side}"], atol=1e-5)
        np.testing.assert_allclose(weights.sum(-1), real, atol=1e-6)
    few = built(CASES[0], inter_attention=False).explainer()(FULL)
    assert set(few) == {
        *("feature_map_base", "features_1", "features_2", "intra_attention_1", "intra_attention_2"),
        "probabilities",
    }
    assert few["features_1"].shape[-1] == 3
