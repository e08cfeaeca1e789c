"""Unicode's composition of letters with their accents (NFC) by TensorFlow's own operations."""

import unicodedata
from functools import cache
from typing import Any

import numpy as np

_LAST = 0x30000  # no code point from here on is composed of others
_SHIFT = 21  # bits of a code point


@cache
def _tables() -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Sorted keys with their values: decompositions, combining classes, pairs -> composites."""
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
    """NFC of ragged code points `[B, None]`, as `unicodedata.normalize`."""
    import tensorflow as tf

    decompositions, classes, composites = _tables()

    def find(table: tuple[np.ndarray, np.ndarray], keys: Any) -> tuple[Any, Any]:
        """Whether each key is in a table, and its value there."""
        place = tf.minimum(tf.searchsorted(table[0], tf.cast(keys, tf.int64)), len(table[0]) - 1)
        known = tf.gather(table[0], place) == tf.cast(keys, tf.int64)
        return known, tf.gather(table[1], place)

    def marks_of(values: Any) -> Any:
        known, found = find(classes, values)
        return tf.where(known, found, 0)

    def begins(rows: Any) -> Any:
        """Which values are the first of their row."""
        return tf.concat([[True], rows[1:] != rows[:-1]], 0)[: tf.size(rows)]

    def step(values: Any, rows: Any, _: Any) -> tuple[Any, Any, Any]:
        """Joins each starter with the first of what follows that it can be joined with."""
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
