"""CharCNN."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.layers.word_representation import CharCNN
from tests import oracles
from tests.harness import Case, arguments_act, run_checks, value

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


test_arguments = arguments_act(CASES, kernel_size=2)


def test_words_narrower_than_a_window():
    with pytest.raises(ValueError, match="at least kernel_size=5"):
        CharCNN(9)(np.ones((1, 2, 4), "int32"))
