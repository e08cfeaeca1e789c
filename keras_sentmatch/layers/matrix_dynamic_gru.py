"""The body of DIN: matrices of words, their interaction, and a GRU whose weights it makes anew at every word."""

import math
from typing import Any

import keras
from keras import ops

from keras_sentmatch.layers.matrix_interaction import MatrixInteraction
from keras_sentmatch.ops import at_least_float32, scan_sequence, zero_padding

VARIANTS = ("din1", "din2", "static")
CONCATS = ("sum", "split")
GATES = ("update", "reset", "candidate")


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class MatrixDynamicGRU(keras.layers.Layer):
    """A GRU over sentence 2 whose weights come, at each word, from how that word interacts with sentence 1.

    Words of both sentences become `n x n` matrices, `tanh(x W + b)`; `MatrixInteraction` gives a matrix `W_t` for each word
    of sentence 2. From it come the weights of the GRU's step `t`, and these control what the step lets through:

    - `"din1"`: all in matrices. Weight `tanh(W_con W_t + b_con)`, bias `tanh(B_con W_t)`, for each of the gates `z`, `r` and
      the candidate `h`; `Z = sigmoid(W_z [H, X] + b_z)`, and so on, with matrix products.
    - `"din2"`: all in vectors of `d` numbers, made by `d x d` matrices from the flattened `W_t`; they scale element by
      element.
    - `"static"`: an ordinary GRU fed the flattened `W_t`, without dynamic weights.

    Args:
        units: width `d = n * n` of a state; a perfect square.
        variant: `"din1"`, `"din2"` or `"static"`. Defaults to `"din1"`.
        concat: how `"din1"` multiplies the bracket `[H, X]`: `"sum"`, one weight for `H + X`, which is what the paper's
            shapes and counts allow; `"split"`, one weight made for each. Defaults to `"sum"`.
        use_bias: whether `b_con` (in `"static"`: the GRU's bias) is there. Defaults to `True`.
        shared_transform: whether one layer makes the matrices of both sentences. Defaults to `False`.

    Call arguments:
        x1: `[B, L1, D1]`, states of sentence 1 (the premise).
        x2: `[B, L2, D2]`, words or states of sentence 2 (the hypothesis); with `shared_transform`, `D2 = D1`.
        mask_1: boolean `[B, L1]`, True = real token, right-padded.
        mask_2: boolean `[B, L2]`.
        return_norms: whether to return what the explainer shows. Defaults to `False`.

    Output shape:
        `[B, L2, units]`. With `return_norms` also `[B, L2, L1]`, the norms of all interaction matrices, and, unless
        `"static"`, `[B, L2, 3]`, those of the weights made for `z`, `r` and `h`.

    Masking:
        Padding changes nothing, and padded rows are zeros. An empty sentence 1 gives `W_t = 0`.

    Raises:
        ValueError: for `units` that is no perfect square, an unknown `variant` or `concat`.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import MatrixDynamicGRU
        >>> p, h = np.ones((1, 2, 5), "float32"), np.ones((1, 3, 7), "float32")
        >>> mask_p, mask_h = np.array([[True, True]]), np.array([[True, True, False]])
        >>> y = MatrixDynamicGRU(units=9)(p, h, mask_p, mask_h)
        >>> tuple(y.shape), [float(v) for v in y[0, 2, :3]]
        ((1, 3, 9), [0.0, 0.0, 0.0])

    References:
        Huo, Liu: DIN, eq 7-23.
    """

    def __init__(
        self,
        units: int,
        variant: str = "din1",
        concat: str = "sum",
        use_bias: bool = True,
        shared_transform: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if units < 1 or math.isqrt(units) ** 2 != units:
            raise ValueError(
                f"units must be a perfect square, such as 256, 324 or 400. Received: units={units}"
            )
        if variant not in VARIANTS:
            raise ValueError(f"variant must be one of {VARIANTS}. Received: variant={variant!r}")
        if concat not in CONCATS or (concat == "split" and variant != "din1"):
            raise ValueError(
                f"concat must be one of {CONCATS}, and 'split' needs variant='din1'. "
                f"Received: concat={concat!r}, variant={variant!r}"
            )
        self.units = units
        self.variant = variant
        self.concat = concat
        self.use_bias = use_bias
        self.shared_transform = shared_transform
        dtype = self.dtype_policy
        self.transform_1 = keras.layers.Dense(units, "tanh", dtype=dtype, name="transform_1")
        self.transform_2 = (
            self.transform_1
            if shared_transform
            else keras.layers.Dense(units, "tanh", dtype=dtype, name="transform_2")
        )
        self.interaction = MatrixInteraction(dtype=dtype, name="interaction")
        if variant == "static":
            self.gru = keras.layers.GRU(
                units, return_sequences=True, use_bias=use_bias, dtype=dtype, name="gru"
            )

    def build(
        self,
        x1_shape: Any,
        x2_shape: Any = None,
        mask_1_shape: Any = None,
        mask_2_shape: Any = None,
    ) -> None:
        if self.shared_transform and x1_shape[-1] != x2_shape[-1]:
            raise ValueError(
                "With shared_transform=True, x1 and x2 must have the same last dimension. "
                f"Received: x1.shape={tuple(x1_shape)}, x2.shape={tuple(x2_shape)}"
            )
        self.transform_1.build(x1_shape)
        if not self.shared_transform:
            self.transform_2.build(x2_shape)
        matrices = [(*shape[:-1], self.units) for shape in (x1_shape, x2_shape)]
        self.interaction.build(*matrices)
        if self.variant == "static":
            self.gru.build(matrices[1])
            return
        square = (self._shape[1], self._shape[1])
        bias_shape = square if self.variant == "din1" else square[:1]

        def weights(kind: str, shape: tuple[int, ...], initializer: str) -> list[Any]:
            return [
                self.add_weight(shape=shape, initializer=initializer, name=f"{gate}_{kind}")
                for gate in GATES
            ]

        kinds = ("factor", "input_factor") if self.concat == "split" else ("factor",)
        self.factor_kernels = [weights(f"{k}_kernel", square, "glorot_uniform") for k in kinds]
        self.factor_biases = [
            weights(f"{k}_bias", bias_shape, "zeros") for k in kinds if self.use_bias
        ]
        self.bias_kernels = weights("bias_kernel", square, "glorot_uniform")

    def call(self, x1: Any, x2: Any, mask_1: Any, mask_2: Any, return_norms: bool = False) -> Any:
        words = self.transform_2(x2)
        w = self.interaction(self.transform_1(x1), words, mask_1, mask_2, return_norms=return_norms)
        w, *norms = w if return_norms else (w,)
        if self.variant == "static":
            states = self.gru(w)
        else:
            factors, offsets = self._dynamic_weights(w, words)
            states = self._run(factors, offsets)
            if return_norms:
                by_gate = (*ops.shape(factors)[:2], 3, self.units)
                squares = ops.square(at_least_float32(ops.reshape(factors, by_gate)))
                sizes = ops.sqrt(ops.maximum(ops.sum(squares, axis=-1), 1e-12))
                norms.append(zero_padding(ops.cast(sizes, w.dtype), mask_2))
        states = zero_padding(states, mask_2)
        return (states, *norms) if return_norms else states

    def _dynamic_weights(self, w: Any, words: Any) -> tuple[Any, Any]:
        """All that the GRU's steps need beside its state: the factors of the state, and what is added to the products.

        Both are `[B, L2, 3 r, c]`, the gates one above the other; `r = c = n` in matrices, `r = 1` and `c = d` in vectors.
        """
        batch, length = ops.shape(w)[0], ops.shape(w)[1]
        matrices = self.variant == "din1"
        rows, columns = self._shape
        if matrices:
            w, words = (ops.reshape(x, (batch, length, rows, columns)) for x in (w, words))

        def join(weights: list[Any]) -> Any:  # a kernel of matrices is a left factor, as printed
            return ops.cast(ops.concatenate(weights, axis=0 if matrices else -1), w.dtype)

        def times(kernels: list[Any]) -> Any:
            return ops.matmul(join(kernels), w) if matrices else ops.matmul(w, join(kernels))

        made = [times(kernels) for kernels in self.factor_kernels]  # eq 15, 22
        if self.use_bias:
            made = [m + join(biases) for m, biases in zip(made, self.factor_biases)]
        shape = (batch, length, 3 * rows, columns)
        factors = [ops.reshape(ops.tanh(m), shape) for m in made]
        offsets = ops.reshape(ops.tanh(times(self.bias_kernels)), shape)  # eq 16, 23
        words = words if matrices else ops.expand_dims(words, 2)
        return factors[0], self._product(factors[-1], words) + offsets

    def _run(self, factors: Any, offsets: Any) -> Any:
        """The GRU's states, `[B, L2, d]` (eq 10-14, 17-20)."""
        batch, length = ops.shape(factors)[0], ops.shape(factors)[1]
        rows, columns = self._shape

        def step(x: Any, states: Any) -> tuple[Any, list[Any]]:
            x, h = ops.reshape(x, (batch, 6 * rows, columns)), states[0]
            gates = ops.sigmoid(self._product(x[:, : 2 * rows], h) + x[:, 3 * rows : 5 * rows])
            z, r = gates[:, :rows], gates[:, rows:]
            new = ops.tanh(self._product(x[:, 2 * rows : 3 * rows], r * h) + x[:, 5 * rows :])
            h = (1 - z) * h + z * new
            return ops.reshape(h, (batch, self.units)), [h]

        x = ops.concatenate([factors, offsets], axis=2)
        start = ops.zeros((batch, rows, columns), dtype=x.dtype)
        return scan_sequence(step, ops.reshape(x, (batch, length, 6 * self.units)), [start])[0]

    @property
    def _shape(self) -> tuple[int, int]:
        """Of a state in a step: a matrix, or a vector as a row."""
        side = math.isqrt(self.units)
        return (side, side) if self.variant == "din1" else (1, self.units)

    def _product(self, factor: Any, x: Any) -> Any:
        return ops.matmul(factor, x) if self.variant == "din1" else ops.multiply(factor, x)

    def compute_output_spec(
        self, x1: Any, x2: Any, mask_1: Any, mask_2: Any, return_norms: bool = False
    ) -> Any:
        def spec(*shape: Any) -> keras.KerasTensor:
            return keras.KerasTensor((*x2.shape[:2], *shape), dtype=self.compute_dtype)

        if not return_norms:
            return spec(self.units)
        gates = () if self.variant == "static" else (spec(3),)
        return (spec(self.units), spec(x1.shape[1]), *gates)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "variant": self.variant,
            "concat": self.concat,
            "use_bias": self.use_bias,
            "shared_transform": self.shared_transform,
        }
