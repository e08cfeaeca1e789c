"""DenseCoAttentiveRNN: every row of Table 6 against the oracle."""

from functools import partial

import keras
import pytest

from keras_sentmatch.layers import DenseCoAttentiveRNN
from tests import oracles
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
    "x1": noise(3, 4, 6),
    "x2": noise(3, 5, 6, seed=1),
    "mask_1": lengths_mask([4, 2, 1], 4),
    "mask_2": lengths_mask([3, 5, 2], 5),
}
SMALL = partial(DenseCoAttentiveRNN, units=2, depth=3, autoencoder_after=(), autoencoder_units=3)
ROWS = {
    1: {},
    5: {"attentive_connection": "none"},
    6: {"recurrent_connection": "none"},
    7: {"attentive_connection": "none", "recurrent_connection": "none"},
    8: {"attentive_connection": "residual", "recurrent_connection": "residual"},
    9: {
        "attentive_connection": "residual",
        "recurrent_connection": "residual",
        "embedding_connection": "none",
    },
    10: {
        "attentive_connection": "none",
        "recurrent_connection": "none",
        "embedding_connection": "none",
    },
    11: {"attention": False, "recurrent_connection": "none", "embedding_connection": "none"},
}


def forward(layer, row, x1, x2, mask_1, mask_2):
    stack = [
        tuple([value(w) for w in rnn.weights] for rnn in (r.forward_rnn, r.backward_rnn))
        for r in layer.recurrent
    ]
    codes = {
        after: [
            value(w) for w in (a.encoder.kernel, a.encoder.bias, a.decoder.kernel, a.decoder.bias)
        ]
        for after, a in zip(layer.autoencoder_after, layer.autoencoders)
    }
    return oracles.dense_co_attentive_rnn(
        x1, x2, mask_1, mask_2, stack, codes, row=row, attention=layer.attention
    )


def oracle(row):
    def outputs(layer, **inputs):
        out = forward(layer, row, **inputs)
        return out["p"], out["q"]

    return outputs


def attentive(layer, **inputs):
    out = forward(layer, 1, **inputs)
    return out["p"], out["q"], *(oracles.np.stack(side, 1) for side in zip(*out["attentions"]))


def lstm(width):
    return 2 * 4 * 2 * (width + 2 + 1)


def autoencoder(width):
    return width * 3 + 3 + 3 * width + width


COUNTS = {
    1: lstm(6) + lstm(14) + lstm(22),
    5: lstm(6) + lstm(14) + lstm(18),
    6: lstm(6) + lstm(14) + lstm(18),
    7: lstm(6) + 2 * lstm(14),
    8: lstm(6) + 2 * lstm(14),
    9: lstm(6) + 2 * lstm(8),
    10: lstm(6) + 2 * lstm(8),
    11: lstm(6) + 2 * lstm(4),
}
DECODER = ("decoder",)  # only the reconstruction loss reaches it, in training
CASES = [
    *(
        Case(partial(SMALL, **ROWS[r]), INPUTS, (COUNTS[r], 0), oracle(r), name=f"row {r}")
        for r in ROWS
    ),
    Case(
        partial(SMALL, autoencoder_after=(1, 3)),
        INPUTS,
        (lstm(6) + autoencoder(14) + lstm(3) + lstm(11) + autoencoder(19), 0),
        attentive,
        options={"return_attention": True},
        name="autoencoders, attention returned",
        unused=DECODER,
    ),
    Case(
        partial(SMALL, autoencoder_after=(1,), attention=False),
        INPUTS,
        (lstm(6) + autoencoder(10) + lstm(3) + lstm(7), 0),
        oracle(1),
        name="encoder only",
        unused=DECODER,
    ),
]


test_checks = run_checks(CASES[-2:])

# The rows differ in what they join, nothing else: counts and oracle tell them apart.
test_rows_of_table_6 = run_checks(CASES[:-2], check_build, check_oracle)


@pytest.mark.each_backend
def test_reconstruction_loss():
    layer = built(CASES[-2], autoencoder_dropout=0.0)
    layer._clear_losses()
    layer(**INPUTS, training=True)
    wide = {n: a.astype("float64") if a.dtype.kind == "f" else a for n, a in INPUTS.items()}
    expected = forward(layer, 1, **wide)["losses"]
    assert [float(value(loss)) for loss in layer.losses] == pytest.approx(expected, rel=1e-4)


test_arguments = arguments_act(
    [Case(partial(SMALL, autoencoder_after=(2,)), INPUTS, (0, 0)), Case(SMALL, INPUTS, (0, 0))],
    autoencoder_after=(3,),
    recurrent_connection="residual",
    attentive_connection="none",
    embedding_connection="none",
)


@pytest.mark.each_backend
def test_one_sentence_alone():
    """Without attention a sentence gives the same states with and without the other."""
    layer = built(CASES[-1])
    pair = layer(**INPUTS)
    for y, side in zip(pair, "12"):
        alone = layer(INPUTS[f"x{side}"], mask_1=INPUTS[f"mask_{side}"])
        assert abs(value(alone) - value(y)).max() < 1e-6
    x = keras.Input((None, 6))
    assert layer(x, mask_1=keras.Input((None,), dtype="bool")).shape == (None, None, 11)
    layer._clear_losses()
    layer(INPUTS["x1"], mask_1=INPUTS["mask_1"], training=True)  # three rows: no halves
    assert len(layer.losses) == 1
