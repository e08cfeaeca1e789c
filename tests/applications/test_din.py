"""DIN: whole forward passes against the oracle and what it shows."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.applications import DIN
from tests.applications.common import WORDS, classified, model_case, represented
from tests.case import built, name_of, value, weights_of
from tests.harness import arguments_act, check_oracle, run_checks
from tests.layers.test_din import with_matrices
from tests.oracles import gru, masked_mean, pair_mask
from tests.oracles_recurrent import min_max


def forward(model, **inputs):
    """What the explainer shows, by name."""
    (p, h), (mask_p, mask_h) = represented(model, inputs)
    encoder = weights_of(model.encoding)
    p = gru(p, mask_p, *encoder)[0]
    h = gru(h, mask_h, *encoder)[0] if model.encode_hypothesis else h
    states, p, h, norms, *gates = with_matrices(model.control, p, h, mask_p, mask_h)
    shown = {"interaction_2": min_max(norms, pair_mask(mask_h, mask_p))}  # eq 28-31
    for sizes in gates:
        for i, name in enumerate(("update_gate_2", "reset_gate_2", "candidate_2")):
            shown[name] = min_max(sizes[..., i], mask_h)
    v = masked_mean(states, mask_h)  # eq 24
    if model.compare_means:
        p, h = masked_mean(p, mask_p), masked_mean(h, mask_h)
        v = np.concatenate([v, abs(p - h), p * h], -1)
    return shown | {"probabilities": classified([*model.hidden, model.logits], v)}


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
    assert set(shown) == set(want)
    for name, array in want.items():
        assert shown[name].shape == array.shape
        assert abs(shown[name] - array).max() < 1e-4, name


def test_one_word_shows_nothing():
    """With one word in each sentence every norm is its own least and greatest: zeros, not NaN."""
    ids = np.array([[3, 0]], "int32")
    shown = built(CASES[0]).explainer()({"word_ids_1": ids, "word_ids_2": ids})
    assert not any(value(t).any() for n, t in shown.items() if n != "probabilities")
