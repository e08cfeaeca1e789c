"""StackRNN."""

from functools import partial

from keras_sentmatch.layers import StackRNN
from tests import oracles_recurrent
from tests.harness import (
    Case,
    arguments_act,
    lengths_mask,
    noise,
    refuses,
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

test_errors = refuses(
    StackRNN,
    [({name: 0}, f"{name} must be at least 1. Received: {name}=0") for name in ("units", "depth")],
)
