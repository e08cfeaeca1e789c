"""The autoencoder that narrows densely connected features."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.ops import at_least_float32, masked_mean


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class AutoencoderBottleneck(keras.layers.Layer):
    """Narrows `x` to a code `z = f(x W_e + b_e)` and learns to rebuild `x` from it: `x' = dropout(z) W_r + b_r`.

    In training the layer adds the loss `loss_weight * mean_g MSE_g(x, x')`, where MSE is taken over the real tokens and
    the features, and g runs over `groups` equal parts of the batch (2 for two stacked sentences: `1/2 (MSE_P + MSE_Q)`).
    Outside training nothing is rebuilt and no loss is added.

    Args:
        units: width of the code. Defaults to `200`.
        activation: `f`. Defaults to `"tanh"`.
        dropout: rate on the code. Defaults to `0.2`.
        loss_weight: weight of the reconstruction loss; 0 switches it off. Defaults to `1.0`.
        groups: equal parts of the batch that count alike in the loss. Defaults to `1`.
        stop_gradient: whether to keep the loss from changing the features themselves. Defaults to `False`.
        kernel_regularizer: for both kernels. Defaults to `None`.

    Call arguments:
        x: `[B, L, D]`.
        mask: boolean `[B, L]`, True = real token.
        groups: another number of groups for this call. Defaults to `None`.

    Output shape:
        `[B, L, units]`, the code after dropout.

    Masking:
        Padding doesn't count in the loss. The code of a padded token is not zeroed.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import AutoencoderBottleneck
        >>> layer = AutoencoderBottleneck(2)
        >>> z = layer(np.ones((1, 3, 8), "float32"), np.ones((1, 3), bool), training=True)
        >>> tuple(z.shape), len(layer.losses)
        ((1, 3, 2), 1)

    References:
        Kim et al., DRCN, "Bottleneck component".
    """

    def __init__(
        self,
        units: int = 200,
        activation: Any = "tanh",
        dropout: float = 0.2,
        loss_weight: float = 1.0,
        groups: int = 1,
        stop_gradient: bool = False,
        kernel_regularizer: Any = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.units = units
        self.activation = keras.activations.get(activation)
        self.dropout = dropout
        self.loss_weight = loss_weight
        self.groups = groups
        self.stop_gradient = stop_gradient
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)

    def build(self, x_shape: Any, mask_shape: Any = None) -> None:
        def dense(units: int, activation: Any, name: str) -> keras.layers.Dense:
            return keras.layers.Dense(
                units,
                activation,
                kernel_regularizer=self.kernel_regularizer,
                dtype=self.dtype_policy,
                name=name,
            )

        self.encoder = dense(self.units, self.activation, "encoder")
        self.decoder = dense(x_shape[-1], None, "decoder")
        self.code_dropout = keras.layers.Dropout(self.dropout, dtype=self.dtype_policy)
        self.encoder.build(x_shape)
        self.decoder.build((*x_shape[:-1], self.units))

    def call(
        self, x: Any, mask: Any, groups: int | None = None, training: bool | None = None
    ) -> Any:
        code = self.code_dropout(self.encoder(x), training=training)
        if training and self.loss_weight:
            error = self._reconstruction_error(x, code, mask, groups or self.groups)
            self.add_loss(self.loss_weight * error)
        return code

    def _reconstruction_error(self, x: Any, code: Any, mask: Any, groups: int) -> Any:
        target = ops.stop_gradient(x) if self.stop_gradient else x
        error = at_least_float32(self.decoder(code)) - at_least_float32(target)
        per_token = ops.mean(ops.square(error), axis=-1)
        # One row per group, so that a group with few tokens counts as much as one with many.
        per_group = ops.reshape(per_token, (groups, -1)), ops.reshape(mask, (groups, -1))
        return ops.mean(masked_mean(*per_group))

    def compute_output_shape(self, x_shape: Any, mask_shape: Any = None) -> Any:
        return (*x_shape[:-1], self.units)

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        return None  # masks are explicit arguments; Keras is given none to pass on

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
            "loss_weight": self.loss_weight,
            "groups": self.groups,
            "stop_gradient": self.stop_gradient,
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
        }
