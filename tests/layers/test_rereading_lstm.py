"""RereadingLSTM."""

from functools import partial

import pytest

from keras_sentmatch.layers import RereadingLSTM
from tests import oracles_blocks
from tests.case import gradients
from tests.harness import (
    Case,
    arguments_act,
    built,
    check_build,
    check_oracle,
    lengths_mask,
    noise,
    run_checks,
    value,
)

INPUTS = {
    "x1": noise(3, 5, 4),
    "x2": noise(3, 4, 2, seed=1),
    "mask_1": lengths_mask([5, 2, 1], 5),
    "mask_2": lengths_mask([4, 3, 1], 4),
}


def weights_of(layer):
    lstm = layer.kernel, layer.recurrent_kernel, layer.bias
    return {
        "lstm": [value(w) for w in lstm],
        "w_p": value(layer.premise_kernel),
        "w_m": value(layer.read_kernel),
        "w_c": value(layer.cell_kernel),
        "w": value(layer.score_kernel),
    }


def oracle(layer, x1, x2, mask_1, mask_2):
    options = {"tanh": layer.tanh, "backwards": layer.go_backwards}
    return oracles_blocks.rlstm(x1, mask_1, x2, mask_2, weights_of(layer), **options)


MAKE = partial(RereadingLSTM, units=4)
WEIGHTS = 4 * 4 * (2 + 4 + 1) + 3 * 16 + 4
ATTENTION = {"return_attention": True}
CASES = [Case(partial(MAKE, go_backwards=True), INPUTS, (WEIGHTS, 0), oracle, "", ATTENTION)]
REST = [
    Case(MAKE, INPUTS, (WEIGHTS, 0), oracle, "forward", ATTENTION),
    Case(partial(MAKE, tanh=False), INPUTS, (WEIGHTS, 0), oracle, "no tanh", ATTENTION),
]

test_checks = run_checks(CASES)

test_variants = run_checks(REST, check_build, check_oracle)


@pytest.mark.each_backend
def test_without_tanh_it_reads_the_same_at_every_step():
    """The terms of the memory and the cell are the same for all words: the softmax drops them."""
    for case, same in zip(REST, (False, True)):
        layer = built(case)
        attention = value(case.call(layer, INPUTS)[1])
        first, later = attention[0, 1], attention[0, 2:]
        assert (abs(later - first).max() < 1e-6) == same
        found = dict(
            zip((v.path for v in layer.trainable_variables), gradients(case, layer, INPUTS)[0])
        )
        for name in ("read_kernel", "cell_kernel"):
            gradient = next(g for path, g in found.items() if path.endswith(name))
            assert (gradient is None or abs(gradient).max() < 1e-6) == same


def test_the_forget_gate_starts_open():
    layer = MAKE()
    layer(**INPUTS)
    assert value(layer.bias).tolist() == [0] * 4 + [1] * 4 + [0] * 8


test_arguments = arguments_act(REST, "units")
