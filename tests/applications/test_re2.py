"""RE2: a whole forward pass against the oracle for every switch, its halves, what it shows."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.applications import RE2
from keras_sentmatch.applications.feature_blocks import FEATURE_PRESETS
from tests import oracles_hosts
from tests.applications.common import WORDS, adapt, check_halves, features, model_case
from tests.harness import (
    arguments_act,
    built,
    check_build,
    check_oracle,
    close,
    refuses,
    run_checks,
    value,
)
from tests.layers.test_convolutional_encoder import kernel_and_bias


def tanh_gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def forward(model, **inputs):
    layers = {layer.name: layer for layer in model.layers}
    blocks = []
    for n in range(1, model.blocks + 1):
        fusion = layers[f"fusion_{n}"]
        last = [fusion.output_dense] if fusion.output_dense else []
        linear = model.alignment == "linear"
        blocks.append(
            {
                "convs": [kernel_and_bias(c) for c in layers[f"encoder_{n}"].convolutions],
                "projection": kernel_and_bias(layers[f"projection_{n}"]) if linear else None,
                "temperature": value(layers[f"alignment_{n}"].scale),
                "fusion": [kernel_and_bias(dense) for dense in (*fusion.views, *last)],
            }
        )
    weights = {
        "embeddings": [value(e.embeddings) for e in layers["word_representation"].word_embeddings],
        "blocks": blocks,
        "connection": "aug" if model.connection == "augmented" else model.connection,
        "prediction": model.prediction,
        "dense": [kernel_and_bias(layers[name]) for name in ("hidden", "logits")],
        "activation": {"gelu": tanh_gelu, "tanh": np.tanh}[model.activation],
        "adapt": adapt(model),
        "flag": model.exact_match,
        "antonym": model.antonym,
    }
    if "shortcut" in layers:
        weights["residual"] = kernel_and_bias(layers["shortcut"])
    return oracles_hosts.re2(inputs, weights)


def oracle(model, **inputs):
    return forward(model, **inputs)["probabilities"]


SMALL = partial(RE2, vocabulary_size=10, embedding_dim=3, units=4, blocks=2)
CASES = [model_case(SMALL, WORDS, oracle, "RE2")]
REST = [
    model_case(partial(SMALL, **options), WORDS, oracle, name)
    for name, options in {
        "identity, residual": {"alignment": "identity", "connection": "residual", "blocks": 3},
        "no connection": {"connection": "none", "fusion": "simple", "prediction": "simple"},
        "symmetric": {"prediction": "symmetric", "encoder_layers": 3, "activation": "tanh"},
        "plain kernels": {"weight_normalization": False, "trainable_embedding": True},
        "one block, score": {"blocks": 1, "num_classes": 1},
        "three blocks": {"blocks": 3, "kernel_size": 1},
    }.items()
]
FLAGS = {name: ids for name, ids in features().items() if name.startswith(("word", "antonym"))}
REST += [
    model_case(partial(SMALL, exact_match=True), WORDS, oracle, "exact match"),
    model_case(partial(SMALL, exact_match=True, antonym=True), FLAGS, oracle, "both flags"),
]


test_checks = run_checks(CASES)


test_variants = run_checks(REST, check_build, check_oracle)


@pytest.mark.once
@pytest.mark.parametrize("options", [{}, {"alignment": "identity", "blocks": 1}])
def test_halves(options):
    check_halves(CASES[0], **options)


test_arguments = arguments_act(
    CASES,
    "feature_attention",
    "feature_attention_config",
    "antonym",
    encoder_layers=1,
    kernel_size=1,
    alignment="identity",
    fusion="simple",
    connection="none",
    prediction="symmetric",
    exact_match=True,
)


test_errors = refuses(
    SMALL,
    [
        ({"alignment": "bilinear"}, "alignment must be one of .* Received: alignment='bilinear'"),
        ({"connection": "dense"}, "connection must be one of .* Received: connection='dense'"),
        ({"prediction": "half"}, "prediction must be one of .* Received: prediction='half'"),
        ({"blocks": 0}, "blocks must be at least 1. Received: blocks=0"),
    ],
)


def test_temperature_starts_at_one_over_the_root_of_the_units():
    assert value(SMALL().get_layer("alignment_2").scale) == 0.5


def test_symmetric_prediction_and_swapped_sentences():
    """With |p - q| and p * q alone telling (p and q weighted alike), the order makes no difference."""
    model = built(CASES[0], prediction="symmetric", weight_normalization=False)
    kernel = value(model.get_layer("hidden").kernel)
    kernel[:4] = kernel[4:8]
    model.get_layer("hidden").kernel.assign(kernel)
    swapped = {"word_ids_1": WORDS["word_ids_2"], "word_ids_2": WORDS["word_ids_1"]}
    close(model(swapped), value(model(WORDS)), "swapped")


@pytest.mark.once
def test_explainer():
    for case in (CASES[0], REST[0]):
        model = built(case)
        shown = {n: value(t) for n, t in model.explainer()(WORDS).items()}
        want = forward(model, **WORDS)
        assert abs(shown["probabilities"] - want["probabilities"]).max() < 1e-5
        for side in "12":
            attention = np.stack(want[f"attentions_{side}"], axis=1)
            assert abs(shown[f"attention_{side}"] - attention).max() < 1e-5
            rates, real = shown[f"pool_rates_{side}"], WORDS[f"word_ids_{side}"] > 0
            assert abs(rates.sum(1) - 1).max() < 1e-6 and not rates[~real].any()


@pytest.mark.once
def test_presets():
    for preset, (blocks, units, convolutions) in {
        "snli": (3, 150, 2),
        "quora": (2, 200, 2),
        "scitail": (2, 200, 3),
        "wikiqa": (2, 200, 3),
    }.items():
        model = RE2.from_preset(preset, vocabulary_size=10, embedding_dim=3)
        assert (model.blocks, model.units, model.encoder_layers) == (blocks, units, convolutions)
    assert set(RE2.presets) - set(FEATURE_PRESETS) == {"snli", "quora", "scitail", "wikiqa"}
