"""DIIN: a whole forward pass against the oracle, the fixed length, its training losses, every switch."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.applications import DIIN
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.compiled import CompiledModel
from tests import oracles_hosts
from tests.applications.common import IDS_1, WORDS, adapt, check_halves, features, model_case
from tests.harness import (
    arguments_act,
    built,
    check_build,
    check_oracle,
    close,
    refuses,
    run_checks,
    value,
    values,
)
from tests.layers.test_dense_interaction_cnn import blocks, of
from tests.layers.test_self_attentive_encoder import gates

FEATURES = {n: a for n, a in features().items() if not n.startswith("antonym")}


def fixed(model, array):
    """Padded or cut to the model's length."""
    room = np.zeros((len(array), model.max_length, *array.shape[2:]), array.dtype)
    kept = array[:, : model.max_length]
    room[:, : kept.shape[1]] = kept
    return room


def forward(model, **inputs):
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
        encoder = layers[f"self_attentive_encoder_{side}"]
        weights[f"encoder_{side}"] = (value(encoder.attention_kernel), *gates(encoder))
    return oracles_hosts.diin({n: fixed(model, a) for n, a in inputs.items()}, weights)


def oracle(model, **inputs):
    return forward(model, **inputs)["probabilities"]


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
CASES = [model_case(ALL, FEATURES, oracle, "DIIN")]
REST = [
    model_case(partial(SMALL, **options), WORDS, oracle, name)
    for name, options in {
        "words": {"exact_match": False, "trainable_embedding": False},
        "score": {"num_classes": 1, "highway_layers": 1},
        "cut": {"max_length": 4, "first_scale": 0.9},
        "odd": {"max_length": 10, "compression": 0.9, "kernel_size": 1},
    }.items()
]


test_checks = run_checks(CASES)


test_variants = run_checks(REST, check_build, check_oracle)


@pytest.mark.once
def test_halves():
    check_halves(CASES[0], exact_match=False)
    with pytest.raises(InputError, match="exact_match=False"):
        CASES[0].make().split()


test_arguments = arguments_act(
    CASES,
    "max_word_length",
    "feature_attention",
    "feature_attention_config",
    "dropout_decay",
    "dropout_decay_steps",
    "l2_steps",
    char_kernel_size=2,
    max_length=4,
    blocks=1,
    kernel_size=1,
    first_scale=0.3,
    compression=0.7,
)

test_errors = refuses(
    ALL,
    [
        ({"max_length": 3}, r"at least 2 \*\* blocks: .*max_length=3, blocks=2"),
        ({"max_word_length": 2}, "at least kernel_size=3 characters"),
    ],
)


@pytest.mark.once
def test_every_dropout_decays():
    model = SMALL(dropout=0.3, dropout_decay=0.9, dropout_decay_steps=7)
    dropouts = [model.get_layer(f"{n}_dropout") for n in ("word", "interaction", "output")]
    for side in "12":
        encoder = model.get_layer(f"self_attentive_encoder_{side}")
        dropouts += [encoder.token_dropout, encoder.attended_dropout]
    assert [(d.rate, d.decay, d.decay_steps) for d in dropouts] == 7 * [(0.3, 0.9, 7)]
    assert ALL(max_word_length=9).input["char_ids_1"].shape[-1] == 9


def half_squares(arrays):
    return sum(0.5 * np.square(a).sum() for a in arrays)


@pytest.mark.each_backend
def test_penalties_are_added_in_training_only():
    options = {"difference_penalty": 0.1, "l2": 0.2, "l2_steps": 4}
    model = built(CASES[0], **options)
    model._clear_losses()
    model(FEATURES)
    assert not model.losses
    one, two = (model.get_layer(f"self_attentive_encoder_{side}") for side in "12")
    kernels = ("attention_kernel", "token_gates.kernel", "attended_gates.kernel")

    def of(encoder, name):
        for part in name.split("."):
            encoder = getattr(encoder, part)
        return value(encoder)

    apart = half_squares(of(one, name) - of(two, name) for name in kernels)
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
    assert model.get_layer("dense_interaction_cnn").input.shape[1:3] == (8, 8)
    for length in (1, 3, 9):  # compiled for many lengths, TensorFlow knows none of them
        inputs = {n: a[:, :length] for n, a in {**WORDS, "word_ids_1": long}.items()}
        close(model.predict_on_batch(inputs), values(model(inputs)), f"length {length}")


def test_padding_as_a_word():
    """Where nothing is padded, `mask_padding` changes nothing; elsewhere the products of pads show."""
    full = {n: np.full((2, 8), 3, "int32") + np.arange(8, dtype="int32") % 4 for n in WORDS}
    for inputs, same in ((full, True), (WORDS, False)):
        shown = [
            value(built(REST[0], mask_padding=m).explainer()(inputs)["feature_map_base"])
            for m in (True, False)
        ]
        assert (abs(shown[0] - shown[1]).max() < 1e-6) == same
    padded = fixed(REST[0].make(), IDS_1) == 0
    assert not shown[0][padded].any() and shown[1][padded].any()


@pytest.mark.once
def test_explainer():
    model = built(CASES[0])
    shown = {n: value(t) for n, t in model.explainer()(FEATURES).items()}
    want = forward(model, **FEATURES)
    close(
        [
            shown[n]
            for n in ("probabilities", "self_attention_1", "self_attention_2", "feature_map_base")
        ],
        [
            want["probabilities"],
            want["encoder_attention_1"],
            want["encoder_attention_2"],
            want["interaction"].mean(-1),
        ],
        "shown",
    )


@pytest.mark.once
def test_presets():
    lengths = {"snli": 32, "multinli": 48, "quora": 24, "no_exact_match": 32}
    small = {"embedding_dim": 4, "layers_per_block": 1, "growth_rate": 2, "highway_layers": 1}
    models = {preset: DIIN.from_preset(preset, vocabulary_size=9, **small) for preset in lengths}
    assert {preset: model.max_length for preset, model in models.items()} == lengths
    assert models["no_exact_match"].exact_match is False


@pytest.mark.each_backend
def test_a_matcher_answers_with_characters():
    """TensorFlow has one program for all shapes, in which the length of words must be known."""
    sizes = {"max_length": 8, "blocks": 1, "layers_per_block": 2, "growth_rate": 2}
    model = DIIN(vocabulary_size=9, embedding_dim=4, num_classes=3, char_vocabulary_size=7, **sizes)
    rng = np.random.default_rng(0)
    for rows, length in (2, 3), (3, 9):
        arrays = {}
        for side in "12":
            arrays[f"word_ids_{side}"] = rng.integers(1, 9, (rows, length)).astype("int32")
            shape = (rows, length, model.max_word_length)
            arrays[f"char_ids_{side}"] = rng.integers(1, 7, shape).astype("int32")
            arrays[f"exact_match_{side}"] = rng.integers(0, 2, (rows, length)).astype("float32")
        arrays = {name: arrays[name] for name in model.input_names}
        close(CompiledModel(model)(arrays), model.predict_on_batch(arrays), "the answers")
