"""AutoencoderBottleneck: the code, and the reconstruction loss."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_sentmatch.layers.drcn import AutoencoderBottleneck
from tests import oracles
from tests.harness import Case, arguments_act, built, lengths_mask, noise, run_checks, value

INPUTS = {"x": noise(4, 5, 6), "mask": lengths_mask([5, 2, 1, 4], 5)}


def weights_of(layer):
    return [
        value(w) for dense in (layer.encoder, layer.decoder) for w in (dense.kernel, dense.bias)
    ]


def oracle(layer, x, mask):
    kernel, bias, *_ = weights_of(layer)
    return np.tanh(x @ kernel + bias)


CASES = [
    Case(
        partial(AutoencoderBottleneck, units=3),
        INPUTS,
        (6 * 3 + 3 + 3 * 6 + 6, 0),
        oracle,
        zero_pads=False,  # the code of a pad is what it is; the layer's users mask it
        unused=("decoder",),  # only the reconstruction loss reaches it: see below
    )
]

test_checks = run_checks(CASES)

test_arguments = arguments_act(CASES)


def losses(**options):
    layer = built(CASES[0], dropout=0.0)
    layer._clear_losses()
    layer(**INPUTS, **options)
    return layer, [float(value(loss)) for loss in layer.losses]


@pytest.mark.each_backend
@pytest.mark.parametrize("sentences", [1, 2])
def test_loss_is_half_the_masked_squared_error_of_each_sentence(sentences):
    layer, (loss,) = losses(training=True, sentences=sentences)
    x, mask = INPUTS["x"], INPUTS["mask"]
    _, rebuilt = oracles.bottleneck(x, mask, *weights_of(layer))
    parts = zip(*(np.split(array, sentences) for array in (x, rebuilt, mask)))
    assert loss == pytest.approx(0.5 * sum(oracles.masked_mse(*p) for p in parts), rel=1e-5)
    assert losses()[1] == []  # outside training


@pytest.mark.each_backend
def test_loss_trains_what_is_below_and_the_decoder():
    below, layer = keras.layers.Dense(6), AutoencoderBottleneck(3, dropout=0.0)
    x, mask = keras.Input((5, 6)), keras.Input((5,), dtype="bool")
    model = keras.Model([x, mask], layer(below(x), mask))
    model.compile(keras.optimizers.SGD(0.1), loss=None)
    weights = [below.kernel, layer.encoder.kernel, layer.decoder.kernel]
    before = [value(w) for w in weights]
    model.fit([INPUTS["x"], INPUTS["mask"]], np.zeros((4, 5, 3)), batch_size=4, verbose=0)
    assert all(abs(value(w) - b).max() > 0 for w, b in zip(weights, before))
