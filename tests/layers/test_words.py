"""WordRepresentation and CharReader."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_sentmatch.layers import WordRepresentation
from keras_sentmatch.layers.word_representation import CharReader
from tests import oracles, oracles_recurrent
from tests.case import Case, built, value, weights_of
from tests.harness import arguments_act, run_checks

RNG = np.random.default_rng(0)
IDS = np.array([[2, 3, 1, 4, 0], [5, 0, 0, 0, 0], [7, 7, 8, 2, 6]], "int32")
OTHER = np.array([[3, 1, 9], [5, 5, 0], [2, 6, 0]], "int32")
CHARS = np.where(IDS[..., None] > 0, RNG.integers(1, 6, (3, 5, 6)), 0).astype("int32")
CHARS[0, 0, 2:] = CHARS[0, 1, 1:] = CHARS[2, 2, 5:] = 0
FEATURES = {
    "word_ids": IDS,
    "other_word_ids": OTHER,
    "char_ids": CHARS,
    "pos": np.where(IDS > 0, RNG.integers(0, 3, IDS.shape), 0).astype("int32"),
    "antonym": (IDS == 3).astype("int32"),
}
WORDS = {n: FEATURES[n] for n in ("word_ids", "other_word_ids")}
SMALL = partial(WordRepresentation, vocabulary_size=10, embedding_dim=4)
EVERY = partial(
    SMALL,
    char_vocabulary_size=6,
    char_dim=2,
    char_filters=3,
    char_kernel_size=2,
    pos_tags=3,
    antonym=True,
)
CHAR = {"vocabulary_size": 6, "embedding_dim": 3, "units": 5}


def cnn(layer, char_ids):
    weights = value(layer.embedding.embeddings), *weights_of(layer.convolution)
    return oracles.char_cnn(char_ids, *weights)


def lstm(layer, char_ids):
    table = value(layer.embedding.embeddings)
    return oracles_recurrent.char_lstm(char_ids, table, weights_of(layer.lstm))


def oracle(layer, word_ids, other_word_ids=None, char_ids=None, pos=None, antonym=None):
    parts = [value(e.embeddings)[word_ids] for e in layer.word_embeddings]
    if layer.char_vocabulary_size:
        cnns = layer.char_encoder == "cnn"
        parts.append(cnn(layer.char_cnn, char_ids) if cnns else lstm(layer.char_lstm, char_ids))
    if layer.exact_match:
        parts.append(oracles.exact_match(word_ids, other_word_ids)[0][..., None])
    if layer.pos_tags:
        table = layer.pos_embedding
        parts.append((value(table.embeddings) if table else np.eye(layer.pos_tags))[pos])
    if layer.antonym:
        parts.append(antonym[..., None])
    return np.where(word_ids[..., None] > 0, np.concatenate(parts, -1), 0)


TAGS = WORDS | {"pos": FEATURES["pos"]}
ALONE = partial(SMALL, exact_match=False, fixed_embedding=False)
CASES = [
    Case(
        partial(CharReader, kernel_size=3, **CHAR),
        {"char_ids": CHARS},
        (18 + 9 * 5 + 5, 0),
        cnn,
        "cnn",
    ),
    Case(
        partial(CharReader, **CHAR),
        {"char_ids": CHARS},
        (18 + 4 * 5 * (3 + 5 + 1), 0),
        lstm,
        "lstm",
    ),
    Case(EVERY, FEATURES, (40 + 12 + 2 * 2 * 3 + 3, 40), oracle, "every feature"),
    Case(partial(SMALL, pos_tags=3, pos_dim=2), TAGS, (40 + 3 * 2, 40), oracle, "tags embedded"),
    Case(ALONE, {"word_ids": IDS}, (40, 0), oracle, "alone"),
]
CHARS_BY_LSTM = Case(partial(EVERY, char_encoder="lstm"), FEATURES, (0, 0), oracle)

test_checks = run_checks(CASES)

test_arguments = arguments_act(CASES[:3], kernel_size=2, char_kernel_size=3, char_encoder="lstm")


def test_an_lstm_in_place_of_the_cnn():
    layer = built(CHARS_BY_LSTM)
    np.testing.assert_allclose(value(layer(**FEATURES)), oracle(layer, **FEATURES), atol=1e-5)


def test_one_matrix_fills_both_embeddings():
    layer = SMALL()
    layer.build(IDS.shape)
    matrix = RNG.normal(size=(10, 4)).astype("float32")
    layer.set_word_vectors(matrix)
    np.testing.assert_array_equal(value(layer(IDS, OTHER))[0, 0, :8], np.tile(matrix[2], 2))
    with pytest.raises(ValueError, match=r"\(10, 4\).*Received: \(9, 4\)"):
        layer.set_word_vectors(matrix[:9])


@pytest.mark.each_backend
def test_padding_row_is_never_trained():
    layer = SMALL(dropout=0.0)
    words, other = (keras.Input((n,), dtype="int32") for n in (5, 3))
    model = keras.Model([words, other], layer(words, other))
    table = layer.word_embeddings[0].embeddings
    before = value(table)
    model.compile(keras.optimizers.SGD(1.0), "mse")
    model.fit([IDS, OTHER], np.ones((3, 5, 9)), verbose=0)
    moved = (value(table) != before).any(axis=1)
    assert not moved[0] and moved[[2, 3, 4, 5]].all()
