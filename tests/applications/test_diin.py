"""DIIN with SFA: a whole forward pass against the oracle, the fixed length, its training losses, every switch."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.applications import DIIN
from keras_sentmatch.inference.compiled import CompiledModel
from tests import oracles_hosts
from tests.applications.common import IDS_1, WORDS, adapt, features, model_case
from tests.harness import (
    Case,
    arguments_act,
    built,
    check_oracle,
    close,
    run_checks,
    value,
    values,
)
from tests.layers.test_dense_interaction_cnn import blocks, of
from tests.layers.test_self_attention_fusion import gates

FEATURES = {n: a for n, a in features().items() if not n.startswith("antonym")}


def fixed(model, array):
    """Padded or cut to the model's length."""
    room = np.zeros((len(array), model.max_length, *array.shape[2:]), array.dtype)
    kept = array[:, : model.max_length]
    room[:, : kept.shape[1]] = kept
    return room


def oracle(model, **inputs):
    layers = {layer.name: layer for layer in model.layers}
    words, highway, net = (
        layers[n] for n in ("word_representation", "highway", "dense_interaction_cnn")
    )
    cnn = words.char_cnn
    weights = {
        "embeddings": [value(e.embeddings) for e in words.word_embeddings],
        "char": [value(cnn.embedding.embeddings), *of(cnn.convolution)] if cnn else None,
        "flag": model.exact_match,
        "pos": np.eye(model.pos_tags) if model.pos_tags else None,
        "highway": [(*of(t), *of(g)) for t, g in zip(highway.transforms, highway.gates)],
        "first": of(net.scale_down),
        "blocks": blocks(net),
        "output": of(layers["logits"]),
        "adapt": adapt(model),
    }
    for side in "12":
        layer = layers[f"self_attentive_encoder_{side}"]
        weights[f"encoder_{side}"] = (value(layer.attention_kernel), *gates(layer))
    arrays = {n: fixed(model, a) for n, a in inputs.items()}
    return oracles_hosts.diin(arrays, weights)["probabilities"]


SMALL = partial(
    DIIN,
    vocabulary_size=10,
    embedding_dim=3,
    char_dim=2,
    char_filters=2,
    char_kernel_size=3,
    max_word_length=6,
    max_length=8,
    first_scale=0.6,
    blocks=2,
    layers_per_block=2,
    growth_rate=2,
)
ALL = partial(SMALL, char_vocabulary_size=6, pos_tags=3)
CASES = [model_case(partial(ALL, feature_attention="sfa"), FEATURES, oracle, "DIIN")]
PLAIN = partial(SMALL, exact_match=False, trainable_embedding=False)
REST = [
    model_case(PLAIN, WORDS, oracle, "words"),
    model_case(partial(SMALL, max_length=4, num_classes=1), WORDS, oracle, "cut, a score"),
    model_case(partial(SMALL, max_length=10), WORDS, oracle, "odd"),
]

test_checks = run_checks(CASES)

test_variants = run_checks(REST, check_oracle)

test_arguments = arguments_act(
    [Case(ALL, FEATURES, (0, 0))],
    "dropout_decay",
    "dropout_decay_steps",
    "l2_steps",
    max_length=4,
    blocks=1,
    first_scale=0.3,
)


@pytest.mark.once
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
    model = built(CASES[0], difference_penalty=0.1, l2=0.2, l2_steps=4)
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
    model = built(REST[0])
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
