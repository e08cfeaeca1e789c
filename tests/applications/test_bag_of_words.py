"""BagOfWords: its weights are solved."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.applications import BagOfWords
from keras_sentmatch.layers.hybrid import FEATURES
from tests.applications.common import WORDS, model_case
from tests.case import value
from tests.harness import arguments_act, run_checks

BAG = partial(BagOfWords, vocabulary_size=10, num_classes=2)
FLOAT32 = ("matching_features", "importance", "wide_logits", "probabilities")


CASES = [
    model_case(
        partial(BAG, embedding_dim=3, matching_features=True),
        WORDS,
        None,
        "BagOfWords",
        float32_sublayers=FLOAT32,
    )
]

test_checks = run_checks(CASES)


def pairs(count=400, seed=0):
    """Sentence pairs of six words; the label says whether word 7 is in both."""
    rng = np.random.default_rng(seed)
    ids = {f"word_ids_{side}": rng.integers(2, 10, (count, 6)).astype("int32") for side in "12"}
    labels = np.array([7 in a and 7 in b for a, b in zip(*ids.values())], int)
    return [{n: a[i : i + 100] for n, a in ids.items()} for i in range(0, count, 100)], labels


def answers(model, batches):
    return np.concatenate([value(model(batch)) for batch in batches])


@pytest.mark.parametrize("matching", [False, True])
def test_solve_finds_what_decides(matching):
    model = BAG(matching_features=matching, embedding_dim=3)
    train, validation, (batches, labels) = pairs(), pairs(seed=1), pairs(seed=2)
    words = ["", "", *"abcdefg", "9"]
    model.wide.solve(words, train, validation)
    right = (answers(model, batches).argmax(1) == labels).mean()
    assert right > 0.97
    both = value(model.wide.logits.words_both)[:, 1]
    assert both.argmax() == 7 and both[7] > 3 * np.delete(both, 7).max()
    assert value(model.wide.matching.facts)[9, 2] == 1  # a number
    used = value(model.wide.logits.kernel).any(1)
    names = {name for name, use in zip(FEATURES, used) if use}
    assert names <= {"shared_1", "shared_2"} if not matching else "alignment_1" in names


def test_products_of_features_are_learned(monkeypatch):
    """The label says whether exactly one of two features is large, which no sum of them shows."""
    rng = np.random.default_rng(0)
    model = BAG(matching_features=True, embedding_dim=3)
    part = model.wide
    facts = {count: rng.normal(size=(count, len(FEATURES))) for count in (4000, 300, 200)}
    monkeypatch.setattr(part, "_features", lambda batches: facts[sum(map(_rows, batches))])

    def made(count):
        ids = {f"word_ids_{side}": np.full((count, 1), 2, "int32") for side in "12"}
        return [ids], ((facts[count][:, 3] > 0) != (facts[count][:, 9] > 0)).astype(int)

    part.solve([""] * 10, made(4000), made(300))
    logits = value(part.logits(*made(200)[0][0].values(), facts[200]))
    assert (logits.argmax(1) == made(200)[1]).mean() > 0.8
    monkeypatch.setattr("keras_sentmatch.applications.linear_part.MOST_PAIRS", 3999)
    part.solve([""] * 10, made(4000), made(300))
    assert not value(part.logits.product_kernel).any()


def test_a_feature_that_training_hardly_varies_has_no_weight(monkeypatch):
    """Dividing by its spread would make much of rounding errors in answers."""
    model, rng = BAG(matching_features=True, embedding_dim=3), np.random.default_rng(0)
    batches, labels = pairs()
    facts = rng.normal(size=(len(labels), len(FEATURES)))
    facts[:, 5] = 0.5 + 1e-6 * labels
    facts[:, [2, 7]] = rng.choice([-1.0, 1.0], (len(labels), 1))  # their product is constant
    facts[:, 7] += 1e-6 * labels
    monkeypatch.setattr(model.wide, "_features", lambda _: facts)
    model.wide.solve([""] * 10, (batches, labels), (batches, labels))
    count = len(FEATURES)
    products = np.abs(value(model.wide.logits.product_kernel)).reshape(count, count, -1)
    assert not value(model.wide.logits.kernel)[5].any() and not products[5].any()
    assert products[2, 7].max() < 1 and products.max() > 1e-5


def _rows(batch):
    return len(batch["word_ids_1"])


def test_scores_are_solved_by_ridge_regression():
    model = BAG(num_classes=1)
    (batches, _), (more, _) = pairs(), pairs(seed=1)

    def score(batches):
        return np.concatenate([(b["word_ids_1"] == 5).sum(1) * 2.0 + 1 for b in batches])

    model.wide.solve([""] * 10, (batches, score(batches)), (more, score(more)))
    assert np.abs(answers(model, more)[:, 0] - score(more)).max() < 0.1


def test_a_class_that_training_lacks_gets_no_probability():
    model = BAG(num_classes=3)
    batches, labels = pairs()
    model.wide.solve([""] * 10, (batches, labels * 2), (batches, labels * 2))
    assert answers(model, batches)[:, 1].max() < 0.01


test_arguments = arguments_act([*CASES, model_case(BAG, WORDS, None, "shares")])
