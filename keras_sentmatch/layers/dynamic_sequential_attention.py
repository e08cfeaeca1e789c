"""Dynamic sequential attention: re-reading a sentence pair, a token and the phrases around it a step."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.ops import at_least_float32, masked_max, masked_softmax

COVERAGES = ("multiply", "log", "off")
UPDATES = ("probability", "score")
EPSILON = 1e-6  # keeps the logarithm of a coverage, and 1 over a fertility, finite


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class DynamicSequentialAttention(keras.layers.Layer):
    """Reads the token that matters most and then the phrases that do, `steps` times, into a GRU.

    There are R+1 units: the words (r = 0) and R sequences of phrases, e.g. from `PhraseCNN`. At each step t the units take
    turns. Unit r scores its tokens by what was read so far, by the guide g and by what the units before it have chosen:
    `e_i = w . tanh(h_i W + s_{t-1} U + g M + (a^0 + ... + a^{r-1}) V)`. It then chooses `a^r = sum_i p_i h_i` with
    `p = softmax(beta m)`, where m is e under the coverage c. What the units chose is summed with the weights
    `softmax_r(w_f . tanh(a^r W_f))` and goes into the GRU, whose first state is the guide. Every unit has its own weights;
    all steps share them.

    The coverage of a token starts at 1 and falls by `p / phi` when it was read, `phi = steps sigmoid(h . w_phi)` being how
    much of it there is to read, so that something else is read next.

    Args:
        steps: how often the units take their turns, T. Defaults to `5`.
        attention_units: width of the hidden layers that score tokens and units. Defaults to `200`.
        beta: sharpness of the choice; see `RerereadAttention`. Defaults to `10.0`.
        fuse_word: whether what the words' unit chose goes into the GRU too; otherwise it only steers the others, as in
            eq 12. Defaults to `True`.
        coverage: `"multiply"`, `m = c e` (eq 14), with which a covered token gains if its score is negative; `"log"`,
            `beta m = beta e + log(c + 1e-6)`, at most 13.8 less, which a big beta outweighs; or `"off"`, `m = e`, with no
            weights for phi. Defaults to `"multiply"`.
        clip_coverage: whether coverage stays at 0 or above. Defaults to `True`.
        coverage_update: what is divided by phi: the `"probability"` p, or the `"score"` m (eq 14 as printed). Defaults to
            `"probability"`.

    Call arguments:
        phrases: `[B, R+1, L, D]`, unit 0 being the words.
        mask: boolean `[B, L]`, True = real token.
        guide: `[B, D]`.
        selectable: boolean `[B, L]`, False for real tokens that must not be chosen. Defaults to `None`, all may be.
        return_sequences: whether to return the states of all steps. Defaults to `False`.
        return_selection: whether to return what was chosen as well. Defaults to `False`.

    Output shape:
        The last state `[B, D]`, or with `return_sequences` all of them, `[B, steps, D]`. With `return_selection` a tuple of
        that and three float32 tensors: the weights p `[B, steps, R+1, L]`, the coverage after each step, of the same shape,
        and the weights of the units, `[B, steps, R+1]`.

    Masking:
        Padding is never chosen, its weights and coverage are 0. From an empty sentence zeros are read. Scores, coverage and
        softmaxes are float32 under every policy.

    Raises:
        ValueError: for an unknown option, a number that is not positive, phrases that are not of rank 4, a guide of another
            width, or no phrases without `fuse_word`.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import DynamicSequentialAttention
        >>> phrases, mask = np.ones((1, 3, 4, 6), "float32"), np.array([[True, True, False, False]])
        >>> layer = DynamicSequentialAttention(steps=2, attention_units=5)
        >>> v, weights, coverage, units = layer(
        ...     phrases, mask, np.ones((1, 6), "float32"), return_selection=True
        ... )
        >>> tuple(v.shape), tuple(units.shape), [float(w) for w in weights[0, 1, 2]]
        ((1, 6), (1, 2, 3), [0.5, 0.5, 0.0, 0.0])

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
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        for name, number in (("steps", steps), ("attention_units", attention_units)):
            if number < 1:
                raise ValueError(f"{name} must be at least 1. Received: {name}={number!r}")
        if not beta > 0:
            raise ValueError(f"beta must be positive. Received: beta={beta!r}")
        for name, value, allowed in (
            ("coverage", coverage, COVERAGES),
            ("coverage_update", coverage_update, UPDATES),
        ):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {allowed}. Received: {name}={value!r}")
        self.steps = steps
        self.attention_units = attention_units
        self.beta = beta
        self.fuse_word = fuse_word
        self.coverage = coverage
        self.clip_coverage = clip_coverage
        self.coverage_update = coverage_update

    def build(
        self,
        phrases_shape: Any,
        mask_shape: Any = None,
        guide_shape: Any = None,
        selectable_shape: Any = None,
    ) -> None:
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
                f"fuse_word=False needs phrases beside the words. Received: shape={phrases_shape}"
            )

        def kernel(name: str, inputs: int = width) -> Any:
            return self.add_weight(shape=(inputs, self.attention_units), name=name)

        def column(name: str, inputs: int, **options: Any) -> Any:
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
            width, recurrent_initializer="glorot_uniform", dtype=self.dtype_policy, name="gru"
        )
        self.cell.build((None, width))

    def call(
        self,
        phrases: Any,
        mask: Any,
        guide: Any,
        selectable: Any = None,
        return_sequences: bool = False,
        return_selection: bool = False,
    ) -> Any:
        allowed = mask if selectable is None else ops.logical_and(mask, selectable)
        units = [phrases[:, r] for r in range(len(self.fused))]
        # What doesn't change from step to step
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
                scores = ops.squeeze(ops.matmul(hidden, self.contexts[r]), -1)
                scores = self._cover(scores, coverage[r])
                p = self._select(scores, allowed)
                chosen.append(
                    ops.squeeze(ops.matmul(ops.expand_dims(ops.cast(p, h.dtype), 1), h), 1)
                )
                weights.append(p)
                if self.coverage != "off":
                    spent = p if self.coverage_update == "probability" else scores
                    spent = ops.where(allowed, spent / fertility[r], 0)
                    coverage[r] = coverage[r] - spent
                    if self.clip_coverage:
                        coverage[r] = ops.maximum(coverage[r], 0)
            token, fusion = self._fuse(ops.stack(chosen, axis=1))
            state, _ = self.cell(token, state)
            states.append(state)
            selected.append(ops.stack(weights, axis=1))
            covered.append(ops.stack(coverage, axis=1))
            unit_weights.append(fusion)
        result = ops.stack(states, axis=1) if return_sequences else state
        if not return_selection:
            return result
        return (result, *(ops.stack(found, axis=1) for found in (selected, covered, unit_weights)))

    def _fertility(self, h: Any, kernel: Any) -> Any:
        """How much there is to read of each token, phi: `[B, L]`."""
        share = ops.sigmoid(at_least_float32(ops.squeeze(ops.matmul(h, kernel), -1)))
        return self.steps * ops.maximum(share, EPSILON)

    def _cover(self, scores: Any, coverage: Any) -> Any:
        """The m of softmax(beta m)."""
        if self.coverage == "multiply":
            return coverage * scores
        if self.coverage == "log":
            return scores + ops.log(ops.maximum(coverage, 0) + EPSILON) / self.beta
        return scores

    def _select(self, scores: Any, allowed: Any) -> Any:
        # Beta times a difference: a big beta can't overflow.
        top = ops.stop_gradient(ops.expand_dims(masked_max(scores, allowed), 1))
        return masked_softmax(self.beta * (scores - top), allowed)

    def _fuse(self, chosen: Any) -> tuple[Any, Any]:
        """`[B, R+1, D]` to their weighted sum and its weights, `[B, R+1]`."""
        if sum(self.fused) > 1:
            hidden = at_least_float32(ops.tanh(ops.matmul(chosen, self.fusion_kernel)))
            scores = ops.squeeze(ops.matmul(hidden, self.fusion_context), -1)
        else:
            scores = ops.zeros_like(at_least_float32(chosen[:, :, 0]))
        weights = masked_softmax(scores, ops.convert_to_tensor([self.fused]))
        token = ops.matmul(ops.expand_dims(ops.cast(weights, chosen.dtype), 1), chosen)
        return ops.squeeze(token, 1), weights

    def compute_output_spec(
        self,
        phrases: Any,
        mask: Any,
        guide: Any,
        selectable: Any = None,
        return_sequences: bool = False,
        return_selection: bool = False,
    ) -> Any:
        batch, units, length, width = phrases.shape
        shape = (batch, self.steps, width) if return_sequences else (batch, width)
        result = keras.KerasTensor(shape, dtype=self.compute_dtype)
        if not return_selection:
            return result
        each, all_tokens = (batch, self.steps, units), (batch, self.steps, units, length)
        shapes = (all_tokens, all_tokens, each)
        return (result, *(keras.KerasTensor(shape, dtype="float32") for shape in shapes))

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        return None  # masks are explicit arguments; Keras is given none to pass on

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "steps": self.steps,
            "attention_units": self.attention_units,
            "beta": self.beta,
            "fuse_word": self.fuse_word,
            "coverage": self.coverage,
            "clip_coverage": self.clip_coverage,
            "coverage_update": self.coverage_update,
        }
