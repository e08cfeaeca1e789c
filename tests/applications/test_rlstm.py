"""rLSTM: its layers are tested by oracles, the whole by golden outputs."""

from functools import partial

from keras_sentmatch.applications import RLSTM
from tests.applications.common import WORDS, model_case
from tests.harness import arguments_act, run_checks

CASES = [
    model_case(partial(RLSTM, vocabulary_size=10, embedding_dim=3, units=4), WORDS, None, "RLSTM")
]

test_checks = run_checks(CASES)

test_arguments = arguments_act(CASES, units=6)
