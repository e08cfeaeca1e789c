"""Word vectors, and files of them (GloVe, fastText, word2vec's text format), read in one pass."""

import difflib
import gzip
import itertools
import os
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.display.progress import progress_bar
from keras_sentmatch.errors import InputError
from keras_sentmatch.safety import compressed_room, expansion_error, limit, raise_limit_hint

_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1f]")
_BINARY = (
    "This is not text. Unpack an archive first, and convert a binary file to text, such as with gensim's "
    "KeyedVectors.save_word2vec_format."
)

Line = tuple[str, bytes]  # where it is, what it holds


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
            wrong = f"The matrix has the shape {matrix.shape}, but there are {len(words)} words"
            raise InputError(f"{wrong}. Give one row per word.")
        self.words, self.matrix = words, matrix
        self.source, self.report, self.built_in = source, report, built_in

    @property
    def dim(self) -> int:
        return int(self.matrix.shape[1])

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return any(form in self.words for form in _case_forms(word))

    def __getitem__(self, word: str) -> np.ndarray:
        for form in _case_forms(word):
            if form in self.words:
                vector: np.ndarray = self.matrix[self.words[form]]
                return vector
        raise KeyError(word)

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
        for part in np.array_split(matrix, len(words) // 4096 + 1):  # no float64 copy of all
            part[:] = rng.uniform(-0.05, 0.05, part.shape)
        matrix[:1] = 0
        for index, word in enumerate(words[2:], 2):
            if word in self:
                matrix[index] = self[word]
        return matrix

    def coverage(self, counts: Mapping[str, int]) -> str:
        """Say in one line how many of the counted words, and of their occurrences, have a vector."""
        total, found = sum(counts.values()), [word for word in counts if word in self]
        if not total:
            return "vectors for 0 words"
        hits = sum(counts[word] for word in found)
        return (
            f"vectors for {len(found) / len(counts):.1%} of {len(counts)} words, "
            f"{hits / total:.1%} of {total} tokens"
        )


def _case_forms(word: str) -> list[str]:
    """Return the spellings under which a word is looked up, best first."""
    return list(dict.fromkeys((word, word.lower(), word.capitalize(), word.upper())))


def read_vectors(path: str | Path, words: Collection[str], *, progress: bool = True) -> WordVectors:
    """Read the vectors of `words` from a file in one streaming pass.

    The file is text, plain or gzipped: lines `word v1 v2 … vD`, perhaps after a line `N D`. A word
    gets the vector of its own spelling, wherever that stands in the file, or else of its lower-case,
    Capitalized or UPPER-case form. If a spelling occurs twice, the first vector counts.

    Args:
        path: The file. `~` is expanded.
        words: The words to keep.
        progress: Whether to show a progress bar on a terminal. Defaults to `True`.

    Returns:
        The vectors, with the words spelled as in `words`.

    Raises:
        InputError: If the file is missing, empty, cut off or damaged, a line has another number of
            values, or a value is not a finite number. The message names the file and the line.
    """
    file, wanted = Path(path).expanduser(), sorted(set(words))
    if file.is_dir():
        raise InputError(f"{file} is a folder. Give a file, or its backbone as encoder:{file}.")
    if not file.is_file():
        names = os.listdir(file.parent) if file.parent.is_dir() else []
        near = difflib.get_close_matches(file.name, names, 3)
        hint = f"Did you mean {' or '.join(near)}?" if near else "Check the path."
        kinds = "a file of vectors, encoder:NAME, table, auto or none"
        raise InputError(f"There is no file {file}. {hint} Expected {kinds}.")
    lines = _lines(file, progress)
    where, first = next(lines, ("", b""))
    if not first:
        raise InputError(f"{file} is empty. Expected lines of 'word v1 v2 … vD'.")
    fields = first.removeprefix(b"\xef\xbb\xbf").split()
    declared, dim = _declared(fields, file)
    if declared is None:
        lines = itertools.chain([(where, b" ".join(fields))], lines)
    if dim < 1:
        raise InputError(
            f"{where}: there are no numbers after the word. Expected 'word v1 v2 … vD', or a first line "
            f"'N D'. {_BINARY if _CONTROL.search(first) else 'Correct the line.'}"
        )
    found, rows, seen = _kept(lines, dim, wanted)
    entries = seen["entries"]
    for text, wrong in (
        (
            f"the header says {declared} words, the file has {entries}",
            declared not in (None, entries),
        ),
        (f"{seen['not UTF-8']} words are not UTF-8 and were left out", seen["not UTF-8"]),
        (f"it has none of the {len(wanted)} words of the data", wanted and not found),
    ):
        if wrong:
            warnings.warn(f"{file}: {text}.", stacklevel=2)
    report = f"{len(found)} of {len(wanted)} words found in {entries} entries"
    for reason in ("by another case", "duplicates dropped", "not UTF-8"):
        report += f", {seen[reason]} {reason}" if seen[reason] else ""
    return WordVectors(found, np.reshape(rows, (-1, dim)), str(file), report)


def _lines(file: Path, progress: bool) -> Iterator[Line]:
    """Yield the lines that are not blank; broken compression raises `InputError`."""
    number, most, size = 0, limit("LINE_BYTES"), file.stat().st_size
    try:
        with (
            open(file, "rb") as raw,
            progress_bar(f"Reading {file.name}", size, progress, in_bytes=True) as update,
        ):
            packed = raw.peek(2)[:2] == b"\x1f\x8b"
            stream: Any = gzip.GzipFile(fileobj=raw) if packed else raw
            room = compressed_room(file)
            for number, line in enumerate(iter(lambda: stream.readline(most), b""), 1):
                if len(line) == most and line[-1:] != b"\n":
                    wrong = f"{file}:{number}: the line has more than {most:,} bytes"
                    raise InputError(f"{wrong}. {raise_limit_hint('LINE_BYTES')}")
                room -= len(line) if packed else 0
                if room < 0:
                    raise expansion_error(file)
                if not number & 1023:
                    update(raw.tell())
                if not line.isspace():
                    yield f"{file}:{number}", line
    except (EOFError, OSError, zlib.error) as error:
        wrong = f"{file}:{number + 1}: the file cannot be read, or is cut off or damaged ({error})"
        raise InputError(f"{wrong}. Download or copy it again.") from error


def _kept(
    lines: Iterator[Line], dim: int, wanted: list[str]
) -> tuple[dict[str, int], list[np.ndarray], Counter[str]]:
    """Return the rows of the words, in the order in which they occur, and counts."""
    forms: dict[bytes, list[tuple[str, int]]] = {}  # spelling -> the words it is for, how well
    for word in wanted:
        for rank, form in enumerate(_case_forms(word)):
            forms.setdefault(form.encode("utf-8", "surrogatepass"), []).append((word, rank))
    words: dict[str, int] = {}
    rows: list[np.ndarray] = []
    ranks: dict[str, int] = {}
    seen: Counter[str] = Counter()
    for where, raw in lines:
        seen["entries"] += 1
        line = raw.replace(b"\t", b" ").rstrip()
        spelling, _, values = line.partition(b" ")
        if line.count(b" ") != dim:
            spelling, values = _uneven(line, dim, where, torn=raw[-1:] != b"\n")
        targets = forms.get(spelling, ())
        if not targets and not spelling.isascii():
            seen["not UTF-8"] += spelling.decode("utf-8", "ignore").encode() != spelling
        for word, rank in targets:
            if rank >= ranks.get(word, rank + 1):
                seen["duplicates dropped"] += rank == ranks[word]
                continue
            row = words.setdefault(word, len(rows))
            rows[row : row + 1] = [_parsed(values, dim, where)]
            ranks[word] = rank
    seen["by another case"] = sum(rank > 0 for rank in ranks.values())
    return words, rows, seen


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _declared(fields: list[bytes], file: Path) -> tuple[int | None, int]:
    """Return N and D if the first line is `N D`, otherwise None and the number of its values."""
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        return None, sum(1 for _ in itertools.takewhile(_is_number, reversed(fields[1:])))
    most = limit("VECTOR_DIM")
    if max(map(len, fields)) > 18 or int(fields[1]) > most:
        raise InputError(
            f"{file}: the first line says {fields[0][:20]!r} words with {fields[1][:20]!r} numbers each. "
            f"At most {most:,} numbers per word are accepted. Correct the line. "
            f"{raise_limit_hint('VECTOR_DIM')}"
        )
    return int(fields[0]), int(fields[1])


def _uneven(line: bytes, dim: int, where: str, torn: bool) -> tuple[bytes, bytes]:
    """Return word and values of a line whose word has spaces inside; refuse other lines."""
    parts = line.strip().rsplit(None, dim)
    middle = parts[0].split()[1:] if parts else []
    if len(parts) == dim + 1 and not (middle and all(map(_is_number, middle))):
        return parts[0], b" ".join(parts[1:])
    found = line.count(b" ")
    fix = "Correct or delete the line. The first line sets the number of values."
    if _CONTROL.search(line):
        fix = _BINARY
    elif torn and found < dim:
        fix = "The file is cut off in this line. Download or copy it again."
    raise InputError(f"{where}: {found} numbers, but {dim} were expected. {fix}")


def _parsed(values: bytes, dim: int, where: str) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):
            row = np.array(values.decode("latin-1").split(" "), np.float32)
    except ValueError as error:
        raise InputError(f"{where}: {error}. Expected {dim} numbers after the word.") from error
    if not np.isfinite(row).all():
        wrong = f"{row[~np.isfinite(row)][0]} is not a finite float32 number"
        raise InputError(f"{where}: {wrong}. Correct or delete this line.")
    return row
