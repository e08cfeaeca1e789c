"""The layers of DIN (Huo and Liu 2018): word matrices, their interaction, a dynamic GRU."""

import math
from typing import Any

import keras
from keras import ops

from keras_sentmatch.layers.base import Layer, require, require_choice
from keras_sentmatch.ops import recurrent_states
from keras_sentmatch.ops.masking import at_least_float32, pair_mask, zero_padding
from keras_sentmatch.ops.recurrence import scan_sequence


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class MatrixInteraction(Layer):
    """Read sentence 1 once for each word of sentence 2, in matrices (DIN, eq 8).

    Words are matrices `n x n`, stored row by row as vectors of `d = n * n` numbers. For each word `t` of
    sentence 2 a recurrence runs over the words `s` of sentence 1, with matrix products:
    `W_t,s = tanh(P_s H_t + W_inter W_t,s-1 + b_inter)`, `W_t,0 = 0`. There are `L1` steps, each for all
    `t` at once, so the state has `B * L2 * d` numbers.

    `x1` is `[B, L1, d]` and `x2` is `[B, L2, d]`. The result is `W_t` after the last word of sentence 1,
    `[B, L2, d]`, with zeros for padded rows and for an empty sentence 1. `return_norms` adds the
    Frobenius norms of all `W_t,s`, `[B, L2, L1]` (eq 28-29).
    """

    def build(self, x1_shape, x2_shape=None):
        width = x1_shape[-1]
        self.side = math.isqrt(width)
        square = (self.side, self.side)
        self.kernel = self.add_weight(shape=square, initializer="orthogonal", name="kernel")
        self.bias = self.add_weight(shape=square, initializer="zeros", name="bias")

    def call(self, x1, x2, mask_1, mask_2, return_norms=False):
        n, batch, length = self.side, ops.shape(x2)[0], ops.shape(x2)[1]
        # The words of sentence 2 side by side, [B, n, L2 * n]: one product a step for all.
        h = ops.transpose(ops.reshape(x2, (batch, length, n, n)), (0, 2, 1, 3))
        h = ops.reshape(h, (batch, n, length * n))
        kernel = ops.cast(self.kernel, x1.dtype)
        bias = ops.cast(ops.tile(self.bias, (1, length)), x1.dtype)

        def step(x, states) -> tuple[Any, list[Any]]:
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

    def compute_output_spec(self, x1, x2, mask_1, mask_2, return_norms=False):
        w = self.spec(*x2.shape)
        norms = self.spec(*x2.shape[:2], x1.shape[1])
        return (w, norms) if return_norms else w


