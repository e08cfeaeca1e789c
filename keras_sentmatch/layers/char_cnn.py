"""Convolution over the characters of each word."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.ops import masked_max, zero_padding


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class CharCNN(keras.layers.Layer):
    """One vector per word from its characters: embedding, valid convolution, ReLU, max over the positions.

    Args:
        vocabulary_size: number of character ids; id 0 is padding.
        embedding_dim: width of a character embedding. Defaults to `16`.
        filters: width of the result. Defaults to `32`.
        kernel_size: characters in a window. Defaults to `5`.
        dropout: rate on the character embeddings. Defaults to `0.0`.
        kernel_regularizer: applied to the convolution's kernel, not to the embeddings. Defaults to `None`.

    Call arguments:
        char_ids: int `[B, L, W]`, the characters of each word, right-padded with 0, `W >= kernel_size`.

    Output shape:
        `[B, L, filters]`.

    Masking:
        Windows that start beyond a word's last character never win the maximum; padded characters count as zeros inside a
        window. A padded word (no characters) gives zeros.

    Raises:
        ValueError: if words are narrower than a window.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import CharCNN
        >>> tuple(CharCNN(50)(np.array([[[4, 7, 2, 0, 0, 0], [0] * 6]])).shape)
        (1, 2, 32)

    References:
        Kim et al., DRCN, "Char-Conv" of eq 1.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int = 16,
        filters: int = 32,
        kernel_size: int = 5,
        dropout: float = 0.0,
        kernel_regularizer: Any = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.embedding_dim = embedding_dim
        self.filters = filters
        self.kernel_size = kernel_size
        self.dropout = dropout
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.embedding = keras.layers.Embedding(
            vocabulary_size, embedding_dim, dtype=self.dtype_policy, name="char_embedding"
        )
        self.embedding_dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        self.convolution = keras.layers.Conv1D(
            filters,
            kernel_size,
            activation="relu",
            kernel_regularizer=self.kernel_regularizer,
            dtype=self.dtype_policy,
            name="convolution",
        )

    def build(self, char_ids_shape: Any) -> None:
        width = char_ids_shape[-1]
        if width is not None and width < self.kernel_size:
            raise ValueError(
                f"Words must be padded to at least kernel_size={self.kernel_size} characters. "
                f"Received char_ids of shape {char_ids_shape}: pad them or lower kernel_size."
            )
        self.embedding.build()
        self.convolution.build((None, width, self.embedding_dim))

    def call(self, char_ids: Any, training: bool | None = None) -> Any:
        batch, length, width = ops.shape(char_ids)
        char_ids = ops.reshape(char_ids, (-1, width))
        real = ops.not_equal(char_ids, 0)
        chars = zero_padding(
            self.embedding_dropout(self.embedding(char_ids), training=training), real
        )
        windows = self.convolution(chars)
        word = masked_max(windows, real[:, : width - self.kernel_size + 1])
        return ops.reshape(word, (batch, length, self.filters))

    def compute_output_shape(self, char_ids_shape: Any) -> Any:
        return (*char_ids_shape[:-1], self.filters)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "filters": self.filters,
            "kernel_size": self.kernel_size,
            "dropout": self.dropout,
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
        }
