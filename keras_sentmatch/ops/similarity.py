"""Scores of all pairs of tokens, in float32 or wider."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_sentmatch.ops.masking import at_least_float32


def unit_length(x: Any) -> Any:
    """Return `x / max(||x||, 1e-8)` over the last axis; the gradient at zero is zero, not NaN."""
    x = at_least_float32(x)
    return x * ops.rsqrt(ops.maximum(ops.sum(ops.square(x), axis=-1, keepdims=True), 1e-16))


def cosine_matrix(x: Any, y: Any) -> Any:
    """Return the cosine of every pair of rows: `[B, L1, D]` and `[B, L2, D]` to `[B, L1, L2]`."""
    return ops.matmul(unit_length(x), ops.transpose(unit_length(y), (0, 2, 1)))


def dot_matrix(x: Any, y: Any) -> Any:
    """Return the dot product of every pair of rows, `[B, L1, L2]`."""
    return ops.matmul(at_least_float32(x), ops.transpose(at_least_float32(y), (0, 2, 1)))


def pairwise_sum(x: Any, y: Any, weights: Any = None) -> Any:
    """Return `s_ij = sum_c |x_ci + y_cj|`, or with weights `sum_c w_c tanh(x_ci + y_cj)`.

    `x` and `y` are `[F, ..., L]` with a known F, `weights` is `[F]`, the result `[..., L, L]`. A loop
    adds one feature at a time, so that only a few tensors of the size of the result exist at once.
    The gradient is written out because a backward pass through the loop would keep the tensors of
    all its steps.
    """

    def pairs(x: Any, y: Any) -> Any:
        return ops.expand_dims(x, -1) + ops.expand_dims(y, -2)

    def forward(x: Any, y: Any, w: Any = None) -> Any:
        return ops.abs(pairs(x, y)) if w is None else w * ops.tanh(pairs(x, y))

    def backward(upstream: Any, x: Any, y: Any, w: Any = None) -> tuple[Any, ...]:
        if w is None:
            slopes = ops.sign(pairs(x, y)) * upstream
            return ops.sum(slopes, axis=-1), ops.sum(slopes, axis=-2)
        values = ops.tanh(pairs(x, y))
        slopes = (1.0 - ops.square(values)) * upstream
        return (
            w * ops.sum(slopes, axis=-1),
            w * ops.sum(slopes, axis=-2),
            ops.sum(values * upstream),
        )

    def total(*operands: Any) -> Any:
        def step(i: Any, so_far: Any) -> Any:
            return so_far + forward(*(t[i] for t in operands))

        def gradient(*args: Any, upstream: Any = None) -> tuple[Any, ...]:
            upstream = args[0] if upstream is None else upstream
            return _by_feature(lambda parts: backward(upstream, *parts), operands)

        first = forward(*(t[0] for t in operands))
        return ops.fori_loop(1, x.shape[0], step, first), gradient

    total_with_gradient = ops.custom_gradient(total)

    # Flattening copies PyTorch's transposed views, which would make each step slow.
    length = ops.shape(x)[-1]
    shape = (*ops.shape(x)[1:], length)
    x, y = (ops.reshape(t, (t.shape[0], -1, length)) for t in (x, y))
    return ops.reshape(total_with_gradient(*(t for t in (x, y, weights) if t is not None)), shape)


def _by_feature(gradient: Callable[[Any], Any], operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """`ops.map` of a function whose results have the shapes of `operands`.

    On PyTorch the results go into tensors that are allocated first. Otherwise small results stay
    between large tensors, and the memory that these free is too fragmented to be used again.
    """
    if keras.backend.backend() != "torch":
        return tuple(ops.map(gradient, operands))
    found = tuple(ops.zeros_like(operand) for operand in operands)
    for i in range(len(operands[0])):
        for whole, part in zip(found, gradient(tuple(operand[i] for operand in operands))):
            whole[i] = part
    return found
