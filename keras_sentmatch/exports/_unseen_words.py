"""The vectors of unseen words in a TensorFlow graph: `WordLookup` and `UnseenWords` as operations."""

import string
from typing import Any

import numpy as np

from keras_sentmatch.text.tokens import LAST, NEGATIONS, PAD, UNK, code_ranges
from keras_sentmatch.vectors.built_in import WordTable
from keras_sentmatch.vectors.word_lookup import COMPOSED, FIXED, LONGEST, SCALE, plain

_PART = r"[\pL\pN_]+|[^\pL\pN_\s]"  # as in `word_lookup`


class GraphLookup:
    """Finds vectors of words; make it outside of a graph, and keep `module` with the graph."""

    def __init__(self, table: WordTable) -> None:
        import tensorflow as tf

        self.words, self.dim = _table(table.words, -1), table.dim
        self.pieces = _table({piece: len(table) + i for piece, i in table.pieces.items()}, -1)
        accented = (chr(c) for c in range(0x80, LAST + 1) if not 0xD800 <= c < 0xE000)
        folded = {char: text for char in accented if char != (text := plain(char))}
        self.folded = _table(folded, "")
        self.module = tf.Module(name="word_lookup")
        self.module.tables = [self.words, self.pieces, self.folded]
        scaled = [table.vectors * table.scales[0], table.piece_vectors * table.scales[1]]
        self.module.rows = tf.Variable(np.concatenate(scaled).astype("float32"), trainable=False)

    def vectors(self, words: Any) -> tuple[Any, Any]:
        """Return which words `[N]` have a vector, and the vectors `[N, dim]`."""
        import tensorflow as tf

        keys = self._plain(words)
        index = self.words.lookup(keys)
        index = tf.where(index < 0, self._correction(keys), index)
        composed, mean = self._composed(keys)
        whole = SCALE * tf.gather(self.module.rows, tf.maximum(index, 0))
        return (index >= 0) | composed, tf.where(index[:, None] >= 0, whole, mean)

    def _plain(self, words: Any) -> Any:
        import tensorflow as tf

        keys = tf.strings.substr(words, 0, LONGEST, unit="UTF8_CHAR")
        chars = tf.strings.unicode_split(tf.strings.lower(keys, "utf-8"), "UTF-8")
        known = self.folded.lookup(chars.flat_values)
        accent = tf.strings.regex_full_match(chars.flat_values, r"\p{Mn}")
        flat = tf.where((known == "") & ~accent, chars.flat_values, known)
        return tf.strings.reduce_join(chars.with_flat_values(flat), axis=-1)

    def _correction(self, keys: Any) -> Any:
        """Return the rows of the most frequent words at one edit's distance, or -1."""
        import tensorflow as tf

        fits = tf.strings.regex_full_match(keys, f"[a-z]{{{FIXED},}}")
        keys = tf.where(fits, keys, "")
        size = tf.strings.length(keys)[:, None]
        at = tf.range(_most(size) + 1)[None] + 0 * size  # [N, P]
        spread = tf.broadcast_to(keys[:, None], tf.shape(at))

        def part(start: Any, length: Any) -> Any:
            return tf.strings.substr(spread, tf.minimum(start, size), length)

        before, after = part(0 * at, at), part(at, 0 * at + LONGEST)
        rest = part(at + 1, 0 * at + 64)
        swapped = part(at + 1, 0 * at + 1) + part(at, 0 * at + 1) + part(at + 2, 0 * at + 64)
        letters = tf.constant(list(string.ascii_lowercase))
        inside, two = (at < size), (at + 1 < size)
        found = [
            tf.where(inside, before + rest, ""),
            tf.where(two, before + swapped, ""),
            *tf.unstack(tf.where(inside[..., None], before[..., None] + letters + rest[..., None], ""), 26, 2),
            *tf.unstack(tf.where((at <= size)[..., None], before[..., None] + letters + after[..., None], ""), 26, 2),
        ]  # fmt: skip
        rows = self.words.lookup(tf.concat(found, 1))
        none = tf.constant(np.iinfo("int64").max, tf.int64)
        best = tf.reduce_min(tf.where(rows < 0, none, rows), 1)
        return tf.where(fits & (best < none), best, -1)

    def _composed(self, keys: Any) -> tuple[Any, Any]:
        """Return which words are made of pieces, and the mean vectors of their pieces."""
        import tensorflow as tf

        parts = tf.strings.split(tf.strings.regex_replace(keys, _PART, r" \0 "))
        rows, words = parts.value_rowids(), parts.flat_values
        size = tf.strings.length(words, "UTF8_CHAR")
        longest = _most(size)
        total = tf.zeros([tf.size(words), self.dim])
        start, count = tf.zeros_like(size), tf.zeros_like(size)

        def step(start: Any, count: Any, total: Any) -> tuple[Any, Any, Any]:
            ends = tf.range(1, longest + 1)[None] + 0 * start[:, None]
            whole = tf.broadcast_to(words[:, None], tf.shape(ends))
            begin = tf.minimum(tf.maximum(start, 0)[:, None] + 0 * ends, size[:, None])
            length = tf.maximum(ends - begin, 0)
            texts = tf.strings.substr(whole, begin, length, unit="UTF8_CHAR")
            inside = (ends > begin) & (ends <= size[:, None])
            found = tf.where(begin == 0, self.words.lookup(texts), self.pieces.lookup(texts))
            found = tf.where(inside, found, -1)
            best = tf.reduce_max(tf.where(found >= 0, ends, 0), 1)
            row = tf.reduce_max(tf.where(ends == best[:, None], found, -1), 1)
            going = (start >= 0) & (start < size)
            hit = going & (best > 0)
            vector = tf.gather(self.module.rows, tf.maximum(row, 0))
            total += tf.where(hit[:, None], vector, 0.0)
            start = tf.where(hit, best, tf.where(going, -1, start))
            return start, count + tf.cast(hit, tf.int32), total

        start, count, total = tf.while_loop(
            lambda start, count, total: tf.reduce_any((start >= 0) & (start < size)),
            step,
            (start, count, total),
        )
        number = tf.cast(parts.nrows(), tf.int32)
        failed = tf.math.unsorted_segment_max(tf.cast(start < 0, tf.int32), rows, number) > 0
        pieces = tf.math.unsorted_segment_sum(count, rows, number)
        mean = tf.math.unsorted_segment_sum(total, rows, number)
        mean /= tf.cast(tf.maximum(pieces, 1), tf.float32)[:, None]
        norm = tf.norm(mean, axis=1, keepdims=True)
        good = ~failed & (pieces > 0) & (norm[:, 0] >= 1e-6)
        return good, COMPOSED * SCALE / tf.maximum(norm, 1e-6) * mean


