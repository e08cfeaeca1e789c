"""rLSTM: a whole forward pass against the oracle, its halves, every switch."""

from functools import partial

import pytest

from keras_sentmatch.applications import RLSTM
from tests import oracles_blocks
from tests.applications.common import WORDS, check_halves, model_case
from tests.harness import arguments_act, built, check_oracle, refuses, run_checks, value
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


test_checks = run_checks(CASES)


def test_without_tanh():
    check_oracle(model_case(partial(SMALL, tanh=False), WORDS, oracle, "no tanh"))


test_halves = run_checks(CASES, check_halves)


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


test_arguments = arguments_act(CASES, units=6, first_attention="learned")


test_errors = refuses(SMALL, [({"units": 5}, "units must be even.* Received: units=5")])
