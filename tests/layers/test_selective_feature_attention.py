"""SelectiveFeatureAttention: every kind of branch, every ablation, the paper's counts."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_sentmatch.layers import SelectiveFeatureAttention
from keras_sentmatch.layers._transformer_block import TransformerBlock
from keras_sentmatch.layers.feature_attention import CNNS, RNNS
from tests import oracles_blocks
from tests.case import randomize
from tests.harness import (
    Case,
    arguments_act,
    built,
    check_build,
    check_oracle,
    check_padding,
    lengths_mask,
    noise,
    run_checks,
    value,
)
from tests.oracles import relu

INPUTS = {"x": noise(3, 7, 12), "mask": lengths_mask([7, 3, 1], 7)}
GATES = {"return_gates": True}


def weights_of(layer):
    return [value(w) for w in layer.weights]


def gate_weights(layer):
    if not layer.gates:
        return {"w1": None}
    return {
        "w1": value(layer.squeeze.kernel),
        "b1": value(layer.squeeze.bias),
        "w2": [value(e.kernel) for e in layer.excitations],
        "b2": [value(e.bias) for e in layer.excitations],
    }


def oracle(layer, x, mask):
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
    found = oracles_blocks.sfa_block(
        x,
        mask,
        {
            "bottleneck_in": weights_of(layer.narrowing) if layer.autoencoder else None,
            "bottleneck_out": weights_of(layer.widening) if layer.autoencoder else None,
            "branches": branches,
            **cell,
            **gate_weights(layer),
            "residual": layer.residual,
            "pre_sigmoid": layer.pre_sigmoid,
            "use_max": layer.max_pooling,
            "use_mean": layer.mean_pooling,
            "select": layer.selection,
        },
    )
    weights = found["weights"]
    if not (layer.gates and layer.selection):
        weights = np.full((len(x), layer.branches, weights.shape[-1]), 1 / layer.branches)
    return found["output"], found["e"], weights


SMALL = partial(SelectiveFeatureAttention, r1=3, r2=2)  # W = 4, and 2 for the hidden layer
GATES_COUNT = 4 * 2 + 2 + 3 * (2 * 4 + 4)
ENDS = 12 * 4 + 4 + 4 * 12 + 12
GRU = 2 * 3 * 2 * (4 + 2 + 2)


def transformer(width, heads):
    inner = heads * -(-width // heads)
    attention = 4 * width * inner + 2 * inner + width  # no bias on the keys
    return attention + 2 * 4 * width * width + 5 * width + 2 * 2 * width


PLAIN = {"gates": False, "residual": True}  # a residual BiGRU
CASES = [
    Case(SMALL, INPUTS, (ENDS + 3 * GRU + GATES_COUNT, 0), oracle, options=GATES, name="BiGRU"),
    Case(
        partial(SMALL, branch_kind="transformer", heads=3, units="literal"),
        INPUTS,
        (
            12 * 4
            + 4
            + 8 * 12
            + 12
            + 4 * 8
            + 8
            + 3 * transformer(8, 3)
            + 8 * 4
            + 4
            + 3 * (4 * 8 + 8),
            0,
        ),
        name="transformer",
    ),
    Case(
        partial(SMALL, **PLAIN),
        INPUTS,
        (ENDS + 3 * GRU, 0),
        oracle,
        options=GATES,
        name="residual BiGRU",
    ),
]


def variant(name, count=None, inputs=INPUTS, **arguments):
    return Case(
        partial(SMALL, **arguments), inputs, (count or 0, 0), oracle, options=GATES, name=name
    )


def window(*kernels):
    return sum(k * 4 * 4 + 4 for k in kernels)


KINDS = [
    variant("cnn", ENDS + window(3, 5, 7) + GATES_COUNT, branch_kind="cnn"),
    variant("dilated_cnn3", ENDS + window(3, 3, 3) + GATES_COUNT, branch_kind="dilated_cnn3"),
    variant("dilated_cnn5", ENDS + window(5, 5, 5) + GATES_COUNT, branch_kind="dilated_cnn5"),
    variant("birnn", ENDS + 3 * 2 * 2 * (4 + 2 + 1) + GATES_COUNT, branch_kind="birnn"),
    variant("bilstm", ENDS + 3 * 2 * 8 * (4 + 2 + 1) + GATES_COUNT, branch_kind="bilstm"),
]
ABLATIONS = [
    variant("no autoencoder", autoencoder=False),
    variant("no maximum", max_pooling=False),
    variant("no mean", mean_pooling=False),
    variant("no selection", selection=False),
    variant("before the sigmoid", pre_sigmoid=True),
    variant("literal, two branches", units="literal", branches=2),
    variant("r1 that doesn't divide", r1=3.5),
    variant("no autoencoder, odd", inputs={**INPUTS, "x": noise(3, 7, 5)}, autoencoder=False),
    variant("residual", residual=True),
]

test_checks = run_checks(CASES)

test_kinds_of_branches = run_checks(KINDS, check_build, check_oracle, check_padding)

test_ablations = run_checks(ABLATIONS, check_oracle)


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
def test_counts_of_the_paper(arguments, count):
    """Twice these are the .42M and (3.75, 4, 2) .23M of Table 1, or 1.21M and .57M read literally."""
    layer = SelectiveFeatureAttention(**arguments)
    layer.build((None, None, 300))
    assert sum(int(np.prod(w.shape)) for w in layer.trainable_weights) == count


def test_weights_sum_to_one_and_differ_by_at_most_e():
    layer = built(CASES[0])
    for dense in layer.excitations:
        dense.kernel.assign(100 * value(dense.kernel))
    _, gates, weights = (value(t) for t in layer(**INPUTS, return_gates=True))
    assert abs(weights.sum(1) - 1).max() < 1e-6
    assert 2 < (weights.max(1) / weights.min(1)).max() <= np.e + 1e-5
    free = built(CASES[0], pre_sigmoid=True)
    for dense in free.excitations:
        dense.kernel.assign(100 * value(dense.kernel))
    weights = value(free(**INPUTS, return_gates=True)[2])
    assert (weights.max(1) > 0.999).any()


def test_transformer_block_is_the_textbook_one():
    """Keras's own attention and normalization, with its weights, on the real tokens of each row."""
    x, mask = noise(3, 7, 8), INPUTS["mask"]
    block = TransformerBlock(3)
    block.build(x.shape)
    randomize(block)
    theirs = keras.layers.MultiHeadAttention(3, 3)
    theirs.build(x.shape, x.shape)
    theirs.set_weights(
        [
            *weights_of(block.query),
            *weights_of(block.key),
            np.zeros((3, 3)),
            *weights_of(block.value),
            *weights_of(block.join),
        ]
    )
    got = value(block(x, mask))
    for row, length in enumerate(mask.sum(1)):
        alone = keras.ops.convert_to_tensor(x[row : row + 1, :length])
        y = block.norms[0](alone + theirs(alone, alone))
        want = block.norms[1](y + block.narrow(block.wide(y)))
        assert abs(got[row, :length] - value(want)[0]).max() < 1e-5


test_arguments = arguments_act(CASES, units="literal", branch_kind="cnn", pre_sigmoid=True)


def test_penalties():
    regular = built(CASES[0], kernel_regularizer=keras.regularizers.L2(0.1))
    assert len(regular.losses) == 2 + 3 * 4 + 4


def test_eq_9_of_the_gates_and_without_them():
    """With 300 features and (3, 5) it holds up to 121 tokens."""
    assert "2D/(r1 r2) = 40 should" in SelectiveFeatureAttention().too_narrow(300, 122)
    assert SelectiveFeatureAttention().too_narrow(300, 121) == ""
    assert SelectiveFeatureAttention(gates=False).too_narrow(300, 122) == ""
