"""Read files of word vectors (GloVe, fastText, word2vec's text format) in one streaming pass."""

import difflib
import gzip
import itertools
import os
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.display.progress import progress_bar
from keras_sentmatch.errors import InputError
from keras_sentmatch.safety import compressed_room, expansion_error, limit, raise_limit_hint
from keras_sentmatch.vectors.word_vectors import WordVectors, case_forms

_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1f]")
_BINARY = (
    "This is not text. Unpack an archive first, and convert a binary file to text, such as with gensim's "
    "KeyedVectors.save_word2vec_format."
)

Line = tuple[str, bytes]  # where it is, what it holds


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
    if not file.is_file():
        raise InputError(_missing(file))
    lines = _lines(file, progress)
    where, first = next(lines, ("", b""))
    if not first:
        raise InputError(f"{file} is empty. Expected lines of 'word v1 v2 … vD'.")
    fields = first.removeprefix(b"\xef\xbb\xbf").split()
    if header := _declared(fields, file):
        declared, dim = header
    else:
        declared, dim = None, sum(1 for _ in itertools.takewhile(_is_number, reversed(fields[1:])))
        lines = itertools.chain([(where, b" ".join(fields))], lines)
    if dim < 1:
        raise InputError(
            f"{where}: there are no numbers after the word. Expected 'word v1 v2 … vD', or a first line "
            f"'N D'. {_BINARY if _CONTROL.search(first) else 'Correct the line.'}"
        )
    found, rows, seen = _kept(lines, dim, wanted)
    if declared not in (None, seen["entries"]):
        _warn(file, f"the header says {declared} words, the file has {seen['entries']}")
    if seen["not UTF-8"]:
        _warn(file, f"{seen['not UTF-8']} words are not UTF-8 and were left out")
    if wanted and not found:
        _warn(file, f"it has none of the {len(wanted)} words of the data")
    report = f"{len(found)} of {len(wanted)} words found in {seen['entries']} entries"
    for reason in ("by another case", "duplicates dropped", "not UTF-8"):
        report += f", {seen[reason]} {reason}" if seen[reason] else ""
    return WordVectors(found, np.reshape(rows, (-1, dim)), str(file), report)


def _missing(file: Path) -> str:
    if file.is_dir():
        return f"{file} is a folder. Give a vector file, or the backbone in it as encoder:{file}."
    names = os.listdir(file.parent) if file.parent.is_dir() else []
    near = difflib.get_close_matches(file.name, names, 3)
    hint = f"Did you mean {' or '.join(near)}?" if near else "Check the path."
    return f"There is no file {file}. {hint} Expected a file of vectors, encoder:NAME, table, auto or none."


def _warn(file: Path, text: str) -> None:
    warnings.warn(f"{file}: {text}.", stacklevel=3)


def _lines(file: Path, progress: bool) -> Iterator[Line]:
    """Yield the lines that are not blank; broken compression raises `InputError`."""
    number, most = 0, limit("LINE_BYTES")
    try:
        with (
            open(file, "rb") as raw,
            progress_bar(
                f"Reading {file.name}", file.stat().st_size, progress, in_bytes=True
            ) as update,
        ):
            packed = raw.peek(2)[:2] == b"\x1f\x8b"
            stream: Any = gzip.GzipFile(fileobj=raw) if packed else raw
            room = compressed_room(file)
            for number, line in enumerate(iter(lambda: stream.readline(most), b""), 1):
                if len(line) == most and line[-1:] != b"\n":
                    raise InputError(
                        f"{file}:{number}: the line has more than {most:,} bytes. Expected one word and "
                        f"its vector per line. {raise_limit_hint('LINE_BYTES')}"
                    )
                room -= len(line) if packed else 0
                if room < 0:
                    raise expansion_error(file)
                if not number & 1023:
                    update(raw.tell())
                if not line.isspace():
                    yield f"{file}:{number}", line
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(
            f"{file}:{number + 1}: the file cannot be read, or is cut off or damaged ({error}). Download "
            "or copy it again."
        ) from error


def _kept(
    lines: Iterator[Line], dim: int, wanted: list[str]
) -> tuple[dict[str, int], list[np.ndarray], Counter[str]]:
    """Return the rows of the words, in the order in which they occur, and counts."""
    forms: dict[bytes, list[tuple[str, int]]] = {}  # spelling -> the words it is for, how well
    for word in wanted:
        for rank, form in enumerate(case_forms(word)):
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
            try:
                spelling.decode()
            except UnicodeDecodeError:
                seen["not UTF-8"] += 1
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


def _declared(fields: list[bytes], file: Path) -> tuple[int, int] | None:
    """Return N and D if the first line is `N D`, otherwise None."""
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        return None
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
        raise InputError(
            f"{where}: {row[~np.isfinite(row)][0]} is not a finite float32 number. Correct or delete "
            "this line."
        )
    return row
