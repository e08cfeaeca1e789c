"""The layers of DIN: all variants against the oracle."""

from functools import partial

import numpy as np

from keras_sentmatch.layers import MatrixDynamicGRU
from keras_sentmatch.layers.din import MatrixInteraction
from tests import oracles_recurrent as oracles
from tests.case import Case, lengths_mask, noise, value, weights_of
from tests.harness import arguments_act, check_build, check_gradients, check_oracle, run_checks
from tests.layers.common import TWO

INPUTS = {
    "x1": noise(3, 5, 3),
    "x2": noise(3, 4, 2, seed=1),
    "mask_1": lengths_mask([5, 2, 1], 5),
    "mask_2": lengths_mask([4, 3, 1], 4),
}
SAME_WIDTH = INPUTS | {"x2": noise(3, 4, 3, seed=1)}


def interaction(layer, p, h, mask_1, mask_2):
    """All interaction matrices, and their norms."""
    every = oracles.matrix_interaction(p, h, mask_1, mask_2, *weights_of(layer))
    real = mask_2[:, :, None] & mask_1[:, None, :]
    return every, np.where(real, np.sqrt(np.square(every).sum((-2, -1))), 0)


def interacted(layer, x1, x2, mask_1, mask_2):
    words = (x.reshape(*x.shape[:2], 2, 2) for x in (x1, x2))
    every, norms = interaction(layer, *words, mask_1, mask_2)
    return every[:, :, -1].reshape(x2.shape), norms


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
    p = oracles.to_matrices(x1, *weights_of(layer.transform_1))
    h = oracles.to_matrices(x2, *weights_of(layer.transform_2))
    every, norms = interaction(layer.interaction, p, h, mask_1, mask_2)
    last = every[:, :, -1]
    if layer.variant.startswith("static"):
        words = layer.variant == "static"
        return oracles.static_states(last, h, mask_2, weights_of(layer.gru), words), norms
    made = oracles.matrix_dynamic_gru(last, h, mask_2, gates_of(layer), layer.variant)
    flat = [made[gate].reshape(*mask_2.shape, -1) for gate in "zrh"]
    return made["states"], norms, np.stack([np.sqrt(np.square(w).sum(-1)) for w in flat], -1)


def with_matrices(layer, x1, x2, mask_1, mask_2):
    states, *norms = oracle(layer, x1, x2, mask_1, mask_2)
    flat = []
    for x, mask, transform in ((x1, mask_1, layer.transform_1), (x2, mask_2, layer.transform_2)):
        matrices = oracles.to_matrices(x, *weights_of(transform))
        flat.append(oracles.zero_pads(matrices.reshape(*mask.shape, -1), mask))
    return states, *flat, *norms


NORMS = {"return_norms": True}
TRANSFORMS = 4 * (3 + 1) + 4 * (2 + 1) + 8  # W_trans of both sentences, the interaction
MAKE = partial(MatrixDynamicGRU, units=4)
DIN1 = (TRANSFORMS + 9 * 4, 0)


def variant(name, count, inputs=INPUTS, **arguments):
    return Case(partial(MAKE, **arguments), inputs, (count, 0), oracle, name, NORMS)


CASES = [
    Case(MatrixInteraction, TWO, (8, 0), interacted, options=NORMS),
    Case(MAKE, INPUTS, DIN1, with_matrices, options={"return_matrices": True, **NORMS}),
]
VARIANTS = [
    variant("din2", TRANSFORMS + 6 * 16 + 3 * 4, variant="din2"),
    variant("split", TRANSFORMS + 15 * 4, concat="split"),
    variant("din2 without b_con", TRANSFORMS + 6 * 16, variant="din2", use_bias=False),
    # The matrix of the word and the interaction are fed to the GRU; below, the interaction alone.
    variant("static", TRANSFORMS + 3 * 4 * (8 + 4) + 3 * 4, variant="static"),
    variant(
        "static interaction",
        TRANSFORMS + 3 * 4 * (4 + 4) + 6 * 4,
        variant="static_interaction",
        reset_after=True,
    ),
    variant("shared", 4 * (3 + 1) + 8 + 9 * 4, SAME_WIDTH, shared_transform=True),
]

test_checks = run_checks(CASES)

test_variants = run_checks(VARIANTS, check_build, check_oracle, check_gradients)

test_arguments = arguments_act(
    [Case(MAKE, SAME_WIDTH, (0, 0)), Case(partial(MAKE, variant="static"), INPUTS, (0, 0))],
    units=9,
    variant="din2",
    concat="split",
)
