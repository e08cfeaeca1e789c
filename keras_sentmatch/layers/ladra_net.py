"""The layers of LadRa-Net (Zhang et al., IEEE TNNLS)."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_sentmatch.layers.base import (
    Layer,
    require,
    require_above_zero,
    require_choice,
    require_positive,
)
from keras_sentmatch.layers.drr_net import GlorotPerGate
from keras_sentmatch.ops import masked_max, masked_softmax
from keras_sentmatch.ops.masking import at_least_float32, zero_padding


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class LayerWeightedSum(Layer):
    """The sum of K tensors `[B, L, D]`, each with one trained weight (LadRa-Net, eq 9).

    The weights are `softmax(scalars)`, or with `normalize=False` the scalars themselves. Both start as
    the mean.
    """

    def __init__(self, normalize: bool = True, **kwargs):
        super().__init__(**kwargs)

    def build(self, layers_shape):
        count = len(layers_shape)
        self.scalars = self.add_weight(
            shape=(count,),
            initializer="zeros" if self.normalize else keras.initializers.Constant(1 / count),
            autocast=False,
            name="scalars",
        )

    def call(self, layers):
        weights = ops.softmax(self.scalars) if self.normalize else self.scalars
        weights = ops.cast(weights, layers[0].dtype)
        # Products in the compute dtype, so no wide copy of a layer is kept; sum in float32.
        total = sum(at_least_float32(weights[k] * x) for k, x in enumerate(layers))
        return ops.cast(total, layers[0].dtype)

    def compute_output_spec(self, layers):
        return self.spec(*layers[0].shape)


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class PhraseCNN(Layer):
    """Phrases around each token: one unit of two stacked convolutions per phrase length.

    A window of width 2 is (t, t+1), and one of width 3 is (t-1, t, t+1): an even width reaches further
    to the right. The first convolution of a unit has a ReLU; the second is linear, since its output
    is averaged with the states of the tokens.

    Args:
        widths: Numbers of tokens in a window, d_k, one per unit. Defaults to `(2, 3)`.
        hidden_filters: Width between the two convolutions. Defaults to `500`.

    Call arguments:
        x: `[B, L, D]`.
        mask: Boolean `[B, L]`, True = real token.

    Output shape:
        `[B, R, L, D]`, R units in the order of `widths`.

    Masking:
        Padding is set to zero before each convolution and after the last one, so it looks like the end
        of the sentence.

    Raises:
        InputError: There are no widths, or a number is below 1.

    Example:
        >>> x, mask = np.ones((1, 4, 6), "float32"), np.array([[True, True, True, False]])
        >>> tuple(PhraseCNN(widths=(1, 2, 3), hidden_filters=5)(x, mask).shape)
        (1, 3, 4, 6)

    References:
        Zhang et al., LadRa-Net, eq 10.
    """

    def __init__(self, widths: Sequence[int] = (2, 3), hidden_filters: int = 500, **kwargs):
        super().__init__(**kwargs)
        right = isinstance(widths, (tuple, list)) and widths and min(widths) > 0
        require(right, f"widths must be numbers of at least 1. Received: widths={widths!r}")
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
    """Read the most important token and then the most important phrases, `steps` times, into a GRU.

    There are R+1 units: the words (r = 0) and R sequences of phrases, such as those of `PhraseCNN`. At
    each step t the units take turns. Unit r scores its tokens by the GRU's state, by the guide g and by
    what the units before it chose: `e_i = w . tanh(h_i W + s_{t-1} U + g M + (a^0 + ... + a^{r-1}) V)`.
    It then chooses `a^r = sum_i p_i h_i` with `p = softmax(beta m)`, where m is e under the
    coverage c. What the units chose is summed with the weights `softmax_r(w_f . tanh(a^r W_f))` and goes into the
    GRU, whose first state is the guide. Every unit has its own weights, and all steps share them.

    The coverage of a token starts at 1 and falls by `p / phi` when the token is read, so that another
    one is read next; `phi = steps sigmoid(h . w_phi)` says how much there is to read.

    Args:
        steps: Number of turns of the units, T. Defaults to `5`.
        attention_units: Width of the hidden layers that score tokens and units. Defaults to `200`.
        beta: Sharpness of the choice; see `RerereadAttention`. Defaults to `10.0`.
        fuse_word: Whether the choice of the words' unit goes into the GRU too; otherwise it only steers
            the others, as in eq 12. Defaults to `True`.
        coverage: `"multiply"`, `m = c e` (eq 14), where a covered token gains if its score is negative;
            `"log"`, `beta m = beta e + log(c + 1e-6)`; or `"off"`, `m = e`. Defaults to `"multiply"`.
        clip_coverage: Whether coverage stays at 0 or above. Defaults to `True`.
        coverage_update: The dividend over phi: the `"probability"` p, or the `"score"` m (eq 14 as
            printed). Defaults to `"probability"`.

    Call arguments:
        phrases: `[B, R+1, L, D]`, unit 0 being the words.
        mask: Boolean `[B, L]`, True = real token.
        guide: `[B, D]`.
        return_selection: Whether to return what was chosen as well. Defaults to `False`.

    Output shape:
        The state after each step, `[B, steps, D]`. With `return_selection` also three float32 tensors:
        the weights p `[B, steps, R+1, L]`, the coverage after each step, of the same shape, and the
        weights of the units, `[B, steps, R+1]`.

    Masking:
        Padding is never chosen; its weights and coverage are 0. Zeros are read from an empty sentence.
        Scores, coverage and softmaxes are float32 under every half-precision policy.

    Raises:
        InputError: An option is unknown, a number is not positive, or the shapes do not fit.

    Example:
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
        require_above_zero(beta=beta)
        require_choice(COVERAGES, coverage=coverage)
        require_choice(UPDATES, coverage_update=coverage_update)

    def build(self, phrases_shape, guide_shape=None):
        shapes = f"Received: {phrases_shape} and {guide_shape}"
        known = len(phrases_shape) == 4 and phrases_shape[1] and phrases_shape[3]
        require(known, f"phrases must be [B, R+1, L, D] with known R+1 and D. {shapes}")
        _, count, _, width = phrases_shape
        fits = guide_shape is not None and guide_shape[-1] == width
        require(fits, f"guide must be [B, {width}], as wide as the phrases. {shapes}")
        self.fused = [r > 0 or self.fuse_word for r in range(count)]
        require(any(self.fused), f"fuse_word=False needs phrases as well as words. {shapes}")

        def kernel(name: str, inputs: int = width):
            return self.add_weight(shape=(inputs, self.attention_units), name=name)

        def column(name: str, inputs: int, **options):
            # A column gives Glorot's range the paper's n_out = 1.
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
        fixed = [  # [B, L, A] each: the same at every step
            ops.matmul(h, w) + ops.expand_dims(ops.matmul(guide, m), 1)
            for h, w, m in zip(units, self.token_kernels, self.guide_kernels)
        ]
        fertility = [self._fertility(h, w) for h, w in zip(units, self.fertility_kernels)]
        coverage = [ops.cast(mask, self.wide_dtype) for _ in units]
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
                context = ops.cast(self.contexts[r], hidden.dtype)
                scores = ops.squeeze(ops.matmul(hidden, context), -1)  # [B, L], eq 12
                if self.coverage == "multiply":
                    scores = coverage[r] * scores  # eq 14
                elif self.coverage == "log":
                    scores = scores + ops.log(ops.maximum(coverage[r], 0) + EPSILON) / self.beta
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
        """Return how much there is to read of each token, phi: `[B, L]`."""
        share = ops.sigmoid(at_least_float32(ops.squeeze(ops.matmul(h, kernel), -1)))
        return self.steps * ops.maximum(share, EPSILON)

    def _select(self, scores, mask):
        # A big beta cannot overflow, because it multiplies a difference.
        top = ops.stop_gradient(ops.expand_dims(masked_max(scores, mask), 1))
        return masked_softmax(self.beta * (scores - top), mask)

    def _fuse(self, chosen) -> tuple[Any, Any]:
        """Return the weighted sum of `[B, R+1, D]` and its weights, `[B, R+1]`."""
        if sum(self.fused) > 1:
            hidden = at_least_float32(ops.tanh(ops.matmul(chosen, self.fusion_kernel)))
            context = ops.cast(self.fusion_context, hidden.dtype)
            scores = ops.squeeze(ops.matmul(hidden, context), -1)
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
        return (result, *(self.spec(*shape, dtype=self.wide_dtype) for shape in shapes))
