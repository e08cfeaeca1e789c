"""Right-padded sequences: last state, reversal within the length, two sentences as one batch."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

from keras_sentmatch.ops.masking import zero_padding


def last_state(x: Any, mask: Any) -> Any:
    """Return the row of `x` at each sentence's last real token; zeros for an empty sentence.

    Args:
        x: `[B, L, D]`.
        mask: Boolean `[B, L]`, True = real token, right-padded.

    Returns:
        `[B, D]`.

    Example:
        >>> from keras_sentmatch.ops.sequence import last_state
        >>> y = last_state([[[1.0], [2.0], [3.0]]], [[True, True, False]])
        >>> float(y[0, 0])
        2.0
    """
    mask = ops.cast(mask, "bool")
    count = ops.cumsum(ops.cast(mask, "int32"), axis=1)
    last = ops.logical_and(mask, ops.equal(count, ops.max(count, axis=1, keepdims=True)))
    return ops.sum(zero_padding(ops.convert_to_tensor(x), last), axis=1)


def reverse_within_length(x: Any, mask: Any) -> Any:
    """Reverse the real tokens of every row and leave the padding at the end.

    Applied twice, it gives `x` again.

    Args:
        x: `[B, L, D]`.
        mask: Boolean `[B, L]`, True = real token, right-padded.

    Returns:
        `[B, L, D]`.

    Example:
        >>> from keras_sentmatch.ops.sequence import reverse_within_length
        >>> y = reverse_within_length([[[1.0], [2.0], [3.0], [0.0]]], [[True, True, True, False]])
        >>> [float(v[0]) for v in y[0]]
        [3.0, 2.0, 1.0, 0.0]
    """
    x = ops.convert_to_tensor(x)
    batch, length = ops.shape(x)[0], ops.shape(x)[1]
    position = ops.expand_dims(ops.arange(length, dtype="int32"), 0)
    count = ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True)
    source = ops.where(position < count, count - 1 - position, position)
    # One gather of whole rows from the flattened batch is much cheaper than take_along_axis over D.
    rows = ops.reshape(
        source + ops.expand_dims(ops.arange(batch, dtype="int32"), 1) * length, (-1,)
    )
    flat = ops.reshape(x, (-1, x.shape[-1]))
    return ops.reshape(ops.take(flat, rows, axis=0), ops.shape(x))


_EQUAL: ContextVar[bool] = ContextVar("equal lengths", default=False)


@contextmanager
def equal_lengths() -> Iterator[None]:
    """Promise `stack_pair` and `split_pair` that both sentences are padded to one length.

    A TensorFlow graph doesn't know the lengths. Without this context it pads the shorter sentence
    and cuts it again wherever the two are stacked.

    Example:
        >>> from keras import ops
        >>> from keras_sentmatch.ops.sequence import equal_lengths, stack_pair
        >>> with equal_lengths():
        ...     stacked = stack_pair(ops.ones((1, 3, 2)), ops.ones((1, 3, 2)))
        >>> tuple(stacked.shape)
        (2, 3, 2)
    """
    token = _EQUAL.set(True)
    try:
        yield
    finally:
        _EQUAL.reset(token)


def stack_pair(x1: Any, x2: Any) -> Any:
    """Stack two batches of sequences along the batch axis, padding the shorter one.

    Layers with shared weights then run only once.

    Args:
        x1, x2: `[B, L1, ...]` and `[B, L2, ...]`.

    Returns:
        `[2B, max(L1, L2), ...]`, padded with zeros (False for a mask). `split_pair` undoes it.
    """
    if _EQUAL.get():
        return ops.concatenate([x1, x2], axis=0)
    length_1, length_2 = ops.shape(x1)[1], ops.shape(x2)[1]
    known = isinstance(length_1, int) and isinstance(length_2, int)  # a graph may know only one
    if known and length_1 == length_2:
        return ops.concatenate([x1, x2], axis=0)
    longest = max(length_1, length_2) if known else ops.maximum(length_1, length_2)

    def pad(x: Any, length: Any) -> Any:
        dtype = keras.backend.standardize_dtype(x.dtype)
        x = ops.cast(x, "int32") if dtype == "bool" else x
        return ops.cast(
            ops.pad(x, [[0, 0], [0, longest - length]] + [[0, 0]] * (len(x.shape) - 2)), dtype
        )

    return ops.concatenate([pad(x1, length_1), pad(x2, length_2)], axis=0)


def split_pair(x: Any, length_1: Any, length_2: Any) -> tuple[Any, Any]:
    """Undo `stack_pair`: `[2B, L, ...]` to `[B, length_1, ...]` and `[B, length_2, ...]`."""
    x1, x2 = ops.split(x, 2, axis=0)
    return (x1, x2) if _EQUAL.get() else (x1[:, :length_1], x2[:, :length_2])
