"""CharLSTM."""

from functools import partial

import numpy as np

from keras_sentmatch.layers.word_representation import CharLSTM
from tests import oracles_recurrent
from tests.harness import Case, arguments_act, run_checks, value

IDS = np.random.default_rng(0).integers(1, 9, (2, 4, 7)).astype("int32")
IDS[0, 0, 2:] = IDS[0, 1, 1:] = IDS[1, 2, 5:] = IDS[1, 3] = 0


def oracle(layer, char_ids):
    table, *lstm = (value(w) for w in (layer.embedding.embeddings, *layer.lstm.weights))
    return oracles_recurrent.char_lstm(char_ids, table, lstm)


CASES = [
    Case(
        partial(CharLSTM, vocabulary_size=9, embedding_dim=3, units=5),
        {"char_ids": IDS},
        (9 * 3 + 4 * 5 * (3 + 5 + 1), 0),
        oracle,
    )
]

test_checks = run_checks(CASES)


test_arguments = arguments_act(CASES)
