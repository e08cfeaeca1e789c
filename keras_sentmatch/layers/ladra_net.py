"""The layers of LadRa-Net (Zhang et al., IEEE TNNLS)."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_sentmatch.errors import InputError
from keras_sentmatch.layers.base import Layer, require_choice, require_positive
from keras_sentmatch.layers.stack_rnn import GlorotPerGate
from keras_sentmatch.ops import masked_max, masked_softmax
from keras_sentmatch.ops.masking import at_least_float32, zero_padding


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class LayerWeightedSum(Layer):
    """The sum of the states of several layers, each with one trained weight.

    It starts as the mean. The weights are `softmax(layer.scalars)`, or the scalars themselves.

    Args:
        normalize: Whether the weights are a softmax; otherwise they are free numbers. Defaults to
            `True`.

    Call arguments:
        layers: List of K tensors `[B, L, D]`, or all of them as one, `[B, K, L, D]`.

    Output shape:
        `[B, L, D]`.

    Masking:
        None: positions that are zero in all the layers stay zero.

    Raises:
        ValueError: There are no layers, they differ in shape, or the layer was built for another
            number of them.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers.ladra_net import LayerWeightedSum
        >>> low, high = np.full((1, 2, 3), 2.0, "float32"), np.full((1, 2, 3), 4.0, "float32")
        >>> round(float(LayerWeightedSum()([low, high])[0, 0, 0]), 4)
        3.0

    References:
        Zhang et al., LadRa-Net, eq 9.
    """

    def __init__(self, normalize: bool = True, **kwargs):
        super().__init__(**kwargs)

    def build(self, layers_shape):
        shapes, count = layers_shape or [], len(layers_shape or [])
        if shapes and not isinstance(shapes[0], (tuple, list)):  # one tensor
            shapes, count = [(shapes[0], *shapes[2:])], shapes[1]
        alike = all(
            len(shape) == 3 and all(a == b or None in (a, b) for a, b in zip(shape, shapes[0]))
            for shape in shapes
        )
        if not count or not alike:
            raise ValueError(
                "layers must be a list of tensors [B, L, D] of one shape, or a tensor [B, K, L, D]. "
                f"Received: shape={layers_shape}"
            )
        # Float32 under every policy: the softmax of a few numbers costs nothing.
        self.scalars = self.add_weight(
            shape=(count,),
            initializer="zeros" if self.normalize else keras.initializers.Constant(1 / count),
            autocast=False,
            name="scalars",
        )

    def call(self, layers):
        if not isinstance(layers, (list, tuple)):
            layers = [layers[:, k] for k in range(layers.shape[1])]
        if len(layers) != self.scalars.shape[0]:
            raise ValueError(
                f"This layer was built for {self.scalars.shape[0]} layers. Received: {len(layers)}"
            )
        weights = ops.softmax(self.scalars) if self.normalize else self.scalars
        weights = ops.cast(weights, layers[0].dtype)
        # Products in the compute dtype, so no wide copy of a layer is kept; sum in float32.
        total = sum(at_least_float32(weights[k] * x) for k, x in enumerate(layers))
        return ops.cast(total, layers[0].dtype)

    def compute_output_spec(self, layers):
        if isinstance(layers, (list, tuple)):
            shape = layers[0].shape
        else:
            shape = (layers.shape[0], *layers.shape[2:])
        return self.spec(*shape)


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class PhraseCNN(Layer):
    """Phrases around each token: for each length a unit of two stacked convolutions.

    A window of width 2 is (t, t+1), one of width 3 is (t-1, t, t+1): an even width reaches further
    to the right. The first convolution of a unit has a ReLU; the second is linear, since its output
    is averaged with the states of the tokens.

    Args:
        widths: Tokens in a window, one unit each, d_k. Defaults to `(2, 3)`.
        hidden_filters: Width between the two convolutions. Defaults to `500`.

    Call arguments:
        x: `[B, L, D]`.
        mask: Boolean `[B, L]`, True = real token.

    Output shape:
        `[B, R, L, D]`, R units in the order of `widths`.

    Masking:
        Padding is set to zero before each convolution and after the last one: it looks like the end
        of the sentence.

    Raises:
        InputError: There are no widths, or a number is below 1.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import PhraseCNN
        >>> x, mask = np.ones((1, 4, 6), "float32"), np.array([[True, True, True, False]])
        >>> tuple(PhraseCNN(widths=(1, 2, 3), hidden_filters=5)(x, mask).shape)
        (1, 3, 4, 6)

    References:
        Zhang et al., LadRa-Net, eq 10.
    """

    def __init__(self, widths: Sequence[int] = (2, 3), hidden_filters: int = 500, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(widths, (tuple, list)) or not widths or min(widths) < 1:
            raise InputError(
                f"widths must be a sequence of numbers of at least 1. Received: widths={widths!r}"
            )
        require_positive(hidden_filters=hidden_filters)

    def build(self, x_shape):
        def convolution(name: str, inputs: int, filters: int, width: int, activation):
            layer = keras.layers.Conv1D(
                filters,
                width,
                padding="same",
                data_format="channels_last",
                activation=activation,
                dtype=self.dtype_policy,
                name=name,
            )
            layer.build((None, None, inputs))
            return layer

        size, hidden = x_shape[-1], self.hidden_filters
        self.hidden_convolutions = [
            convolution(f"hidden_{r}", size, hidden, width, "relu")
            for r, width in enumerate(self.widths, 1)
        ]
        self.output_convolutions = [
            convolution(f"output_{r}", hidden, size, width, None)
            for r, width in enumerate(self.widths, 1)
        ]

    def call(self, x, mask):
        x = zero_padding(ops.convert_to_tensor(x), mask)
        units = [
            zero_padding(last(zero_padding(first(x), mask)), mask)
            for first, last in zip(self.hidden_convolutions, self.output_convolutions)
        ]
        return ops.stack(units, axis=1)

    def compute_output_shape(self, x_shape):
        return (x_shape[0], len(self.widths), *x_shape[1:])


COVERAGES = ("multiply", "log", "off")
UPDATES = ("probability", "score")
EPSILON = 1e-6  # keeps the logarithm of a coverage, and 1 over a fertility, finite


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class DynamicSequentialAttention(Layer):
    """Reads the token that matters most and then the phrases that do, `steps` times, into a GRU.

    There are R+1 units: the words (r = 0) and R sequences of phrases, e.g. from `PhraseCNN`. At
    each step t the units take turns. Unit r scores its tokens by what was read so far, by the guide
    g and by what the units before it have chosen: `e_i = w . tanh(h_i W + s_{t-1} U + g M + (a^0 +
    ... + a^{r-1}) V)`. It then chooses `a^r = sum_i p_i h_i` with `p = softmax(beta m)`, where m is
    e under the coverage c. What the units chose is summed with the weights
    `softmax_r(w_f . tanh(a^r W_f))` and goes into the GRU, whose first state is the guide. Every
    unit has its own weights; all steps share them.

    The coverage of a token starts at 1 and falls by `p / phi` when the token was read, so that
    something else is read next; `phi = steps sigmoid(h . w_phi)` is how much of it there is to read.

    Args:
        steps: How often the units take their turns, T. Defaults to `5`.
        attention_units: Width of the hidden layers that score tokens and units. Defaults to `200`.
        beta: Sharpness of the choice; see `RerereadAttention`. Defaults to `10.0`.
        fuse_word: Whether the choice of the words' unit goes into the GRU too; otherwise it only
            steers the others, as in eq 12. Defaults to `True`.
        coverage: `"multiply"`, `m = c e` (eq 14), where a covered token gains if its score is
            negative; `"log"`, `beta m = beta e + log(c + 1e-6)`, at most 13.8 less, which a big
            beta outweighs; or `"off"`, `m = e`, with no weights for phi. Defaults to `"multiply"`.
        clip_coverage: Whether coverage stays at 0 or above. Defaults to `True`.
        coverage_update: What is divided by phi: the `"probability"` p, or the `"score"` m (eq 14 as
            printed). Defaults to `"probability"`.

    Call arguments:
        phrases: `[B, R+1, L, D]`, unit 0 being the words.
        mask: Boolean `[B, L]`, True = real token.
        guide: `[B, D]`.
        return_selection: Whether to return what was chosen as well. Defaults to `False`.

    Output shape:
        The state after each step, `[B, steps, D]`. With `return_selection` a tuple of the states and
        three float32 tensors: the weights p `[B, steps, R+1, L]`, the coverage after each step, of
        the same shape, and the weights of the units, `[B, steps, R+1]`.

    Masking:
        Padding is never chosen; its weights and coverage are 0. Zeros are read from an empty
        sentence. Scores, coverage and softmaxes are float32 under every policy.

    Raises:
        InputError: An option is unknown, or a number is not positive.
        ValueError: The phrases are not of rank 4, the guide has another width, or there are no
            phrases without `fuse_word`.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import DynamicSequentialAttention
        >>> phrases, mask = np.ones((1, 3, 4, 6), "float32"), np.array([[True, True, False, False]])
        >>> layer = DynamicSequentialAttention(steps=2, attention_units=5)
        >>> states, weights, coverage, units = layer(
        ...     phrases, mask, np.ones((1, 6), "float32"), return_selection=True
        ... )
        >>> tuple(states.shape), tuple(units.shape), [float(w) for w in weights[0, 1, 2]]
        ((1, 2, 6), (1, 2, 3), [0.5, 0.5, 0.0, 0.0])

    References:
        Zhang et al., LadRa-Net, eq 12-14.
    """

    def __init__(
        self,
        steps: int = 5,
        attention_units: int = 200,
        beta: float = 10.0,
        fuse_word: bool = True,
        coverage: str = "multiply",
        clip_coverage: bool = True,
        coverage_update: str = "probability",
        **kwargs,
    ):
        super().__init__(**kwargs)
        require_positive(steps=steps, attention_units=attention_units)
        if not beta > 0:
            raise InputError(f"beta must be positive. Received: beta={beta!r}")
        require_choice(COVERAGES, coverage=coverage)
        require_choice(UPDATES, coverage_update=coverage_update)

    def build(self, phrases_shape, guide_shape=None):
        if len(phrases_shape) != 4 or phrases_shape[1] is None or phrases_shape[3] is None:
            raise ValueError(
                "phrases must be [B, R+1, L, D] with known R+1 and D, the words first. "
                f"Received: shape={phrases_shape}"
            )
        _, count, _, width = phrases_shape
        if guide_shape is None or guide_shape[-1] != width:
            raise ValueError(
                f"guide must be [B, {width}], as wide as the phrases. Received: shape={guide_shape}"
            )
        self.fused = [r > 0 or self.fuse_word for r in range(count)]
        if not any(self.fused):
            raise ValueError(
                f"fuse_word=False needs phrases in addition to the words. Received: shape={phrases_shape}"
            )

        def kernel(name: str, inputs: int = width):
            return self.add_weight(shape=(inputs, self.attention_units), name=name)

        def column(name: str, inputs: int, **options):
            # A column, so that Glorot's range is that of the paper: n_out = 1.
            return self.add_weight(shape=(inputs, 1), name=name, **options)

        units = range(count)
        self.token_kernels = [kernel(f"token_kernel_{r}") for r in units]
        self.state_kernels = [kernel(f"state_kernel_{r}") for r in units]
        self.guide_kernels = [kernel(f"guide_kernel_{r}") for r in units]
        self.earlier_kernels = [kernel(f"earlier_kernel_{r}") for r in units if r]
        self.contexts = [
            column(f"context_{r}", self.attention_units, autocast=False) for r in units
        ]
        self.fertility_kernels = [
            column(f"fertility_kernel_{r}", width) for r in units if self.coverage != "off"
        ]
        if sum(self.fused) > 1:
            self.fusion_kernel = kernel("fusion_kernel")
            self.fusion_context = column("fusion_context", self.attention_units, autocast=False)
        self.cell = keras.layers.GRUCell(
            width,
            kernel_initializer=GlorotPerGate(),
            recurrent_initializer=GlorotPerGate(),
            dtype=self.dtype_policy,
            name="gru",
        )
        self.cell.build((None, width))

    def call(self, phrases, mask, guide, return_selection=False):
        units = [phrases[:, r] for r in range(len(self.fused))]  # [B, L, D] each
        # [B, L, A] each: the same at every step
        fixed = [
            ops.matmul(h, w) + ops.expand_dims(ops.matmul(guide, m), 1)
            for h, w, m in zip(units, self.token_kernels, self.guide_kernels)
        ]
        fertility = [self._fertility(h, w) for h, w in zip(units, self.fertility_kernels)]
        coverage = [ops.cast(mask, "float32") for _ in units]
        state = guide
        states, selected, covered, unit_weights = [], [], [], []
        for _ in range(self.steps):
            chosen: list[Any] = []
            weights = []
            for r, h in enumerate(units):
                query = ops.matmul(state, self.state_kernels[r])
                if r:
                    query = query + ops.matmul(sum(chosen), self.earlier_kernels[r - 1])
                hidden = at_least_float32(ops.tanh(fixed[r] + ops.expand_dims(query, 1)))
                scores = ops.squeeze(ops.matmul(hidden, self.contexts[r]), -1)  # [B, L], eq 12
                scores = self._cover(scores, coverage[r])
                p = self._select(scores, mask)
                chosen.append(
                    ops.squeeze(ops.matmul(ops.expand_dims(ops.cast(p, h.dtype), 1), h), 1)
                )
                weights.append(p)
                if self.coverage != "off":
                    spent = p if self.coverage_update == "probability" else scores
                    spent = ops.where(mask, spent / fertility[r], 0)
                    coverage[r] = coverage[r] - spent
                    if self.clip_coverage:
                        coverage[r] = ops.maximum(coverage[r], 0)
            token, fusion = self._fuse(ops.stack(chosen, axis=1))
            state, _ = self.cell(token, state)
            states.append(state)
            selected.append(ops.stack(weights, axis=1))
            covered.append(ops.stack(coverage, axis=1))
            unit_weights.append(fusion)
        result = ops.stack(states, axis=1)
        if not return_selection:
            return result
        return (result, *(ops.stack(found, axis=1) for found in (selected, covered, unit_weights)))

    def _fertility(self, h, kernel):
        """How much there is to read of each token, phi: `[B, L]`."""
        share = ops.sigmoid(at_least_float32(ops.squeeze(ops.matmul(h, kernel), -1)))
        return self.steps * ops.maximum(share, EPSILON)

    def _cover(self, scores, coverage):
        """The m of softmax(beta m)."""
        if self.coverage == "multiply":
            return coverage * scores
        if self.coverage == "log":
            return scores + ops.log(ops.maximum(coverage, 0) + EPSILON) / self.beta
        return scores

    def _select(self, scores, mask):
        # Beta times a difference: a big beta can't overflow.
        top = ops.stop_gradient(ops.expand_dims(masked_max(scores, mask), 1))
        return masked_softmax(self.beta * (scores - top), mask)

    def _fuse(self, chosen) -> tuple[Any, Any]:
        """`[B, R+1, D]` to their weighted sum and its weights, `[B, R+1]`."""
        if sum(self.fused) > 1:
            hidden = at_least_float32(ops.tanh(ops.matmul(chosen, self.fusion_kernel)))
            scores = ops.squeeze(ops.matmul(hidden, self.fusion_context), -1)
        else:
            scores = ops.zeros_like(at_least_float32(chosen[:, :, 0]))
        weights = masked_softmax(scores, ops.convert_to_tensor([self.fused]))
        token = ops.matmul(ops.expand_dims(ops.cast(weights, chosen.dtype), 1), chosen)
        return ops.squeeze(token, 1), weights

    def compute_output_spec(self, phrases, mask, guide, return_selection=False):
        batch, units, length, width = phrases.shape
        result = self.spec(batch, self.steps, width)
        if not return_selection:
            return result
        each, all_tokens = (batch, self.steps, units), (batch, self.steps, units, length)
        shapes = (all_tokens, all_tokens, each)
        return (result, *(self.spec(*shape, dtype="float32") for shape in shapes))
