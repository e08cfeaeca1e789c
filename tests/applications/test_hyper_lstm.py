"""HyperLSTM: its layers are tested by oracles, the whole by golden outputs."""

from functools import partial

from keras_sentmatch.applications import HyperLSTM
from tests.applications.common import WORDS, model_case
from tests.harness import arguments_act, built, run_checks, value

SMALL = partial(
    HyperLSTM, vocabulary_size=10, embedding_dim=3, units=4, hyper_units=3, embedding_units=2
)
CASES = [model_case(SMALL, WORDS, None, "HyperLSTM")]
SHARED = model_case(partial(SMALL, shared_encoder=True, layer_norm=True), WORDS, None, "shared")

test_checks = run_checks(CASES)

test_arguments = arguments_act(CASES)


def test_shared_weights_read_both_sentences_alike():
    for case, alike in ((SHARED, True), (CASES[0], False)):
        encoder_1, encoder_2, _ = built(case).split()
        ids = {"word_ids": WORDS["word_ids_1"]}
        one, two = (value(encoder(ids)["vector"]) for encoder in (encoder_1, encoder_2))
        assert (one == two).all() == alike
