"""The encoder as TensorFlow operations, for `tf.data` and SavedModels that take strings."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_sentmatch.encoders.unicode_normalization import tf_compose
from keras_sentmatch.text.tokens import (
    CONTRACTIONS,
    TAGS,
    Tokenizer,
    clean_codes,
    token_pattern,
    word_ranges,
)


def tf_tokenize(tokenizer: Tokenizer, sentences: Any) -> Any:
    """The tokens of UTF-8 strings `[B]` by one of the built-in rules, ragged `[B, None]`."""
    import tensorflow as tf

    table = np.array(clean_codes(tokenizer.lowercase), "int32")
    codes = tf_compose(tf.strings.unicode_decode(sentences, "UTF-8"))
    flat = codes.flat_values
    clean = tf.where(flat < len(table), tf.gather(table, tf.minimum(flat, len(table) - 1)), flat)
    text = tf.strings.unicode_encode(codes.with_flat_values(clean), "UTF-8")
    text = tf.strings.regex_replace(text, rf"[\x00\x{{{TAGS[0]:x}}}-\x{{{TAGS[1]:x}}}]+", "")
    if tokenizer.name != "whitespace":
        word = "".join(rf"\x{{{low:x}}}-\x{{{high:x}}}" for low, high in word_ranges())
        text = tf.strings.regex_replace(text, token_pattern(tokenizer.name, word), r" \0 ")
    if tokenizer.name == "words":
        for old, new in CONTRACTIONS:
            text = tf.strings.regex_replace(text, old, new)
    return tf.strings.split(text)


def lookup_tables(
    words: Mapping[str, int], characters: Mapping[str, int], antonyms: Mapping[str, set[str]]
) -> Any:
    """The tables of an encoder as one `tf.Module`, so that an exported module can hold them.

    It has `words`, `characters` (an array from code point to id) and, where there are antonyms,
    `lexicon` (word -> its number, 0 for none) and `opposites` (a pair -> 1).
    """
    import tensorflow as tf

    def table(keys: list[Any], values: list[Any], default: int, key_type: Any) -> Any:
        pairs = tf.lookup.KeyValueTensorInitializer(
            tf.constant(keys, key_type), tf.constant(values, tf.int64)
        )
        return tf.lookup.StaticHashTable(pairs, default)

    with tf.init_scope():  # outside of any graph being traced, so that later graphs find them too
        module = tf.Module(name="lookup_tables")
        # A table must not be empty; no token is.
        module.words = table(["", *words], [1, *words.values()], 1, tf.string)
        char_ids = np.ones(max(map(ord, characters), default=0) + 2, "int32")
        char_ids[[ord(char) for char in characters]] = list(characters.values())
        char_ids[0] = 0  # code point 0 never occurs in a token: it is the padding
        module.characters = char_ids
        if antonyms:
            numbers = {word: i for i, word in enumerate(antonyms, 1)}
            pairs = [
                numbers[a] * (len(numbers) + 1) + numbers[b] for a in antonyms for b in antonyms[a]
            ]
            module.lexicon = table(list(numbers), list(numbers.values()), 0, tf.string)
            module.opposites = table(pairs, [1] * len(pairs), 0, tf.int64)
            module.lexicon_size = len(numbers) + 1
    return module


def tf_encode_pairs(
    tokenizer: Tokenizer,
    tables: Any,
    sentence1: Any,
    sentence2: Any,
    *,
    features: tuple[str, ...],
    max_length: int,
    max_word_length: int,
    length: Any = None,
) -> dict[str, Any]:
    """`PairEncoder.encode` on string tensors `[B]`; `tables` come from `lookup_tables`.

    Without `sentence2` the first sentences are encoded alone.
    """
    import tensorflow as tf

    given = [tf.convert_to_tensor(x) for x in (sentence1, sentence2) if x is not None]
    both = tf.concat(given, 0)
    tokens = tf_tokenize(tokenizer, both)
    tokens = tokens[:, : max_length if length is None else tf.minimum(length, max_length)]
    if length is None:
        length = tf.maximum(tf.reduce_max(tokens.row_lengths()), 1)
    length = tf.cast(length, tf.int64)

    def padded(flat: Any) -> list[Any]:
        shape = tf.concat([[-1, length], tf.shape(flat, tf.int64)[1:]], 0)
        dense = tokens.with_flat_values(flat).to_tensor(0, shape=shape)
        parts: list[Any] = tf.split(tf.cast(dense, tf.int32), len(given))
        return parts

    columns = {}
    if "word" in features:
        columns["word_ids"] = padded(tables.words.lookup(tokens.flat_values))
    if "char" in features:
        codes = tf.strings.unicode_decode(tokens.flat_values, "UTF-8")[:, :max_word_length]
        dense = codes.to_tensor(0, shape=[None, max_word_length])
        last = len(tables.characters) - 1  # an id that no character has: unknown
        columns["char_ids"] = padded(tf.gather(tables.characters, tf.minimum(dense, last)))
    if "antonym" in features:
        if hasattr(tables, "lexicon"):
            numbers = padded(tables.lexicon.lookup(tokens.flat_values))
            a, b = (tf.cast(side, tf.int64) for side in numbers)
            pairs = a[:, :, None] * tables.lexicon_size + b[:, None, :]
            hits = tables.opposites.lookup(pairs)  # [B, L, L]; symmetric
            columns["antonym"] = [tf.reduce_max(hits, 2), tf.reduce_max(hits, 1)]
        else:
            columns["antonym"] = padded(tf.zeros_like(tokens.flat_values, tf.int32))
    return {
        f"{name}_{side}": tf.ensure_shape(
            tf.cast(column, tf.int32), [None, None, max_word_length][: len(column.shape)]
        )
        for name, sides in columns.items()
        for side, column in enumerate(sides, 1)
    }
