"""Word features: embeddings, characters, exact matches, parts of speech, antonyms."""

from functools import partial

import keras
from keras import ops

from keras_sentmatch.layers.base import Layer, require, require_choice
from keras_sentmatch.layers.dropout import Dropout
from keras_sentmatch.ops import masked_max, recurrent_states
from keras_sentmatch.ops.masking import zero_padding
from keras_sentmatch.ops.sequence import last_state


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class CharReader(Layer):
    """One vector per word, `[B, L, W]` character ids to `[B, L, units]`; zeros without characters.

    A valid convolution over `kernel_size` characters, ReLU and the maximum over positions (DRCN,
    "Char-Conv" of eq 1); windows that start beyond a word's last character never win. Without
    `kernel_size` the last state of an LSTM (BiMPM), which padding on the right cannot reach.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        units: int,
        kernel_size: int | None = None,
        dropout: float = 0.0,
        kernel_regularizer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.embedding = keras.layers.Embedding(
            vocabulary_size, embedding_dim, dtype=self.dtype_policy, name="char_embedding"
        )
        self.embedding_dropout = Dropout(dropout, dtype=self.dtype_policy)
        options = {"kernel_regularizer": self.kernel_regularizer, "dtype": self.dtype_policy}
        if kernel_size:
            self.convolution = keras.layers.Conv1D(
                units, kernel_size, activation="relu", name="convolution", **options
            )
        else:
            options["recurrent_regularizer"] = self.kernel_regularizer
            self.lstm = keras.layers.LSTM(units, return_sequences=True, name="lstm", **options)

    def build(self, char_ids_shape):
        width = char_ids_shape[-1]
        require(
            width is None or width >= (self.kernel_size or 0),
            f"Words must be padded to at least kernel_size={self.kernel_size} characters. "
            f"Received: char_ids of shape {char_ids_shape}",
        )
        self.embedding.build()
        reader = self.convolution if self.kernel_size else self.lstm
        reader.build((None, width, self.embedding_dim))

    def call(self, char_ids, training=None):
        batch, length, width = ops.shape(char_ids)
        char_ids = ops.reshape(char_ids, (-1, width))
        real = ops.not_equal(char_ids, 0)
        chars = self.embedding_dropout(self.embedding(char_ids), training=training)
        chars = zero_padding(chars, real)  # [B * L, W, E]
        if self.kernel_size:
            windows = self.convolution(chars)
            words = masked_max(windows, real[:, : width - self.kernel_size + 1])
        else:
            words = last_state(recurrent_states(self.lstm, chars), real)
        return ops.reshape(words, (batch, length, self.units))

    def compute_output_shape(self, char_ids_shape):
        return (*char_ids_shape[:-1], self.units)


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class WordRepresentation(Layer):
    """Word features side by side: `[E_tr(w); E_fix(w); characters(w); exact match; POS; antonym]`.

    Word id 0 is padding and id 1 the unknown word. `set_word_vectors` fills both embeddings.

    Args:
        vocabulary_size: Number of word ids.
        embedding_dim: Width of a word vector. Defaults to `300`.
        trainable_embedding: Whether there is an embedding that is trained. Defaults to `True`.
        fixed_embedding: Whether there is an embedding that is not trained. Defaults to `True`.
        char_vocabulary_size: Number of character ids; 0 leaves the characters out. Defaults to `0`.
        char_dim: Width of a character embedding. Defaults to `16`.
        char_filters: Width of the character feature. Defaults to `32`.
        char_kernel_size: Number of characters in a window of the CNN. Defaults to `5`.
        exact_match: Whether to flag words that occur in the other sentence too. Defaults to `True`.
        pos_tags: Number of part-of-speech ids; 0 leaves them out. Defaults to `0`.
        pos_dim: Width of the embedding of a part of speech; 0 makes it one-hot. Defaults to `0`.
        antonym: Whether the antonym flag is a feature. Defaults to `False`.
        dropout: Dropout rate on word and character embeddings; flags are never dropped. Defaults to
            `0.5`.
        kernel_regularizer: Penalty on the kernels of the character CNN or LSTM. Defaults to `None`.
        char_encoder: `"cnn"`, or `"lstm"` for its last state. Defaults to `"cnn"`.

    Call arguments:
        word_ids: Int `[B, L]`.
        other_word_ids: Int `[B, L']` of the other sentence; needed with `exact_match`.
        char_ids: Int `[B, L, W]`; needed with `char_vocabulary_size`.
        pos: Int `[B, L]`; needed with `pos_tags`.
        antonym: Int `[B, L]`, 0 or 1; needed with `antonym`.

    Output shape:
        `[B, L, width]`; the attribute `width` is the sum of the widths of the features.

    Masking:
        The mask is `word_ids != 0`. Padded positions are zero, so row 0 of the embeddings gets no
        gradient.

    Raises:
        InputError: Every feature is off, `char_encoder` is unknown, a feature of the call is missing, or
            words have fewer characters than a window.

    Example:
        >>> layer = WordRepresentation(10, embedding_dim=4, fixed_embedding=False, dropout=0.0)
        >>> y = layer(np.array([[2, 3, 1, 0]]), np.array([[1, 3]]))
        >>> tuple(y.shape), [float(f) for f in y[0, :, -1]]
        ((1, 4, 5), [0.0, 1.0, 0.0, 0.0])

    References:
        Kim et al., DRCN, eq 1.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int = 300,
        trainable_embedding: bool = True,
        fixed_embedding: bool = True,
        char_vocabulary_size: int = 0,
        char_dim: int = 16,
        char_filters: int = 32,
        char_kernel_size: int = 5,
        exact_match: bool = True,
        pos_tags: int = 0,
        pos_dim: int = 0,
        antonym: bool = False,
        dropout: float = 0.5,
        kernel_regularizer=None,
        char_encoder: str = "cnn",
        **kwargs,
    ):
        super().__init__(**kwargs)
        require_choice(("cnn", "lstm"), char_encoder=char_encoder)
        self.width = (
            embedding_dim * (bool(trainable_embedding) + bool(fixed_embedding))
            + (char_filters if char_vocabulary_size else 0)
            + (pos_dim or pos_tags if pos_tags else 0)
            + bool(exact_match)
            + bool(antonym)
        )
        require(self.width, "WordRepresentation needs at least one feature. All are off.")
        # Saved weights rely on this order: the trainable embedding first.
        self.word_embeddings = [
            keras.layers.Embedding(
                vocabulary_size,
                embedding_dim,
                embeddings_initializer=keras.initializers.RandomUniform(-0.05, 0.05),
                trainable=trainable,
                dtype=self.dtype_policy,
                name=name,
            )
            for trainable, wanted, name in (
                (True, trainable_embedding, "trainable_embedding"),
                (False, fixed_embedding, "fixed_embedding"),
            )
            if wanted
        ]
        self.pos_embedding = None
        if pos_tags and pos_dim:
            self.pos_embedding = keras.layers.Embedding(
                pos_tags, pos_dim, dtype=self.dtype_policy, name="pos_embedding"
            )
        self.char_cnn = self.char_lstm = None
        if char_vocabulary_size:
            reader = CharReader(
                char_vocabulary_size,
                char_dim,
                char_filters,
                char_kernel_size if char_encoder == "cnn" else None,
                dropout=dropout,
                kernel_regularizer=self.kernel_regularizer,
                dtype=self.dtype_policy,
                name=f"char_{char_encoder}",
            )
            if char_encoder == "cnn":
                self.char_cnn = reader
            else:
                self.char_lstm = reader
        self.embedding_dropout = Dropout(dropout, dtype=self.dtype_policy)

    def build(self, word_ids_shape, char_ids_shape=None):
        for embedding in self.word_embeddings:
            embedding.build()
        if self.pos_embedding:
            self.pos_embedding.build()
        if characters := self.char_cnn or self.char_lstm:
            characters.build(char_ids_shape)

    def set_word_vectors(self, matrix) -> None:
        """Put `matrix`, `[vocabulary_size, embedding_dim]`, into every word embedding."""
        shape = (self.vocabulary_size, self.embedding_dim)
        found = tuple(matrix.shape)
        require(found == shape, f"Word vectors must have shape {shape}. Received: {found}")
        for embedding in self.word_embeddings:
            embedding.embeddings.assign(matrix)

    def call(
        self, word_ids, other_word_ids=None, char_ids=None, pos=None, antonym=None, training=None
    ):
        given = {
            "other_word_ids": (self.exact_match, other_word_ids),
            "char_ids": (self.char_vocabulary_size, char_ids),
            "pos": (self.pos_tags, pos),
            "antonym": (self.antonym, antonym),
        }
        missing = [name for name, (wanted, ids) in given.items() if wanted and ids is None]
        require(not missing, f"WordRepresentation must be called with {', '.join(missing)}.")
        dtype = self.compute_dtype
        features = [
            self.embedding_dropout(embedding(word_ids), training=training)
            for embedding in self.word_embeddings
        ]
        if characters := self.char_cnn or self.char_lstm:
            features.append(characters(char_ids, training=training))
        if self.exact_match:
            words = ops.expand_dims(word_ids, 2)
            same = ops.equal(words, ops.expand_dims(other_word_ids, 1))
            same = ops.logical_and(same, ops.greater(words, 1))
            features.append(ops.cast(ops.any(same, axis=2, keepdims=True), dtype))
        if self.pos_tags:
            one_hot = partial(ops.one_hot, num_classes=self.pos_tags, dtype=dtype)
            features.append((self.pos_embedding or one_hot)(pos))
        if self.antonym:
            features.append(ops.expand_dims(ops.cast(antonym, dtype), -1))
        return zero_padding(ops.concatenate(features, axis=-1), ops.not_equal(word_ids, 0))

    def compute_output_shape(self, word_ids_shape):
        return (*word_ids_shape, self.width)
