"""Word pieces by TensorFlow's own operations, for SavedModels without tensorflow-text."""

from functools import cache
from typing import Any

import numpy as np

from keras_sentmatch.text.tokens import LAST
from keras_sentmatch.text.word_pieces import (
    BertPieces,
    BertText,
    BytePairs,
    Pieces,
    byte_of,
    separators,
)

_MAX_BYTES = 100  # a longer word is unknown


def pieces_graph(pieces: Pieces) -> "WordPieceGraph | BytePairGraph":
    """Return a function from sentences `[B]` and a limit to piece ids, ragged int32 `[B, None]`.

    It makes at least the first `limit` pieces of each sentence.

    Raises:
        InputError: If only Python can make the pieces (SentencePiece).
    """
    pieces.check_graph()
    if isinstance(pieces, BertPieces):
        return WordPieceGraph(pieces)
    assert isinstance(pieces, BytePairs)
    return BytePairGraph(pieces)


class WordPieceGraph:
    """BERT's word pieces: the longest that fits, from the left.

    Words are split at spaces, punctuation and perhaps ideographs; special tokens are not looked for.
    An exported object must hold `table`.
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
        """The pieces of words `[W]`, ragged `[W, None]`."""
        import tensorflow as tf

        length = tf.strings.length(words, unit="UTF8_CHAR")
        too_long = tf.strings.length(words) > _MAX_BYTES
        sizes = tf.range(self.longest, 0, -1)[None]

        def unfinished(left: Any, *others: Any) -> Any:
            return tf.size(left) > 0

        def step(left: Any, start: Any, rows: Any, ids: Any) -> tuple[Any, ...]:
            """Find the next piece of the words `left` from the character `start` on; -1 if none fits."""
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
    """`str.translate` of a string tensor `[B]`."""
    import tensorflow as tf

    clean = [text[code] for code in range(LAST + 2)]
    ends = np.cumsum([0, *map(len, clean)])
    letters = np.array([ord(char) for part in clean for char in part], "int32")
    table = tf.RaggedTensor.from_row_splits(letters, ends, validate=False)
    codes = tf.strings.unicode_decode(sentences, "UTF-8")
    flat = tf.minimum(codes.flat_values, LAST + 1)
    merged = codes.with_flat_values(tf.gather(table, flat)).merge_dims(1, 2)
    return tf.strings.unicode_encode(merged, "UTF-8")


_SPACES = (*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B))
_SPACES += (0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
_CLITICS = ("s", "t", "re", "ve", "m", "ll", "d")  # after an apostrophe
_OTHER, _LETTER, _NUMBER, _SPACE = range(4)
_NONE = np.int32(2**31 - 1)  # the rank of a pair that is not merged


class BytePairGraph:
    """Byte pairs as in GPT-2 and RoBERTa: within each word, the earliest merge is applied first.

    An exported object must hold `table`.
    """

    def __init__(self, pieces: BytePairs):
        import tensorflow as tf

        vocabulary, merges = pieces.tokenizer.vocabulary, pieces.merges
        self.size = max(vocabulary.values()) + 1
        self.prefix_space = pieces.tokenizer.add_prefix_space
        self.bytes = np.zeros(256, "int32")
        for char, byte in byte_of().items():
            self.bytes[byte] = vocabulary[char]
        ranks: dict[int, int] = {}
        for rank, (first, second) in enumerate(merges):
            ranks[vocabulary[first] * self.size + vocabulary[second]] = rank
        self.merged = np.array([vocabulary["".join(pair)] for pair in merges] or [0], "int32")
        with tf.init_scope():  # outside of any graph that is being traced
            pairs = tf.lookup.KeyValueTensorInitializer(
                tf.constant(list(ranks), tf.int64), tf.constant(list(ranks.values()), tf.int32)
            )
            self.table = tf.lookup.StaticHashTable(pairs, _NONE)

    def __call__(self, sentences: Any, limit: int) -> Any:
        import tensorflow as tf

        if self.prefix_space:
            spaced = tf.strings.regex_full_match(sentences, r"(?s)( .*)?")
            sentences = tf.where(spaced, sentences, tf.strings.join([" ", sentences]))
        codes = tf.strings.unicode_decode(sentences, "UTF-8")
        flat, rows = codes.flat_values, codes.value_rowids()
        starts = _word_starts(flat, rows)
        count = tf.size(flat, tf.int64)
        splits = tf.concat([tf.where(starts)[:, 0], [count]], 0)
        splits = tf.concat([splits[:1] * 0, splits[1:]], 0)  # if there are no characters at all
        words = tf.strings.unicode_encode(tf.RaggedTensor.from_row_splits(flat, splits), "UTF-8")
        distinct, index = tf.unique(words)
        pieces = tf.gather(self._of_words(distinct), index)
        inside = tf.RaggedTensor.from_value_rowids(
            tf.range(tf.size(words)), tf.boolean_mask(rows, starts), nrows=codes.nrows()
        )
        return tf.gather(pieces, inside).merge_dims(1, 2)

    def _of_words(self, words: Any) -> Any:
        """The pieces of words `[W]`, ragged `[W, None]`."""
        import tensorflow as tf

        counts = tf.strings.length(words)
        longest = tf.maximum(tf.reduce_max(tf.concat([counts, [1]], 0)), 1)
        raw = tf.io.decode_raw(words, tf.uint8, fixed_length=longest)
        ids = tf.gather(self.bytes, tf.cast(raw, tf.int32))
        column = tf.range(longest)[None]

        def unfinished(left: Any, *others: Any) -> Any:
            return tf.size(left) > 0

        def step(left: Any, here: Any, counts: Any, rows: Any, ids: Any) -> tuple[Any, ...]:
            """Merge one pair in each of the words `left`; words without a pair are finished."""
            after = tf.concat([here[:, 1:], here[:, :1]], 1)
            pairs = tf.cast(here, tf.int64) * self.size + tf.cast(after, tf.int64)
            ranks = tf.where(column + 1 < counts[:, None], self.table.lookup(pairs), _NONE)
            place = tf.argmin(ranks, 1, tf.int32)[:, None]
            rank = tf.gather(ranks, place[:, 0], batch_dims=1)
            more = rank < _NONE
            rows = tf.concat([rows, tf.repeat(left[~more], counts[~more])], 0)
            finished = tf.boolean_mask(here[~more], column < counts[~more][:, None])
            ids = tf.concat([ids, finished], 0)
            new = tf.gather(self.merged, tf.where(more, rank, 0))[:, None]
            here = tf.where(column == place, new, tf.where(column < place, here, after))
            return left[more], here[more], counts[more] - 1, rows, ids

        total, none = tf.size(words), tf.zeros([0], tf.int32)
        flat, table = tf.TensorShape([None]), tf.TensorShape([None, None])
        *_, rows, ids = tf.while_loop(
            unfinished,
            step,
            (tf.range(total), ids, counts, none, none),
            shape_invariants=(flat, table, flat, flat, flat),
        )
        order = tf.argsort(rows, stable=True)
        rows = tf.cast(tf.gather(rows, order), tf.int64)
        return tf.RaggedTensor.from_value_rowids(
            tf.gather(ids, order), rows, nrows=tf.cast(total, tf.int64)
        )


def _word_starts(codes: Any, rows: Any) -> Any:
    """Return which characters begin a word by GPT-2's rule; `rows` are their sentences.

    The rule is `'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+`.
    """
    import tensorflow as tf

    kinds = tf.gather(_kinds(), tf.minimum(codes, LAST + 1))

    def shifted(x: Any, by: int, edge: int) -> Any:
        """Return the value `by` characters later in the same sentence, or `edge`."""
        size = tf.size(x)
        where = tf.range(size) + by
        inside = tf.clip_by_value(where, 0, tf.maximum(size - 1, 0))
        same = (where == inside) & (tf.gather(rows, inside) == rows)
        return tf.where(same, tf.gather(x, inside), edge)

    before, after = shifted(kinds, -1, -1), shifted(kinds, 1, -1)
    space, last = kinds == _SPACE, shifted(codes, -1, 0) == 0x20
    starts = tf.where(
        space,
        (before != _SPACE) | ((after >= 0) & (after != _SPACE)),
        ~last & (kinds != before),
    )
    free = ~last & (before != _OTHER)  # an apostrophe not after another sign or a space
    for clitic in _CLITICS:
        match = free & (codes == 0x27)
        for by, char in enumerate(clitic, 1):
            match &= shifted(codes, by, 0) == ord(char)
        for by in range(1, len(clitic) + 2):
            hit = shifted(tf.cast(match, tf.int32), -by, 0) == 1
            starts = (starts | hit) if by == len(clitic) + 1 else (starts & ~hit)
    return starts


@cache
def _kinds() -> np.ndarray:
    """Return whether each code point is a letter, a number, a space or something else."""
    import regex  # which KerasHub uses

    kinds = np.full(LAST + 2, _OTHER, "int32")
    everything = "".join(map(chr, range(LAST + 1)))
    for kind, letters in ((_LETTER, r"\p{L}"), (_NUMBER, r"\p{N}")):
        kinds[[ord(char) for char in regex.findall(letters, everything)]] = kind
    kinds[list(_SPACES)] = _SPACE
    return kinds
