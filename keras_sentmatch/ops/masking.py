"""Masked softmax, mean and maximum.

A mask is boolean, True = real token. A row without any True gives zeros, never NaN. Sums and
exponentials are computed in float32 or wider under every dtype policy.
"""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.errors import InputError


def at_least_float32(x: Any) -> Any:
    """Cast float16 and bfloat16 to float32; leave float32 and float64 as they are."""
    x = ops.convert_to_tensor(x)
    wide = keras.backend.standardize_dtype(x.dtype) in ("float32", "float64")
    return x if wide else ops.cast(x, "float32")


def masked_softmax(scores: Any, mask: Any, axis: int = -1) -> Any:
    """Softmax over the positions of `axis` whose mask is True.

    Args:
        scores: Float tensor.
        mask: Boolean tensor that broadcasts to `scores`, True = real.
        axis: Axis over which the weights sum to 1.

    Returns:
        Weights with the shape and dtype of `scores`: exactly 0 where masked, all 0 in an empty row.

    Example:
        >>> weights = masked_softmax(
        ...     [[1.0, 1.0, 9.0], [1.0, 2.0, 3.0]], [[True, True, False], [False] * 3]
        ... )
        >>> [[float(w) for w in row] for row in weights]
        [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
    """
    scores = ops.convert_to_tensor(scores)
    wide = at_least_float32(scores)
    mask = ops.cast(mask, "bool")
    wide = ops.where(mask, wide, ops.cast(-1e9, wide.dtype))
    weights = ops.where(mask, ops.softmax(wide, axis=axis), ops.cast(0, wide.dtype))
    return ops.cast(weights, scores.dtype)


def masked_mean(x: Any, mask: Any, axis: int = 1) -> Any:
    """Mean of `x` over the real positions of `axis`.

    Args:
        x: Float tensor, for example `[B, L, D]`.
        mask: Boolean tensor with the axes of `x` up to and including `axis`, such as `[B, L]`.
        axis: Axis to average over, at least 0.

    Returns:
        The mean in the dtype of `x`; zeros for an empty row.
    """
    x = ops.convert_to_tensor(x)
    wide = at_least_float32(x)
    weights = ops.cast(_expand(mask, wide, axis), wide.dtype)
    total = ops.sum(wide * weights, axis=axis)
    return ops.cast(total / ops.maximum(ops.sum(weights, axis=axis), 1.0), x.dtype)


def masked_max(x: Any, mask: Any, axis: int = 1) -> Any:
    """Maximum of `x` over the real positions of `axis`; zeros for an empty row.

    The arguments are those of `masked_mean`.
    """
    x = ops.convert_to_tensor(x)
    mask = _expand(mask, x, axis)
    highest = _Max(axis)(_lower_padding(x, mask))
    return ops.where(ops.any(mask, axis=axis), highest, ops.cast(0, x.dtype))


def masked_argmax(x: Any, mask: Any, axis: int = 1) -> Any:
    """Position (int32) of the maximum over the real positions of `axis`; 0 for an empty row."""
    x = ops.convert_to_tensor(x)
    return ops.cast(ops.argmax(_lower_padding(x, _expand(mask, x, axis)), axis=axis), "int32")


def pair_mask(mask_1: Any, mask_2: Any) -> Any:
    """Combine `[B, L1]` and `[B, L2]` to `[B, L1, L2]`: True where both tokens are real."""
    return ops.logical_and(ops.expand_dims(mask_1, 2), ops.expand_dims(mask_2, 1))


def zero_padding(x: Any, mask: Any) -> Any:
    """Set the padded positions of `[B, L, D]` to zero."""
    return ops.where(ops.expand_dims(mask, -1), x, ops.cast(0, x.dtype))


def max_pool_rates(x: Any, mask: Any) -> Any:
    """Return the share of the features of `masked_max` that come from each token (DRCN, Fig 5).

    `x` is `[B, L, D]` and the rates are `[B, L]`, zeros at padding.
    """
    mask = ops.convert_to_tensor(mask)
    source = ops.expand_dims(masked_argmax(x, mask), 1)  # [B, 1, D]
    index = ops.cumsum(ops.ones_like(mask, dtype="int32"), axis=1) - 1
    comes_from = ops.equal(ops.expand_dims(index, 2), source)  # [B, L, D]
    rates = ops.mean(ops.cast(comes_from, "float32"), axis=-1)
    return ops.where(mask, rates, 0.0)


def _expand(mask: Any, x: Any, axis: int) -> Any:
    """Append axes of size 1 to `mask`, which has the first axes of `x`."""
    if axis < 0:
        raise InputError(f"axis must be at least 0: count from the front. Received: axis={axis}")
    mask = ops.cast(mask, "bool")
    for _ in range(len(x.shape) - len(mask.shape)):
        mask = ops.expand_dims(mask, -1)
    return mask


def _lower_padding(x: Any, mask: Any) -> Any:
    """Set the masked positions of `x` to the lowest finite number of its dtype."""
    lowest = -65504.0 if keras.backend.standardize_dtype(x.dtype) == "float16" else -3.38e38
    return ops.where(mask, x, ops.cast(lowest, x.dtype))


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class _Max(keras.Operation):
    """`ops.max` with a finite gradient on JAX.

    JAX divides the gradient among the positions that equal the maximum. XLA may compute `x` again
    and round it differently, so that no position is equal: 0 / 0. Here the gradient goes to the
    first maximum.
    """

    def __init__(self, axis: int, name: str | None = None) -> None:
        super().__init__(name=name)
        self.axis = axis

    def compute_output_spec(self, x: Any) -> Any:
        return keras.KerasTensor((*x.shape[: self.axis], *x.shape[self.axis + 1 :]), x.dtype)

    def call(self, x: Any) -> Any:
        if keras.config.backend() != "jax":
            return ops.max(x, axis=self.axis)

        def highest(x: Any) -> Any:
            def gradient(upstream: Any) -> Any:
                place, size = ops.argmax(x, axis=self.axis), x.shape[self.axis]
                first = ops.one_hot(place, size, axis=self.axis, dtype=x.dtype)
                return first * ops.expand_dims(upstream, self.axis)

            return ops.max(x, axis=self.axis), gradient

        function: Any = ops.custom_gradient(highest)
        return function(x)
