"""DIN: whole forward passes against the oracle and what it shows."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.applications import DIN
from tests import oracles_recurrent
from tests.applications.common import WORDS, model_case, weights_of
from tests.harness import arguments_act, built, check_oracle, name_of, run_checks, value
from tests.layers.test_din import gates_of


def forward(model, **inputs):
    layers = {layer.name: layer for layer in model.layers}
    control = layers["control"]
    static = control.variant.startswith("static")
    return oracles_recurrent.din(
        inputs,
        {
            "embeddings": [value(layers["word_representation"].word_embeddings[0].embeddings)],
            "flag": False,
            "encoder": weights_of(layers["encoding"]),
            "trans_p": weights_of(control.transform_1),
            "trans_h": weights_of(control.transform_2),
            "encode_h": model.encode_hypothesis,
            "inter": weights_of(control.interaction),
            "kind": control.variant,
            "gates": weights_of(control.gru) if static else gates_of(control),
            "compare": model.compare_means,
            "fc": [weights_of(layers[f"hidden_{i + 1}"]) for i in range(model.hidden_layers)],
            "output": weights_of(layers["logits"]),
        },
    )


def oracle(model, **inputs):
    return forward(model, **inputs)["probabilities"]


SMALL = partial(DIN, vocabulary_size=10, embedding_dim=3, units=9)
SHARED = {"encode_hypothesis": True, "shared_transform": True}
TABLE2 = {**SHARED, "hidden_layers": 0, "reset_after": True}
CASES = [model_case(SMALL, WORDS, oracle, "DIN")]
REST = [
    model_case(partial(SMALL, **options), WORDS, oracle, name)
    for name, options in {
        "table2 DIN-2": {"variant": "din2", "use_bias": False, **TABLE2},
        "table2 static": {"variant": "static_interaction", **TABLE2},
        "static": {"variant": "static"},
        "compared": {"compare_means": True, **SHARED},
        "split, a score": {"concat": "split", "num_classes": 1},
    }.items()
]

test_checks = run_checks(CASES)

test_variants = run_checks(REST, check_oracle)

test_arguments = arguments_act(
    [model_case(partial(SMALL, encode_hypothesis=True), WORDS, None, "encoded"), *CASES],
    "shared_transform",
    units=4,
    variant="din2",
    concat="split",
)


@pytest.mark.parametrize("case", [CASES[0], *REST[:3]], ids=name_of)
def test_explainer(case):
    model = built(case)
    shown = {n: value(t) for n, t in model.explainer()(WORDS).items()}
    want = forward(model, **WORDS)
    names = {"z": "update_gate_2", "r": "reset_gate_2", "h": "candidate_2"}
    expected = {"probabilities": want["probabilities"], "interaction_2": want["interaction"]}
    expected.update({names[gate]: want[gate] for gate in names if gate in want})
    assert set(shown) == set(expected)
    for name, array in expected.items():
        assert shown[name].shape == array.shape
        assert abs(shown[name] - array).max() < 1e-4, name


def test_one_word_shows_nothing():
    """With one word in each sentence every norm is its own least and greatest: zeros, not NaN."""
    ids = np.array([[3, 0]], "int32")
    shown = built(CASES[0]).explainer()({"word_ids_1": ids, "word_ids_2": ids})
    assert not any(value(t).any() for n, t in shown.items() if n != "probabilities")
