"""Checks of what the metrics are given."""

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.errors import InputError


def columns(**named: ArrayLike) -> tuple[np.ndarray, ...]:
    """Each argument as a 1-D array ([n, 1] is flattened), all equally long and not empty."""
    arrays = {}
    for name, value in named.items():
        array = np.asarray(value)
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != 1:
            raise InputError(f"`{name}` has shape {array.shape}; expected one value per row, [n].")
        arrays[name] = array
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) != 1:
        counts = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InputError(f"Columns of unequal length: {counts}. Give one value for every row.")
    if not all(lengths.values()):
        raise InputError("No rows to score. Give at least one.")
    return tuple(arrays.values())


def integers(name: str, values: np.ndarray) -> np.ndarray:
    """Refuses probabilities and one-hot rows where label numbers are expected."""
    if values.dtype != bool and not np.issubdtype(values.dtype, np.integer):
        raise InputError(
            f"`{name}` has dtype {values.dtype}; expected integer label numbers. "
            "From probabilities take `probabilities.argmax(-1)` first."
        )
    return values.astype("int64")


def finite(name: str, values: np.ndarray) -> np.ndarray:
    """Values as float64; NaN and infinities are refused, since they have no rank and no mean."""
    values = values.astype("float64")
    bad = int((~np.isfinite(values)).sum())
    if bad:
        raise InputError(
            f"{bad} of {len(values)} values of `{name}` are NaN or infinite; expected finite "
            "numbers. A model that gives them has diverged: lower the learning rate."
        )
    return values
