"""Feature attention: one gate for each feature of a sentence."""

import math
import warnings
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_sentmatch.ops import masked_mean, zero_padding

LEAST = 8.33  # eq 9: a width should exceed 8.33 ln L


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class FeatureAttention(keras.layers.Layer):
    """Scales every feature of a sentence by a gate that the mean over its tokens decides.

    `s = mean_l x_l`, `e = sigmoid(tanh(s W_1) W_2)`, `u_l = e * x_l`. The gates are the same at every token.

    Args:
        reduction: r: the hidden layer is `D / r` wide, rounded down, at least 1. Defaults to `1`.
        use_bias: whether the two dense layers have biases; the paper's equations have none. Defaults to `True`.
        batch_norm: whether to normalise before the sigmoid, as the released code does. Defaults to `False`.
        max_length: the longest sentence in tokens; the layer then warns if `D / r` does not exceed `8.33 ln(max_length)`
            (eq 9). Defaults to `None`.
        raise_widths: whether to widen the hidden layer to that bound instead, as the released code does; needs `max_length`.
            Defaults to `False`.
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
        Zang, Liu: "Modeling Selective Feature Attention for Representation-based Siamese Text Matching", eq 1-3 and 9.
    """

    def __init__(
        self,
        reduction: float = 1,
        use_bias: bool = True,
        batch_norm: bool = False,
        max_length: int | None = None,
        raise_widths: bool = False,
        kernel_regularizer: Any = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        check_reductions({"reduction": reduction}, max_length, raise_widths)
        self.reduction = reduction
        self.use_bias = use_bias
        self.batch_norm = batch_norm
        self.max_length = max_length
        self.raise_widths = raise_widths
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)

    def build(self, x_shape: Any, mask_shape: Any = None) -> None:
        width = x_shape[-1]
        if self.max_length and not self.raise_widths:
            warn_of_narrow(self.name, {"D/r": width / self.reduction}, self.max_length)
        hidden = reduced(width, self.reduction)
        if self.raise_widths:
            hidden = max(hidden, least_width(self.max_length))
        options = {
            "use_bias": self.use_bias,
            "kernel_regularizer": self.kernel_regularizer,
            "dtype": self.dtype_policy,
        }
        self.squeeze = keras.layers.Dense(hidden, "tanh", name="squeeze", **options)
        self.excitation = keras.layers.Dense(width, name="excitation", **options)
        self.squeeze.build((None, width))
        self.excitation.build((None, hidden))
        if self.batch_norm:
            self.normalization = keras.layers.BatchNormalization(
                dtype=self.dtype_policy, name="normalization"
            )
            self.normalization.build((None, width))

    def call(
        self, x: Any, mask: Any, return_gates: bool = False, training: bool | None = None
    ) -> Any:
        e = self.excitation(self.squeeze(masked_mean(x, mask)))
        if self.batch_norm:
            e = self.normalization(e, training=training)
        gates = ops.sigmoid(e)
        u = zero_padding(ops.expand_dims(gates, 1) * x, mask)
        return (u, gates) if return_gates else u

    def compute_output_spec(
        self, x: Any, mask: Any, return_gates: bool = False, training: bool | None = None
    ) -> Any:
        u = keras.KerasTensor(x.shape, dtype=self.compute_dtype)
        gates = keras.KerasTensor((x.shape[0], x.shape[-1]), dtype=self.compute_dtype)
        return (u, gates) if return_gates else u

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        return None  # masks are explicit arguments; Keras is given none to pass on

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "reduction": self.reduction,
            "use_bias": self.use_bias,
            "batch_norm": self.batch_norm,
            "max_length": self.max_length,
            "raise_widths": self.raise_widths,
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
        }


def reduced(width: int, factor: float) -> int:
    """`width / factor` rounded down, at least 1; 300 / 3.75 is 80."""
    return max(1, math.floor(width / factor + 1e-6))


def least_width(max_length: int | None) -> int:
    """The released code's floor on widths, `2 floor(8.33 ln L / 2)`: 24, 28 and 32 for 20, 35 and 50 tokens."""
    return 2 * math.floor(LEAST * math.log(max_length or 1) / 2)


def warn_of_narrow(name: str, widths: Mapping[str, float], max_length: int) -> None:
    """Warn, once, of the widths of eq 9 that do not exceed `8.33 ln(max_length)`."""
    least = LEAST * math.log(max_length)
    narrow = ", ".join(
        f"{label} = {width:.4g}" for label, width in widths.items() if width <= least
    )
    if narrow:
        warnings.warn(
            f"{name}: {narrow} should exceed 8.33 ln({max_length}) = {least:.4g} for sentences of {max_length} tokens "
            "(eq 9 of the SFA paper). Reduce less, or set raise_widths=True.",
            stacklevel=4,
        )


def check_reductions(
    reductions: Mapping[str, float], max_length: int | None, raise_widths: bool
) -> None:
    for name, reduction in reductions.items():
        if not reduction > 0:
            raise ValueError(f"{name} must be above 0. Received: {name}={reduction!r}")
    if max_length is not None and max_length < 1:
        raise ValueError(f"max_length must be at least 1. Received: max_length={max_length!r}")
    if raise_widths and max_length is None:
        raise ValueError(
            "raise_widths=True needs max_length, the longest sentence. Received: max_length=None"
        )
