"""Words outside the vocabulary, and the vectors that the built-in table makes of them."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.text.tokens import PAD, UNK, word_facts
from keras_sentmatch.vectors.built_in import WordTable

if TYPE_CHECKING:
    import keras

BLOCK = 1024  # spare rows in the word tables of a model that is trained with the built-in table
_MOST_SKIPPED = 100_000  # words without a vector that are remembered

WriteRows = Callable[[int, Sequence[str], np.ndarray], None]


class UnseenWords:
    """Lends spare rows of a model's word tables to words outside its vocabulary.

    A model that was trained with the built-in table has spare rows behind its vocabulary. An unseen
    word gets one of them, with the vector that the table makes of its spelling or its pieces. When
    no row is left, all of them are lent again. So the model never grows, and a prediction does not
    depend on earlier ones. `write(first row, words, vectors)` fills rows of the word tables.
    """

    def __init__(self, table: WordTable, encoder: PairEncoder, rows: int, write: WriteRows) -> None:
        self.table, self.encoder, self.rows, self.write = table, encoder, rows, write
        self._lent: list[str] = []  # the words of the spare rows, in their order
        self._skipped: set[str] = set()  # words for which the table has no vector
        self._lock = threading.RLock()  # servers predict in several threads

    @contextmanager
    def lending(self, *columns: Sequence[str]) -> Iterator[Iterator[slice]]:
        """Yield slices that together cover columns of sentences.

        The unseen words of a slice have their rows until the next slice is taken. Other threads
        wait until the context ends.
        """
        with self._lock:
            yield self._slices(columns)

    def forget(self) -> None:
        """Lend no row any more, as another matcher may have written into the model's tables."""
        with self._lock:
            self._lent = []
            self.encoder.lend_ids([])

    def _slices(self, columns: Sequence[Sequence[str]]) -> Iterator[slice]:
        start, row = 0, -1
        words: dict[str, None] = {}
        for row, sentences in enumerate(zip(*columns)):
            more = self._unseen(sentences)
            if row > start and len(words | more) > self.rows:
                self._lend(words)
                yield slice(start, row)
                start, words = row, {}
            words |= more
        self._lend(words)
        yield slice(start, row + 1)

    def _unseen(self, sentences: Sequence[str]) -> dict[str, None]:
        """The words of some sentences that are in neither the vocabulary nor the skipped words."""
        known, skipped = self.encoder.vocabulary, self._skipped
        return {
            token: None
            for sentence in sentences
            if isinstance(sentence, str)
            for token in self.encoder.tokens(sentence)
            if token not in known and token not in skipped
            if token not in ("", PAD, UNK) and "\n" not in token
        }

    def _lend(self, words: dict[str, None]) -> None:
        taken = set(self._lent)
        new = [word for word in words if word not in taken]
        if len(taken) + len(new) > self.rows:
            self._lent, new = [], list(words)[: self.rows]
        if not new:
            return
        found, vectors = self.table.extract(new)
        if len(self._skipped) > _MOST_SKIPPED:
            self._skipped.clear()
        self._skipped.update(set(new) - set(found))
        if found:
            self.write(self.encoder.vocabulary_size + len(self._lent), found, vectors)
        self._lent += found
        self.encoder.lend_ids(self._lent)


def row_tables(model: "keras.Model") -> list[tuple[str, Any]]:
    """Return the variables with one row per word, each with what a row holds."""
    found: list[tuple[str, Any]] = getattr(model, "row_tables", list)()
    return found


def word_tables(model: "keras.Model") -> list[Any]:
    """Return the variables `[words, dim]` that hold a model's word vectors."""
    return [table for role, table in row_tables(model) if role == "vectors"]


def spare_rows(model: "keras.Model", encoder: Any) -> int:
    """Return the number of rows that a model's word tables have behind the encoder's vocabulary."""
    if not isinstance(encoder, PairEncoder):
        return 0
    rows = [int(table.shape[0]) for table in word_tables(model)]
    return max(0, min(rows, default=0) - encoder.vocabulary_size)


def new_rows(role: str, words: Sequence[str], vectors: np.ndarray) -> Any:
    """Return the rows of unseen words in a table of this role."""
    if role == "vectors":
        return vectors
    if role == "facts":
        return np.pad(word_facts(words), [(0, 0), (1, 0)])
    return 0.0  # linear weights


def write_rows(model: "keras.Model", start: int, words: Sequence[str], vectors: np.ndarray) -> None:
    """Write the rows of words, from `start` on, into every table with one row per word."""
    from keras import ops

    for role, table in row_tables(model):
        value = np.array(ops.convert_to_numpy(table))
        value[start : start + len(words)] = new_rows(role, words, vectors)
        table.assign(value)
