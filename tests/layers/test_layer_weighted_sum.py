"""LayerWeightedSum. The harness gives it one tensor; the tests below compare that with a list."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_sentmatch.layers.ladra_net import LayerWeightedSum
from tests import oracles_encoders
from tests.harness import Case, arguments_act, built, noise, run_checks, value

INPUTS = {"layers": noise(2, 4, 5, 3)}
LIST = [INPUTS["layers"][:, k] for k in range(4)]


def oracle(layer, layers):
    parts = [layers[:, k] for k in range(layers.shape[1])]
    return oracles_encoders.layer_weighted_sum(parts, value(layer.scalars), layer.normalize)


# No mask: what stands at padding is summed as everything else is.
EACH = {"pad_axes": {"layers": (2,)}, "zero_pads": False}
CASES = [
    Case(LayerWeightedSum, INPUTS, (4, 0), oracle, **EACH),
    Case(partial(LayerWeightedSum, normalize=False), INPUTS, (4, 0), oracle, name="free", **EACH),
]

test_checks = run_checks(CASES)


test_arguments = arguments_act(CASES)


@pytest.mark.parametrize("normalize", [True, False])
def test_it_starts_as_the_mean(normalize):
    y = LayerWeightedSum(normalize)(LIST)
    np.testing.assert_allclose(value(y), INPUTS["layers"].mean(1), atol=1e-6)


@pytest.mark.each_backend
def test_a_list_is_what_one_tensor_is(tmp_path):
    """Called, in a graph with unknown shapes, and loaded from a file."""
    layer = built(CASES[0])
    want = value(layer(INPUTS["layers"]))
    np.testing.assert_array_equal(value(layer(LIST)), want)
    inputs = [keras.Input((None, 3)) for _ in LIST]
    own = LayerWeightedSum()
    model = keras.Model(inputs, own(inputs))
    own.set_weights(layer.get_weights())
    assert model.output_shape == (None, None, 3)
    np.testing.assert_allclose(value(model(LIST)), want, atol=1e-6)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(value(again(LIST)), want, atol=1e-6)


@pytest.mark.each_backend
def test_half_precision_sums_in_float32():
    """12 layers in bfloat16: only their products and the result are rounded."""
    x = noise(1, 12, 50, 20, seed=3)
    y = LayerWeightedSum(dtype="mixed_bfloat16")(x)
    assert keras.backend.standardize_dtype(y.dtype) == "bfloat16"
    error = value(keras.ops.cast(y, "float32")) - x.mean(1)
    assert np.sqrt((error**2).mean()) < 2e-3 * np.abs(x.mean(1)).max()
