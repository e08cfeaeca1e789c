"""BERT's word pieces by TensorFlow's own operations, for SavedModels without tensorflow-text."""

from functools import cache
from typing import Any

from keras_sentmatch.text.bert_text import LAST
from keras_sentmatch.text.tokens import code_ranges

MAX_BYTES = 100  # of a word; a longer one is unknown
# What KerasHub takes for punctuation beside Unicode's own, and for ideographs (as Google's BERT).
_ASCII = ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E))
_IDEOGRAPHS = (
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF), (0x2A700, 0x2CEAF), (0x2F800, 0x2FA1F),
)  # fmt: skip


class WordPieces:
    """The word pieces of a KerasHub `WordPieceTokenizer`: longest first, from the left.

    The tokenizer splits words at spaces, punctuation and perhaps ideographs, and does not look for
    special tokens. An object that is exported must hold `table`.
    """

    def __init__(self, tokenizer: Any):
        import tensorflow as tf

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
        """The piece ids of sentences `[B]` cleaned by `BertText`, of the first `limit` words each."""
        import tensorflow as tf

        words = tf.strings.split(tf.strings.regex_replace(sentences, self.pattern, r" \0 "))
        words = words[:, :limit]
        distinct, index = tf.unique(words.flat_values)
        pieces = tf.gather(self._of_words(distinct), index)
        return words.with_values(pieces).merge_dims(1, 2)

    def _of_words(self, words: Any) -> Any:
        """The pieces of words `[W]`, ragged `[W, None]`."""
        import tensorflow as tf

        length = tf.strings.length(words, unit="UTF8_CHAR")
        too_long = tf.strings.length(words) > MAX_BYTES
        sizes = tf.range(self.longest, 0, -1)[None]

        def unfinished(left: Any, *others: Any) -> Any:
            return tf.size(left) > 0

        def step(left: Any, start: Any, rows: Any, ids: Any) -> tuple[Any, ...]:
            """The next piece of the words `left`, from the character `start` on; -1 if none fits."""
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
            best = tf.argmax(known >= 0, 1, tf.int32)  # of the largest first, so the longest
            piece = tf.gather(known, best, batch_dims=1)
            end = start + tf.gather(sizes[0], best)  # of a candidate past the end: beyond it
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
        kept = ~bad | (ids < 0)  # of a word with a part that fits nothing: one unknown piece
        rows, ids = rows[kept], ids[kept]
        order = tf.argsort(rows, stable=True)
        ids = tf.gather(tf.where(ids < 0, self.unknown, ids), order)
        rows = tf.cast(tf.gather(rows, order), tf.int64)
        return tf.RaggedTensor.from_value_rowids(ids, rows, tf.cast(count, tf.int64))


@cache
def separators(ideographs: bool) -> tuple[tuple[int, int], ...]:
    """The ranges of code points that are words by themselves, perhaps with the ideographs."""
    import regex  # which KerasHub uses; Unicode's newest characters differ between engines

    everything = "".join(map(chr, range(LAST + 1)))
    codes = {ord(char) for char in regex.findall(r"\p{P}", everything)}
    for low, high in _ASCII + (_IDEOGRAPHS if ideographs else ()):
        codes.update(range(low, high + 1))
    return code_ranges(codes)
