"""The layers of DRr-Net (Zhang et al. 2019)."""

import math

import keras
from keras import ops

from keras_sentmatch.layers.base import (
    Layer,
    require,
    require_above_zero,
    require_choice,
    require_positive,
)
from keras_sentmatch.ops import masked_max, masked_softmax, recurrent_states
from keras_sentmatch.ops.masking import at_least_float32, masked_argmax, zero_padding


class GlorotPerGate(keras.initializers.GlorotUniform):
    """Glorot's uniform distribution (2010, eq 16) for each gate of a GRU's kernels.

    Keras treats the kernels of the three gates as one matrix, which gives a smaller range.
    """

    def __call__(self, shape, dtype=None):
        inputs, outputs = shape  # [D, 3 units]
        limit = math.sqrt(6 / (inputs + outputs / 3))
        return keras.random.uniform(shape, -limit, limit, dtype=dtype, seed=self.seed)


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class StackRNN(Layer):
    """Stacked GRUs, each of which reads all layers below: `h^l = GRU_l(x^l)`, `x^{l+1} = [h^l; x^l]`.

    Like `BidirectionalRNN`, it runs without a Keras mask. Kernels start from Glorot's uniform
    distribution, gate by gate, and biases from zero.

    Args:
        units: Width of a GRU (`reset_after=True`). Defaults to `256`.
        depth: Number of layers. Defaults to `3`.

    Call arguments:
        x: `[B, L, D]`.
        mask: Boolean `[B, L]`, True = real token, right-padded.

    Output shape:
        `[B, L, depth * units + D]`: the newest states first, the input last.

    Masking:
        Padded positions of the output are zero. An empty row gives zeros.

    Raises:
        InputError: `units` or `depth` is below 1.

    Example:
        >>> mask = np.array([[True, True, False]])
        >>> y = StackRNN(units=4, depth=2)(np.ones((1, 3, 5), "float32"), mask)
        >>> tuple(y.shape), [float(v) for v in y[0, 1, -5:]]
        ((1, 3, 13), [1.0, 1.0, 1.0, 1.0, 1.0])

    References:
        Zhang et al., DRr-Net, eq 2.
    """

    def __init__(self, units: int = 256, depth: int = 3, **kwargs):
        super().__init__(**kwargs)
        require_positive(units=units, depth=depth)
        self.forward_rnns = [
            keras.layers.GRU(
                units,
                return_sequences=True,
                kernel_initializer=GlorotPerGate(),
                recurrent_initializer=GlorotPerGate(),
                dtype=self.dtype_policy,
                name=f"forward_{layer}",
            )
            for layer in range(1, depth + 1)
        ]

    def build(self, x_shape):
        for layer, rnn in enumerate(self.forward_rnns):
            rnn.build((*x_shape[:-1], x_shape[-1] + layer * self.units))

    def call(self, x, mask):
        for rnn in self.forward_rnns:
            x = ops.concatenate([recurrent_states(rnn, x), x], axis=-1)  # eq 2
        return zero_padding(x, mask)

    def compute_output_shape(self, x_shape):
        return (*x_shape[:-1], x_shape[-1] + self.depth * self.units)


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class SelfAttentionPooling(Layer):
    """Weighted sum of the tokens, `[B, L, D]` to `[B, D]`, by scores `w . tanh(x_i W + b)`.

    Args:
        units: Width of the hidden layer that scores a token. Defaults to `256`.
        context_initializer: Initializer of `w`. With `"zeros"` all tokens start with equal weights.
            Defaults to `"glorot_uniform"`.

    Call arguments:
        x: `[B, L, D]`.
        mask: Boolean `[B, L]`, True = real token.
        return_attention: Whether to return the weights as well. Defaults to `False`.

    Output shape:
        `[B, D]`; with `return_attention` also the weights, `[B, L]` float32, which sum to 1 over the
        real tokens.

    Masking:
        Padding gets no weight. An empty sentence gives zeros. Scores and softmax are float32 under
        every half-precision policy.

    Raises:
        InputError: `units` is below 1.

    Example:
        >>> x, mask = np.ones((1, 3, 4), "float32"), np.array([[True, True, False]])
        >>> pooled, weights = SelfAttentionPooling(8)(x, mask, return_attention=True)
        >>> tuple(pooled.shape), [float(w) for w in weights[0]]
        ((1, 4), [0.5, 0.5, 0.0])

    References:
        Zhang et al., DRr-Net, eq 3; LadRa-Net, eq 11.
    """

    def __init__(self, units: int = 256, context_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        require_positive(units=units)

    def build(self, x_shape):
        self.kernel = self.add_weight(shape=(x_shape[-1], self.units), name="kernel")
        self.bias = self.add_weight(shape=(self.units,), initializer="zeros", name="bias")
        # A column gives Glorot's range the paper's n_in = units, n_out = 1.
        self.context = self.add_weight(
            shape=(self.units, 1),
            initializer=self.context_initializer,
            name="context",
            autocast=False,
        )

    def call(self, x, mask, return_attention=False):
        hidden = at_least_float32(ops.tanh(ops.matmul(x, self.kernel) + self.bias))  # [B, L, units]
        scores = ops.squeeze(ops.matmul(hidden, ops.cast(self.context, hidden.dtype)), -1)  # [B, L]
        weights = masked_softmax(scores, mask)
        pooled = ops.squeeze(ops.matmul(ops.expand_dims(ops.cast(weights, x.dtype), 1), x), 1)
        return (pooled, weights) if return_attention else pooled

    def compute_output_spec(self, x, mask, return_attention=False):
        batch, length, width = x.shape
        found = self.spec(batch, width), self.spec(batch, length, dtype=self.wide_dtype)
        return found if return_attention else found[0]


SELECTIONS = ("soft", "straight_through", "hard")
INITIAL_STATES = ("projected", "given", "zero")


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class RerereadAttention(Layer):
    """Read the most important token `steps` times, and remember what was read in a GRU.

    At step t every token gets a score `m_i = w . tanh(h_i W + s_{t-1} U + g M)` from its state, the
    state s of the GRU and a guide g (the other sentence). `p = softmax(beta m)` selects,
    `s_t = GRU(sum_i p_i h_i, s_{t-1})` reads, and the last state is the result. The paper wants beta
    "arbitrarily big", which makes the selection hard and its gradient 0.

    Args:
        units: Width of the GRU (`reset_after=True`). Defaults to `256`.
        attention_units: Width of the hidden layer that scores a token. Defaults to `200`.
        steps: Number of tokens to read, T. Defaults to `6`.
        beta: Sharpness of the selection. Defaults to `10.0`.
        selection: `"soft"` reads the weighted sum. `"hard"` reads the token with the highest score
            (eq 5); the scores get no gradient, so it is for inference. `"straight_through"` reads like
            `"hard"` and has the gradient of the `"soft"` weights. Defaults to `"soft"`.
        initial_state: s_0: `"projected"`, a dense tanh layer of the call's `initial_state`; `"given"`,
            that vector itself, `units` wide; or `"zero"`. Defaults to `"projected"`.
        guide: Whether there is a guide vector. Defaults to `True`.

    Call arguments:
        h: `[B, L, D]`.
        mask: Boolean `[B, L]`, True = real token.
        guide: `[B, G]`; needed with `guide=True`.
        initial_state: `[B, S]`; needed unless `initial_state="zero"`.
        return_selection: Whether to return what was read as well. Defaults to `False`.

    Output shape:
        `[B, units]`; with `return_selection` also the states of all steps, `[B, steps, units]`, and the
        selection weights, `[B, steps, L]` float32, which sum to 1 over the real tokens.

    Masking:
        Padding is never selected. Zeros are read from an empty sentence. Scores and softmax are float32
        under every half-precision policy.

    Raises:
        InputError: An option is unknown, a number is not positive, an input is missing, or the given
            initial state has another width.

    Example:
        >>> h, mask = np.ones((1, 3, 5), "float32"), np.array([[True, True, False]])
        >>> g = np.ones((1, 5), "float32")
        >>> layer = RerereadAttention(units=4, attention_units=3, steps=2)
        >>> v, states, weights = layer(h, mask, g, g, return_selection=True)
        >>> tuple(v.shape), tuple(states.shape), [float(w) for w in weights[0, 1]]
        ((1, 4), (1, 2, 4), [0.5, 0.5, 0.0])

    References:
        Zhang et al., DRr-Net, eq 4-6.
    """

    def __init__(
        self,
        units: int = 256,
        attention_units: int = 200,
        steps: int = 6,
        beta: float = 10.0,
        selection: str = "soft",
        initial_state: str = "projected",
        guide: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        require_positive(units=units, attention_units=attention_units, steps=steps)
        require_above_zero(beta=beta)
        require_choice(SELECTIONS, selection=selection)
        require_choice(INITIAL_STATES, initial_state=initial_state)
        self.cell = keras.layers.GRUCell(
            units,
            kernel_initializer=GlorotPerGate(),
            recurrent_initializer=GlorotPerGate(),
            dtype=self.dtype_policy,
            name="gru",
        )

    def build(self, h_shape, guide_shape=None, initial_state_shape=None):
        start, attention = self.initial_state, self.attention_units
        given = initial_state_shape or (None,)
        require(guide_shape or not self.guide, "Pass `guide`, or make the layer with guide=False.")
        require(
            given[-1] if start == "projected" else start == "zero" or given[-1] == self.units,
            f"Pass `initial_state`, a vector of units={self.units} with initial_state='given', or "
            f"make the layer with initial_state='zero'. Received: shape={initial_state_shape}",
        )
        self.token_kernel = self.add_weight(shape=(h_shape[-1], attention), name="token_kernel")
        self.state_kernel = self.add_weight(shape=(self.units, attention), name="state_kernel")
        if self.guide:
            self.guide_kernel = self.add_weight(
                shape=(guide_shape[-1], attention), name="guide_kernel"
            )
        # A column gives Glorot's range the paper's n_in = attention_units, n_out = 1.
        self.context = self.add_weight(shape=(attention, 1), name="context", autocast=False)
        if start == "projected":
            self.initial_kernel = self.add_weight(
                shape=(initial_state_shape[-1], self.units), name="initial_kernel"
            )
            self.initial_bias = self.add_weight(
                shape=(self.units,), initializer="zeros", name="initial_bias"
            )
        self.cell.build((None, h_shape[-1]))

    def call(self, h, mask, guide=None, initial_state=None, return_selection=False):
        fixed = ops.matmul(h, self.token_kernel)  # [B, L, A]: the same at every step
        if self.guide:
            fixed = fixed + ops.expand_dims(ops.matmul(guide, self.guide_kernel), 1)
        if self.initial_state == "given":
            state = initial_state
        elif self.initial_state == "projected":
            state = ops.tanh(ops.matmul(initial_state, self.initial_kernel) + self.initial_bias)
        else:
            state = ops.zeros((ops.shape(h)[0], self.units), dtype=h.dtype)
        states, selected = [], []
        for _ in range(self.steps):
            query = ops.expand_dims(ops.matmul(state, self.state_kernel), 1)  # [B, 1, A]
            hidden = ops.tanh(fixed + query)  # eq 4
            hidden = at_least_float32(hidden)
            scores = ops.squeeze(ops.matmul(hidden, ops.cast(self.context, hidden.dtype)), -1)
            weights = self._select(scores, mask)  # [B, L]
            token = ops.matmul(ops.expand_dims(ops.cast(weights, h.dtype), 1), h)  # [B, 1, D]
            state, _ = self.cell(ops.squeeze(token, 1), state)  # eq 6
            states.append(state)
            selected.append(weights)
        if not return_selection:
            return state
        return state, ops.stack(states, axis=1), ops.stack(selected, axis=1)

    def _select(self, scores, mask):
        """Turn scores `[B, L]` into selection weights."""
        # A big beta cannot overflow, because it multiplies a difference.
        top = ops.stop_gradient(ops.expand_dims(masked_max(scores, mask), 1))
        soft = masked_softmax(self.beta * (scores - top), mask)
        if self.selection == "soft":
            return soft
        hard = ops.one_hot(masked_argmax(scores, mask), ops.shape(scores)[1], dtype=scores.dtype)
        hard = hard * ops.cast(mask, scores.dtype)
        # soft - stop_gradient(soft) is exactly 0, with the gradient of soft.
        return hard if self.selection == "hard" else hard + (soft - ops.stop_gradient(soft))

    def compute_output_spec(self, h, mask, guide=None, initial_state=None, return_selection=False):
        batch, length = h.shape[:2]
        v, states = self.spec(batch, self.units), self.spec(batch, self.steps, self.units)
        selection = self.spec(batch, self.steps, length, dtype=self.wide_dtype)
        return (v, states, selection) if return_selection else v
