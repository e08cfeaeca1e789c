"""BERT's word pieces by TensorFlow's own operations, for SavedModels without tensorflow-text."""

from typing import Any

import numpy as np

from keras_sentmatch.text.tokens import LAST
from keras_sentmatch.text.word_pieces import BertPieces, BertText, separators

_MAX_BYTES = 100  # a longer word is unknown


class WordPieceGraph:
    """BERT's word pieces: the longest that fits, from the left.

    It maps sentences `[B]` and a limit to piece ids, ragged int32 `[B, None]`, with at least the first
    `limit` pieces of each sentence. Words are split at spaces, punctuation and perhaps ideographs;
    special tokens are not looked for. An exported object must hold `table`.
    """

    def __init__(self, pieces: BertPieces):
        import tensorflow as tf

        tokenizer, self.text = pieces.plain, pieces.text
        ids = {piece: i for i, piece in enumerate(tokenizer.get_vocabulary())}
        self.unknown = ids[tokenizer.oov_token]
        self.suffix = tokenizer.suffix_indicator
        self.longest = max(map(len, ids))
        ranges = separators(tokenizer.split_on_cjk)
        self.pattern = "[" + "".join(rf"\x{{{a:x}}}-\x{{{b:x}}}" for a, b in ranges) + "]"
        with tf.init_scope():  # outside of any graph that is being traced
            pairs = tf.lookup.KeyValueTensorInitializer(
                tf.constant(list(ids)), tf.constant(list(ids.values()), tf.int32)
            )
            self.table = tf.lookup.StaticHashTable(pairs, -1)

    def __call__(self, sentences: Any, limit: int) -> Any:
        import tensorflow as tf

        sentences = _translated(self.text, sentences)
        words = tf.strings.split(tf.strings.regex_replace(sentences, self.pattern, r" \0 "))
        words = words[:, :limit]
        distinct, index = tf.unique(words.flat_values)
        pieces = tf.gather(self._of_words(distinct), index)
        return words.with_values(pieces).merge_dims(1, 2)

    def _of_words(self, words: Any) -> Any:
        """Return the pieces of words `[W]`, ragged `[W, None]`."""
        import tensorflow as tf

        length = tf.strings.length(words, unit="UTF8_CHAR")
        too_long = tf.strings.length(words) > _MAX_BYTES
        sizes = tf.range(self.longest, 0, -1)[None]

        def unfinished(left: Any, *others: Any) -> Any:
            return tf.size(left) > 0

        def step(left: Any, start: Any, rows: Any, ids: Any) -> tuple[Any, ...]:
            """Find the next piece of the words `left` from the character `start` on; -1 if no piece fits."""
            shape = [tf.size(left), self.longest]
            candidates = tf.strings.substr(
                tf.broadcast_to(tf.gather(words, left)[:, None], shape),
                tf.broadcast_to(start[:, None], shape),
                tf.broadcast_to(sizes, shape),
                unit="UTF8_CHAR",
            )
            prefix = tf.where(start > 0, self.suffix, "")[:, None]
            known = self.table.lookup(prefix + candidates)
            known = tf.where(tf.gather(too_long, left)[:, None], -1, known)
            best = tf.argmax(known >= 0, 1, tf.int32)  # the longest, as large sizes come first
            piece = tf.gather(known, best, batch_dims=1)
            end = start + tf.gather(sizes[0], best)  # beyond the end if the candidate is
            more = (piece >= 0) & (end < tf.gather(length, left))
            return left[more], end[more], tf.concat([rows, left], 0), tf.concat([ids, piece], 0)

        count = tf.size(words)
        none = tf.zeros([0], tf.int32)
        _, _, rows, ids = tf.while_loop(
            unfinished,
            step,
            (tf.range(count), tf.zeros([count], tf.int32), none, none),
            shape_invariants=(tf.TensorShape([None]),) * 4,
        )
        bad = tf.gather(tf.math.unsorted_segment_min(ids, rows, count) < 0, rows)
        kept = ~bad | (ids < 0)  # a word with a part that fits no piece is one unknown piece
        rows, ids = rows[kept], ids[kept]
        order = tf.argsort(rows, stable=True)
        ids = tf.gather(tf.where(ids < 0, self.unknown, ids), order)
        rows = tf.cast(tf.gather(rows, order), tf.int64)
        return tf.RaggedTensor.from_value_rowids(ids, rows, tf.cast(count, tf.int64))


def _translated(text: BertText, sentences: Any) -> Any:
    """Apply `str.translate` to a string tensor `[B]`."""
    import tensorflow as tf

    clean = [text[code] for code in range(LAST + 2)]
    ends = np.cumsum([0, *map(len, clean)])
    letters = np.array([ord(char) for part in clean for char in part], "int32")
    table = tf.RaggedTensor.from_row_splits(letters, ends, validate=False)
    codes = tf.strings.unicode_decode(sentences, "UTF-8")
    flat = tf.minimum(codes.flat_values, LAST + 1)
    merged = codes.with_flat_values(tf.gather(table, flat)).merge_dims(1, 2)
    return tf.strings.unicode_encode(merged, "UTF-8")
