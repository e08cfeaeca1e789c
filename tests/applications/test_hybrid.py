"""Hybrid: RE2 and a linear part, joined as validation pairs choose."""

from functools import partial

from keras_sentmatch.applications import Hybrid
from tests.applications.common import WORDS, model_case
from tests.applications.test_bag_of_words import answers, pairs
from tests.harness import run_checks

HYBRID = partial(Hybrid, vocabulary_size=10, num_classes=2, embedding_dim=3, units=4, blocks=1)
FLOAT32 = (
    "matching_features",
    "importance",
    "wide_logits",
    "joint_answer",
    "logits",
    "probabilities",
)
CASES = [model_case(HYBRID, WORDS, None, "Hybrid", float32_sublayers=FLOAT32)]

test_checks = run_checks(CASES)


def test_the_better_part_counts_more():
    model = HYBRID()
    train, validation = pairs(), pairs(seed=1)
    model.wide.solve([""] * 10, train, validation)
    assert model.balance(*validation) < 0.3  # the network is not trained
    right = answers(model, validation[0]).argmax(1) == validation[1]
    assert right.mean() > 0.95
