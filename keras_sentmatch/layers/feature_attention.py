"""Feature attention and selective feature attention (Zang and Liu, 2024)."""

import math
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
from keras_sentmatch.layers.bidirectional_rnn import BidirectionalRNN
from keras_sentmatch.layers.dropout import Dropout
from keras_sentmatch.ops import masked_max, masked_mean, masked_softmax
from keras_sentmatch.ops.masking import at_least_float32, zero_padding


def _reduced(width: int, reduction: float) -> int:
    """Return `width / reduction` rounded down, at least 1; 300 / 3.75 is 80."""
    return max(1, math.floor(width / reduction + 1e-6))


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class FeatureAttention(Layer):
    """Scale every feature of a sentence by a gate computed from the mean of its tokens.

    `s = mean_l x_l`, `e = sigmoid(tanh(s W_1) W_2)`, `u_l = e * x_l`. All tokens have the same gates.

    Args:
        reduction: `r`: the hidden layer is `D / r` wide, rounded down, at least 1. Defaults to `1`.
        kernel_regularizer: Penalty on both kernels. Defaults to `None`.

    Call arguments:
        x: `[B, L, D]`.
        mask: Boolean `[B, L]`, True = real token.
        return_gates: Whether to return the gates as well. Defaults to `False`.

    Output shape:
        `[B, L, D]`; with `return_gates` also the gates e, `[B, D]`.

    Masking:
        The mean is over real tokens. Padded positions of the output are zero.

    Raises:
        InputError: `reduction` is not above 0.

    Example:
        >>> x, mask = np.ones((2, 3, 8), "float32"), np.ones((2, 3), bool)
        >>> u, gates = FeatureAttention(reduction=2)(x, mask, return_gates=True)
        >>> tuple(u.shape), tuple(gates.shape)
        ((2, 3, 8), (2, 8))

    References:
        Zang, Liu: "Modeling Selective Feature Attention for Representation-based Siamese Text
        Matching", eq 1-3.
    """

    def __init__(self, reduction: float = 1, kernel_regularizer=None, **kwargs):
        super().__init__(**kwargs)
        require_above_zero(reduction=reduction)

    def build(self, x_shape):
        self.width = x_shape[-1]
        hidden = _reduced(self.width, self.reduction)
        self.squeeze = self.dense(hidden, "squeeze", "tanh", self.width)
        self.excitation = self.dense(self.width, "excitation", "sigmoid", hidden)

    def call(self, x, mask, return_gates=False):
        gates = self.excitation(self.squeeze(masked_mean(x, mask)))  # [B, D], eq 1-2
        u = zero_padding(ops.expand_dims(gates, 1) * x, mask)  # [B, L, D], eq 3
        return (u, gates) if return_gates else u

    def compute_output_spec(self, x, mask, return_gates=False):
        u, gates = self.spec(*x.shape), self.spec(x.shape[0], x.shape[-1])
        return (u, gates) if return_gates else u


