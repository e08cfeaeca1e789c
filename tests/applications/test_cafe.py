"""CAFE with SFA: a whole forward pass against the oracle, every switch."""

from functools import partial

import numpy as np

from keras_sentmatch.applications import CAFE
from tests import oracles_hosts
from tests.applications.common import adapt, features, model_case, weights_of
from tests.harness import Case, arguments_act, run_checks, value


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
        "encoder": weights_of(lstm),
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

test_checks = run_checks(CASES)

test_arguments = arguments_act(
    [Case(FEATURES, FULL, (0, 0))],
)


def test_penalties():
    assert not SMALL(l2=0.0).losses
    penalized = [v for v in FEATURES().trainable_weights if "kernel" in v.path]
    assert len(FEATURES().losses) == len(penalized)
