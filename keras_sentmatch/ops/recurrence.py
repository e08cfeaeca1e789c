"""A loop over the positions of a sequence, for recurrences that Keras has no layer for."""

from collections.abc import Callable, Sequence
from typing import Any

import keras


def scan_sequence(
    step: Callable[[Any, Any], tuple[Any, Any]], x: Any, state: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """Carry `state` along the positions of `x` and collect an output from each.

    Runs the loop of `keras.layers.RNN` around a function, which may use any tensor in its scope.
    `keras.ops.scan` cannot replace it: on TensorFlow its outputs must have the shape of the state,
    so all states are kept, and XLA cannot differentiate it.

    Args:
        step: takes `[B, D]`, the values at one position, and the list of states; returns an output
            `[B, K]` and the list of new states.
        x: float `[B, L, D]` with `L >= 1`; `L` may be unknown. All positions are visited, so the
            step must deal with padding.
        state: initial states, tensors of any shape; they are cast to the dtype of `x`.

    Returns:
        The outputs `[B, L, K]` and the list of the last states.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.ops import scan_sequence
        >>> def running_sum(x, states):
        ...     return x + states[0], [x + states[0]]
        >>> x = np.array([[[1.0], [2.0], [3.0]]], "float32")
        >>> y, (last,) = scan_sequence(running_sum, x, [np.zeros((1, 1), "float32")])
        >>> [float(v) for v in y[0, :, 0]], float(last[0, 0])
        ([1.0, 3.0, 6.0], 6.0)
    """
    x = keras.ops.convert_to_tensor(x)
    dtype = keras.backend.standardize_dtype(x.dtype)
    loop = keras.layers.RNN(
        _Step(step, len(state), dtype), return_sequences=True, return_state=True, dtype=dtype
    )
    outputs, *last = loop(x, initial_state=list(state))
    return outputs, last


class _Step:
    """`step` as a cell for `keras.layers.RNN`."""

    def __init__(self, step: Callable[[Any, Any], tuple[Any, Any]], states: int, dtype: str):
        self.call = step
        self.state_size = [1] * states  # not used: the first states are given
        self.compute_dtype = dtype

    def __call__(self, x: Any, states: Any) -> tuple[Any, Any]:
        return self.call(x, states)
