"""What the tests of the oracles share: masked noise, weights, ids of four sentence pairs."""

from typing import Any

import numpy as np


def noise(*shape: int, scale: float = 0.7, rng: Any = np.random) -> np.ndarray:
    """The same in every run: `conftest.fresh_state` seeds `np.random` before each test."""
    return rng.normal(size=shape) * scale


def same(got: Any, want: Any, message: str = "") -> None:
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11, err_msg=message)


def rnn(gates: int, width: int, units: int) -> list[np.ndarray]:
    """(kernel, recurrent, bias) of an LSTM (4 gates) or a GRU (3, two biases)."""
    bias = noise(2, 3 * units) if gates == 3 else noise(gates * units)
    return [noise(width, gates * units), noise(units, gates * units), bias]


def layer(*shape: int) -> tuple[np.ndarray, np.ndarray]:
    return noise(*shape), noise(shape[-1])


RNG = np.random.default_rng(3)
MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]], bool)
MASK_2 = np.array([[1, 1, 0], [1, 1, 1], [1, 0, 0]], bool)
X, Y = noise(3, 4, 5, rng=RNG), noise(3, 3, 5, rng=RNG)
NO_X = np.where(MASK[..., None], X, 99.0)  # rubbish at the pads
NO_Y = np.where(MASK_2[..., None], Y, 99.0)

TABLE = np.concatenate([np.zeros((1, 4)), noise(7, 4, rng=RNG)])
IDS = {
    "word_ids_1": np.array([[2, 3, 4, 0], [5, 6, 7, 1], [3, 0, 0, 0], [0, 0, 0, 0]]),
    "word_ids_2": np.array([[4, 3, 0], [5, 6, 7], [0, 0, 0], [2, 2, 0]]),
}
