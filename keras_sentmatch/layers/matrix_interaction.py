"""The interaction of DIN: a recurrence of matrices over the premise, for every word of the hypothesis."""

import math
from typing import Any

import keras
from keras import ops

from keras_sentmatch.ops import at_least_float32, pair_mask, scan_sequence, zero_padding


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class MatrixInteraction(keras.layers.Layer):
    """Reads sentence 1 once for every word of sentence 2, in matrices: `[B, L2, d]`.

    Words are matrices `n x n`, written as vectors of `d = n * n` numbers, row by row. For each word `t` of sentence 2 a
    recurrence runs over the words `s` of sentence 1, with matrix products:

    `W_t,s = tanh(P_s H_t + W_inter W_t,s-1 + b_inter)`, `W_t,0 = 0`

    The result is `W_t` after the last word of sentence 1. It takes `L1` steps, each for all `t` at once. The products of all
    pairs of words are never held together: the state is `B * L2 * d` numbers, and only training keeps it from every step.

    Call arguments:
        x1: `[B, L1, d]`, the matrices `P`; `d` a perfect square.
        x2: `[B, L2, d]`, the matrices `H`.
        mask_1: boolean `[B, L1]`, True = real token.
        mask_2: boolean `[B, L2]`.
        return_norms: whether to return the norms of all `W_t,s` as well. Defaults to `False`.

    Output shape:
        `[B, L2, d]`; with `return_norms` also `[B, L2, L1]`, the Frobenius norms, up to `n`.

    Masking:
        The state passes over padding of sentence 1 unchanged; padded rows, and norms at padding, are zeros. An empty
        sentence 1 gives zeros.

    Raises:
        ValueError: if `d` is not a perfect square, or differs between the sentences.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import MatrixInteraction
        >>> p, h = np.ones((1, 2, 4), "float32"), np.ones((1, 3, 4), "float32")
        >>> mask_p, mask_h = np.array([[True, True]]), np.array([[True, True, False]])
        >>> _, norms = MatrixInteraction()(p, h, mask_p, mask_h, return_norms=True)
        >>> tuple(norms.shape), round(float(norms[0, 0, 0]), 3), float(norms[0, 2, 0])
        ((1, 3, 2), 1.928, 0.0)

    References:
        Huo, Liu: DIN, eq 8, and 28-29 for the norms.
    """

    def build(
        self,
        x1_shape: Any,
        x2_shape: Any = None,
        mask_1_shape: Any = None,
        mask_2_shape: Any = None,
    ) -> None:
        width = x1_shape[-1]
        self.side = math.isqrt(width)
        if self.side**2 != width or (x2_shape is not None and x2_shape[-1] != width):
            raise ValueError(
                "x1 and x2 must have the same last dimension, a perfect square such as 256, 324 or 400. "
                f"Received: x1.shape={tuple(x1_shape)}, x2.shape={x2_shape and tuple(x2_shape)}"
            )
        square = (self.side, self.side)
        self.kernel = self.add_weight(shape=square, initializer="orthogonal", name="kernel")
        self.bias = self.add_weight(shape=square, initializer="zeros", name="bias")

    def call(self, x1: Any, x2: Any, mask_1: Any, mask_2: Any, return_norms: bool = False) -> Any:
        n, batch, length = self.side, ops.shape(x2)[0], ops.shape(x2)[1]
        # The words of sentence 2 stand side by side, [B, n, L2 * n]: one product a step for all of them.
        h = ops.transpose(ops.reshape(x2, (batch, length, n, n)), (0, 2, 1, 3))
        h = ops.reshape(h, (batch, n, length * n))
        kernel = ops.cast(self.kernel, x1.dtype)
        bias = ops.cast(ops.tile(self.bias, (1, length)), x1.dtype)

        def step(x: Any, states: Any) -> tuple[Any, list[Any]]:
            p, real, w = ops.reshape(x[:, :-1], (batch, n, n)), x[:, -1:, None] > 0, states[0]
            new = ops.tanh(ops.matmul(p, h) + ops.matmul(kernel, w) + bias)
            w = ops.where(real, new, w)
            if not return_norms:
                return w[:, 0, :1], [w]  # an output is needed, its value isn't
            squares = ops.square(at_least_float32(ops.reshape(w, (batch, n, length, n))))
            return ops.sqrt(ops.maximum(ops.sum(squares, axis=(1, 3)), 1e-12)), [w]

        real = ops.expand_dims(ops.cast(mask_1, x1.dtype), -1)
        norms, (w,) = scan_sequence(step, ops.concatenate([x1, real], axis=-1), [ops.zeros_like(h)])
        w = ops.transpose(ops.reshape(w, (batch, n, length, n)), (0, 2, 1, 3))
        w = zero_padding(ops.reshape(w, (batch, length, n * n)), mask_2)
        if not return_norms:
            return w
        norms = ops.transpose(norms, (0, 2, 1))
        return w, ops.where(pair_mask(mask_2, mask_1), norms, ops.cast(0, norms.dtype))

    def compute_output_spec(
        self, x1: Any, x2: Any, mask_1: Any, mask_2: Any, return_norms: bool = False
    ) -> Any:
        w = keras.KerasTensor(x2.shape, dtype=self.compute_dtype)
        norms = keras.KerasTensor((*x2.shape[:2], x1.shape[1]), dtype=self.compute_dtype)
        return (w, norms) if return_norms else w
