"""AutoencoderBottleneck: the code, and the reconstruction loss."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_sentmatch.layers import AutoencoderBottleneck
from tests import oracles
from tests.harness import Case, arguments_act, built, lengths_mask, noise, run_checks, value

INPUTS = {"x": noise(4, 5, 6), "mask": lengths_mask([5, 2, 1, 4], 5)}


def weights_of(layer):
    return [
        value(w)
        for w in (
            layer.encoder.kernel,
            layer.encoder.bias,
            layer.decoder.kernel,
            layer.decoder.bias,
        )
    ]


def oracle(layer, x, mask):
    return np.tanh(x @ weights_of(layer)[0] + weights_of(layer)[1])


CASES = [
    Case(
        partial(AutoencoderBottleneck, units=3),
        INPUTS,
        (6 * 3 + 3 + 3 * 6 + 6, 0),
        oracle,
        zero_pads=False,  # the code of a pad is what it is; the layer's users mask it
        unused=(
            "decoder",
        ),  # only the reconstruction loss reaches it: see test_loss_trains_the_decoder
    )
]

test_checks = run_checks(CASES)


def losses(training=True, **arguments):
    layer = built(CASES[0], dropout=0.0, **arguments)
    layer._clear_losses()
    layer(**INPUTS, training=training)
    return layer, [float(value(loss)) for loss in layer.losses]


@pytest.mark.each_backend
def test_loss_is_the_masked_squared_error():
    layer, (loss,) = losses()
    x, mask = INPUTS["x"], INPUTS["mask"]
    _, rebuilt = oracles.bottleneck(x, mask, *weights_of(layer))
    assert loss == pytest.approx(oracles.masked_mse(x, rebuilt, mask), rel=1e-5)
    _, (weighted,) = losses(loss_weight=0.5)
    assert weighted == pytest.approx(loss / 2, rel=1e-5)


@pytest.mark.each_backend
def test_two_groups_count_alike():
    layer, (loss,) = losses(groups=2)
    x, mask = INPUTS["x"], INPUTS["mask"]
    _, rebuilt = oracles.bottleneck(x, mask, *weights_of(layer))
    halves = [oracles.masked_mse(x[s], rebuilt[s], mask[s]) for s in (slice(0, 2), slice(2, 4))]
    assert loss == pytest.approx(oracles.autoencoder_loss(*halves), rel=1e-5)


@pytest.mark.each_backend
def test_no_loss_outside_training_or_with_weight_zero():
    assert losses(training=False)[1] == []
    assert losses(loss_weight=0.0)[1] == []


def trained(**arguments):
    """How far one step on the reconstruction loss alone moves a layer below, the encoder and the decoder."""
    below = keras.layers.Dense(6, name="below")
    layer = AutoencoderBottleneck(3, dropout=0.0, **arguments)
    x, mask = keras.Input((5, 6)), keras.Input((5,), dtype="bool")
    code = layer(below(x), mask)
    model = keras.Model([x, mask], code)
    model.compile(keras.optimizers.SGD(0.1), loss=None)
    weights = [below.kernel, layer.encoder.kernel, layer.decoder.kernel]
    before = [value(w) for w in weights]
    model.fit([INPUTS["x"], INPUTS["mask"]], np.zeros((4, 5, 3)), batch_size=4, verbose=0)
    return [float(abs(value(w) - b).max()) for w, b in zip(weights, before)]


@pytest.mark.each_backend
def test_loss_trains_the_decoder_and_stop_gradient_holds_the_target():
    free, held = trained(), trained(stop_gradient=True)
    assert min(free) > 0 and min(held[1:]) > 0
    assert free[0] != pytest.approx(held[0], rel=1e-3)


test_arguments = arguments_act(CASES, "groups", "stop_gradient")
