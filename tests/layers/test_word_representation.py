"""WordRepresentation."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_sentmatch.layers import WordRepresentation
from tests import oracles, oracles_recurrent
from tests.harness import Case, arguments_act, built, run_checks, value

RNG = np.random.default_rng(0)
IDS = np.array([[2, 3, 1, 4, 0], [5, 0, 0, 0, 0], [7, 7, 8, 2, 6]], "int32")
OTHER = np.array([[3, 1, 9], [5, 5, 0], [2, 6, 0]], "int32")
CHARS = np.where(IDS[..., None] > 0, RNG.integers(1, 6, (3, 5, 6)), 0).astype("int32")
FEATURES = {
    "word_ids": IDS,
    "other_word_ids": OTHER,
    "char_ids": CHARS,
    "pos": np.where(IDS > 0, RNG.integers(0, 3, IDS.shape), 0).astype("int32"),
    "antonym": (IDS == 3).astype("int32"),
}
SMALL = partial(WordRepresentation, vocabulary_size=10, embedding_dim=4)


def oracle(layer, word_ids, other_word_ids=None, char_ids=None, pos=None, antonym=None):
    parts = [value(e.embeddings)[word_ids] for e in layer.word_embeddings]
    if layer.char_cnn:
        cnn = layer.char_cnn
        parts.append(
            oracles.char_cnn(
                char_ids,
                *(
                    value(w)
                    for w in (
                        cnn.embedding.embeddings,
                        cnn.convolution.kernel,
                        cnn.convolution.bias,
                    )
                ),
            )
        )
    if layer.exact_match:
        parts.append(oracles.exact_match(word_ids, other_word_ids)[0][..., None])
    if layer.pos_tags:
        table = layer.pos_embedding
        parts.append((value(table.embeddings) if table else np.eye(layer.pos_tags))[pos])
    if layer.antonym:
        parts.append(antonym[..., None])
    return np.where(word_ids[..., None] > 0, np.concatenate(parts, -1), 0)


CASES = [
    Case(
        SMALL,
        {n: FEATURES[n] for n in ("word_ids", "other_word_ids")},
        (40, 40),
        oracle,
        name="words",
    ),
    Case(
        partial(
            SMALL,
            char_vocabulary_size=6,
            char_dim=2,
            char_filters=3,
            char_kernel_size=2,
            pos_tags=3,
            antonym=True,
        ),
        FEATURES,
        (40 + 12 + 2 * 2 * 3 + 3, 40),
        oracle,
        name="every feature",
    ),
    Case(
        partial(SMALL, pos_tags=3, pos_dim=2),
        {n: FEATURES[n] for n in ("word_ids", "other_word_ids", "pos")},
        (40 + 3 * 2, 40),
        oracle,
        name="tags embedded",
    ),
    Case(
        partial(SMALL, exact_match=False, fixed_embedding=False),
        {"word_ids": IDS},
        (40, 0),
        oracle,
        name="alone",
    ),
]

test_checks = run_checks(CASES)


def test_an_lstm_in_place_of_the_cnn():
    layer = built(CASES[1], char_encoder="lstm")
    lstm = layer.char_lstm
    table, *weights = (value(w) for w in (lstm.embedding.embeddings, *lstm.lstm.weights))
    want = oracles_recurrent.char_lstm(CHARS, table, weights)
    np.testing.assert_allclose(value(layer(**FEATURES))[..., 8:11], want, atol=1e-5)


def test_one_matrix_fills_both_embeddings():
    layer = built(CASES[0])
    matrix = RNG.normal(size=(10, 4)).astype("float32")
    layer.set_word_vectors(matrix)
    np.testing.assert_array_equal(value(layer(IDS, OTHER))[0, 0, :8], np.tile(matrix[2], 2))
    with pytest.raises(ValueError, match=r"\(10, 4\).*Received: \(9, 4\)"):
        layer.set_word_vectors(matrix[:9])


@pytest.mark.each_backend
def test_padding_row_is_never_trained():
    layer = built(CASES[0])
    inputs, outputs = layer.word_embeddings[0].embeddings, keras.Input((5,), dtype="int32")
    other = keras.Input((3,), dtype="int32")
    model = keras.Model([outputs, other], layer(outputs, other))
    before = value(inputs)
    model.compile(keras.optimizers.SGD(1.0), "mse")
    model.fit([IDS, OTHER], np.ones((3, 5, 9)), verbose=0)
    moved = (value(inputs) != before).any(axis=1)
    assert not moved[0] and moved[[2, 3, 4, 5]].all()


test_arguments = arguments_act(CASES[1:2], char_kernel_size=3, char_encoder="lstm")
