"""Cosine and dot product, in float32 or wider; the gradient at a zero vector is zero, not NaN."""

from typing import Any

from keras import ops

from keras_sentmatch.ops.masking import at_least_float32


def unit_length(x: Any) -> Any:
    """`x / max(||x||, 1e-8)` over the last axis, in float32 or wider."""
    x = at_least_float32(x)
    return x * ops.rsqrt(ops.maximum(ops.sum(ops.square(x), axis=-1, keepdims=True), 1e-16))


def cosine(x: Any, y: Any) -> Any:
    """Cosine of the last axes: `<x, y> / (max(||x||, 1e-8) max(||y||, 1e-8))`.

    Args:
        x, y: float tensors `[..., D]` that broadcast against each other.

    Returns:
        `[...]` in float32 or wider; 0 where either vector is zero.
    """
    return ops.sum(unit_length(x) * unit_length(y), axis=-1)


def cosine_matrix(x: Any, y: Any) -> Any:
    """Cosine of every pair of rows: `[B, L1, D]` and `[B, L2, D]` to `[B, L1, L2]`.

    Example:
        >>> from keras_sentmatch.ops import cosine_matrix
        >>> matrix = cosine_matrix([[[3.0, 0.0], [0.0, 0.0]]], [[[5.0, 0.0], [0.0, 1.0]]])
        >>> [[float(c) for c in row] for row in matrix[0]]
        [[1.0, 0.0], [0.0, 0.0]]
    """
    return ops.matmul(unit_length(x), ops.transpose(unit_length(y), (0, 2, 1)))


def dot_matrix(x: Any, y: Any) -> Any:
    """Dot product of every pair of rows: `[B, L1, D]` and `[B, L2, D]` to `[B, L1, L2]`."""
    return ops.matmul(at_least_float32(x), ops.transpose(at_least_float32(y), (0, 2, 1)))