class TransformerBlock(Layer):
    """`y = norm(x + attention(x))`, `norm(y + feed_forward(y))`, as wide as `x`.

    A head is `ceil(D / heads)` wide, so any number of heads fits any width. The feed-forward layer
    is `4 D` wide. Keys have no bias, because the softmax would cancel it. The block adds no
    positions: its input has them.
    """

    def __init__(self, heads: int, kernel_regularizer=None, **kwargs):
        super().__init__(**kwargs)

    def build(self, x_shape):
        width = x_shape[-1]
        self.head_width = -(-width // self.heads)
        per_head = (None, self.heads, self.head_width)
        options = {"kernel_regularizer": self.kernel_regularizer, "dtype": self.dtype_policy}

        def project(name: str, bias: str | None = "hs") -> keras.layers.EinsumDense:
            return keras.layers.EinsumDense(
                "bld,dhs->blhs", per_head, bias_axes=bias, name=name, **options
            )

        self.query, self.key, self.value = project("query"), project("key", None), project("value")
        self.join = keras.layers.EinsumDense(
            "blhs,hsd->bld", (None, width), bias_axes="d", name="join", **options
        )
        self.wide = self.dense(4 * width, "wide", "relu", width)
        self.narrow = self.dense(width, "narrow", inputs=4 * width)
        self.norms = [
            keras.layers.LayerNormalization(dtype=self.dtype_policy, name=name)
            for name in ("norm_1", "norm_2")
        ]
        for layer in (self.query, self.key, self.value, *self.norms):
            layer.build(x_shape)
        self.join.build((*x_shape[:-1], self.heads, self.head_width))

    def call(self, x, mask):
        query, key = at_least_float32(self.query(x)), at_least_float32(self.key(x))
        scores = ops.einsum("bihs,bjhs->bhij", query, key) * self.head_width**-0.5
        weights = masked_softmax(scores, ops.expand_dims(mask, (1, 2)))
        value = self.value(x)
        attended = ops.einsum("bhij,bjhs->bihs", ops.cast(weights, value.dtype), value)
        y = self.norms[0](x + self.join(attended))
        return self.norms[1](y + self.narrow(self.wide(y)))

    def compute_output_shape(self, x_shape):
        return x_shape


# Branches that stand side by side: (size of the window, distance of its tokens) of the n-th one.
CNNS = {
    "cnn": lambda n: (2 * n + 1, 1),
    "dilated_cnn3": lambda n: (3, n),
    "dilated_cnn5": lambda n: (5, n),
}
RNNS = {"birnn": "rnn", "bigru": "gru", "bilstm": "lstm"}
STACKED = (*RNNS, "transformer")


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class SelectiveFeatureAttention(Layer):
    """Read a sentence with N branches and weight the branches feature by feature.

    A bottleneck narrows `x`. The branches `x^(1)..x^(N)`, each W wide, read it: by default a stack of
    BiGRUs. `s` is the mean plus the maximum over branches and tokens, and
    `e^(n) = sigmoid(tanh(s W_1) W_2^(n))` are gates. The output is the sum of the branches with the
    weights `softmax_n(e^(n)_d)`, widened to the width of `x`. The gates lie in (0, 1), so no weight is
    more than 2.72 times another; `pre_sigmoid=True` has no such bound.

    Args:
        branches: N. Defaults to `3`.
        r1: The bottleneck is `D / r1` wide, rounded down, at least 1. Defaults to `3`.
        r2: The hidden layer of the gates is `W / r2` wide, rounded down, at least 1. Defaults to `5`.
        units: `"compact"`, W = D / r1 (rounded down to an even number), which gives the paper's
            parameter counts; or `"literal"`, W = 2 D / r1, as its equations say. Defaults to
            `"compact"`.
        branch_kind: `"bigru"`, `"birnn"`, `"bilstm"` or `"transformer"`, stacked; or, side by side,
            `"cnn"` (windows of 3, 5, 7... tokens), `"dilated_cnn3"` or `"dilated_cnn5"` (windows of 3
            or 5 tokens, 1, 2, 3... apart). Defaults to `"bigru"`.
        heads: Number of attention heads of a transformer branch. Defaults to `1`.
        dropout: Dropout rate on the output of each branch. Defaults to `0.2`.
        autoencoder: Whether there are bottlenecks. Without them W = D (plus 1 for recurrent branches if
            D is odd) and r1 counts as 1. Defaults to `True`.
        mean_pooling: Whether the mean is part of `s`. Defaults to `True`.
        max_pooling: Whether the maximum is part of `s`. Defaults to `True`.
        selection: Whether to weight the branches; otherwise the output is their mean times one gate.
            Defaults to `True`.
        gates: Whether there are gates; otherwise the output is the mean of the branches. Defaults to
            `True`.
        residual: Whether `x` is added to the output. Not in the paper. Defaults to `False`.
        pre_sigmoid: Whether the softmax is taken of the logits instead. Defaults to `False`.
        kernel_regularizer: Penalty on every kernel. Defaults to `None`.

    Call arguments:
        x: `[B, L, D]`.
        mask: Boolean `[B, L]`, True = real token, right-padded.
        return_gates: Whether to return the gates and the weights as well. Defaults to `False`.

    Output shape:
        `[B, L, D]`; with `return_gates` also the gates e, `[B, N, W]`, and the weights of the branches
        for each feature, `[B, N, W]`, which sum to 1 over N. Without selection there is one gate,
        `[B, 1, W]`, and all weights are `1 / N`; without gates that gate is 1.

    Masking:
        Padding changes nothing at the real tokens. Padded positions of the output are zero.

    Raises:
        InputError: An option is unknown, a number is not positive, there is no pooling, or
            `pre_sigmoid` is combined with `selection=False` or `gates=False`.

    Example:
        >>> x, mask = np.ones((2, 3, 12), "float32"), np.ones((2, 3), bool)
        >>> u, gates, weights = SelectiveFeatureAttention(r2=2)(x, mask, return_gates=True)
        >>> tuple(u.shape), tuple(weights.shape)
        ((2, 3, 12), (2, 3, 4))

    References:
        Zang, Liu: "Modeling Selective Feature Attention for Representation-based Siamese Text
        Matching", eq 4-8, Fig 3, 4.
    """

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
        kernel_regularizer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        require_above_zero(r1=r1, r2=r2)
        require_choice(("compact", "literal"), units=units)
        require_choice((*CNNS, *STACKED), branch_kind=branch_kind)
        require_positive(branches=branches, heads=heads)
        self.selects = gates and selection
        require(mean_pooling or max_pooling, "The gates need mean_pooling or max_pooling.")
        selects = self.selects or not pre_sigmoid
        require(selects, "pre_sigmoid=True needs selection=True and gates=True.")

    def _widths(self) -> tuple[int, int]:
        """Return the widths of the input of the first branch and of a branch."""
        if not self.autoencoder:
            odd = self.branch_kind in RNNS and self.width % 2
            return self.width, self.width + odd
        read = _reduced(self.width, self.r1)
        if self.units == "literal":
            return read, 2 * read
        even = 2 * max(1, read // 2)
        return even, even

    def _branch(self, n: int, width: int) -> keras.layers.Layer:
        name = f"branch_{n}"
        if self.branch_kind in RNNS:
            cell = RNNS[self.branch_kind]
            return self.sublayer(BidirectionalRNN, name, units=width // 2, cell=cell)
        if self.branch_kind == "transformer":
            return self.sublayer(TransformerBlock, name, heads=self.heads)
        window, step = CNNS[self.branch_kind](n)
        return keras.layers.Conv1D(
            width,
            window,
            padding="same",
            dilation_rate=step,
            activation="relu",
            kernel_regularizer=self.kernel_regularizer,
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, x_shape):
        self.width = x_shape[-1]
        read, branch = self._widths()
        if self.autoencoder:
            self.narrowing = self.dense(read, "narrowing", inputs=self.width)
            self.widening = self.dense(self.width, "widening", inputs=branch)
        self.projects = self.branch_kind == "transformer" and read != branch
        if self.projects:
            self.projection = self.dense(branch, "projection", inputs=read)
            read = branch
        self.branch_layers = [self._branch(n, branch) for n in range(1, self.branches + 1)]
        self.branch_dropout = Dropout(self.dropout, dtype=self.dtype_policy)
        for n, layer in enumerate(self.branch_layers):
            stacked = n and self.branch_kind in STACKED
            layer.build((*x_shape[:-1], branch if stacked else read))
        if self.gates:
            hidden = _reduced(branch, self.r2)
            self.squeeze = self.dense(hidden, "squeeze", "tanh", branch)
            self.excitations = [
                self.dense(branch, f"excitation_{n}", inputs=hidden)
                for n in range(1, (self.branches if self.selection else 1) + 1)
            ]

    def call(self, x, mask, return_gates=False, training=None):
        branches = self._read(self.narrowing(x) if self.autoencoder else x, mask, training)
        gates = ops.ones_like(branches[0][:, :1], dtype="float32")  # [B, 1, W]
        if self.gates:
            logits = self._logits(branches, mask)
            gates = ops.sigmoid(logits)  # [B, N, W]
        if self.selects:  # eq 8
            weights = factors = ops.softmax(logits if self.pre_sigmoid else gates, axis=1)
        else:
            weights = ops.ones_like(ops.repeat(gates, self.branches, axis=1)) / self.branches
            factors = gates * weights
        dtype = self.compute_dtype
        factors = ops.split(ops.cast(factors, dtype), self.branches, axis=1)  # [B, 1, W] each
        u = sum(factor * branch for factor, branch in zip(factors, branches))  # [B, L, W]
        u = self.widening(u) if self.autoencoder else u[:, :, : self.width]
        u = zero_padding(u + x if self.residual else u, mask)
        return (u, ops.cast(gates, dtype), ops.cast(weights, dtype)) if return_gates else u

    def _read(self, x, mask, training: bool | None) -> list[Any]:
        """Return the branches `x^(1)..x^(N)`, each `[B, L, W]` (eq 4)."""
        x, branches = zero_padding(x, mask), []
        if self.projects:
            x = self.projection(x)
        for layer in self.branch_layers:
            y = layer(x, mask) if self.branch_kind in STACKED else layer(x)
            y = zero_padding(self.branch_dropout(y, training=training), mask)
            branches.append(y)
            if self.branch_kind in STACKED:
                x = y
        return branches

    def _logits(self, branches: list[Any], mask):
        """Return the logits of the gates, `[B, N, W]` in float32 (eq 5-7)."""
        every = ops.concatenate(branches, axis=1)
        every_mask = ops.concatenate([mask] * self.branches, axis=1)
        if self.mean_pooling and self.max_pooling:
            s = masked_mean(every, every_mask) + masked_max(every, every_mask)
        elif self.mean_pooling:
            s = masked_mean(every, every_mask)
        else:
            s = masked_max(every, every_mask)
        hidden = self.squeeze(s)
        logits = [excitation(hidden) for excitation in self.excitations]
        return at_least_float32(ops.stack(logits, axis=1))

    def compute_output_spec(self, x, mask, return_gates=False, training=None):
        if not return_gates:
            return self.spec(*x.shape)
        batch, width = x.shape[0], self._widths()[1]
        gates = self.spec(batch, self.branches if self.selects else 1, width)
        return self.spec(*x.shape), gates, self.spec(batch, self.branches, width)
