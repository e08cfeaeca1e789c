"""The cell of HyperLSTM (Ha, Dai, Le 2017)."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.layers.base import Layer

GATES = 4  # i, f, g, o


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class HyperLSTMCell(Layer):
    """One step of an LSTM with dynamic weights, for `keras.layers.RNN`.

    A small LSTM reads `[x_t; h_t-1]`. Its state `s` gives each gate three vectors: a scale of the
    input's part, a scale of the state's part, and a shift. Each is made from a few numbers,
    `d = (s W + c) D`. The gates are `d_x * (x W_x) + d_h * (h W_h) + b + d_b`, then
    `c' = sigmoid(f + 1) c + sigmoid(i) tanh(g)` and `h' = sigmoid(o) tanh(c')`. All scales start at 0.1
    and all shifts at 0.

    Args:
        units: Width of the state.
        hyper_units: Width of the small LSTM. Defaults to `128`.
        embedding_units: `N_z`, the length of the vector that each scale or shift is made from. Defaults
            to `4`.
        layer_norm: Whether gates, and the cell before its tanh, are normalized. Defaults to `False`.

    Call arguments:
        inputs: `[B, D]`.
        states: `h`, `c`, and both states of the small LSTM. Defaults to zeros.

    Output shape:
        `[B, units]`, and the list of the four new states.

    Masking:
        A step has no padding. `keras.layers.RNN` needs no mask over right-padded sequences if nothing
        after the last real token is used.

    Example:
        >>> rnn = keras.layers.RNN(HyperLSTMCell(6, hyper_units=3), return_sequences=True)
        >>> tuple(rnn(np.ones((2, 5, 4), "float32")).shape)
        (2, 5, 6)

    References:
        Ha, Dai, Le: "HyperNetworks", ICLR 2017, arXiv 1609.09106, appendix A.2.
    """

    def __init__(
        self,
        units: int,
        hyper_units: int = 128,
        embedding_units: int = 4,
        layer_norm: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.state_size = [units, units, hyper_units, hyper_units]
        self.output_size = units
        dtype = self.dtype_policy
        self.hyper_cell = keras.layers.LSTMCell(hyper_units, dtype=dtype, name="hyper_cell")
        self.norms = []
        if layer_norm:
            self.norms = [
                keras.layers.LayerNormalization(dtype=dtype, name=f"{name}_norm")
                for name in ("input", "forget", "candidate", "output", "cell")
            ]

    def build(self, inputs_shape):
        batch, width = inputs_shape[0], inputs_shape[-1]
        units, small, few = self.units, self.hyper_units, self.embedding_units

        def weight(name: str, shape, initializer="glorot_uniform"):
            return self.add_weight(shape=shape, initializer=initializer, name=name)

        self.kernel = weight("kernel", (width, GATES * units))
        self.recurrent_kernel = weight("recurrent_kernel", (units, GATES * units), "orthogonal")
        self.bias = weight("bias", (GATES * units,), "zeros")
        # By role: scale of x, scale of h, shift. At first z = c = 1, so d = N_z * 0.1 / N_z.
        tenth, noise = 0.1 / few, keras.initializers.RandomNormal(stddev=0.01)
        self.embedding_kernels = [
            weight(f"{role}_embedding_kernel", (small, GATES * few), start)
            for role, start in (("x", "zeros"), ("h", "zeros"), ("b", noise))
        ]
        self.embedding_biases = [
            weight(f"{role}_embedding_bias", (GATES * few,), "ones") for role in ("x", "h")
        ]
        self.scale_kernels = [
            weight(f"{role}_scale_kernel", (GATES, few, units), keras.initializers.Constant(start))
            for role, start in (("x", tenth), ("h", tenth), ("b", 0.0))
        ]
        self.hyper_cell.build((batch, width + units))
        for norm in self.norms:
            norm.build((batch, units))

    def get_initial_state(self, batch_size=None) -> list[Any]:
        return [ops.zeros((batch_size, n), dtype=self.compute_dtype) for n in self.state_size]

    def call(self, inputs, states=None):
        if states is None:
            states = self.get_initial_state(ops.shape(inputs)[0])
        h, c, *small = states
        s, small = self.hyper_cell(ops.concatenate([inputs, h], axis=-1), small)
        x_scale, h_scale, shift = self._scales(s)
        by_gate = (-1, GATES, self.units)
        gates = (
            x_scale * ops.reshape(ops.matmul(inputs, self.kernel), by_gate)
            + h_scale * ops.reshape(ops.matmul(h, self.recurrent_kernel), by_gate)
            + ops.reshape(self.bias, by_gate)
            + shift
        )
        i, f, g, o = (gates[:, k] for k in range(GATES))
        if self.layer_norm:
            i, f, g, o = (norm(gate) for norm, gate in zip(self.norms, (i, f, g, o)))
        c = ops.sigmoid(f + 1) * c + ops.sigmoid(i) * ops.tanh(g)
        h = ops.sigmoid(o) * ops.tanh(self.norms[-1](c) if self.layer_norm else c)
        return h, [h, c, *small]

    def _scales(self, s) -> list[Any]:
        """Return the scale of x, the scale of h and the shift, `[B, 4, units]` each."""
        found = []
        for k, (kernel, scale) in enumerate(zip(self.embedding_kernels, self.scale_kernels)):
            z = ops.matmul(s, kernel)
            z = z + self.embedding_biases[k] if k < len(self.embedding_biases) else z
            z = ops.reshape(z, (-1, GATES, self.embedding_units))
            found.append(ops.einsum("bgz,gzu->bgu", z, scale))
        return found