def lend(lookup: GraphLookup, ids: Any, tokens: Any, size: int) -> tuple[Any, Any, Any]:
    """Give ids from `size` on to unknown tokens that have a vector.

    Returns the ids, the words with new ids, and their vectors.
    """
    import tensorflow as tf

    unknown = tf.where((ids == 1) & (tokens != PAD) & (tokens != UNK))[:, 0]
    words, place = tf.unique(tf.gather(tokens, unknown))
    known, vectors = lookup.vectors(words)
    numbers = tf.cumsum(tf.cast(known, tf.int64)) - 1 + size
    new = tf.gather(tf.where(known, numbers, 1), place)
    ids = tf.tensor_scatter_nd_update(ids, unknown[:, None], new)
    return ids, tf.boolean_mask(words, known), tf.boolean_mask(vectors, known)


def more_rows(table: Any, role: str, words: Any, vectors: Any) -> Any:
    """Return a word table with the rows of lent words."""
    import tensorflow as tf

    rows: Any = tf.zeros([tf.size(words), *table.shape[1:]], table.dtype)
    if role == "vectors":
        rows = tf.cast(vectors, table.dtype)
    elif role == "facts":
        digits = code_ranges(c for c in range(LAST + 1) if chr(c).isdigit())
        digit = "".join(rf"\x{{{low:x}}}-\x{{{high:x}}}" for low, high in digits)
        negates = tf.reduce_any(tf.strings.lower(words, "utf-8")[:, None] == sorted(NEGATIONS), 1)
        numeric = tf.strings.regex_full_match(words, f"(?s).*[{digit}].*")
        facts = tf.stack([tf.zeros_like(negates), negates, numeric], 1)
        rows = tf.cast(facts, table.dtype)
    longer = tf.concat([table, rows], 0)
    longer.set_shape(table.shape)  # so that Keras takes it for the table
    return longer


def _table(entries: dict[str, Any], default: Any) -> Any:
    import tensorflow as tf

    keys, values = list(entries), list(entries.values())
    kind: Any = tf.string if default == "" else tf.int64
    pairs = tf.lookup.KeyValueTensorInitializer(keys, values, tf.string, kind)
    with tf.init_scope():
        return tf.lookup.StaticHashTable(pairs, tf.constant(default, kind))


def _most(sizes: Any) -> Any:
    """Return the largest of some sizes, or 0."""
    import tensorflow as tf

    return tf.reduce_max(tf.concat([[0], tf.reshape(sizes, [-1])], 0))
