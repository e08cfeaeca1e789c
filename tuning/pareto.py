"""Trials that no other beats in everything."""

import numpy as np
from numpy.typing import ArrayLike


def pareto_front(costs: ArrayLike) -> list[int]:
    """The rows that no other row dominates: none is at most as costly in every column and less in one.

    Args:
        costs: Numbers, the less the better, [rows, columns].

    Returns:
        Row numbers in ascending order; of equal rows all or none.

    Example:

    >>> pareto_front([[1, 3], [2, 2], [2, 4], [3, 1]])
    [0, 1, 3]
    """
    rows = np.asarray(costs, float)
    below = (rows[:, None] <= rows).all(-1) & (rows[:, None] < rows).any(-1)  # [by, dominated]
    return np.flatnonzero(~below.any(0)).tolist()
