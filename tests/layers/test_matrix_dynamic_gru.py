"""MatrixDynamicGRU: its variants against the oracle."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.layers import MatrixDynamicGRU
from tests import oracles_recurrent
from tests.harness import (
    Case,
    arguments_act,
    built,
    check_build,
    check_gradients,
    check_oracle,
    lengths_mask,
    name_of,
    noise,
    refuses,
    run_checks,
    value,
)

INPUTS = {
    "x1": noise(3, 5, 3),
    "x2": noise(3, 4, 2, seed=1),
    "mask_1": lengths_mask([5, 2, 1], 5),
    "mask_2": lengths_mask([4, 3, 1], 4),
}
SAME_WIDTH = {**INPUTS, "x2": noise(3, 4, 3, seed=1)}


def gates_of(layer):
    """The weights of each gate as the oracle takes them."""
    gates = {}
    for i, gate in enumerate("zrh"):
        biases = [b[i] for b in layer.factor_biases]
        if layer.variant == "din2":
            weights = [layer.factor_kernels[0][i], layer.bias_kernels[i], *biases]
        else:
            pairs = zip([k[i] for k in layer.factor_kernels], biases)
            weights = [*(w for pair in pairs for w in pair), layer.bias_kernels[i]]
        gates[gate] = [value(w) for w in weights]
    return gates


def oracle(layer, x1, x2, mask_1, mask_2):
    p, h = (
        oracles_recurrent.to_matrices(x, *(value(w) for w in transform.weights))
        for x, transform in ((x1, layer.transform_1), (x2, layer.transform_2))
    )
    inter = layer.interaction
    weights = value(inter.kernel), value(inter.bias), layer.transpose_premise
    every = oracles_recurrent.matrix_interaction(p, h, mask_1, mask_2, *weights)
    real = mask_2[:, :, None] & mask_1[:, None, :]
    norms = np.where(real, np.sqrt(np.square(every).sum((-2, -1))), 0)
    last = every[:, :, -1]
    if layer.variant.startswith("static"):
        gru = [value(w) for w in layer.gru.weights]
        words = layer.variant == "static"
        return oracles_recurrent.static_states(last, h, mask_2, gru, words), norms
    made = oracles_recurrent.matrix_dynamic_gru(last, h, mask_2, gates_of(layer), layer.variant)
    flat = [made[gate].reshape(*mask_2.shape, -1) for gate in "zrh"]
    gate_norms = np.stack([np.sqrt(np.square(w).sum(-1)) for w in flat], -1)
    return made["states"], norms, gate_norms


def oracle_with_matrices(layer, x1, x2, mask_1, mask_2):
    states, *norms = oracle(layer, x1, x2, mask_1, mask_2)
    matrices = [
        oracles_recurrent.to_matrices(x, *(value(w) for w in transform.weights))
        for x, transform in ((x1, layer.transform_1), (x2, layer.transform_2))
    ]
    flat = [
        oracles_recurrent.zero_pads(m.reshape(*m.shape[:2], -1), mask)
        for m, mask in zip(matrices, (mask_1, mask_2))
    ]
    return states, *flat, *norms


NORMS = {"return_norms": True}
TRANSFORMS = 4 * (3 + 1) + 4 * (2 + 1) + 8  # W_trans of both sentences, the interaction
MAKE = partial(MatrixDynamicGRU, units=4)
CASES = [Case(MAKE, INPUTS, (TRANSFORMS + 9 * 4, 0), oracle, options=NORMS)]
REST = [
    Case(
        MAKE,
        INPUTS,
        (TRANSFORMS + 9 * 4, 0),
        oracle_with_matrices,
        "with matrices",
        {"return_matrices": True, **NORMS},
    ),
    Case(
        partial(MAKE, variant="din2"),
        INPUTS,
        (TRANSFORMS + 6 * 16 + 3 * 4, 0),
        oracle,
        "din2",
        NORMS,
    ),
    Case(partial(MAKE, concat="split"), INPUTS, (TRANSFORMS + 15 * 4, 0), oracle, "split", NORMS),
    Case(
        partial(MAKE, variant="din2", use_bias=False),
        INPUTS,
        (TRANSFORMS + 6 * 16, 0),
        oracle,
        "din2 without b_con",
        NORMS,
    ),
    Case(
        partial(MAKE, variant="static"),
        INPUTS,
        # The matrix of the word and the interaction are fed to the GRU.
        (TRANSFORMS + 3 * 4 * (8 + 4) + 3 * 4, 0),
        oracle,
        "static",
        NORMS,
    ),
    Case(
        partial(MAKE, variant="static_interaction", reset_after=True),
        INPUTS,
        # Nothing but the interaction is fed to the GRU, which has two biases.
        (TRANSFORMS + 3 * 4 * (4 + 4) + 6 * 4, 0),
        oracle,
        "static interaction",
        NORMS,
    ),
    Case(
        partial(MAKE, shared_transform=True),
        SAME_WIDTH,
        (4 * (3 + 1) + 8 + 9 * 4, 0),
        oracle,
        "shared transform",
        NORMS,
    ),
    Case(
        partial(MAKE, shared_transform=True, transpose_premise=True),
        SAME_WIDTH,
        (4 * (3 + 1) + 8 + 9 * 4, 0),
        oracle,
        "transposed",
        NORMS,
    ),
]

test_checks = run_checks(CASES)

test_variants = run_checks(REST, check_build, check_oracle, check_gradients)


@pytest.mark.parametrize("case", [CASES[0], REST[0]], ids=name_of)
def test_what_is_returned_besides_changes_nothing(case):
    layer = built(case)
    assert (value(layer(**INPUTS)) == value(case.call(layer, INPUTS)[0])).all()


test_arguments = arguments_act(
    [Case(MAKE, SAME_WIDTH, (0, 0)), Case(partial(MAKE, variant="static"), INPUTS, (0, 0))],
    units=9,
    variant="din2",
    concat="split",
)


def test_only_the_static_variant_with_words_reads_them():
    """With an interaction that is zero, states still depend on the words; or they do not."""
    for variant, reads in (("static", True), ("static_interaction", False)):
        layer = built(Case(partial(MAKE, variant=variant), INPUTS, (0, 0)))
        empty = {**INPUTS, "mask_1": lengths_mask([0] * 3, 5)}
        y, other = (value(layer(**{**empty, "x2": INPUTS["x2"] * sign})) for sign in (1, -1))
        assert (abs(y - other).max() > 1e-3) == reads


test_bad_arguments = refuses(
    MAKE,
    [
        ({"units": 300}, "units must be a perfect square.* Received: units=300"),
        ({"variant": "din3"}, "variant must be one of .*Received: variant='din3'"),
        ({"concat": "both"}, "concat must be one of .*Received: concat='both'"),
        ({"concat": "split", "variant": "din2"}, "'split' needs variant='din1'"),
    ],
)


def test_shared_transform_wants_equal_widths():
    with pytest.raises(ValueError, match="same last dimension. Received: x1.shape=.3, 5, 3."):
        MAKE(shared_transform=True)(**INPUTS)
