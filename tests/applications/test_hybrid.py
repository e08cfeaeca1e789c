"""Hybrid: RE2 and a linear part, joined as validation pairs choose."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_sentmatch.applications import Hybrid
from tests.applications.common import WORDS, model_case
from tests.applications.test_bag_of_words import answers, pairs
from tests.case import value
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
    parts = {"train": (*pairs(), None), "validation": (*pairs(seed=1), None)}
    assert list(model.before_fit([""] * 10, parts.__getitem__, {})) == ["linear_strength"]
    share = model.after_fit(parts.__getitem__, {})["network_share"]
    assert share < 0.3  # the network is not trained
    batches, labels, _ = parts["validation"]
    assert (answers(model, batches).argmax(1) == labels).mean() > 0.95
    model.after_fit(parts.__getitem__, {"network_share": 0.75})  # what folds have chosen
    assert value(model.joint.deep_share) == 0.75


@pytest.mark.each_backend
def test_parts_of_batches_of_several_shapes():
    model = HYBRID()
    ids = [np.arange(rows * length).reshape(rows, length) % 10 for rows, length in ((4, 3), (2, 5))]
    batches = [{name: one.astype("int32") for name in WORDS} for one in ids]
    found = model.wide.outputs(model.parts, batches)
    kept = {**model.wide._readers}
    model.wide.outputs(model.parts, batches[:1])
    assert model.wide._readers == kept, "nothing is compiled again"
    reader = keras.Model(model.input, model.parts)
    for number, name in enumerate(model.parts):
        wanted = [value(reader(batch)[name]) for batch in batches]
        np.testing.assert_allclose(found[number], np.concatenate(wanted), atol=1e-6)


def test_training_does_not_compute_the_linear_part(monkeypatch):
    model, batch = HYBRID(dropout=0.0), pairs()[0][0]
    (deep,) = model.wide.outputs({"deep": model.parts["deep"]}, [batch])

    def call(*arguments):
        raise AssertionError("the linear part is computed")

    monkeypatch.setattr(model.wide.matching, "call", call)
    alone = value(keras.ops.softmax(deep))
    np.testing.assert_allclose(value(model(batch, training=True)), alone, atol=1e-6)
    with pytest.raises(AssertionError, match="linear part"):
        model(batch)
