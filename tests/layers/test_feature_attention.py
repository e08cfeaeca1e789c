"""FeatureAttention and SelectiveFeatureAttention: every kind of branch, every ablation, the counts."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_sentmatch.layers import FeatureAttention, SelectiveFeatureAttention
from keras_sentmatch.layers.feature_attention import CNNS, RNNS, TransformerBlock
from tests import oracles_blocks as oracles
from tests.case import Case, built, lengths_mask, noise, randomize, value, weights_of
from tests.harness import arguments_act, check_build, check_oracle, check_padding, run_checks
from tests.oracles import relu

INPUTS = {"x": noise(3, 7, 12), "mask": lengths_mask([7, 3, 1], 7)}
GATES = {"return_gates": True}


def gated(layer, x, mask):
    weights = weights_of(layer.squeeze) + weights_of(layer.excitation)
    return oracles.feature_attention(x, mask, *weights)


def gate_weights(layer):
    if not layer.gates:
        return {"w1": None}
    w1, b1 = weights_of(layer.squeeze)
    w2, b2 = zip(*(weights_of(e) for e in layer.excitations))
    return {"w1": w1, "b1": b1, "w2": w2, "b2": b2}


def selected(layer, x, mask):
    kind = layer.branch_kind
    if kind in CNNS:
        dilations = [n if kind.startswith("dilated") else 1 for n in range(1, layer.branches + 1)]
        branches = [(*weights_of(b), d) for b, d in zip(layer.branch_layers, dilations)]
        cell = {"cell": "cnn", "activation": relu}
    else:
        branches = [
            (weights_of(b.forward_rnn), weights_of(b.backward_rnn)) for b in layer.branch_layers
        ]
        cell = {"cell": RNNS[kind]}
    weights = {
        "bottleneck_in": weights_of(layer.narrowing) if layer.autoencoder else None,
        "bottleneck_out": weights_of(layer.widening) if layer.autoencoder else None,
        "branches": branches,
        "residual": layer.residual,
        "pre_sigmoid": layer.pre_sigmoid,
        "use_max": layer.max_pooling,
        "use_mean": layer.mean_pooling,
        "select": layer.selection,
    }
    found = oracles.sfa_block(x, mask, weights | cell | gate_weights(layer))
    weights = found["weights"]
    if not (layer.gates and layer.selection):
        weights = np.full((len(x), layer.branches, weights.shape[-1]), 1 / layer.branches)
    return found["output"], found["e"], weights


SMALL = partial(SelectiveFeatureAttention, r1=3, r2=2)  # W = 4, and 2 for the hidden layer
GATES_COUNT = 4 * 2 + 2 + 3 * (2 * 4 + 4)
ENDS = 12 * 4 + 4 + 4 * 12 + 12
GRU = 2 * 3 * 2 * (4 + 2 + 2)
TRANSFORMER = 4 * 8 * 9 + 2 * 9 + 8 + 2 * 4 * 8 * 8 + 9 * 8  # 8 wide, 3 heads; keys have no bias
WIDE = 12 * 4 + 4 + 8 * 12 + 12 + 4 * 8 + 8 + 8 * 4 + 4 + 3 * (4 * 8 + 8)
PLAIN = {"gates": False, "residual": True}  # a residual BiGRU


def variant(name, count=0, inputs=INPUTS, **arguments):
    return Case(partial(SMALL, **arguments), inputs, (count, 0), selected, name, GATES)


CASES = [
    Case(
        partial(FeatureAttention, reduction=2),
        INPUTS,
        (12 * 6 + 6 + 6 * 12 + 12, 0),
        gated,
        options=GATES,
    ),
    variant("BiGRU", ENDS + 3 * GRU + GATES_COUNT),
    Case(
        partial(SMALL, branch_kind="transformer", heads=3, units="literal"),
        INPUTS,
        (WIDE + 3 * TRANSFORMER, 0),
        name="transformer",
    ),
    variant("residual BiGRU", ENDS + 3 * GRU, **PLAIN),
]


def window(*kernels):
    return sum(k * 4 * 4 + 4 for k in kernels)


KINDS = {
    "cnn": window(3, 5, 7),
    "dilated_cnn3": window(3, 3, 3),
    "dilated_cnn5": window(5, 5, 5),
    "birnn": 3 * 2 * 2 * (4 + 2 + 1),
    "bilstm": 3 * 2 * 8 * (4 + 2 + 1),
}
ABLATIONS = [
    variant("no autoencoder", autoencoder=False),
    variant("no maximum", max_pooling=False),
    variant("no mean", mean_pooling=False),
    variant("no selection", selection=False),
    variant("before the sigmoid", pre_sigmoid=True),
    variant("literal, two branches", units="literal", branches=2),
    variant("r1 that doesn't divide", r1=3.5),
    variant("no autoencoder, odd", inputs=INPUTS | {"x": noise(3, 7, 5)}, autoencoder=False),
    variant("residual", residual=True),
]

test_checks = run_checks(CASES)

test_kinds_of_branches = run_checks(
    [variant(kind, ENDS + n + GATES_COUNT, branch_kind=kind) for kind, n in KINDS.items()],
    check_build,
    check_oracle,
    check_padding,
)

test_ablations = run_checks(ABLATIONS, check_oracle)

test_arguments = arguments_act(CASES, units="literal", branch_kind="cnn", pre_sigmoid=True)


@pytest.mark.parametrize(
    "arguments, count",
    [
        ({}, 205_520),
        ({"units": "literal"}, 606_640),
        (PLAIN, 197_200),
        ({"r1": 3.75, "r2": 4, "branches": 2}, 111_920),
        ({"r1": 3.75, "r2": 4, "branches": 2, "units": "literal"}, 285_860),
    ],
)
def test_sfa_counts_of_the_paper(arguments, count):
    """Twice these are the .42M and (3.75, 4, 2) .23M of Table 1, or 1.21M and .57M read literally."""
    layer = SelectiveFeatureAttention(**arguments)
    layer.build((None, None, 300))
    assert sum(int(np.prod(w.shape)) for w in layer.trainable_weights) == count


def test_weights_sum_to_one_and_differ_by_at_most_e():
    for pre_sigmoid in (False, True):
        layer = built(CASES[1], pre_sigmoid=pre_sigmoid)
        for dense in layer.excitations:
            dense.kernel.assign(100 * value(dense.kernel))
        weights = value(layer(**INPUTS, return_gates=True)[2])
        assert abs(weights.sum(1) - 1).max() < 1e-6
        ratio = (weights.max(1) / np.maximum(weights.min(1), 1e-9)).max()
        assert ratio > 1000 if pre_sigmoid else 2 < ratio <= np.e + 1e-5


def test_transformer_block_is_the_textbook_one():
    """Keras's own attention and normalization, with its weights, on the real tokens of each row."""
    x, mask = noise(3, 7, 8), INPUTS["mask"]
    block = TransformerBlock(3)
    block.build(x.shape)
    randomize(block)
    theirs = keras.layers.MultiHeadAttention(3, 3)
    theirs.build(x.shape, x.shape)
    query, key, values, join = map(weights_of, (block.query, block.key, block.value, block.join))
    theirs.set_weights([*query, *key, np.zeros((3, 3)), *values, *join])
    got = value(block(x, mask))
    for row, length in enumerate(mask.sum(1)):
        alone = keras.ops.convert_to_tensor(x[row : row + 1, :length])
        y = block.norms[0](alone + theirs(alone, alone))
        want = block.norms[1](y + block.narrow(block.wide(y)))
        assert abs(got[row, :length] - value(want)[0]).max() < 1e-5
