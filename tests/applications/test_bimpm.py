"""BiMPM: a whole forward pass against the oracle, its halves, every switch."""

from functools import partial

import pytest

from keras_sentmatch.applications import BiMPM
from tests import oracles_hosts
from tests.applications.common import IDS_1, IDS_2, WORDS, adapt, check_halves, features, model_case
from tests.harness import Case, arguments_act, built, check_oracle, run_checks, value


def weights_of(layer):
    return [value(w) for w in layer.weights]


def oracle(model, **inputs):
    layers = {layer.name: layer for layer in model.layers}

    def both(name):
        return [weights_of(getattr(layers[name], f"{way}_rnn")) for way in ("forward", "backward")]

    words, matching = layers["word_representation"], layers["matching"]
    lstm = words.char_lstm
    weights = {
        "embeddings": [value(words.word_embeddings[0].embeddings)],
        "char_lstm": [value(lstm.embedding.embeddings), weights_of(lstm.lstm)] if lstm else None,
        "encoder": both("context"),
        "match": {
            strategy: [value(w) for w in kernels]
            for strategy, kernels in zip(matching.strategies, matching.kernels)
        },
        "max_attentive": matching.max_attentive,
        "aggregation": both("aggregation"),
        "dense": [weights_of(layers["hidden"]), weights_of(layers["logits"])],
        "adapt": adapt(model),
    }
    return oracles_hosts.bimpm(inputs, weights)["probabilities"]


CHARS = {n: a for n, a in features().items() if n.startswith(("word_ids", "char_ids"))}
SMALL = partial(
    BiMPM,
    vocabulary_size=10,
    embedding_dim=3,
    char_dim=2,
    char_units=2,
    max_word_length=6,
    units=3,
    aggregation_units=2,
    hidden_units=4,
    perspectives=2,
)
CASES = [model_case(partial(SMALL, char_vocabulary_size=6), CHARS, oracle, "BiMPM")]
WORDS_ONLY = Case(SMALL, WORDS, (0, 0))


test_checks = run_checks(CASES)


test_halves = run_checks(CASES, check_halves)


@pytest.mark.once
def test_presets():
    for config in BiMPM.presets.values():
        assert SMALL(**config).count_params()
    galsang = BiMPM.presets["galsang"]
    assert SMALL(**galsang).get_layer("matching").attentive == "sum"  # see its layer's tests
    check_oracle(Case(partial(SMALL, **{**galsang, "attentive": "mean"}), WORDS, (0, 0), oracle))


test_arguments = arguments_act(
    CASES,
    "attentive",  # see the test of its layer
    "max_word_length",
    "feature_attention",
    "feature_attention_config",
    cell="gru",
    strategies=("full", "max"),
    max_attentive="elementwise",
)


@pytest.mark.once
def test_explainer():
    model = built(CASES[0])
    shown = {n: value(t) for n, t in model.explainer()(CHARS).items()}
    assert abs(shown["probabilities"] - value(model(CHARS))).max() < 1e-6
    real = (IDS_1 > 0)[:, :, None] & (IDS_2 > 0)[:, None]
    assert shown["cosines"].shape == (3, 2, 5, 4)
    assert ((shown["cosines"] != 0) == real[:, None]).all() and abs(shown["cosines"]).max() <= 1
    for side, ids in (("1", IDS_1), ("2", IDS_2)):
        matching = shown[f"matching_{side}"]
        assert matching.shape == (*ids.shape, 16)
        assert (matching.any(-1) == (ids > 0)).all()
