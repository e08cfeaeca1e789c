"""`PairEncoder` as TensorFlow operations, for `tf.data` and SavedModels that accept strings."""

import unicodedata
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from keras_sentmatch.text import Tokenizer
from keras_sentmatch.text.tokens import CONTRACTIONS, TAGS, clean_codes, token_pattern, word_ranges

_LAST = 0x30000  # no code point from here on is composed of others
_SHIFT = 21  # bits of a code point


@cache
def _tables() -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Return sorted keys and values: decompositions, combining classes, pairs -> composites."""
    parts, classes, pairs = {}, {}, {}
    for code, char in enumerate(map(chr, range(_LAST))):
        if combining := unicodedata.combining(char):
            classes[code] = combining
        codes = list(map(ord, unicodedata.normalize("NFD", char)))
        if codes != [code]:
            parts[code] = codes + [-1] * (4 - len(codes))
            first = unicodedata.normalize("NFC", "".join(map(chr, codes[:-1])))
            if unicodedata.normalize("NFC", char) == char and len(first) == 1:
                pairs[ord(first) << _SHIFT | codes[-1]] = code
    found = (dict(sorted(table.items())) for table in (parts, classes, pairs))
    return tuple((np.array([*t], "int64"), np.array([*t.values()], "int32")) for t in found)


def tf_compose(codes: Any) -> Any:
    """Normalize ragged code points `[B, None]` to NFC, as `unicodedata.normalize` does."""
    import tensorflow as tf

    decompositions, classes, composites = _tables()

    def find(table: tuple[np.ndarray, np.ndarray], keys: Any) -> tuple[Any, Any]:
        """Return whether each key is in a table, and its value."""
        place = tf.minimum(tf.searchsorted(table[0], tf.cast(keys, tf.int64)), len(table[0]) - 1)
        known = tf.gather(table[0], place) == tf.cast(keys, tf.int64)
        return known, tf.gather(table[1], place)

    def marks_of(values: Any) -> Any:
        known, found = find(classes, values)
        return tf.where(known, found, 0)

    def begins(rows: Any) -> Any:
        """Return which values are the first of their row."""
        return tf.concat([[True], rows[1:] != rows[:-1]], 0)[: tf.size(rows)]

    def step(values: Any, rows: Any, _: Any) -> tuple[Any, Any, Any]:
        """Join each starter with the first character after it that it can be joined with."""
        marks, first, index = marks_of(values), begins(rows), tf.range(tf.size(values))
        starts = (marks == 0) | first
        before = tf.maximum(index - 1, 0)
        own = tf.gather(tf.boolean_mask(index, starts), tf.cumsum(tf.cast(starts, tf.int32)) - 1)
        base = tf.where(starts, before, own)
        nearer = tf.gather(marks, before) < marks  # nothing of the same class stands between
        free = tf.where(starts, tf.gather(starts, before), (before == own) | nearer)
        key = tf.bitwise.left_shift(tf.cast(tf.gather(values, base), tf.int64), _SHIFT)
        joined, composite = find(composites, key + tf.cast(values, tf.int64))
        joined &= ~first & free & (tf.gather(marks, base) == 0)
        earliest = tf.where(joined, index, tf.size(values))
        earliest = tf.math.unsorted_segment_min(earliest, base, tf.size(values))
        joined &= tf.gather(earliest, base) == index
        joined &= ~tf.gather(joined, base)  # what is being joined itself waits
        places = tf.boolean_mask(base, joined)[:, None]
        values = tf.tensor_scatter_nd_update(values, places, tf.boolean_mask(composite, joined))
        kept = ~joined
        return tf.boolean_mask(values, kept), tf.boolean_mask(rows, kept), tf.reduce_any(joined)

    def compose() -> tuple[Any, Any]:
        values, rows = codes.flat_values, codes.value_rowids()
        known, parts = find(decompositions, values)
        alone = tf.stack([values, *[tf.fill(tf.shape(values), -1)] * 3], 1)
        parts = tf.where(known[:, None], parts, alone)
        rows = tf.boolean_mask(tf.repeat(rows[:, None], 4, 1), parts >= 0)
        values = tf.boolean_mask(parts, parts >= 0)
        marks = marks_of(values)
        group = tf.cumsum(tf.cast((marks == 0) | begins(rows), tf.int32))
        values = tf.gather(values, tf.argsort(group * 256 + marks, stable=True))
        shapes = tf.TensorShape([None]), tf.TensorShape([None]), tf.TensorShape([])
        values, rows, _ = tf.while_loop(
            lambda values, rows, more: more,
            step,
            (values, rows, tf.size(values) > 0),
            shape_invariants=shapes,
        )
        return values, rows

    accented = tf.reduce_any(codes.flat_values >= 0x300)
    values, rows = tf.cond(accented, compose, lambda: (codes.flat_values, codes.value_rowids()))
    return tf.RaggedTensor.from_value_rowids(values, rows, codes.nrows())


def tf_tokenize(tokenizer: Tokenizer, sentences: Any) -> Any:
    """Split UTF-8 strings `[B]` into tokens by a built-in rule, ragged `[B, None]`."""
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
    """Return the tables of an encoder as one `tf.Module`, which an exported module can hold."""
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
        char_ids[0] = 0  # code point 0 is the padding, as it never occurs in a token
        module.characters = char_ids
        if antonyms:
            numbers = {word: i for i, word in enumerate(antonyms, 1)}
            pairs = [
                numbers[a] * (len(numbers) + 1) + numbers[b] for a in antonyms for b in antonyms[a]
            ]
            # word -> its number, or 0; pair -> 1
            module.lexicon = table(list(numbers), list(numbers.values()), 0, tf.string)
            module.opposites = table(pairs, [1] * len(pairs), 0, tf.int64)
            module.lexicon_size = len(numbers) + 1
    return module


def tf_encode_pairs(
    encoder: Any, sentence1: Any, sentence2: Any, length: Any, unseen: Any
) -> dict[str, Any]:
    """Encode string tensors `[B]` as `PairEncoder.encode` does."""
    import tensorflow as tf

    tables, features, max_length = encoder.tf_tables(), encoder.features, encoder.max_length
    max_word_length = encoder.max_word_length
    given = [tf.convert_to_tensor(x) for x in (sentence1, sentence2) if x is not None]
    tokens = tf_tokenize(encoder.tokenizer, tf.concat(given, 0))
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
        ids = tables.words.lookup(tokens.flat_values)
        columns["word_ids"] = padded(ids if unseen is None else unseen(ids, tokens.flat_values))
    if "char" in features:
        codes = tf.strings.unicode_decode(tokens.flat_values, "UTF-8")[:, :max_word_length]
        dense = codes.to_tensor(0, shape=[None, max_word_length])
        last = len(tables.characters) - 1  # an id that no character has: unknown
        columns["char_ids"] = padded(tf.gather(tables.characters, tf.minimum(dense, last)))
    if "antonym" in features:
        numbers = padded(tables.lexicon.lookup(tokens.flat_values))
        a, b = (tf.cast(side, tf.int64) for side in numbers)
        pairs = a[:, :, None] * tables.lexicon_size + b[:, None, :]
        hits = tables.opposites.lookup(pairs)  # [B, L, L]; symmetric
        columns["antonym"] = [tf.reduce_max(hits, 2), tf.reduce_max(hits, 1)]
    return {
        f"{name}_{side}": tf.ensure_shape(
            tf.cast(column, tf.int32), [None, None, max_word_length][: len(column.shape)]
        )
        for name, sides in columns.items()
        for side, column in enumerate(sides, 1)
    }
