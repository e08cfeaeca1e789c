"""DIIN: the fixed length, and its training losses."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.inference.compiled import CompiledModel
from tests.applications.common import IDS_1, WORDS
from tests.applications.test_hosts import PLAIN
from tests.applications.test_hosts import SMALL as HOSTS
from tests.case import Case, built, close, value, values

ALL, FEATURES = HOSTS["diin"], PLAIN["diin"].inputs
SMALL = partial(ALL, char_vocabulary_size=0, pos_tags=0)


def test_every_dropout_decays():
    model = SMALL(dropout=0.3, dropout_decay=0.9, dropout_decay_steps=7)
    dropouts = [model.get_layer(f"{n}_dropout") for n in ("word", "interaction", "output")]
    for side in "12":
        layer = model.get_layer(f"self_attentive_encoder_{side}")
        dropouts += [layer.token_dropout, layer.attended_dropout]
    assert [(d.rate, d.decay, d.decay_steps) for d in dropouts] == 7 * [(0.3, 0.9, 7)]


def half_squares(arrays):
    return sum(0.5 * np.square(a).sum() for a in arrays)


@pytest.mark.each_backend
def test_penalties_are_added_in_training_only():
    model = built(PLAIN["diin"], difference_penalty=0.1, l2=0.2, l2_steps=4)
    model._clear_losses()
    model(FEATURES)
    assert not model.losses

    def kernels(side):
        layer = model.get_layer(f"self_attentive_encoder_{side}")
        dense = layer.token_gates, layer.attended_gates
        return [value(w) for w in (layer.attention_kernel, *(d.kernel for d in dense))]

    apart = half_squares(one - two for one, two in zip(kernels("1"), kernels("2")))
    everywhere = half_squares(value(w) for w in model.trainable_weights if "kernel" in w.name)
    for t in range(3):
        model._clear_losses()
        model(FEATURES, training=True)
        ramp = 1 / (1 + np.exp(-(t - 2) * 8 / 2))
        want = 0.1 * apart + 0.2 * ramp * everywhere
        assert abs(value(model.losses[0]) - want) < 1e-4 * want and len(model.losses) == 1
    assert not any("penalty" in layer.name for layer in SMALL(difference_penalty=0, l2=0).layers)


@pytest.mark.each_backend
def test_steps_are_counted_once_a_batch():
    model = SMALL()
    model.compile("sgd", "sparse_categorical_crossentropy")
    model.fit(WORDS, np.array([0, 1, 2]), batch_size=1, epochs=2, verbose=0)
    steps = [w for w in model.weights if w.name == "steps"]
    assert len(steps) == 8 and [int(s) for s in steps] == 8 * [6]


def test_length_is_fixed_inside():
    """Sentences are cut at `max_length`; the length of a batch makes no difference."""
    model = built(Case(partial(SMALL, exact_match=False), WORDS, (0, 0)))
    long = np.concatenate([np.full((3, 8), 5), IDS_1], axis=1).astype("int32")
    cut = {"word_ids_1": long[:, :8], "word_ids_2": WORDS["word_ids_2"]}
    close(model({**cut, "word_ids_1": long}), values(model(cut)), "cut")
    for length in (1, 3, 9):  # compiled for many lengths, TensorFlow knows none of them
        inputs = {n: a[:, :length] for n, a in {**WORDS, "word_ids_1": long}.items()}
        close(model.predict_on_batch(inputs), values(model(inputs)), f"length {length}")


@pytest.mark.each_backend
def test_a_matcher_answers_with_characters():
    """TensorFlow has one program for all shapes, in which the length of words must be known."""
    model = ALL(pos_tags=0, exact_match=False)
    rng = np.random.default_rng(0)
    for rows, length in (2, 3), (3, 9):
        arrays = {}
        for side in "12":
            arrays[f"word_ids_{side}"] = rng.integers(1, 9, (rows, length)).astype("int32")
            shape = (rows, length, model.max_word_length)
            arrays[f"char_ids_{side}"] = rng.integers(1, 6, shape).astype("int32")
        close(CompiledModel(model)(arrays), model.predict_on_batch(arrays), "the answers")
