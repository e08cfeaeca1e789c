"""One sequence from the layers of an encoder."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.ops import at_least_float32


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class LayerWeightedSum(keras.layers.Layer):
    """The sum of an encoder's layers, each with one trained weight.

    It starts as the mean. The weights are `softmax(layer.scalars)`, or the scalars themselves.

    Args:
        normalize: whether the weights are a softmax; otherwise they are free numbers. Defaults to `True`.

    Call arguments:
        layers: a list of K tensors `[B, L, D]`, or all of them as one, `[B, K, L, D]`.

    Output shape:
        `[B, L, D]`.

    Masking:
        None: each position is its own sum, so that positions which are zero in all the layers stay zero.

    Raises:
        ValueError: for no layers, layers of unequal shape, or another number of them than the layer was built for.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import LayerWeightedSum
        >>> low, high = np.full((1, 2, 3), 2.0, "float32"), np.full((1, 2, 3), 4.0, "float32")
        >>> round(float(LayerWeightedSum()([low, high])[0, 0, 0]), 4)
        3.0

    References:
        Zhang et al., LadRa-Net, eq 9.
    """

    def __init__(self, normalize: bool = True, **kwargs: Any):
        super().__init__(**kwargs)
        self.normalize = normalize

    def build(self, layers_shape: Any) -> None:
        shapes, count = layers_shape or [], len(layers_shape or [])
        if shapes and not isinstance(shapes[0], (tuple, list)):  # one tensor
            shapes, count = [(shapes[0], *shapes[2:])], shapes[1]
        alike = all(
            len(shape) == 3 and all(a == b or None in (a, b) for a, b in zip(shape, shapes[0]))
            for shape in shapes
        )
        if not count or not alike:
            raise ValueError(
                "layers must be a list of tensors [B, L, D] of one shape, or one tensor [B, K, L, D]. "
                f"Received: shape={layers_shape}"
            )
        # Float32 under every policy: the softmax of a few numbers costs nothing.
        self.scalars = self.add_weight(
            shape=(count,),
            initializer="zeros" if self.normalize else keras.initializers.Constant(1 / count),
            autocast=False,
            name="scalars",
        )

    def call(self, layers: Any) -> Any:
        if not isinstance(layers, (list, tuple)):
            layers = [layers[:, k] for k in range(layers.shape[1])]
        if len(layers) != self.scalars.shape[0]:
            raise ValueError(
                f"This layer was built for {self.scalars.shape[0]} layers. Received: {len(layers)}"
            )
        weights = ops.softmax(self.scalars) if self.normalize else self.scalars
        weights = ops.cast(weights, layers[0].dtype)
        # Products in the compute dtype, so that no wide copy of a layer is kept; their sum in float32.
        total = sum(at_least_float32(weights[k] * x) for k, x in enumerate(layers))
        return ops.cast(total, layers[0].dtype)

    def compute_output_spec(self, layers: Any) -> keras.KerasTensor:
        if isinstance(layers, (list, tuple)):
            shape = layers[0].shape
        else:
            shape = (layers.shape[0], *layers.shape[2:])
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        return None  # masks are explicit arguments; Keras is given none to pass on

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "normalize": self.normalize}
