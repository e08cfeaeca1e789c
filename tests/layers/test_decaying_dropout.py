"""DecayingDropout."""

import keras
import numpy as np
import pytest

from keras_sentmatch.layers.diin import DecayingDropout
from tests.harness import Case, noise, run_checks, value

CASES = [Case(DecayingDropout, {"x": noise(2, 5, 4)}, (0, 1), lambda layer, x: x, zero_pads=False)]
ONES = np.ones((100, 100), "float32")

test_checks = run_checks(CASES)


def drop(layer, steps):
    for _ in range(steps):
        y = value(layer(ONES, training=True))
    return y


def test_keeps_less_with_every_step():
    layer = DecayingDropout(rate=0.2, decay=0.5, decay_steps=2, seed=0)
    keep = 0.8 * 0.5 ** (np.arange(4) / 2)
    for share in keep:
        y = drop(layer, 1)
        assert abs((y != 0).mean() - share) < 0.02
        np.testing.assert_allclose(y[y != 0], 1 / share, rtol=1e-5)
    assert abs(float(layer.keep()) - 0.2) < 1e-6 and int(layer.steps) == 4
    assert (value(layer(ONES)) == 1).all() and int(layer.steps) == 4  # not in training


def test_options():
    plain = DecayingDropout(rate=0.3, decay=1.0, decay_steps=1, seed=0)
    assert abs((drop(plain, 5) != 0).mean() - 0.7) < 0.02
    assert (drop(DecayingDropout(), 1) == 1).all()  # the paper's: nothing at first
    slow, fast = (DecayingDropout(decay=0.9, decay_steps=n) for n in (100, 1))
    drop(slow, 2), drop(fast, 2)
    assert float(slow.keep()) > float(fast.keep())
    one, same, other = (drop(DecayingDropout(0.5, seed=s), 1) for s in (1, 1, 2))
    assert (one == same).all() and (one != other).any()


@pytest.mark.each_backend
def test_fit_counts_steps_and_a_file_keeps_them(tmp_path):
    inputs = keras.Input((4,))
    outputs = keras.layers.Dense(1)(DecayingDropout(name="dropout")(inputs))
    model = keras.Model(inputs, outputs)
    model.compile("sgd", "mse")
    x = np.ones((12, 4), "float32")
    model.fit(x, x[:, :1], batch_size=4, epochs=2, verbose=0)
    model.evaluate(x, x[:, :1], verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert int(again.get_layer("dropout").steps) == int(model.get_layer("dropout").steps) == 6
