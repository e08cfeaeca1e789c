"""A dense layer whose kernel is a direction and a length."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.ops import at_least_float32


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class WeightNormalizedDense(keras.layers.Layer):
    """A dense layer with weight normalization: column k of its kernel is `g_k v_k / ||v_k||`.

    `v` is the weight `kernel`, `g` the weight `scale`. `g` starts at `||v||`, so the first output is that of a plain dense
    layer with the kernel `v`.

    Args:
        units: width of the output.
        activation: of the output. Defaults to `None`.
        kernel_initializer: of `v`. Defaults to `"glorot_uniform"`.

    Call arguments:
        x: `[..., D]`.

    Output shape:
        `[..., units]`.

    Masking:
        Works on each position alone; a padded position stays what its own input makes it.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import WeightNormalizedDense
        >>> layer = WeightNormalizedDense(1, kernel_initializer="ones")
        >>> float(layer(np.array([[3.0, 4.0]]))[0, 0])
        7.0
        >>> [w.name for w in layer.weights]
        ['kernel', 'scale', 'bias']

    References:
        Salimans, Kingma: "Weight Normalization", NeurIPS 2016, eq 2.
    """

    def __init__(
        self,
        units: int,
        activation: Any = None,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.units = units
        self.activation = keras.activations.get(activation)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, x_shape: Any) -> None:
        self.kernel, self.scale = add_normalized_kernel(self, (x_shape[-1], self.units))
        self.bias = self.add_weight(shape=(self.units,), initializer="zeros", name="bias")

    def call(self, x: Any) -> Any:
        return self.activation(ops.matmul(x, normalized(self.kernel, self.scale)) + self.bias)

    def compute_output_shape(self, x_shape: Any) -> Any:
        return (*x_shape[:-1], self.units)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "activation": keras.activations.serialize(self.activation),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }


def add_normalized_kernel(layer: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The weights `v`, of `shape`, and `g`, one number for each output (the last axis of `v`): at first `||v||`."""
    kernel = layer.add_weight(shape=shape, initializer=layer.kernel_initializer, name="kernel")
    scale = layer.add_weight(
        shape=shape[-1:],
        initializer=lambda shape, dtype=None: ops.cast(_lengths(kernel), dtype),
        name="scale",
    )
    return kernel, scale


def normalized(kernel: Any, scale: Any) -> Any:
    """`g v / ||v||`, in the dtype of the kernel."""
    wide = at_least_float32(kernel)
    return ops.cast(wide * (ops.cast(scale, wide.dtype) / _lengths(wide)), kernel.dtype)


def _lengths(kernel: Any) -> Any:
    kernel = at_least_float32(kernel)
    squares = ops.sum(ops.square(kernel), axis=tuple(range(len(kernel.shape) - 1)))
    return ops.sqrt(ops.maximum(squares, 1e-16))
