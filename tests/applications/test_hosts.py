"""Hosts of feature attention and baselines: the harness's checks, and every argument.

Golden outputs show that each computes what it did when it was compared with an oracle.
"""

from functools import partial

import numpy as np

from keras_sentmatch.applications import CAFE, DIIN, ESIM, RE2, RLSTM, BiMPM, HyperLSTM
from tests.applications.common import WORDS, features, model_case
from tests.case import Case, built, value
from tests.harness import arguments_act, run_checks


def inputs(*names):
    return {n: a for n, a in features().items() if n.startswith(("word_ids", *names))}


WIDTHS = {"vocabulary_size": 10, "embedding_dim": 3}
CHARS = {**WIDTHS, "char_dim": 2, "char_filters": 2, "max_word_length": 6}
FULL = {**CHARS, "char_vocabulary_size": 6, "char_kernel_size": 3, "pos_tags": 3}
SFA = {"feature_attention": "sfa"}
SMALL = {
    "bimpm": partial(
        BiMPM,
        **CHARS,
        char_vocabulary_size=6,
        units=3,
        aggregation_units=2,
        hidden_units=4,
        perspectives=2,
    ),
    "cafe": partial(CAFE, **FULL, units=4, factors=2),
    "diin": partial(
        DIIN, **FULL, max_length=8, first_scale=0.6, blocks=2, layers_per_block=2, growth_rate=2
    ),
    "esim": partial(ESIM, **WIDTHS, units=4),
    "re2": partial(RE2, **WIDTHS, units=4, blocks=2),
    "hyper_lstm": partial(HyperLSTM, **WIDTHS, units=4, hyper_units=3, embedding_units=2),
    "rlstm": partial(RLSTM, **WIDTHS, units=4),
}
INPUTS = {"bimpm": inputs("char"), "cafe": inputs("char", "pos"), "diin": inputs("char", "pos")}
HOSTS = ("bimpm", "cafe", "diin", "esim", "re2")
CASES = [
    model_case(partial(make, **SFA) if name in HOSTS else make, INPUTS.get(name, WORDS), None, name)
    for name, make in SMALL.items()
]
PLAIN = {name: Case(make, INPUTS.get(name, WORDS), (0, 0)) for name, make in SMALL.items()}

test_checks = run_checks(CASES)

test_bimpm = arguments_act([PLAIN["bimpm"]])
test_cafe = arguments_act([PLAIN["cafe"]])
test_diin = arguments_act(
    [PLAIN["diin"]],
    "dropout_decay",
    "dropout_decay_steps",
    "l2_steps",
    max_length=4,
    blocks=1,
    first_scale=0.3,
)
test_esim = arguments_act([CASES[3]], placement="attended")
test_re2 = arguments_act(
    [PLAIN["re2"]],
    encoder_layers=1,
    alignment="identity",
    fusion="simple",
    connection="none",
    prediction="symmetric",
)
test_hyper_lstm = arguments_act([PLAIN["hyper_lstm"]])
test_rlstm = arguments_act([PLAIN["rlstm"]], units=6)


def test_penalties_of_cafe():
    assert not SMALL["cafe"](l2=0.0).losses
    model = SMALL["cafe"]()
    assert len(model.losses) == sum("kernel" in v.path for v in model.trainable_weights)


def test_temperature_of_re2_starts_at_one_over_the_root_of_the_units():
    assert value(SMALL["re2"]().get_layer("alignment_2").scale) == 0.5


def test_exchangeable_scores_of_re2():
    model = SMALL["re2"](num_classes=1, prediction="exchangeable")
    one = np.array([[3, 4, 5, 0], [3, 4, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [3, 1, 0, 0]])
    two = np.array([[4, 3, 6], [3, 4, 0], [0, 0, 0], [2, 0, 0], [3, 1, 0]])
    scores = value(model({"word_ids_1": one, "word_ids_2": two}))[:, 0]
    turned = value(model({"word_ids_1": two, "word_ids_2": one}))[:, 0]
    np.testing.assert_allclose(turned, scores, atol=1e-6)
    assert scores[1:4].tolist() == [1, 1, 0]  # equal, both empty, one empty
    assert 0 < scores[0] < 1 and 0 < scores[4] < 1, "unknown words may be different words"
    answers = SMALL["re2"](num_classes=2, prediction="exchangeable")
    both = [value(answers({"word_ids_1": a, "word_ids_2": b})) for a, b in ((one, two), (two, one))]
    np.testing.assert_allclose(*both, atol=1e-6)


def test_hyper_lstms_that_are_shared_read_both_sentences_alike():
    for shared in (True, False):
        *encoders, _ = built(PLAIN["hyper_lstm"], shared_encoder=shared).split()
        one, two = (value(e({"word_ids": WORDS["word_ids_1"]})["vector"]) for e in encoders)
        assert (one == two).all() == shared
