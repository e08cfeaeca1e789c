"""FactorizationMachine."""

from functools import partial

import numpy as np

from keras_sentmatch.layers import FactorizationMachine
from tests import oracles_blocks
from tests.harness import Case, arguments_act, noise, run_checks, value


def oracle(layer, z):
    factors = value(layer.factor_kernel) if layer.factors else np.zeros((z.shape[-1], 0))
    return oracles_blocks.factorization_machine(z, value(layer.bias), value(layer.kernel), factors)


# It knows no mask: what comes in at a pad goes through it.
INPUTS = {"z": noise(2, 5, 4)}
CASES = [
    Case(
        partial(FactorizationMachine, factors=3),
        INPUTS,
        (1 + 4 + 3 * 4, 0),
        oracle,
        zero_pads=False,
    ),
    Case(
        partial(FactorizationMachine, factors=0), INPUTS, (5, 0), oracle, "linear", zero_pads=False
    ),
]

test_checks = run_checks(CASES)


test_arguments = arguments_act(CASES)
