"""Scores of all pairs of tokens that are sums over features of what no matrix product can give."""

from typing import Any

from keras import ops


def pairwise_sum(x: Any, y: Any, weights: Any = None, *, chunk: int) -> Any:
    """`s_ij = sum_c |x_ci + y_cj|`, or with weights `sum_c w_c tanh(x_ci + y_cj)`.

    A loop takes `chunk` features at a time, so that no more than a few tensors `chunk` times as large as the result exist at
    once. The gradient is written out, for a backward pass through the loop would keep the tensors of all its steps.

    Args:
        x, y: `[F, ..., L]`; F must be known.
        weights: `[F]` or None.
        chunk: how many features at a time.

    Returns:
        `[..., L, L]`.
    """
    steps = -(-x.shape[0] // chunk)

    def split(t: Any) -> Any:
        """`[F, ...]` to `[steps, chunk, ...]`, with zeros behind, which add nothing."""
        t = ops.pad(t, [[0, steps * chunk - t.shape[0]]] + [[0, 0]] * (len(t.shape) - 1))
        return ops.reshape(t, (steps, chunk, *ops.shape(t)[1:]))

    def pairs(x: Any, y: Any) -> Any:
        return ops.expand_dims(x, -1) + ops.expand_dims(y, -2)

    def forward(x: Any, y: Any, w: Any = None) -> Any:
        if w is None:
            return ops.sum(ops.abs(pairs(x, y)), axis=0)
        return ops.tensordot(w, ops.tanh(pairs(x, y)), axes=1)

    def backward(upstream: Any, x: Any, y: Any, w: Any = None) -> tuple[Any, ...]:
        if w is None:
            slopes = ops.sign(pairs(x, y)) * upstream
            return ops.sum(slopes, axis=-1), ops.sum(slopes, axis=-2)
        values = ops.tanh(pairs(x, y))
        slopes = (1.0 - ops.square(values)) * upstream
        of_w = ops.sum(values * upstream, axis=tuple(range(1, len(values.shape))))
        w = ops.reshape(w, (-1,) + (1,) * (len(x.shape) - 1))
        return w * ops.sum(slopes, axis=-1), w * ops.sum(slopes, axis=-2), of_w

    @ops.custom_gradient
    def total(*operands: Any) -> Any:
        def step(i: Any, so_far: Any) -> Any:
            return so_far + forward(*(t[i] for t in operands))

        def gradient(*args: Any, upstream: Any = None) -> tuple[Any, ...]:
            upstream = args[0] if upstream is None else upstream
            return tuple(ops.map(lambda parts: backward(upstream, *parts), operands))

        first = forward(*(t[0] for t in operands))
        return ops.fori_loop(1, steps, step, first), gradient

    return total(*(split(t) for t in (x, y, weights) if t is not None))
