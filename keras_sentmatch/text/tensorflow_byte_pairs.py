"""Byte pairs as GPT-2 and RoBERTa have them, by TensorFlow's own operations, for SavedModels."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from keras_sentmatch.text.bert_text import LAST

_SPACES = (*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B))
_SPACES += (0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
_CLITICS = ("s", "t", "re", "ve", "m", "ll", "d")  # after an apostrophe
_OTHER, _LETTER, _NUMBER, _SPACE = range(4)
_NONE = np.int32(2**31 - 1)  # the rank of a pair that is not merged


class BytePairGraph:
    """Byte pairs of a vocabulary that has all bytes; in each word the first of the merges is next.

    An object that is exported must hold `table`.

    Args:
        vocabulary: The id of each piece.
        merges: The pairs of pieces that are merged, the first ones first.
        bytes_of: The byte that each character of the vocabulary stands for.
        prefix_space: Whether a space comes before each sentence.
    """

    def __init__(
        self,
        vocabulary: Mapping[str, int],
        merges: Sequence[tuple[str, ...]],
        bytes_of: Mapping[str, int],
        prefix_space: bool,
    ):
        import tensorflow as tf

        self.size = max(vocabulary.values()) + 1
        self.prefix_space = prefix_space
        self.bytes = np.zeros(256, "int32")
        for char, byte in bytes_of.items():
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

    def __call__(self, sentences: Any) -> Any:
        """The ids of sentences `[B]`, ragged `[B, None]`."""
        import tensorflow as tf

        if self.prefix_space:
            spaced = tf.strings.regex_full_match(sentences, r"(?s)( .*)?")
            sentences = tf.where(spaced, sentences, tf.strings.join([" ", sentences]))
        codes = tf.strings.unicode_decode(sentences, "UTF-8")
        flat, rows = codes.flat_values, codes.value_rowids()
        starts = _word_starts(flat, rows)
        count = tf.size(flat, tf.int64)
        splits = tf.concat([tf.where(starts)[:, 0], [count]], 0)
        splits = tf.concat([splits[:1] * 0, splits[1:]], 0)  # of no characters at all
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
            """Merges one pair in each of the words `left`; those without one are finished."""
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
    """Which characters begin a word, by GPT-2's rule; `rows` are the sentences they are in.

    The rule as a regular expression: `'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|
    \\s+(?!\\S)|\\s+`.
    """
    import tensorflow as tf

    kinds = tf.gather(_kinds(), tf.minimum(codes, LAST + 1))

    def shifted(x: Any, by: int, edge: int) -> Any:
        """The value `by` characters later in the same sentence; `edge` where there is none."""
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
    free = ~last & (before != _OTHER)  # an apostrophe that no other sign or space comes before
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
    """Whether each code point is a letter, a number, a space or something else."""
    import regex  # which KerasHub uses

    kinds = np.full(LAST + 2, _OTHER, "int32")
    everything = "".join(map(chr, range(LAST + 1)))
    for kind, letters in ((_LETTER, r"\p{L}"), (_NUMBER, r"\p{N}")):
        kinds[[ord(char) for char in regex.findall(letters, everything)]] = kind
    kinds[list(_SPACES)] = _SPACE
    return kinds
