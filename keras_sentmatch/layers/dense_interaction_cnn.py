"""The densely connected convolutions that read an interaction tensor: the feature extractor of DIIN."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class DenseInteractionCNN(keras.layers.Layer):
    """A DenseNet over the grid of token pairs, `[B, L1, L2, D]` to one vector `[B, F]`.

    A 1x1 convolution without activation scales the D features down. Then come blocks: in each, `layers_per_block` 3x3
    convolutions with ReLU see all that the block has found so far and add `growth_rate` features; a 1x1 convolution without
    activation compresses them, and the maximum over 2x2 cells halves the grid. What is left of the grid is laid out flat.

    Args:
        first_scale: features kept by the first convolution, as a share of D (rounded down). Defaults to `0.3`.
        blocks: number of dense blocks. Defaults to `3`.
        layers_per_block: convolutions in each. Defaults to `8`.
        growth_rate: features that each of them adds. Defaults to `20`.
        kernel_size: cells in a row of their windows. Defaults to `3`.
        compression: features kept after a block, as a share (rounded down). Defaults to `0.5`.

    Call arguments:
        x: `[B, L1, L2, D]`, with known L1 and L2 of at least `2 ** blocks`.

    Output shape:
        `[B, (L1 // 2 ** blocks) * (L2 // 2 ** blocks) * features]`.

    Masking:
        None: the grid has one size. Cells of padding should be zero, which is what `x_i * y_j` of two padded zeros is.

    Raises:
        ValueError: if the lengths aren't known or are too small to be halved so often.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import DenseInteractionCNN
        >>> layer = DenseInteractionCNN(blocks=2, layers_per_block=2, growth_rate=4)
        >>> tuple(layer(np.ones((1, 8, 12, 20), "float32")).shape)
        (1, 42)

    References:
        Gong, Luo, Zhang, DIIN, "Feature extraction layer".
    """

    def __init__(
        self,
        first_scale: float = 0.3,
        blocks: int = 3,
        layers_per_block: int = 8,
        growth_rate: int = 20,
        kernel_size: int = 3,
        compression: float = 0.5,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.first_scale = first_scale
        self.blocks = blocks
        self.layers_per_block = layers_per_block
        self.growth_rate = growth_rate
        self.kernel_size = kernel_size
        self.compression = compression
        self.pooling = keras.layers.MaxPooling2D(
            2, data_format="channels_last", dtype=self.dtype_policy
        )

    def _features(self, width: int) -> list[int]:
        """Features that go into each block, and at last those that come out."""
        features = [int(width * self.first_scale)]
        for _ in range(self.blocks):
            found = features[-1] + self.layers_per_block * self.growth_rate
            features.append(int(found * self.compression))
        return features

    def build(self, x_shape: Any) -> None:
        self._flat_width = self.compute_output_shape(x_shape)[-1]  # a graph may forget the lengths
        features = self._features(x_shape[-1])

        def convolution(inputs: int, filters: int, size: int, activation: Any, name: str) -> Any:
            layer = keras.layers.Conv2D(
                filters,
                size,
                padding="same",
                data_format="channels_last",
                activation=activation,
                dtype=self.dtype_policy,
                name=name,
            )
            layer.build((None, None, None, inputs))
            return layer

        self.scale_down = convolution(x_shape[-1], features[0], 1, None, "scale_down")
        self.dense_blocks, self.transitions = [], []
        for b, width in enumerate(features[:-1], start=1):
            block = []
            for i in range(self.layers_per_block):
                name = f"block_{b}_{i + 1}"
                block.append(convolution(width, self.growth_rate, self.kernel_size, "relu", name))
                width += self.growth_rate
            self.dense_blocks.append(block)
            self.transitions.append(convolution(width, features[b], 1, None, f"transition_{b}"))

    def call(self, x: Any) -> Any:
        x = self.scale_down(x)
        for block, transition in zip(self.dense_blocks, self.transitions):
            for convolution in block:
                x = ops.concatenate([x, convolution(x)], axis=-1)
            x = self.pooling(transition(x))
        return ops.reshape(x, (-1, self._flat_width))

    def compute_output_shape(self, x_shape: Any) -> Any:
        self._check(x_shape)
        height, width = (length // 2**self.blocks for length in x_shape[1:3])
        return (x_shape[0], height * width * self._features(x_shape[-1])[-1])

    def _check(self, x_shape: Any) -> None:
        if any(length is None or length < 2**self.blocks for length in x_shape[1:3]):
            raise ValueError(
                f"The grid is halved blocks={self.blocks} times, so both lengths must be known and at least "
                f"{2**self.blocks}. Received x of shape {tuple(x_shape)}"
            )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "first_scale": self.first_scale,
            "blocks": self.blocks,
            "layers_per_block": self.layers_per_block,
            "growth_rate": self.growth_rate,
            "kernel_size": self.kernel_size,
            "compression": self.compression,
        }