STATIC = ("static", "static_interaction")
VARIANTS = ("din1", "din2", *STATIC)
GATES = ("update", "reset", "candidate")


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class MatrixDynamicGRU(Layer):
    """A GRU over sentence 2 whose weights come from the interaction of each word with sentence 1.

    Words of both sentences become `n x n` matrices, `tanh(x W + b)`. Their interaction gives a matrix
    `W_t` for each word of sentence 2, `W_t,s = tanh(P_s H_t + W_inter W_t,s-1 + b_inter)` after the last
    word `s` of sentence 1. The weights of the GRU's step `t` are made from `W_t`:

    - `"din1"`: in matrices. Weight `tanh(W_con W_t + b_con)` and bias `tanh(B_con W_t)` for each of the
      gates `z`, `r` and the candidate `h`; `Z = sigmoid(W_z [H, X] + b_z)` and so on, with matrix
      products.
    - `"din2"`: in vectors of `d` numbers, made by `d x d` matrices from the flattened `W_t`. They scale
      element by element.
    - `"static"`: an ordinary GRU that reads the flattened matrix of the word and `W_t`.
    - `"static_interaction"`: an ordinary GRU that reads only `W_t`.

    Args:
        units: Width `d = n * n` of a state, a perfect square.
        variant: `"din1"`, `"din2"`, `"static"` or `"static_interaction"`. Defaults to `"din1"`.
        concat: How `"din1"` multiplies the bracket `[H, X]`: `"sum"`, one weight for `H + X`, which is
            the only reading that fits the paper's shapes and counts; `"split"`, one weight for each.
            Defaults to `"sum"`.
        use_bias: Whether there is a `b_con`, or the bias of an ordinary GRU. Defaults to `True`.
        shared_transform: Whether one layer makes the matrices of both sentences. Defaults to `False`.
        reset_after: Whether an ordinary GRU resets the state after its product with the weights.
            Dynamic weights always reset it before. Defaults to `False`.

    Call arguments:
        x1: `[B, L1, D1]`, states of sentence 1 (the premise).
        x2: `[B, L2, D2]`, words or states of sentence 2 (the hypothesis); with `shared_transform`,
            `D2 = D1`.
        mask_1: Boolean `[B, L1]`, True = real token, right-padded.
        mask_2: Boolean `[B, L2]`.
        return_matrices: Whether to return the words' matrices as well. Defaults to `False`.
        return_norms: Whether to return the norms that the explainer shows. Defaults to `False`.

    Output shape:
        `[B, L2, units]`. With `return_matrices` also the flattened matrices of the words of both
        sentences, `[B, L1, units]` and `[B, L2, units]`. With `return_norms` also the norms of all
        interaction matrices, `[B, L2, L1]`, and, with dynamic weights, those of the weights made for
        `z`, `r` and `h`, `[B, L2, 3]`.

    Masking:
        Padding changes nothing, and padded rows are zeros. An empty sentence 1 gives `W_t = 0`.

    Raises:
        InputError: `units` is not a perfect square, an option is unknown, or a shared transform gets two
            widths.

    Example:
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
        reset_after: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        square = units > 0 and math.isqrt(units) ** 2 == units
        require(square, f"units must be a perfect square such as 256. Received: units={units}")
        require_choice(VARIANTS, variant=variant)
        require_choice(("sum", "split"), concat=concat)
        fits = concat == "sum" or variant == "din1"
        require(fits, f"concat='split' needs variant='din1'. Received: variant={variant!r}")
        self.transform_1 = self.transform_2 = self.dense(units, "transform_1", "tanh")
        if not shared_transform:
            self.transform_2 = self.dense(units, "transform_2", "tanh")
        self.interaction = self.sublayer(MatrixInteraction, "interaction")
        if variant in STATIC:
            self.gru = keras.layers.GRU(
                units,
                return_sequences=True,
                use_bias=use_bias,
                reset_after=reset_after,
                dtype=self.dtype_policy,
                name="gru",
            )

    def build(self, x1_shape, x2_shape=None):
        require(
            not self.shared_transform or x1_shape[-1] == x2_shape[-1],
            "With shared_transform=True, x1 and x2 must have the same last dimension. "
            f"Received: x1.shape={tuple(x1_shape)}, x2.shape={tuple(x2_shape)}",
        )
        self.transform_1.build(x1_shape)
        if not self.shared_transform:
            self.transform_2.build(x2_shape)
        matrices = [(*shape[:-1], self.units) for shape in (x1_shape, x2_shape)]
        self.interaction.build(*matrices)
        if self.variant in STATIC:
            read = 2 * self.units if self.variant == "static" else self.units
            self.gru.build((*x2_shape[:-1], read))
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

    def call(self, x1, x2, mask_1, mask_2, return_matrices=False, return_norms=False):
        premise, words = self.transform_1(x1), self.transform_2(x2)
        w = self.interaction(premise, words, mask_1, mask_2, return_norms=return_norms)
        w, *more = w if return_norms else (w,)
        if self.variant in STATIC:
            read = [words, w] if self.variant == "static" else [w]
            states = recurrent_states(self.gru, ops.concatenate(read, axis=-1))
        else:
            factors, offsets = self._dynamic_weights(w, words)
            states = self._run(factors, offsets)
            if return_norms:
                by_gate = (*ops.shape(factors)[:2], 3, self.units)
                squares = ops.square(at_least_float32(ops.reshape(factors, by_gate)))
                sizes = ops.sqrt(ops.maximum(ops.sum(squares, axis=-1), 1e-12))
                more.append(zero_padding(ops.cast(sizes, w.dtype), mask_2))
        if return_matrices:
            more = [zero_padding(premise, mask_1), zero_padding(words, mask_2), *more]
        states = zero_padding(states, mask_2)
        return (states, *more) if more else states

    def _dynamic_weights(self, w, words) -> tuple[Any, Any]:
        """Return the factors of the state and what is added to the products, for all steps of the GRU.

        Both are `[B, L2, 3 r, c]`, the gates one above the other; `r = c = n` in matrices, `r = 1` and
        `c = d` in vectors.
        """
        batch, length = ops.shape(w)[0], ops.shape(w)[1]
        matrices = self.variant == "din1"
        rows, columns = self._shape
        if matrices:
            w, words = (ops.reshape(x, (batch, length, rows, columns)) for x in (w, words))

        def join(weights: list[Any]):  # a kernel of matrices is a left factor, as printed
            return ops.cast(ops.concatenate(weights, axis=0 if matrices else -1), w.dtype)

        def times(kernels: list[Any]):
            return ops.matmul(join(kernels), w) if matrices else ops.matmul(w, join(kernels))

        made = [times(kernels) for kernels in self.factor_kernels]  # eq 15, 22
        if self.use_bias:
            made = [m + join(biases) for m, biases in zip(made, self.factor_biases)]
        shape = (batch, length, 3 * rows, columns)
        factors = [ops.reshape(ops.tanh(m), shape) for m in made]
        offsets = ops.reshape(ops.tanh(times(self.bias_kernels)), shape)  # eq 16, 23
        words = words if matrices else ops.expand_dims(words, 2)
        return factors[0], self._product(factors[-1], words) + offsets

    def _run(self, factors, offsets):
        """Return the GRU's states, `[B, L2, d]` (eq 10-14, 17-20)."""
        batch, length = ops.shape(factors)[0], ops.shape(factors)[1]
        rows, columns = self._shape

        def step(x, states) -> tuple[Any, list[Any]]:
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
        """The shape of a state in a step: a matrix, or a vector as a row."""
        side = math.isqrt(self.units)
        return (side, side) if self.variant == "din1" else (1, self.units)

    def _product(self, factor, x):
        return ops.matmul(factor, x) if self.variant == "din1" else ops.multiply(factor, x)

    def compute_output_spec(
        self, x1, x2, mask_1, mask_2, return_matrices=False, return_norms=False
    ):
        states, more = self.spec(*x2.shape[:2], self.units), []
        if return_matrices:
            more += [self.spec(*x.shape[:2], self.units) for x in (x1, x2)]
        if return_norms:
            more.append(self.spec(*x2.shape[:2], x1.shape[1]))
        if return_norms and self.variant not in STATIC:
            more.append(self.spec(*x2.shape[:2], 3))
        return (states, *more) if more else states
