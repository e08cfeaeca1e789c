"""Right-padded sequences: last state, reversal within the length, two sentences in one batch."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

from keras_sentmatch.ops.masking import zero_padding


def last_state(x: Any, mask: Any) -> Any:
    """Return the row of `[B, L, D]` at each last real token, `[B, D]`; zeros if a row is empty."""
    mask = ops.cast(mask, "bool")
    count = ops.cumsum(ops.cast(mask, "int32"), axis=1)
    last = ops.logical_and(mask, ops.equal(count, ops.max(count, axis=1, keepdims=True)))
    return ops.sum(zero_padding(ops.convert_to_tensor(x), last), axis=1)


def reverse_within_length(x: Any, mask: Any) -> Any:
    """Reverse the real tokens of every row of `[B, L, D]` and leave the padding at the end."""
    x = ops.convert_to_tensor(x)
    batch, length = ops.shape(x)[0], ops.shape(x)[1]
    position = ops.expand_dims(ops.arange(length, dtype="int32"), 0)
    count = ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True)
    source = ops.where(ops.less(position, count), count - 1 - position, position)
    # Gathering whole rows of the flattened batch is much cheaper than take_along_axis over D.
    rows = ops.reshape(
        source + ops.expand_dims(ops.arange(batch, dtype="int32"), 1) * length, (-1,)
    )
    flat = ops.reshape(x, (-1, x.shape[-1]))
    return ops.reshape(ops.take(flat, rows, axis=0), ops.shape(x))


_EQUAL: ContextVar[bool] = ContextVar("equal lengths", default=False)


@contextmanager
def equal_lengths() -> Iterator[None]:
    """Promise `stack_pair` and `split_pair` that both sentences are padded to one length.

    A TensorFlow graph does not know the lengths. Without this context it pads and cuts the shorter
    sentence wherever the two are stacked.
    """
    token = _EQUAL.set(True)
    try:
        yield
    finally:
        _EQUAL.reset(token)


def stack_pair(x1: Any, x2: Any) -> Any:
    """Stack `[B, L1, ...]` and `[B, L2, ...]` to `[2B, max(L1, L2), ...]`, so that layers run once.

    The shorter one is padded with zeros, or with False. `split_pair` undoes it.
    """
    length_1, length_2 = ops.shape(x1)[1], ops.shape(x2)[1]
    known = isinstance(length_1, int) and isinstance(length_2, int)
    if _EQUAL.get() or (known and length_1 == length_2):
        return ops.concatenate([x1, x2], axis=0)
    longest = max(length_1, length_2) if known else _longest(length_1, length_2)

    def pad(x: Any, length: Any) -> Any:
        dtype = keras.backend.standardize_dtype(x.dtype)
        x = ops.cast(x, "int32") if dtype == "bool" else x
        return ops.cast(
            ops.pad(x, [[0, 0], [0, longest - length]] + [[0, 0]] * (len(x.shape) - 2)), dtype
        )

    return ops.concatenate([pad(x1, length_1), pad(x2, length_2)], axis=0)


def split_pair(x: Any, length_1: Any, length_2: Any) -> tuple[Any, Any]:
    """Undo `stack_pair`: `[2B, L, ...]` to `[B, length_1, ...]` and `[B, length_2, ...]`."""
    known = isinstance(length_1, int) and isinstance(length_2, int)
    if _EQUAL.get() or (known and length_1 == length_2 == ops.shape(x)[1]):
        # One operation, in ONNX too, with a quick gradient. LiteRT cannot split Boolean tensors.
        dtype = keras.backend.standardize_dtype(x.dtype)
        halves = ops.split(ops.cast(x, "int32") if dtype == "bool" else x, 2)
        x1, x2 = (ops.cast(half, dtype) for half in halves)
        return x1, x2
    half = ops.shape(x)[0] // 2
    return x[:half, :length_1], x[half:, :length_2]


def _longest(length_1: Any, length_2: Any) -> Any:
    """The maximum of two lengths that are not known yet."""
    if keras.backend.backend() == "jax":  # exported with symbolic sizes
        import jax

        return jax.core.max_dim(length_1, length_2)
    longest = ops.maximum(length_1, length_2)
    if keras.backend.backend() == "torch":  # sizes in ONNX are int64
        return ops.cast(longest, "int64")
    return longest
