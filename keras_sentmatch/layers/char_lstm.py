"""An LSTM over the characters of each word."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.ops import last_state, zero_padding


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class CharLSTM(keras.layers.Layer):
    """One vector per word from its characters: embedding, LSTM, its state at the word's last character.

    Args:
        vocabulary_size: number of character ids; id 0 is padding.
        embedding_dim: width of a character embedding. Defaults to `20`.
        units: width of the result. Defaults to `50`.
        dropout: rate on the character embeddings. Defaults to `0.0`.
        kernel_regularizer: applied to the input and the recurrent kernel, not to the embeddings. Defaults to `None`.

    Call arguments:
        char_ids: int `[B, L, W]`, the characters of each word, right-padded with 0.

    Output shape:
        `[B, L, units]`.

    Masking:
        The LSTM runs unmasked: padding on the right can't reach the state at the last character. A padded word (no
        characters) gives zeros.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import CharLSTM
        >>> tuple(CharLSTM(50)(np.array([[[4, 7, 2, 0, 0, 0], [0] * 6]])).shape)
        (1, 2, 50)

    References:
        Wang, Hamza, Florian, BiMPM, "Word Representation Layer".
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int = 20,
        units: int = 50,
        dropout: float = 0.0,
        kernel_regularizer: Any = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.embedding_dim = embedding_dim
        self.units = units
        self.dropout = dropout
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.embedding = keras.layers.Embedding(
            vocabulary_size, embedding_dim, dtype=self.dtype_policy, name="char_embedding"
        )
        self.embedding_dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        self.lstm = keras.layers.LSTM(
            units,
            return_sequences=True,
            kernel_regularizer=self.kernel_regularizer,
            recurrent_regularizer=self.kernel_regularizer,
            dtype=self.dtype_policy,
            name="lstm",
        )

    def build(self, char_ids_shape: Any) -> None:
        self.embedding.build()
        self.lstm.build((None, char_ids_shape[-1], self.embedding_dim))

    def call(self, char_ids: Any, training: bool | None = None) -> Any:
        batch, length, width = ops.shape(char_ids)
        char_ids = ops.reshape(char_ids, (-1, width))
        real = ops.not_equal(char_ids, 0)
        chars = zero_padding(
            self.embedding_dropout(self.embedding(char_ids), training=training), real
        )
        return ops.reshape(last_state(self.lstm(chars), real), (batch, length, self.units))

    def compute_output_shape(self, char_ids_shape: Any) -> Any:
        return (*char_ids_shape[:-1], self.units)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "units": self.units,
            "dropout": self.dropout,
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
        }
