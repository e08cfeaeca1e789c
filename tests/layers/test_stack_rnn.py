"""StackRNN."""

from functools import partial

import keras
import numpy as np

from keras_sentmatch.layers import StackRNN
from tests import oracles_recurrent
from tests.harness import (
    Case,
    arguments_act,
    built,
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
    forward = [weights_of(rnn) for rnn in layer.forward_rnns]
    backward = [weights_of(rnn) for rnn in layer.backward_rnns]
    return oracles_recurrent.stack_gru(x, mask, list(zip(forward, backward)) or forward)


CASES = [
    Case(SMALL, INPUTS, (gru(4) + gru(7), 0), oracle),
    Case(
        partial(SMALL, bidirectional=True),
        INPUTS,
        (2 * gru(4) + 2 * gru(10), 0),
        oracle,
        name="both ways",
    ),
]

test_checks = run_checks(CASES)


test_arguments = arguments_act(CASES)

test_errors = refuses(
    StackRNN,
    [({name: 0}, f"{name} must be at least 1. Received: {name}=0") for name in ("units", "depth")],
)


def test_newest_states_first_and_the_input_last():
    layer, (x, mask) = built(CASES[0]), INPUTS.values()
    y = value(layer(x, mask))
    np.testing.assert_array_equal(y[..., 6:], np.where(mask[..., None], x, 0))
    first = keras.layers.GRU(3, return_sequences=True)
    first.build(x.shape)
    first.set_weights(layer.forward_rnns[0].get_weights())
    alone = np.where(mask[..., None], value(first(x, mask=keras.ops.convert_to_tensor(mask))), 0)
    np.testing.assert_allclose(y[..., 3:6], alone, atol=1e-6)


def test_the_future_does_not_matter_one_way_and_does_both_ways():
    x, mask = INPUTS.values()
    changed = np.array(x)
    changed[0, 4] += 1
    for case, same in zip(CASES, (True, False)):
        layer = built(case)
        before, after = (value(layer(v, mask))[0, :4] for v in (x, changed))
        assert np.allclose(before, after, atol=1e-6) is same
