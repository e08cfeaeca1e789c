"""MatrixDynamicGRU: its variants against the oracle."""

from functools import partial

import numpy as np

from keras_sentmatch.layers import MatrixDynamicGRU
from tests import oracles_recurrent
from tests.harness import (
    Case,
    arguments_act,
    check_build,
    check_gradients,
    check_oracle,
    lengths_mask,
    noise,
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
    weights = value(inter.kernel), value(inter.bias)
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
]

test_checks = run_checks(CASES)

test_variants = run_checks(REST, check_build, check_oracle, check_gradients)


test_arguments = arguments_act(
    [Case(MAKE, SAME_WIDTH, (0, 0)), Case(partial(MAKE, variant="static"), INPUTS, (0, 0))],
    units=9,
    variant="din2",
    concat="split",
)
