"""StackRNN."""

from functools import partial

from keras_sentmatch.layers import StackRNN
from tests import oracles_recurrent
from tests.harness import (
    Case,
    arguments_act,
    lengths_mask,
    noise,
    run_checks,
    value,
)

INPUTS = {"x": noise(3, 5, 4), "mask": lengths_mask([5, 2, 1], 5)}
SMALL = partial(StackRNN, units=3, depth=2)


def gru(width):
    return 3 * 3 * (width + 3 + 2)


def weights_of(rnn):
    return [value(w) for w in rnn.weights]


def oracle(layer, x, mask):
    return oracles_recurrent.stack_gru(x, mask, [weights_of(rnn) for rnn in layer.forward_rnns])


CASES = [Case(SMALL, INPUTS, (gru(4) + gru(7), 0), oracle)]

test_checks = run_checks(CASES)


test_arguments = arguments_act(CASES)


def test_kernels_start_in_the_range_of_one_gate():
    layer = StackRNN(units=50, depth=2)
    layer.build((None, None, 40))
    for rnn in layer.forward_rnns:
        for kernel in (value(weights) for weights in rnn.weights[:2]):
            rows, columns = kernel.shape
            limit = (6 / (rows + columns / 3)) ** 0.5
            assert 0.97 * limit < abs(kernel).max() <= limit
