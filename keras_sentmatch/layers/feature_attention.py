"""Feature attention and selective feature attention (Zang, Liu)."""

import math
import warnings
from typing import Any

import keras
from keras import ops

from keras_sentmatch.layers.base import Layer, require_choice, require_positive
from keras_sentmatch.layers.bidirectional_rnn import BidirectionalRNN
from keras_sentmatch.layers.transformer_block import TransformerBlock
from keras_sentmatch.ops import at_least_float32, masked_max, masked_mean, zero_padding

LEAST = 8.33  # eq 9: a width should exceed 8.33 ln L


class _Narrowing(Layer):
    """A layer with narrow widths, which eq 9 of the paper bounds."""

    reductions: tuple[str, ...]  # arguments that narrow
    width: int  # of x, once built
    max_length: int | None
    raise_widths: bool

    def check_reductions(self) -> None:
        """Refuses arguments of the constructor."""
        for name in self.reductions:
            reduction = getattr(self, name)
            if not reduction > 0:
                raise ValueError(f"{name} must be above 0. Received: {name}={reduction!r}")
        if self.max_length is not None and self.max_length < 1:
            raise ValueError(
                f"max_length must be at least 1. Received: max_length={self.max_length!r}"
            )
        if self.raise_widths and self.max_length is None:
            raise ValueError(
                "raise_widths=True needs max_length, the longest sentence. Received: "
                "max_length=None"
            )

    def build(self, x_shape):
        self.width = x_shape[-1]
        narrow = self.max_length and self.too_narrow(self.width, self.max_length)
        if narrow:
            warnings.warn(
                f"{self.name}: {narrow} Reduce less, or set raise_widths=True.", stacklevel=4
            )

    def narrow_widths(self, width: int) -> dict[str, float]:
        """The widths of eq 9 for an x of this width, by their names there."""
        raise NotImplementedError

    def too_narrow(self, width: int, length: int) -> str:
        """Which widths do not exceed `8.33 ln(length)` (eq 9), in words; empty if all do."""
        least = LEAST * math.log(length)
        widths = {} if self.raise_widths else self.narrow_widths(width)
        narrow = [f"{name} = {value:.4g}" for name, value in widths.items() if value <= least]
        return (
            f"{', '.join(narrow)} should exceed 8.33 ln({length}) = {least:.4g} for {width} features "
            f"and sentences of {length} tokens (eq 9 of the SFA paper)."
            if narrow
            else ""
        )

    def least_width(self) -> int:
        """The released code's floor on widths, `2 floor(8.33 ln L / 2)`: 24 for 20 tokens."""
        if not self.raise_widths:
            return 0
        return 2 * math.floor(LEAST * math.log(self.max_length or 1) / 2)


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class FeatureAttention(_Narrowing):
    """Scales every feature of a sentence by a gate that the mean over its tokens decides.

    `s = mean_l x_l`, `e = sigmoid(tanh(s W_1) W_2)`, `u_l = e * x_l`. The gates are the same at
    every token.

    Args:
        reduction: r: the hidden layer is `D / r` wide, rounded down, at least 1. Defaults to `1`.
        use_bias: whether the two dense layers have biases; the paper's equations have none.
            Defaults to `True`.
        batch_norm: whether to normalize before the sigmoid, as the released code does. Defaults to
            `False`.
        max_length: the longest sentence in tokens; the layer then warns if `D / r` does not exceed
            `8.33 ln(max_length)` (eq 9). Defaults to `None`.
        raise_widths: whether to widen the hidden layer to that bound instead, as the released code
            does; needs `max_length`. Defaults to `False`.
        kernel_regularizer: for both kernels. Defaults to `None`.

    Call arguments:
        x: `[B, L, D]`.
        mask: boolean `[B, L]`, True = real token.
        return_gates: whether to return the gates as well. Defaults to `False`.

    Output shape:
        `[B, L, D]`; with `return_gates` also the gates e, `[B, D]`.

    Masking:
        The mean is over real tokens; padded positions of the output are zero.

    Raises:
        ValueError: for a reduction that is not above 0, or `raise_widths` without `max_length`.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import FeatureAttention
        >>> x, mask = np.ones((2, 3, 8), "float32"), np.ones((2, 3), bool)
        >>> u, gates = FeatureAttention(reduction=2)(x, mask, return_gates=True)
        >>> tuple(u.shape), tuple(gates.shape)
        ((2, 3, 8), (2, 8))

    References:
        Zang, Liu: "Modeling Selective Feature Attention for Representation-based Siamese Text
        Matching", eq 1-3 and 9.
    """

    reductions = ("reduction",)

    def __init__(
        self,
        reduction: float = 1,
        use_bias: bool = True,
        batch_norm: bool = False,
        max_length: int | None = None,
        raise_widths: bool = False,
        kernel_regularizer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.check_reductions()

    def narrow_widths(self, width: int) -> dict[str, float]:
        return {"D/r": width / self.reduction}

    def build(self, x_shape):
        super().build(x_shape)
        width = self.width
        hidden = max(_reduced(width, self.reduction), self.least_width())
        bias = {"use_bias": self.use_bias}
        self.squeeze = self.dense(hidden, "squeeze", "tanh", width, **bias)
        self.excitation = self.dense(width, "excitation", inputs=hidden, **bias)
        if self.batch_norm:
            self.normalization = keras.layers.BatchNormalization(
                dtype=self.dtype_policy, name="normalization"
            )
            self.normalization.build((None, width))

    def call(self, x, mask, return_gates=False, training=None):
        e = self.excitation(self.squeeze(masked_mean(x, mask)))  # [B, D], eq 1-2
        if self.batch_norm:
            e = self.normalization(e, training=training)
        gates = ops.sigmoid(e)
        u = zero_padding(ops.expand_dims(gates, 1) * x, mask)  # [B, L, D], eq 3
        return (u, gates) if return_gates else u

    def compute_output_spec(self, x, mask, return_gates=False, training=None):
        u = self.spec(*x.shape)
        gates = self.spec(x.shape[0], x.shape[-1])
        return (u, gates) if return_gates else u


def _reduced(width: int, factor: float) -> int:
    """`width / factor` rounded down, at least 1; 300 / 3.75 is 80."""
    return max(1, math.floor(width / factor + 1e-6))


CNNS = ("cnn", "dilated_cnn3", "dilated_cnn5")
RNNS = {"birnn": "rnn", "bigru": "gru", "bilstm": "lstm"}
BRANCHES = (*CNNS, *RNNS, "transformer")


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class SelectiveFeatureAttention(_Narrowing):
    """Reads a sentence with N branches and weighs them feature by feature.

    A bottleneck narrows `x`; the branches `x^(1)..x^(N)`, each W wide, read it, by default as a
    stack of BiGRUs; the mean plus the maximum over branches and tokens is `s`;
    `e^(n) = sigmoid(tanh(s W_1) W_2^(n))` are gates; the output is the sum of the branches with the
    weights `softmax_n(e^(n)_d)`, widened to the width of `x`.

    The gates lie in (0, 1), so that a weight is at most e times another's; `pre_sigmoid=True` takes
    the softmax of what goes into the sigmoid instead.

    Args:
        branches: N. Defaults to `3`.
        r1: the bottleneck is `D / r1` wide, rounded down, at least 1. Defaults to `3`.
        r2: the hidden layer of the gates is `W / r2` wide, rounded down, at least 1. Defaults to
            `5`.
        units: `"compact"`, W = D / r1 (rounded down to an even number), which gives the paper's
            parameter counts; or `"literal"`, W = 2 D / r1, as its equations have it. Defaults to
            `"compact"`.
        branch_kind: `"bigru"`, `"birnn"`, `"bilstm"` or `"transformer"`, stacked; or `"cnn"`
            (windows of 3, 5, 7... tokens), `"dilated_cnn3"` or `"dilated_cnn5"` (windows of 3 or 5
            tokens, 1, 2, 3... apart), side by side. Defaults to `"bigru"`.
        heads: of a transformer branch. Defaults to `1`.
        dropout: rate on the output of each branch. Defaults to `0.2`.
        autoencoder: whether there are bottlenecks; without them W = D (of recurrent branches plus 1
            if D is odd, which the output leaves out again) and r1 counts as 1. Defaults to `True`.
        mean_pooling: whether the mean is part of `s`. Defaults to `True`.
        max_pooling: whether the maximum is part of `s`. Defaults to `True`.
        selection: whether to weigh the branches; otherwise the output is their mean times a single
            gate. Defaults to `True`.
        gates: whether there are gates at all; without them the output is the mean of the branches,
            and what concerns gates counts for nothing. Defaults to `True`.
        residual: whether `x` is added to the output. Not in the paper. Defaults to `False`.
        pre_sigmoid: whether the softmax is taken before the sigmoid. Defaults to `False`.
        use_bias: whether the dense layers of the gates have biases; eq 7 has none. Defaults to
            `True`.
        batch_norm: whether to normalize before the sigmoid, as the released code does. Defaults to
            `False`.
        max_length: the longest sentence in tokens; the layer then warns if `2D / r1` or
            `2D / (r1 r2)` does not exceed `8.33 ln(max_length)` (eq 9, whatever `units`). Defaults
            to `None`.
        raise_widths: whether to widen W and the hidden layer to that bound instead, as the released
            code does; needs `max_length`. Defaults to `False`.
        kernel_regularizer: for every kernel. Defaults to `None`.

    Call arguments:
        x: `[B, L, D]`.
        mask: boolean `[B, L]`, True = real token, right-padded.
        return_gates: whether to return the gates and the weights as well. Defaults to `False`.

    Output shape:
        `[B, L, D]`; with `return_gates` also the gates e, `[B, N, W]`, and the weights of the
        branches for each feature, `[B, N, W]`, which sum to 1 over N. Without selection there is
        one gate, `[B, 1, W]`, and all weights are `1 / N`; without gates that one is 1.

    Masking:
        Padding changes nothing at the real tokens; padded positions of the output are zero.

    Raises:
        ValueError: for an unknown branch or `units`, no pooling at all, `pre_sigmoid` without
            selection or gates, and `raise_widths` without `max_length`.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import SelectiveFeatureAttention
        >>> x, mask = np.ones((2, 3, 12), "float32"), np.ones((2, 3), bool)
        >>> u, gates, weights = SelectiveFeatureAttention(r2=2)(x, mask, return_gates=True)
        >>> tuple(u.shape), tuple(weights.shape)
        ((2, 3, 12), (2, 3, 4))

    References:
        Zang, Liu: "Modeling Selective Feature Attention for Representation-based Siamese Text
        Matching", eq 4-9, Fig 3, 4.
    """

    reductions = ("r1", "r2")

    def __init__(
        self,
        branches: int = 3,
        r1: float = 3,
        r2: float = 5,
        units: str = "compact",
        branch_kind: str = "bigru",
        heads: int = 1,
        dropout: float = 0.2,
        autoencoder: bool = True,
        mean_pooling: bool = True,
        max_pooling: bool = True,
        selection: bool = True,
        gates: bool = True,
        residual: bool = False,
        pre_sigmoid: bool = False,
        use_bias: bool = True,
        batch_norm: bool = False,
        max_length: int | None = None,
        raise_widths: bool = False,
        kernel_regularizer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.check_reductions()
        require_choice(("compact", "literal"), units=units)
        require_choice(BRANCHES, branch_kind=branch_kind)
        require_positive(branches=branches, heads=heads)
        if not (mean_pooling or max_pooling):
            raise ValueError(
                "mean_pooling and max_pooling can't both be False: the gates need one."
            )
        if pre_sigmoid and not (selection and gates):
            raise ValueError(
                "pre_sigmoid=True is about the selection: it needs selection=True and gates=True."
            )

    def narrow_widths(self, width: int) -> dict[str, float]:
        r1 = self.r1 if self.autoencoder else 1
        widths = {"2D/r1": 2 * width / r1}
        return {**widths, "2D/(r1 r2)": 2 * width / (r1 * self.r2)} if self.gates else widths

    @property
    def _selects(self) -> bool:
        return self.gates and self.selection

    def _widths(self, width: int) -> tuple[int, int, int]:
        """Widths of what the branches read, of a branch, and of the hidden layer of the gates."""
        least, read = self.least_width(), width
        branch = width + (width % 2 if self.branch_kind in RNNS else 0)
        if self.autoencoder:
            read = _reduced(width, self.r1)
            branch = 2 * (read if self.units == "literal" else max(1, read // 2))
            branch = max(branch, least)
            read = branch // 2 if self.units == "literal" else branch
        return read, branch, max(_reduced(branch, self.r2), least)

    def _branch(self, n: int, width: int) -> keras.layers.Layer:
        name = f"branch_{n}"
        if self.branch_kind in RNNS:
            cell = RNNS[self.branch_kind]
            return self.sublayer(BidirectionalRNN, name, units=width // 2, cell=cell)
        if self.branch_kind == "transformer":
            return self.sublayer(TransformerBlock, name)
        kernel, step = {"cnn": (2 * n + 1, 1), "dilated_cnn3": (3, n), "dilated_cnn5": (5, n)}[
            self.branch_kind
        ]
        return keras.layers.Conv1D(
            width,
            kernel,
            padding="same",
            dilation_rate=step,
            activation="relu",
            kernel_regularizer=self.kernel_regularizer,
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, x_shape):
        super().build(x_shape)
        read, branch, hidden = self._widths(self.width)
        if self.autoencoder:
            self.narrowing = self.dense(read, "narrowing", inputs=self.width)
            self.widening = self.dense(self.width, "widening", inputs=branch)
        self.projects = self.branch_kind == "transformer" and read != branch
        if self.projects:
            self.projection = self.dense(branch, "projection", inputs=read)
            read = branch
        self.branch_layers = [self._branch(n, branch) for n in range(1, self.branches + 1)]
        self.branch_dropout = keras.layers.Dropout(self.dropout, dtype=self.dtype_policy)
        for n, layer in enumerate(self.branch_layers):
            stacked = n and self.branch_kind not in CNNS
            layer.build((*x_shape[:-1], branch if stacked else read))
        if not self.gates:
            return
        gates = range(1, (self.branches if self.selection else 1) + 1)
        bias = {"use_bias": self.use_bias}
        self.squeeze = self.dense(hidden, "squeeze", "tanh", branch, **bias)
        self.excitations = [
            self.dense(branch, f"excitation_{n}", inputs=hidden, **bias) for n in gates
        ]
        self.normalizations = [
            keras.layers.BatchNormalization(dtype=self.dtype_policy, name=f"normalization_{n}")
            for n in gates
            if self.batch_norm
        ]
        for norm in self.normalizations:
            norm.build((None, branch))

    def call(self, x, mask, return_gates=False, training=None):
        given = x
        x = zero_padding(self.narrowing(x) if self.autoencoder else x, mask)
        x = self.projection(x) if self.projects else x
        branches = []
        for layer in self.branch_layers:  # eq 4
            side_by_side = self.branch_kind in CNNS
            y = layer(x) if side_by_side else layer(x, mask)
            y = zero_padding(self.branch_dropout(y, training=training), mask)
            branches.append(y)
            x = x if side_by_side else y
        gates = ops.ones_like(branches[0][:, :1], dtype="float32")
        if self.gates:
            logits = self._logits(branches, mask, training)
            gates = ops.sigmoid(logits)
        if self._selects:  # eq 8
            weights = ops.softmax(logits if self.pre_sigmoid else gates, axis=1)
            factors = weights
        else:
            weights = ops.ones_like(ops.repeat(gates, self.branches, axis=1)) / self.branches
            factors = gates * weights
        dtype = self.compute_dtype
        factors = ops.split(ops.cast(factors, dtype), self.branches, axis=1)  # [B, 1, W] each
        u = sum(factor * branch for factor, branch in zip(factors, branches))
        u = self.widening(u) if self.autoencoder else u[:, :, : self.width]
        u = zero_padding(u + given if self.residual else u, mask)
        return (u, ops.cast(gates, dtype), ops.cast(weights, dtype)) if return_gates else u

    def _logits(self, branches: list[Any], mask, training: bool | None):
        """What goes into the sigmoid, `[B, N, W]` in float32 (eq 5-7)."""
        every, every_mask = (
            ops.concatenate(parts, axis=1) for parts in (branches, [mask] * self.branches)
        )
        pools = [masked_mean] * self.mean_pooling + [masked_max] * self.max_pooling
        s = self.squeeze(sum(pool(every, every_mask) for pool in pools))
        logits = [excitation(s) for excitation in self.excitations]
        if self.batch_norm:
            logits = [n(e, training=training) for n, e in zip(self.normalizations, logits)]
        return at_least_float32(ops.stack(logits, axis=1))

    def compute_output_spec(self, x, mask, return_gates=False, training=None):
        if not return_gates:
            return self.spec(*x.shape)
        batch, width = x.shape[0], self._widths(x.shape[-1])[1]
        gates = self.spec(batch, self.branches if self._selects else 1, width)
        return self.spec(*x.shape), gates, self.spec(batch, self.branches, width)
