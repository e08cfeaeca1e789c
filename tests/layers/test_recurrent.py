"""Highway, CoAttention, BidirectionalRNN, RereadingLSTM and HyperLSTMCell."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_sentmatch.layers import (
    BidirectionalRNN,
    CoAttention,
    Highway,
    HyperLSTMCell,
    RereadingLSTM,
    bidirectional_rnn,
)
from keras_sentmatch.layers.bidirectional_rnn import CELLS
from keras_sentmatch.ops.recurrence import fused_bidirectional_states
from tests import oracles, oracles_blocks
from tests.case import (
    Case,
    built,
    close,
    gradients,
    lengths_mask,
    name_of,
    noise,
    value,
    values,
    weights_of,
)
from tests.harness import (
    arguments_act,
    check_fit,
    check_gradients,
    check_oracle,
    check_save,
    run_checks,
)
from tests.layers.common import ONE, TWO


def highway(layer, x):
    pairs = zip(layer.transforms, layer.gates)
    return oracles.highway(x, [(*weights_of(t), *weights_of(g)) for t, g in pairs])


def attended(layer, x1, x2, mask_1, mask_2):
    scale = 1.0 if layer.temperature is None else value(layer.scale)
    return oracles.co_attention(x1, x2, mask_1, mask_2, scale)


def dot_of_keys(layer, x1, x2, mask_1, mask_2, keys_1, keys_2):
    scale = value(layer.scale)
    return oracles_blocks.dot_attention(x1, x2, mask_1, mask_2, keys_1, keys_2, scale)[:2]


def bidirectional(layer, x, mask):
    sides = weights_of(layer.forward_rnn), weights_of(layer.backward_rnn)
    return oracles.bidirectional_rnn(layer.cell, x, mask, *sides)[0]


def reread(layer, x1, x2, mask_1, mask_2):
    kernels = layer.premise_kernel, layer.read_kernel, layer.cell_kernel, layer.score_kernel
    weights = {n: value(w) for n, w in zip(("w_p", "w_m", "w_c", "w"), kernels)}
    weights["lstm"] = [value(w) for w in (layer.kernel, layer.recurrent_kernel, layer.bias)]
    return oracles_blocks.rlstm(x1, mask_1, x2, mask_2, weights, layer.go_backwards, layer.tanh)


def hyper_weights(cell):
    """The cell's weights as the oracle takes them."""
    kernels = cell.kernel, cell.recurrent_kernel, cell.bias
    weights = {n: value(w) for n, w in zip(("kernel", "recurrent", "bias"), kernels)}
    weights["small"] = weights_of(cell.hyper_cell)
    for role, w, d in zip("xhb", cell.embedding_kernels, cell.scale_kernels):
        by_gate = value(w).reshape(cell.hyper_units, 4, cell.embedding_units)
        weights[f"w_{role}"], weights[f"d_{role}"] = by_gate.transpose(1, 0, 2), value(d)
    for role, c in zip("xh", cell.embedding_biases):
        weights[f"c_{role}"] = value(c).reshape(4, cell.embedding_units)
    if cell.norms:
        weights["norm"] = [weights_of(norm) for norm in cell.norms]
    return weights


def hyper_states(layer, sequences):
    mask = np.ones(sequences.shape[:2], bool)
    return oracles_blocks.hyper_lstm(sequences, mask, hyper_weights(layer.cell))[0]


ATTENTION = {"return_attention": True}
KEYS = TWO | {"keys_1": noise(3, 5, 2, seed=2), "keys_2": noise(3, 3, 2, seed=3)}
RNN = partial(BidirectionalRNN, units=3)
CELL = partial(HyperLSTMCell, units=4, hyper_units=3, embedding_units=2)
READER = (4 * 4 * (4 + 4 + 1) + 3 * 16 + 4, 0)
DIRECTIONS = [
    Case(partial(RNN, cell="lstm"), ONE, (2 * 4 * 3 * (4 + 3 + 1), 0), bidirectional, "lstm"),
    Case(partial(RNN, cell="gru"), ONE, (2 * 3 * 3 * (4 + 3 + 2), 0), bidirectional, "gru"),
    Case(partial(RNN, cell="rnn"), ONE, (2 * 3 * (4 + 3 + 1), 0), bidirectional, "rnn"),
]
READERS = [
    Case(partial(RereadingLSTM, units=4, **more), TWO, READER, reread, name, ATTENTION)
    for name, more in {
        "rereading, backwards": {"go_backwards": True},
        "rereading, as printed": {"tanh": False},
    }.items()
]
CASES = [
    # It knows no mask, and padding goes through it.
    Case(Highway, {"x": ONE["x"]}, (80, 0), highway, zero_pads=False),
    Case(CoAttention, TWO, (0, 0), attended, options=ATTENTION),
    Case(
        partial(CoAttention, similarity="dot", temperature=0.5),
        KEYS,
        (1, 0),
        dot_of_keys,
        name="dot product of keys",
    ),
    *DIRECTIONS,
    READERS[0],
    Case(
        partial(CELL, layer_norm=True),
        {"inputs": noise(3, 5)},
        (
            16 * (5 + 4 + 1) + 12 * (5 + 4 + 3 + 1) + 3 * 3 * 8 + 2 * 8 + 3 * 4 * 2 * 4 + 5 * 2 * 4,
            0,
        ),
        # The first step starts from zeros: nothing reaches what they are multiplied with.
        unused=("recurrent_kernel", "h_", "forget_norm"),
    ),
]
SEQUENCES = [
    Case(
        lambda norm=norm: keras.layers.RNN(CELL(layer_norm=norm), return_sequences=True),
        {"sequences": noise(3, 6, 5)},
        (0, 0),
        hyper_states,
        f"layer norm {norm}",
    )
    for norm in (False, True)
]
SCALED = Case(partial(CoAttention, temperature=2.0), TWO, (1, 0), attended, "scaled", ATTENTION)

