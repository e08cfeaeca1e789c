"""Inputs of the tests of layers."""

from tests.case import lengths_mask, noise

ONE = {"x": noise(3, 5, 4), "mask": lengths_mask([5, 2, 1], 5)}
TWO = {
    "x1": noise(3, 5, 4),
    "x2": noise(3, 3, 4, seed=1),
    "mask_1": lengths_mask([5, 2, 1], 5),
    "mask_2": lengths_mask([3, 3, 2], 3),
}
