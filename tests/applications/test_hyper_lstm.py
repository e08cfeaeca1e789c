"""HyperLSTM: a whole forward pass against the oracle, its halves, every switch."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.applications import HyperLSTM
from tests import oracles, oracles_blocks
from tests.applications.common import WORDS, check_halves, model_case
from tests.harness import CHECKS, built, check_option, check_oracle, name_of, value
from tests.layers.test_hyper_lstm_cell import weights_of as cell_weights


def oracle(model, **inputs):
    layers = {layer.name: layer for layer in model.layers}
    table = value(layers["word_representation"].word_embeddings[0].embeddings)
    vectors = []
    for side in ("1", "2"):
        encoder = layers["encoding_both" if model.shared_encoder else f"encoding_{side}"]
        ids = inputs[f"word_ids_{side}"]
        vectors.append(
            oracles_blocks.hyper_lstm(table[ids], ids > 0, cell_weights(encoder.cell))[1]
        )
    p, h = vectors
    kernel, bias = (value(w) for w in layers["logits"].weights)
    return oracles.softmax(np.concatenate([p, h, p - h, p * h], -1) @ kernel + bias)


SMALL = partial(
    HyperLSTM, vocabulary_size=10, embedding_dim=3, units=4, hyper_units=3, embedding_units=2
)
CASES = [model_case(SMALL, WORDS, oracle, "HyperLSTM")]
SHARED = model_case(
    partial(SMALL, shared_encoder=True, layer_norm=True), WORDS, oracle, "shared, layer norm"
)


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_hyper_lstm(check):
    check(CASES[0])


@pytest.mark.parametrize("check", [check_oracle, check_halves], ids=name_of)
def test_shared_encoder(check):
    check(SHARED)


def test_a_shared_encoder_tells_the_sentences_apart_only_by_their_places():
    model, ids = built(SHARED), WORDS["word_ids_1"]
    encoder_1, encoder_2, _ = model.split()
    same = [value(encoder({"word_ids": ids})["vector"]) for encoder in (encoder_1, encoder_2)]
    assert (same[0] == same[1]).all()
    encoder_1, encoder_2, _ = built(CASES[0]).split()
    other = [value(encoder({"word_ids": ids})["vector"]) for encoder in (encoder_1, encoder_2)]
    assert abs(other[0] - other[1]).max() > 1e-3


@pytest.mark.once
def test_halves():
    check_halves(CASES[0])


@pytest.mark.once
@pytest.mark.parametrize(
    "option, one, two",
    [
        ("num_classes", 3, 1),
        ("embedding_dim", 3, 4),
        ("units", 4, 5),
        ("hyper_units", 3, 4),
        ("embedding_units", 2, 3),
        ("layer_norm", False, True),
        ("shared_encoder", False, True),
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
