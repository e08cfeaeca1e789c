"""rLSTM: a whole forward pass against the oracle, its halves, every switch."""

from functools import partial

import pytest

from keras_sentmatch.applications import RLSTM
from tests import oracles_blocks
from tests.applications.common import WORDS, check_halves, model_case
from tests.harness import CHECKS, built, check_option, check_oracle, name_of, value
from tests.layers.test_rereading_lstm import weights_of as reader_weights


def weights_of(layer):
    return [value(w) for w in layer.weights]


def forward(model, **inputs):
    layers = {layer.name: layer for layer in model.layers}
    encoding = layers["encoding"]
    return oracles_blocks.rlstm_model(
        inputs,
        {
            "embeddings": [value(layers["word_representation"].word_embeddings[0].embeddings)],
            "flag": False,
            "encoder": [weights_of(r) for r in (encoding.forward_rnn, encoding.backward_rnn)],
            "forward": reader_weights(layers["reading_forward"]),
            "backward": reader_weights(layers["reading_backward"]),
            "tanh": model.tanh,
            "dense": [weights_of(layers["logits"])],
        },
    )


def oracle(model, **inputs):
    return forward(model, **inputs)["probabilities"]


SMALL = partial(RLSTM, vocabulary_size=10, embedding_dim=3, units=4)
CASES = [model_case(SMALL, WORDS, oracle, "RLSTM")]


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_rlstm(check):
    check(CASES[0])


def test_without_tanh():
    check_oracle(model_case(partial(SMALL, tanh=False), WORDS, oracle, "no tanh"))


@pytest.mark.once
def test_halves():
    check_halves(CASES[0])


@pytest.mark.once
def test_explainer():
    model = built(CASES[0])
    shown = {n: value(t) for n, t in model.explainer()(WORDS).items()}
    assert abs(shown["probabilities"] - value(model(WORDS))).max() == 0
    want = forward(model, **WORDS)
    for way in ("forward", "backward"):
        attention = shown[f"attention_{way}_2"]
        assert abs(attention - want[f"attention_{way}"]).max() < 1e-5
        assert abs(attention.sum(-1) - (WORDS["word_ids_2"] > 0)).max() < 1e-6


@pytest.mark.once
@pytest.mark.parametrize(
    "option, one, two",
    [
        ("num_classes", 3, 1),
        ("embedding_dim", 3, 4),
        ("units", 4, 6),
        ("tanh", True, False),
        ("first_attention", "uniform", "learned"),
    ],
)
def test_options(option, one, two):
    check_option(CASES[0], option, one, two)


def test_trainable_embedding():
    counts = [len(SMALL(trainable_embedding=v).trainable_weights) for v in (True, False)]
    assert counts[0] == counts[1] + 1


@pytest.mark.each_backend
def test_dropout():
    check_option(CASES[0], "dropout", 0.0, 0.5, training=True)


def test_units_must_be_even():
    with pytest.raises(ValueError, match="units must be even.* Received: units=5"):
        SMALL(units=5)
