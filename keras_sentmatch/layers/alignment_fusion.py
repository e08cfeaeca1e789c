"""Fuses each token with what it attended to."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.layers.weight_normalized_dense import WeightNormalizedDense
from keras_sentmatch.ops import zero_padding

MODES = ("full", "simple")


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class AlignmentFusion(keras.layers.Layer):
    """Compares each token with what it attended to in the other sentence, from three points of view.

    `G([G_1([x; a]); G_2([x; x - a]); G_3([x; x * a])])`, or with `mode="simple"` just `G_1([x; a])`; each `G` is a dense
    layer with activation.

    Args:
        units: width of every dense layer.
        mode: `"full"` or `"simple"`. Defaults to `"full"`.
        activation: of every dense layer. Defaults to `"gelu"`.
        dropout: rate before the last dense layer of `"full"`. Defaults to `0.2`.
        weight_normalization: whether the kernels are normalised. Defaults to `True`.

    Call arguments:
        x: `[B, L, D]`, the tokens.
        attended: `[B, L, D]`, what each attended to.
        mask: boolean `[B, L]`, True = real token.

    Output shape:
        `[B, L, units]`.

    Masking:
        Works on each position alone; padded positions of the output are zero.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import AlignmentFusion
        >>> x, mask = np.ones((1, 3, 6), "float32"), np.array([[True, True, False]])
        >>> tuple(AlignmentFusion(4)(x, x, mask).shape)
        (1, 3, 4)

    References:
        Yang et al., RE2, eq 4-7.
    """

    def __init__(
        self,
        units: int,
        mode: str = "full",
        activation: Any = "gelu",
        dropout: float = 0.2,
        weight_normalization: bool = True,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if mode not in MODES:
            raise ValueError(f"mode must be one of {MODES}. Received: mode={mode!r}")
        self.units = units
        self.mode = mode
        self.activation = keras.activations.get(activation)
        self.dropout = dropout
        self.weight_normalization = weight_normalization
        cls = WeightNormalizedDense if weight_normalization else keras.layers.Dense

        def dense(name: str) -> keras.layers.Layer:
            return cls(
                units,
                self.activation,
                kernel_initializer=keras.initializers.VarianceScaling(
                    2.0, distribution="untruncated_normal"
                ),
                dtype=self.dtype_policy,
                name=name,
            )

        views = ("concatenation", "difference", "product")
        self.views = [dense(name) for name in (views if mode == "full" else views[:1])]
        self.output_dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        self.output_dense = dense("fusion") if mode == "full" else None

    def build(self, x_shape: Any, attended_shape: Any = None, mask_shape: Any = None) -> None:
        for view in self.views:
            view.build((None, None, 2 * x_shape[-1]))
        if self.output_dense:
            self.output_dense.build((None, None, 3 * self.units))

    def call(self, x: Any, attended: Any, mask: Any, training: bool | None = None) -> Any:
        compared = (attended, x - attended, x * attended)
        fused = [
            view(ops.concatenate([x, other], axis=-1)) for view, other in zip(self.views, compared)
        ]
        if not self.output_dense:
            return zero_padding(fused[0], mask)
        y = self.output_dropout(ops.concatenate(fused, axis=-1), training=training)
        return zero_padding(self.output_dense(y), mask)

    def compute_output_shape(
        self, x_shape: Any, attended_shape: Any = None, mask_shape: Any = None
    ) -> Any:
        return (*x_shape[:-1], self.units)

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        return None  # masks are explicit arguments; Keras is given none to pass on

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "mode": self.mode,
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
            "weight_normalization": self.weight_normalization,
        }
