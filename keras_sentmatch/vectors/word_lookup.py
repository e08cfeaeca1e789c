"""The vectors of words by their spelling and pieces. Exports take this file along: it needs only NumPy."""

import re
import string
import unicodedata
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

SCALE = 5.0  # length of a word's vector
COMPOSED = 0.7  # length of a vector composed of word pieces, as a share of SCALE
FIXED = 4  # letters of the shortest word whose spelling is corrected
LONGEST = 64  # characters of a word that are looked at
_PARTS = re.compile(r"\w+|[^\w\s]")


class WordLookup:
    """Finds the vector of a word; see `WordTable`."""

    def __init__(
        self,
        words: Iterable[str],
        vectors: np.ndarray,
        pieces: Iterable[str],
        piece_vectors: np.ndarray,
        scales: Iterable[float],
    ) -> None:
        self.words = {word: row for row, word in enumerate(words)}
        self.pieces = {piece: row for row, piece in enumerate(pieces)}
        self.vectors, self.piece_vectors = vectors, piece_vectors
        self.scales = tuple(map(float, scales))
        self.dim = int(vectors.shape[1])

    def lookup(self, word: str, correct: bool = True) -> tuple[np.ndarray | None, str]:
        """Return the vector of a word, float32 `[dim]`, and `"word"`, `"spelling"` or `"pieces"`.

        For a word without a vector, None and `"unknown"`. `correct` says whether the spelling of a word
        outside the table is corrected.
        """
        key = plain(word)
        if key in self.words:
            return self._row(key), "word"
        if correct and (corrected := self.correction(key)):
            return self._row(corrected), "spelling"
        parts = [self._pieces(part) for part in _PARTS.findall(key)]
        if not parts or not all(parts):
            return None, "unknown"
        vector = np.mean([row for part in parts for row in part], axis=0)
        norm = float(np.linalg.norm(vector))
        if norm < 1e-6:
            return None, "unknown"
        return (COMPOSED * SCALE / norm * vector).astype(np.float32), "pieces"

    def correction(self, word: str) -> str | None:
        """Return the most frequent word of the table that is one edit away from `word`."""
        if len(word) < FIXED or not (word.isascii() and word.isalpha()):
            return None
        near = [w for w in _edits(word) if w in self.words and len(w) >= FIXED - 1]
        return min(near, key=self.words.__getitem__, default=None)

    def _row(self, word: str) -> np.ndarray:
        row: np.ndarray = self.vectors[self.words[word]].astype(np.float32)
        return row * np.float32(SCALE * self.scales[0])

    def _pieces(self, word: str) -> list[np.ndarray]:
        """Return the vectors of the longest pieces from the left, or none if a part fits no piece."""
        found: list[np.ndarray] = []
        start = 0
        while start < len(word):
            index = self.pieces if start else self.words
            end = next((e for e in range(len(word), start, -1) if word[start:e] in index), None)
            if end is None:
                return []
            row = index[word[start:end]]
            table = self.piece_vectors if start else self.vectors
            found.append(table[row] * self.scales[bool(start)])
            start = end
        return found

    def extract(self, words: Collection[str]) -> tuple[list[str], np.ndarray]:
        """Return the words that have a vector, and their vectors, float32 `[words, dim]`."""
        found = {word: self.lookup(word)[0] for word in words}
        known = [word for word, vector in found.items() if vector is not None]
        return known, np.reshape([found[word] for word in known], (-1, self.dim))


def read_lookup(file: Any) -> dict[str, Any]:
    """Read the arguments of `WordLookup` from the file of the table."""
    with np.load(file, allow_pickle=False) as arrays:
        found = {name: arrays[name] for name in ("vectors", "piece_vectors", "scales")}
        texts = {name: bytes(arrays[name]).decode() for name in ("words", "pieces")}
    return found | {name: text.split("\n") for name, text in texts.items()}


def plain(word: str) -> str:
    """Return a word as the table spells it: in lower case and without accents."""
    word = word[:LONGEST].lower()
    if word.isascii():
        return word
    decomposed = unicodedata.normalize("NFD", word)
    return "".join(char for char in decomposed if unicodedata.category(char) != "Mn")


def _edits(word: str) -> set[str]:
    """Return all strings that one deletion, swap, replacement or insertion makes of a word."""
    splits = [(word[:i], word[i:]) for i in range(len(word) + 1)]
    letters = string.ascii_lowercase
    return {
        *(a + b[1:] for a, b in splits if b),
        *(a + b[1] + b[0] + b[2:] for a, b in splits if len(b) > 1),
        *(a + c + b[1:] for a, b in splits if b for c in letters),
        *(a + c + b for a, b in splits for c in letters),
    }
