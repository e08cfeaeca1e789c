"""Dropout: how much it drops, and what is left."""

import numpy as np
import pytest
from keras import ops

from keras_sentmatch.layers.dropout import Dropout
from tests.case import value


@pytest.mark.each_backend
def test_a_share_of_the_numbers_is_dropped_and_the_mean_stays():
    layer, x = Dropout(0.25), np.ones((41, 53, 61), "float32")
    one, two = (value(layer(x, training=True)) for _ in range(2))
    assert np.mean(one == 0) == pytest.approx(0.25, abs=0.006)  # five standard deviations
    assert np.unique(one) == pytest.approx([0, 4 / 3], abs=1e-4)
    assert np.mean(one == two) == pytest.approx(0.625, abs=0.01), "each call draws its own mask"
    assert np.corrcoef(one.reshape(-1)[1:], one.reshape(-1)[:-1])[0, 1] == pytest.approx(
        0, abs=0.02
    )
    np.testing.assert_array_equal(value(layer(x)), x)
    np.testing.assert_array_equal(value(Dropout(0.0)(ops.ones((2, 3)), training=True)), 1)
