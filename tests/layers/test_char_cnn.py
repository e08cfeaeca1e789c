"""CharCNN."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_sentmatch.layers import CharCNN
from tests import oracles
from tests.harness import Case, built, check_option, run_checks, value

IDS = np.random.default_rng(0).integers(1, 9, (2, 4, 7)).astype("int32")
IDS[0, 0, 2:] = IDS[0, 1, 1:] = IDS[1, 2, 5:] = IDS[1, 3] = 0


def oracle(layer, char_ids):
    table, convolution = layer.embedding.embeddings, layer.convolution
    return oracles.char_cnn(
        char_ids, value(table), value(convolution.kernel), value(convolution.bias)
    )


CASES = [
    Case(
        partial(CharCNN, vocabulary_size=9, embedding_dim=3, filters=5, kernel_size=3),
        {"char_ids": IDS},
        (9 * 3 + 3 * 3 * 5 + 5, 0),
        oracle,
    )
]

test_checks = run_checks(CASES)


def test_wider_padding_of_short_words_changes_nothing():
    layer = built(CASES[0])
    wider = np.pad(IDS[:, :, :5], ((0, 0), (0, 0), (0, 6)))
    short = np.pad(IDS[:, :, :5], ((0, 0), (0, 0), (0, 2)))
    np.testing.assert_allclose(value(layer(wider)), value(layer(short)), atol=1e-6)


def test_options():
    for option, values in {
        "vocabulary_size": (9, 10),
        "embedding_dim": (3, 4),
        "filters": (5, 6),
        "kernel_size": (3, 2),
    }.items():
        check_option(CASES[0], option, *values)
    check_option(CASES[0], "dropout", 0.0, 0.9, training=True)
    assert len(built(CASES[0], kernel_regularizer=keras.regularizers.L2(0.1)).losses) == 1
    with pytest.raises(ValueError, match="at least kernel_size=5"):
        CharCNN(9)(np.ones((1, 2, 4), "int32"))
