"""Word vectors: words and a matrix."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_sentmatch.errors import InputError


def case_forms(word: str) -> list[str]:
    """Return the spellings under which a word is looked up, best first."""
    return list(dict.fromkeys((word, word.lower(), word.capitalize(), word.upper())))


class WordVectors:
    """Words and their vectors.

    A word is looked up as spelled, then in lower case, Capitalized and in UPPER case, so that a
    lower-case vocabulary finds `Paris` and `USA` in a cased file.

    Args:
        words: Mapping from words to rows of `matrix`.
        matrix: Float array `[n, d]`.
        source: Where the vectors come from.
        report: One line of counts.
        built_in: Whether they are the built-in table's.

    Raises:
        InputError: If `matrix` does not have one row per word.

    Example:

    >>> vectors = WordVectors({"cat": 0, "Paris": 1}, [[1.0, 2.0], [3.0, 4.0]])
    >>> vectors["paris"].tolist(), "dog" in vectors
    ([3.0, 4.0], False)
    """

    def __init__(
        self,
        words: dict[str, int],
        matrix: np.ndarray,
        source: str = "",
        report: str = "",
        built_in: bool = False,
    ) -> None:
        matrix = np.asarray(matrix, np.float32)
        if matrix.ndim != 2 or len(matrix) != len(words):
            raise InputError(
                f"The matrix has the shape {matrix.shape}, but there are {len(words)} words. Give one "
                "row per word."
            )
        self.words = words
        self.matrix = matrix
        self.source = source
        self.report = report
        self.built_in = built_in

    @property
    def dim(self) -> int:
        return int(self.matrix.shape[1])

    def __len__(self) -> int:
        return len(self.words)

    def _row(self, word: str) -> int | None:
        return next((self.words[f] for f in case_forms(word) if f in self.words), None)

    def __contains__(self, word: str) -> bool:
        return self._row(word) is not None

    def __getitem__(self, word: str) -> np.ndarray:
        if (row := self._row(word)) is None:
            raise KeyError(word)
        vector: np.ndarray = self.matrix[row]
        return vector

    def __repr__(self) -> str:
        return f"WordVectors({len(self)} words × {self.dim}, source={self.source!r})"

    def matrix_for(self, vocabulary: Any, seed: int) -> np.ndarray:
        """Make the embedding matrix of a vocabulary.

        Args:
            vocabulary: Object with a list `words`: padding at index 0, the unknown word at 1.
            seed: Seed of U(-0.05, 0.05), from which words without a vector get one.

        Returns:
            float32 `[len(vocabulary.words), dim]`. Row 0 is zero.
        """
        words = vocabulary.words
        rng = np.random.default_rng(seed)
        matrix = np.empty((len(words), self.dim), np.float32)
        for start in range(0, len(words), 4096):  # no float64 copy of all
            part = matrix[start : start + 4096]
            part[:] = rng.uniform(-0.05, 0.05, part.shape)
        matrix[:1] = 0
        for index, word in enumerate(words[2:], 2):
            if word in self:
                matrix[index] = self[word]
        return matrix

    def coverage(self, counts: Mapping[str, int]) -> str:
        """Say in one line how many of the counted words, and of their occurrences, have a vector."""
        total = sum(counts.values())
        if not total:
            return "vectors for 0 words"
        found = [word for word in counts if word in self]
        hits = sum(counts[word] for word in found)
        return (
            f"vectors for {len(found) / len(counts):.1%} of {len(counts)} words, "
            f"{hits / total:.1%} of {total} tokens"
        )
