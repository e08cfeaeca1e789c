"""ESIM: a whole forward pass against the oracle, its halves, every switch."""

from functools import partial

import pytest

from keras_sentmatch.applications import ESIM
from tests import oracles_hosts
from tests.applications.common import WORDS, adapt, check_halves, model_case
from tests.harness import arguments_act, built, run_checks, value


def weights_of(layer):
    return [value(w) for w in layer.weights]


def everything(model, **inputs):
    layers = {layer.name: layer for layer in model.layers}

    def both(name):
        return [weights_of(getattr(layers[name], f"{way}_rnn")) for way in ("forward", "backward")]

    words = layers["word_representation"].word_embeddings
    return oracles_hosts.esim(
        inputs,
        {
            "embeddings": [value(e.embeddings) for e in words],
            "encoder": both("encoding"),
            "projection": weights_of(layers["projection"]),
            "composition": both("composition"),
            "dense": [weights_of(layers["hidden"]), weights_of(layers["logits"])],
            "adapt": adapt(model),
        },
    )


def oracle(model, **inputs):
    return everything(model, **inputs)["probabilities"]


SMALL = partial(ESIM, vocabulary_size=10, embedding_dim=3, units=4)
CASES = [model_case(SMALL, WORDS, oracle, "ESIM")]


test_checks = run_checks(CASES)


test_halves = run_checks(CASES, check_halves)


test_arguments = arguments_act(
    CASES, "placement", "feature_attention_config", cell="gru", feature_attention="fa"
)


@pytest.mark.once
def test_explainer():
    model = built(CASES[0])
    shown = {n: value(t) for n, t in model.explainer()(WORDS).items()}
    assert abs(shown["probabilities"] - value(model(WORDS))).max() == 0
    for side, shape in (("1", (3, 5, 4)), ("2", (3, 4, 5))):
        attention, real = shown[f"attention_{side}"], WORDS[f"word_ids_{side}"] > 0
        assert attention.shape == shape
        assert abs(attention.sum(-1) - real).max() < 1e-6
        assert abs(attention - everything(model, **WORDS)[f"attention_{side}"]).max() < 1e-5
