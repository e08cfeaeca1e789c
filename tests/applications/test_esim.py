"""ESIM: a whole forward pass against the oracle, its halves, every switch."""

from functools import partial

import pytest

from keras_sentmatch.applications import ESIM
from tests import oracles_hosts
from tests.applications.common import WORDS, adapt, check_halves, model_case
from tests.harness import CHECKS, built, check_option, name_of, value


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


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_esim(check):
    check(CASES[0])


@pytest.mark.once
def test_halves():
    check_halves(CASES[0])


@pytest.mark.once
@pytest.mark.parametrize(
    "option, one, two",
    [
        ("num_classes", 3, 1),
        ("embedding_dim", 3, 4),
        ("trainable_embedding", True, False),
        ("units", 4, 5),
        ("cell", "lstm", "gru"),
        ("feature_attention", "fa", "sfa"),
    ],
)
def test_options(option, one, two):
    if option == "trainable_embedding":
        counts = [len(built(CASES[0], **{option: v}).trainable_weights) for v in (one, two)]
        assert counts[0] == counts[1] + 1
    else:
        check_option(CASES[0], option, one, two)


@pytest.mark.each_backend
def test_dropout():
    check_option(CASES[0], "dropout", 0.0, 0.5, training=True)


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
