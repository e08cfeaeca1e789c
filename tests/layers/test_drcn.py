"""The layers of DRCN: every row of Table 6 against the oracle."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_sentmatch.layers import DenseCoAttentiveRNN
from keras_sentmatch.layers.drcn import AutoencoderBottleneck
from tests import oracles
from tests.case import Case, built, lengths_mask, noise, value, weights_of
from tests.harness import arguments_act, check_build, check_oracle, run_checks

SENTENCES = {"x": noise(4, 5, 6), "mask": lengths_mask([5, 2, 1, 4], 5)}
INPUTS = {
    "x1": noise(3, 4, 6),
    "x2": noise(3, 5, 6, seed=1),
    "mask_1": lengths_mask([4, 2, 1], 4),
    "mask_2": lengths_mask([3, 5, 2], 5),
}
SMALL = partial(DenseCoAttentiveRNN, units=2, depth=3, autoencoder_after=(), autoencoder_units=3)
BOTH_NONE = {"attentive_connection": "none", "recurrent_connection": "none"}
BOTH_RESIDUAL = {"attentive_connection": "residual", "recurrent_connection": "residual"}
BARE = {"embedding_connection": "none"}
ROWS = {
    1: {},
    5: {"attentive_connection": "none"},
    6: {"recurrent_connection": "none"},
    7: BOTH_NONE,
    8: BOTH_RESIDUAL,
    9: BOTH_RESIDUAL | BARE,
    10: BOTH_NONE | BARE,
    11: {"attention": False, "recurrent_connection": "none"} | BARE,
}


def autoencoder_weights(layer):
    return [*weights_of(layer.encoder), *weights_of(layer.decoder)]


def code(layer, x, mask):
    kernel, bias, *_ = autoencoder_weights(layer)
    return np.tanh(x @ kernel + bias)


def forward(layer, row, x1, x2, mask_1, mask_2):
    stack = [(weights_of(r.forward_rnn), weights_of(r.backward_rnn)) for r in layer.recurrent]
    codes = {
        after: autoencoder_weights(a)
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
    return out["p"], out["q"], *(np.stack(side, 1) for side in zip(*out["attentions"]))


def lstm(width):
    return 2 * 4 * 2 * (width + 2 + 1)


def autoencoder(width):
    return width * 3 + 3 + 3 * width + width


INPUT_WIDTHS = {  # of each layer
    1: (6, 14, 22),
    5: (6, 14, 18),
    6: (6, 14, 18),
    7: (6, 14, 14),
    8: (6, 14, 14),
    9: (6, 8, 8),
    10: (6, 8, 8),
    11: (6, 4, 4),
}
DECODER = ("decoder",)  # only the reconstruction loss reaches it, in training
BOTTLENECK = Case(
    partial(AutoencoderBottleneck, units=3),
    SENTENCES,
    (autoencoder(6), 0),
    code,
    zero_pads=False,  # the code of a pad is what it is; the layer's users mask it
    unused=DECODER,
)
CODED = Case(
    partial(SMALL, autoencoder_after=(1, 3)),
    INPUTS,
    (lstm(6) + autoencoder(14) + lstm(3) + lstm(11) + autoencoder(19), 0),
    attentive,
    options={"return_attention": True},
    name="autoencoders, attention returned",
    unused=DECODER,
)
ALONE = Case(
    partial(SMALL, autoencoder_after=(1,), attention=False),
    INPUTS,
    (lstm(6) + autoencoder(10) + lstm(3) + lstm(7), 0),
    oracle(1),
    name="encoder only",
    unused=DECODER,
)
CASES = [BOTTLENECK, CODED, ALONE]
TABLE_6 = [
    Case(
        partial(SMALL, **ROWS[r]),
        INPUTS,
        (sum(map(lstm, INPUT_WIDTHS[r])), 0),
        oracle(r),
        name=f"row {r}",
    )
    for r in ROWS
]

test_checks = run_checks(CASES)

test_rows_of_table_6 = run_checks(TABLE_6, check_build, check_oracle)

test_arguments = arguments_act(
    [Case(partial(SMALL, autoencoder_after=(2,)), INPUTS, (0, 0)), TABLE_6[0], BOTTLENECK],
    autoencoder_after=(3,),
    recurrent_connection="residual",
    attentive_connection="none",
    embedding_connection="none",
)


def losses(layer, **call):
    layer._clear_losses()
    layer(**call, training=True)
    return [float(value(loss)) for loss in layer.losses]


@pytest.mark.each_backend
@pytest.mark.parametrize("sentences", [1, 2])
def test_loss_is_half_the_masked_squared_error_of_each_sentence(sentences):
    layer, (x, mask) = built(BOTTLENECK, dropout=0.0), SENTENCES.values()
    (loss,) = losses(layer, **SENTENCES, sentences=sentences)
    _, rebuilt = oracles.bottleneck(x, mask, *autoencoder_weights(layer))
    parts = zip(*(np.split(array, sentences) for array in (x, rebuilt, mask)))
    assert loss == pytest.approx(0.5 * sum(oracles.masked_mse(*p) for p in parts), rel=1e-5)
    layer._clear_losses()
    layer(**SENTENCES)
    assert layer.losses == []  # outside training


@pytest.mark.each_backend
def test_loss_trains_what_is_below_and_the_decoder():
    below, layer = keras.layers.Dense(6), AutoencoderBottleneck(3, dropout=0.0)
    x, mask = keras.Input((5, 6)), keras.Input((5,), dtype="bool")
    model = keras.Model([x, mask], layer(below(x), mask))
    model.compile(keras.optimizers.SGD(0.1), loss=None)
    weights = [below.kernel, layer.encoder.kernel, layer.decoder.kernel]
    before = [value(w) for w in weights]
    model.fit(list(SENTENCES.values()), np.zeros((4, 5, 3)), batch_size=4, verbose=0)
    assert all(abs(value(w) - b).max() > 0 for w, b in zip(weights, before))


@pytest.mark.each_backend
def test_one_sentence_alone():
    """Without attention a sentence gives the same states with and without the other."""
    layer = built(ALONE)
    for y, side in zip(layer(**INPUTS), "12"):
        alone = layer(INPUTS[f"x{side}"], mask_1=INPUTS[f"mask_{side}"])
        assert abs(value(alone) - value(y)).max() < 1e-6
    x = keras.Input((None, 6))
    assert layer(x, mask_1=keras.Input((None,), dtype="bool")).shape == (None, None, 11)
    assert (
        len(losses(layer, x1=INPUTS["x1"], mask_1=INPUTS["mask_1"])) == 1
    )  # three rows: no halves
