"""HyperLSTM: a whole forward pass against the oracle, its halves, every switch."""

from functools import partial

import keras
import numpy as np

from keras_sentmatch.applications import HyperLSTM
from tests import oracles, oracles_blocks
from tests.applications.common import WORDS, check_halves, model_case
from tests.harness import arguments_act, built, check_oracle, noise, run_checks, value
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


test_checks = run_checks(CASES)


test_shared_encoder = run_checks([SHARED], check_oracle, check_halves)


def test_what_is_computed_before_the_loop_changes_nothing():
    encoding = built(CASES[0]).encodings["1"]
    inside = keras.layers.RNN(encoding.cell, return_sequences=True)
    x = noise(2, 5, 3)
    np.testing.assert_allclose(value(encoding(x)), value(inside(x)), atol=1e-6)


def test_a_shared_encoder_tells_the_sentences_apart_only_by_their_places():
    model, ids = built(SHARED), WORDS["word_ids_1"]
    encoder_1, encoder_2, _ = model.split()
    same = [value(encoder({"word_ids": ids})["vector"]) for encoder in (encoder_1, encoder_2)]
    assert (same[0] == same[1]).all()
    encoder_1, encoder_2, _ = built(CASES[0]).split()
    other = [value(encoder({"word_ids": ids})["vector"]) for encoder in (encoder_1, encoder_2)]
    assert abs(other[0] - other[1]).max() > 1e-3


test_halves = run_checks(CASES, check_halves)


test_arguments = arguments_act(CASES)