test_checks = run_checks(CASES)


@pytest.mark.each_backend
@pytest.mark.parametrize("length", [3, 5])
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_rows_of_equal_length_may_run_in_one_kernel(cell, length, monkeypatch):
    layer, fused, states = RNN(cell=cell), fused_bidirectional_states, []
    mask = np.broadcast_to(np.arange(5) < length, (3, 5))
    case = Case(lambda: layer, {"x": noise(3, 5, 4), "mask": mask}, (0, 0))
    layer.build((None, None, 4))
    found = []
    for runs in (lambda *given: states.append(fused(*given)) or states[-1], lambda *given: None):
        monkeypatch.setattr(bidirectional_rnn, "fused_bidirectional_states", runs)
        by_weight, by_input = gradients(case, layer, case.inputs)
        found.append([value(layer(**case.inputs)), *by_weight, *by_input])
    for one, two in zip(*found):
        assert abs(one - two).max() <= 2e-6 and abs(two).max() > 1e-3
    assert any(s is not None for s in states) == (keras.backend.backend() == "torch")
    unequal = np.arange(5) < np.array([[length], [length], [1]])
    assert fused(layer.forward_rnn, layer.backward_rnn, case.inputs["x"], unequal) is None


test_variants = run_checks([READERS[1], SCALED], check_oracle)

test_hyper_lstm = run_checks(SEQUENCES, check_oracle, check_gradients, check_fit, check_save)

test_arguments = arguments_act(
    [*CASES[:2], *DIRECTIONS, CASES[-1]], similarity="dot", temperature=0.5, cell="gru"
)


def test_initial_values():
    layer = CASES[2].make()
    CASES[2].call(layer, KEYS)
    assert value(layer.scale) == 0.5
    reader = RereadingLSTM(4)
    reader(**TWO)
    assert value(reader.bias).tolist() == [0] * 4 + [1] * 4 + [0] * 8  # the forget gate is open


@pytest.mark.each_backend
@pytest.mark.parametrize("case", DIRECTIONS, ids=name_of)
def test_equals_keras_masked_bidirectional(case):
    """Forward values, gradients of the weights and of the input, with an empty row among them."""

    class Masked(keras.layers.Layer):
        supports_masking = True

        def __init__(self, cell):
            super().__init__()
            self.rnn = keras.layers.Bidirectional(
                CELLS[cell](3, return_sequences=True, zero_output_for_mask=True)
            )

        def call(self, x, mask):
            return self.rnn(x, mask=mask)

    ours, inputs = built(case), ONE | {"mask": lengths_mask([5, 2, 0], 5)}
    theirs = Masked(ours.cell)
    theirs(**inputs)
    for one, two in zip(theirs.weights, ours.weights):
        one.assign(two)
    reference = Case(lambda **k: theirs, inputs, (0, 0))
    # TensorFlow's masked layer gives the last state, not zeros, at an empty row: compare real tokens.
    real = inputs["mask"][..., None]
    got, want = values(case.call(ours, inputs))[0], values(reference.call(theirs, inputs))[0]
    close(got * real, want * real, case.name)
    (w1, x1), (w2, x2) = gradients(case, ours, ONE), gradients(reference, theirs, ONE)
    close([*w1, *x1], [*w2, *x2], f"gradients of {case.name}")


@pytest.mark.each_backend
def test_the_hyper_lstm_starts_as_an_lstm_with_weights_a_tenth_as_large():
    cell, x = CELL(), noise(3, 6, 5)
    states = value(keras.layers.RNN(cell, return_sequences=True)(x))
    lstm = keras.layers.LSTM(4, return_sequences=True)
    lstm.build(x.shape)
    bias = np.repeat([0.0, 1.0, 0.0, 0.0], 4)  # the cell adds the 1 itself
    lstm.set_weights([0.1 * value(cell.kernel), 0.1 * value(cell.recurrent_kernel), bias])
    assert abs(states - value(lstm(x))).max() < 1e-6
