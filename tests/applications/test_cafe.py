"""CAFE with SFA: a whole forward pass against the oracle, its halves, every switch."""

from functools import partial

import numpy as np

from keras_sentmatch.applications import CAFE
from tests import oracles_hosts
from tests.applications.common import WORDS, adapt, check_halves, features, model_case
from tests.harness import Case, arguments_act, check_oracle, run_checks, value


def weights_of(layer):
    return [value(w) for w in layer.weights]


def oracle(model, **inputs):
    layers = {layer.name: layer for layer in model.layers}

    def highway(name):
        pairs = zip(layers[name].transforms, layers[name].gates)
        return [(*weights_of(transform), *weights_of(gate)) for transform, gate in pairs]

    def machine(name):
        layer = layers[name]
        return value(layer.bias), value(layer.kernel), value(layer.factor_kernel)

    words, lstm = layers["word_representation"], layers["lstm"]
    cnn = words.char_cnn
    weights = {
        "embeddings": [value(words.word_embeddings[0].embeddings)],
        "char": [value(cnn.embedding.embeddings), *weights_of(cnn.convolution)] if cnn else None,
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
    return oracles_hosts.cafe(inputs, weights)["probabilities"]


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
FEATURES = partial(SMALL, char_vocabulary_size=6, pos_tags=3)
CASES = [model_case(partial(FEATURES, feature_attention="sfa"), FULL, oracle, "CAFE")]
BOTH_WAYS = model_case(partial(SMALL, bidirectional=True), WORDS, oracle, "bidirectional")
ABLATED = [
    Case(partial(SMALL, **CAFE.presets[preset]), WORDS, (0, 0), name=preset)
    for preset in ("no_intra_attention", "no_inter_attention")
]

test_checks = run_checks(CASES)

test_both_ways = run_checks([BOTH_WAYS], check_oracle)

test_halves = run_checks([*CASES, *ABLATED], check_halves)

test_arguments = arguments_act(
    [Case(FEATURES, FULL, (0, 0))],
    "max_word_length",
    "feature_attention",
    "feature_attention_config",
    char_kernel_size=2,
    alignment_features=("concat", "product"),
)


def test_penalties():
    assert not SMALL(l2=0.0).losses
    penalized = [v for v in FEATURES().trainable_weights if "kernel" in v.path]
    assert len(FEATURES().losses) == len(penalized)


def test_no_attention_at_all():
    assert SMALL(inter_attention=False, intra_attention=False).count_params()
