"""Word vectors: words, a matrix, and a cache on disk."""

import hashlib
import json
import os
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.errors import InputError
from keras_sentmatch.safety import cache_folder, read_arrays

_CACHE_FORMAT = 4


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

    def coverage(self, tokens: Iterable[str] | Mapping[str, int]) -> str:
        """Say in one line how many of the words, and of their occurrences, have a vector.

        Args:
            tokens: Occurrences of words, or a mapping from words to counts.
        """
        counts = tokens if isinstance(tokens, Mapping) else Counter(tokens)
        total = sum(counts.values())
        if not total:
            return "vectors for 0 words: there are none"
        found = [word for word in counts if word in self]
        hits = sum(counts[word] for word in found)
        return (
            f"vectors for {len(found) / len(counts):.1%} of {len(counts)} words, "
            f"{hits / total:.1%} of {total} tokens"
        )


def cached(
    key: Sequence[Any], cache_dir: str | Path | None, make: Callable[[], WordVectors]
) -> WordVectors:
    """Return `make()`, or its earlier result for the same key: one `.npz` file per key, no pickle."""
    folder = cache_folder() if cache_dir is None else Path(cache_dir).expanduser()
    digest = hashlib.sha256(json.dumps([_CACHE_FORMAT, *key]).encode()).hexdigest()
    file = folder / f"vectors-{digest[:32]}.npz"
    if file.is_file():
        try:
            data: dict[str, Any] = read_arrays(file)
            info = json.loads(data.pop("info").tobytes())
            words = {word: row for row, word in enumerate(info["words"])}
            return WordVectors(words, data["matrix"], info["source"], info["report"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            warnings.warn(
                f"The cache entry {file} is damaged and will be made again ({error}).", stacklevel=2
            )
    vectors = make()
    info = {
        "words": sorted(vectors.words, key=vectors.words.__getitem__),
        "source": vectors.source,
        "report": vectors.report,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as part:
            try:
                text = np.frombuffer(json.dumps(info).encode(), np.uint8)
                np.savez(part, matrix=vectors.matrix, info=text)
                part.close()
                os.replace(part.name, file)
            except BaseException:
                os.unlink(part.name)
                raise
    except OSError as error:
        warnings.warn(f"The vectors could not be cached in {file} ({error}).", stacklevel=2)
    return vectors
