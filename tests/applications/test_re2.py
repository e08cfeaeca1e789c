"""RE2 with SFA: a whole forward pass against the oracle for every switch, its halves."""

from functools import partial

from keras_sentmatch.applications import RE2
from tests import oracles_hosts
from tests.applications.common import WORDS, adapt, check_halves, features, model_case
from tests.harness import arguments_act, check_build, check_oracle, run_checks, value
from tests.layers.test_hosts import kernel_and_bias


def oracle(model, **inputs):
    layers = {layer.name: layer for layer in model.layers}
    blocks = []
    for n in range(1, model.blocks + 1):
        fusion, linear = layers[f"fusion_{n}"], model.alignment == "linear"
        fused = [*fusion.views, *([fusion.output_dense] if model.fusion == "full" else [])]
        blocks.append(
            {
                "convs": [kernel_and_bias(c) for c in layers[f"encoder_{n}"].convolutions],
                "projection": kernel_and_bias(layers[f"projection_{n}"]) if linear else None,
                "temperature": value(layers[f"alignment_{n}"].scale),
                "fusion": [kernel_and_bias(dense) for dense in fused],
            }
        )
    weights = {
        "embeddings": [value(e.embeddings) for e in layers["word_representation"].word_embeddings],
        "blocks": blocks,
        "connection": "aug" if model.connection == "augmented" else model.connection,
        "prediction": model.prediction,
        "dense": [kernel_and_bias(layers[name]) for name in ("hidden", "logits")],
        "adapt": adapt(model),
        "flag": model.exact_match,
        "antonym": model.antonym,
    }
    if "shortcut" in layers:
        weights["residual"] = kernel_and_bias(layers["shortcut"])
    return oracles_hosts.re2(inputs, weights)["probabilities"]


SMALL = partial(RE2, vocabulary_size=10, embedding_dim=3, units=4, blocks=2)
CASES = [model_case(partial(SMALL, feature_attention="sfa"), WORDS, oracle, "RE2")]
FLAGS = {name: ids for name, ids in features().items() if name.startswith(("word", "antonym"))}
REST = [
    model_case(partial(SMALL, **options), FLAGS if "antonym" in options else WORDS, oracle, name)
    for name, options in {
        "identity, residual": {"alignment": "identity", "connection": "residual", "blocks": 3},
        "no connection": {"connection": "none", "fusion": "simple", "prediction": "simple"},
        "symmetric": {"prediction": "symmetric", "encoder_layers": 3},
        "three blocks": {"blocks": 3},
        "one block, score": {"blocks": 1, "num_classes": 1},
        "flags": {"exact_match": True, "antonym": True},
    }.items()
]

test_checks = run_checks(CASES)

test_variants = run_checks(REST, check_build, check_oracle)

test_halves = run_checks(
    [*CASES, model_case(partial(SMALL, alignment="identity"), WORDS, None, "identity")],
    check_halves,
)

test_arguments = arguments_act(
    CASES,
    "antonym",
    feature_attention="fa",
    feature_attention_config={"feature_attention_config": {"branches": 2}},
    encoder_layers=1,
    alignment="identity",
    fusion="simple",
    connection="none",
    prediction="symmetric",
    exact_match=True,
)


def test_temperature_starts_at_one_over_the_root_of_the_units():
    assert value(SMALL().get_layer("alignment_2").scale) == 0.5
