"""Read GloVe, word2vec and fastText files in one streaming pass."""

import contextlib
import difflib
import gzip
import io
import itertools
import os
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from keras_sentmatch.display.progress import progress_bar
from keras_sentmatch.errors import InputError
from keras_sentmatch.safety import compressed_room, expansion_error, limit, raise_limit_hint
from keras_sentmatch.vectors.word_vectors import WordVectors, cached, case_forms

_FASTTEXT_MODEL = (793712314).to_bytes(4, "little")  # first bytes of a fastText model file
_CHUNK = 1 << 20
_GROW = 1.25
_DENSEST = 1032  # a compressed file unpacks to at most this many times its size
_MAX_WORD = 10_000  # bytes; a longer "word" means that this is not a word2vec file


def read_vectors(
    path: str | Path,
    words: Collection[str] | None = None,
    *,
    cache_dir: str | Path | None = None,
    progress: bool = True,
) -> WordVectors:
    """Read GloVe, word2vec or fastText vectors in one streaming pass.

    The file is text with or without a first line `N D`, or word2vec's binary format (`.bin`), plain
    or compressed (`.gz`). Memory stays near the size of the kept matrix. A word gets the vector of
    its own spelling, wherever that stands in the file, or else of its lower-case, Capitalized or
    UPPER-case form. If a spelling occurs twice, the first vector counts.

    Args:
        path: The file. `~` is expanded.
        words: The words to keep. `None` keeps the whole file, without a cache.
        cache_dir: Cache folder. Defaults to `$XDG_CACHE_HOME/keras_sentmatch` or
            `~/.cache/keras_sentmatch`. An entry belongs to the path, size and time of the file and
            to `words`. A damaged entry is made again.
        progress: Whether to show a progress bar on a terminal. Defaults to `True`.

    Returns:
        The vectors, with the words spelled as in `words`.

    Raises:
        InputError: If the file is missing, empty, cut off or damaged, a line has another number of
            values, or a value is not a finite number. The message names the file and the line.

    Example:

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "glove.txt")
    >>> _ = path.write_text("the 0.1 0.2\\nParis 0.3 0.4\\n", encoding="utf-8")
    >>> read_vectors(path, ["paris", "the", "of"], cache_dir=path.parent).report
    '2 of 3 words found in 2 entries, 1 by another case'
    """
    file = Path(path).expanduser()
    if not file.is_file():
        raise InputError(_missing(file))
    if words is None:
        return _read(file, None, progress)
    wanted = sorted(set(words))
    stat = file.stat()
    key = ["file", str(file.resolve()), stat.st_size, stat.st_mtime_ns, wanted]
    return cached(key, cache_dir, lambda: _read(file, wanted, progress))


def _missing(file: Path) -> str:
    if file.is_dir():
        return f"{file} is a folder. Give a vector file, or the backbone in it as encoder:{file}."
    names = os.listdir(file.parent) if file.parent.is_dir() else []
    near = difflib.get_close_matches(file.name, names, 3)
    hint = f"Did you mean {' or '.join(near)}?" if near else "Check the path."
    return (
        f"There is no file {file}. {hint} Expected a GloVe, word2vec or fastText file, encoder:NAME, "
        "table, auto or none."
    )


def _read(file: Path, wanted: list[str] | None, progress: bool) -> WordVectors:
    with open_vectors(file) as stream:
        with progress_bar(f"Reading {file.name}", file.stat().st_size, progress) as update:
            room = file.stat().st_size * (_DENSEST if stream.packed else 1)
            words, matrix, seen = _kept(stream, wanted, update, room // (2 * stream.dim) + 1)
    if stream.declared not in (None, seen["entries"]):
        _warn(file, f"the header says {stream.declared} words, the file has {seen['entries']}")
    if seen["not UTF-8"]:
        _warn(file, f"{seen['not UTF-8']} words are not UTF-8 and were left out")
    if wanted and not words:
        _warn(file, f"it has none of the {len(wanted)} words of the data")
    kept = f"{len(words)} of {len(wanted)} words found" if wanted is not None else "all words kept"
    report = f"{kept} in {seen['entries']} entries"
    for name in ("by another case", "duplicates dropped", "not UTF-8"):
        report += f", {seen[name]} {name}" if seen[name] else ""
    return WordVectors(words, matrix, str(file), report)


def _warn(file: Path, text: str) -> None:
    warnings.warn(f"{file}: {text}.", stacklevel=2)


def _kept(
    stream: "VectorStream", wanted: list[str] | None, update: Callable[[int], None], most: int
) -> tuple[dict[str, int], np.ndarray, Counter[str]]:
    """Read the records once; rows are in the order in which their words occur."""
    forms: dict[bytes, list[tuple[str, int]]] = {}  # spelling -> the words it is for, how well
    for word in wanted or ():
        for rank, form in enumerate(case_forms(word)):
            forms.setdefault(form.encode("utf-8", "surrogatepass"), []).append((word, rank))
    words: dict[str, int] = {}
    ranks: dict[str, int] = {}
    seen: Counter[str] = Counter()
    rows = len(wanted) if wanted is not None else min(stream.declared or 1 << 16, 1 << 20)
    rows = min(rows, most)  # the file cannot hold more, whatever its first line says
    matrix = np.empty((rows, stream.dim), np.float32)  # pages never written to cost no memory
    for number, raw, payload in stream.records:
        seen["entries"] += 1
        if not seen["entries"] & 1023:
            update(stream.position())
        try:
            targets = [(raw.decode(), 0)] if wanted is None else forms.get(raw, ())
            if not targets and not raw.isascii():
                raw.decode()
        except UnicodeDecodeError:
            seen["not UTF-8"] += 1
            continue
        values = None
        for word, rank in targets:
            if rank >= ranks.get(word, rank + 1):
                seen["duplicates dropped"] += rank == ranks[word]
                continue
            row = words.setdefault(word, len(words))
            if row == len(matrix):
                matrix.resize((int(row * _GROW) + 1, stream.dim), refcheck=False)
            ranks[word] = rank
            values = stream.parse(number, payload) if values is None else values
            matrix[row] = values
    seen["by another case"] = sum(rank > 0 for rank in ranks.values())
    matrix.resize((len(words), stream.dim), refcheck=False)
    return words, matrix, seen


Record = tuple[int, bytes, bytes]  # line (or record) number, word, payload
Parse = Callable[[int, bytes], np.ndarray]  # (number, payload) -> float32 [dim]


@dataclass
class VectorStream:
    """An open vector file."""

    dim: int
    declared: int | None  # number of words, if the first line says it
    records: Iterator[Record]
    parse: Parse
    packed: bool  # whether the file is compressed
    position: Callable[[], int]  # bytes of the file on the disk read so far


@contextlib.contextmanager
def open_vectors(path: Path) -> Iterator[VectorStream]:
    """Open a vector file for one streaming pass; broken compression raises `InputError`."""
    number = 0

    def counted(records: Iterator[Record]) -> Iterator[Record]:
        nonlocal number
        for record in records:
            number = record[0]
            yield record

    packed = path.suffix.lower() == ".gz"
    name = path.stem if packed else path.name
    try:
        raw = open(path, "rb", buffering=0)
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}). Check its permissions."
        ) from error
    with raw:
        try:
            file: Any = _Unpacked(raw, path) if packed else raw
            stream = io.BufferedReader(file, _CHUNK)
            opener = _binary if name.lower().endswith(".bin") else _text
            dim, declared, records, parse = opener(stream, str(path))
            yield VectorStream(dim, declared, counted(records), parse, packed, raw.tell)
        except (EOFError, OSError, zlib.error) as error:
            after = f" after entry {number}" if number else ""
            raise InputError(
                f"{path} is cut off or damaged{after} ({error}). Download or copy it again."
            ) from error


class _Unpacked(io.RawIOBase):
    """A gzip file that stops if it unpacks to far more than it should."""

    def __init__(self, raw: IO[bytes], path: Path):
        self.file, self.path, self.left = gzip.GzipFile(fileobj=raw), path, compressed_room(path)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self.file.read(len(buffer))
        buffer[: len(found)] = found
        self.left -= len(found)
        if self.left < 0:
            raise expansion_error(self.path)
        return len(found)


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _text(stream: IO[bytes], place: str) -> tuple[int, int | None, Iterator[Record], Parse]:
    most = limit("LINE_BYTES")

    def check_size(number: int, raw: bytes) -> None:
        if len(raw) == most and raw[-1:] != b"\n":
            raise InputError(
                f"{place}:{number}: the line has more than {most:,} bytes. Expected one word and "
                f"its vector per line. {raise_limit_hint('LINE_BYTES')}"
            )

    first = stream.readline(most)
    check_size(1, first)
    if not first:
        raise InputError(f"{place} is empty. Expected lines of 'word v1 v2 … vD'.")
    first = first.removeprefix(b"\xef\xbb\xbf")
    fields = first.replace(b"\t", b" ").split()
    declared, start = None, 1
    rest = iter(lambda: stream.readline(most), b"")
    lines: Iterable[bytes] = itertools.chain([first], rest)
    if header := _declared(fields, place):
        declared, dim = header
        lines, start = rest, 2
    else:
        dim = sum(1 for _ in itertools.takewhile(_is_number, reversed(fields[1:])))
    if dim < 1:
        raise InputError(
            f"{place}:{start}: there are no numbers after the word. Expected 'word v1 v2 … vD', or a "
            "first line 'N D'. Unpack an archive first, and name a word2vec binary file *.bin."
        )

    def records() -> Iterator[Record]:
        for number, raw in enumerate(lines, start):
            check_size(number, raw)
            line = (raw.replace(b"\t", b" ") if b"\t" in raw else raw).rstrip()
            found = line.count(b" ")
            if found == dim:
                word, _, payload = line.partition(b" ")
                yield number, word, payload
            elif line:
                yield number, *_uneven(line, dim, f"{place}:{number}", torn=raw[-1:] != b"\n")

    def parse(number: int, payload: bytes) -> np.ndarray:
        try:
            with np.errstate(over="ignore"):
                row = np.array(payload.decode("latin-1").split(" "), np.float32)
        except ValueError as error:
            raise InputError(
                f"{place}:{number}: {error}. Expected {dim} numbers after the word."
            ) from error
        return _finite(row, f"{place}:{number}")

    return dim, declared, records(), parse


def _declared(fields: list[bytes], place: str) -> tuple[int, int] | None:
    """Return N and D if the first line is `N D`, otherwise None."""
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        return None
    most = limit("VECTOR_DIM")
    if max(map(len, fields)) > 18 or int(fields[1]) > most:
        raise InputError(
            f"{place}: the first line says {fields[0][:20]!r} words with {fields[1][:20]!r} numbers "
            f"each. At most {most:,} numbers per word are accepted. Correct the line. "
            f"{raise_limit_hint('VECTOR_DIM')}"
        )
    return int(fields[0]), int(fields[1])


def _uneven(line: bytes, dim: int, where: str, torn: bool) -> tuple[bytes, bytes]:
    """Return word and payload of a line whose word has spaces inside; refuse other lines."""
    parts = line.strip().rsplit(None, dim)
    middle = parts[0].split()[1:] if parts else []
    if len(parts) == dim + 1 and not (middle and all(map(_is_number, middle))):
        return parts[0], b" ".join(parts[1:])
    found = line.count(b" ")
    if torn and found < dim:
        fix = "The file is cut off in this line. Download or copy it again."
    elif b"\0" in line:
        fix = "This is not text. Name a word2vec binary file *.bin."
    else:
        fix = "Correct or delete the line. The first line sets the number of values."
    raise InputError(f"{where}: {found} numbers, but {dim} were expected. {fix}")


def _binary(stream: IO[bytes], place: str) -> tuple[int, int, Iterator[Record], Parse]:
    header = stream.readline(100)
    fields = header.split()
    if header.startswith(_FASTTEXT_MODEL):
        raise InputError(
            f"{place} is a fastText model. Expected word2vec's binary format. Give the text vectors "
            "(.vec) that come with the model."
        )
    sizes = _declared(fields, place)
    if not sizes or not sizes[1]:
        raise InputError(
            f"{place} {'has no header' if header else 'is empty, without a header'} 'N D'. Expected "
            "word2vec's binary format. A text file must not be named *.bin."
        )
    declared, dim = sizes

    def records() -> Iterator[Record]:
        buffer, at = b"", 0
        for number in range(1, declared + 1):
            while True:
                space = buffer.find(b" ", at)
                end = space + 1 + 4 * dim
                if space >= 0 and end <= len(buffer):
                    break
                if space < 0 and len(buffer) - at > _MAX_WORD:
                    raise InputError(
                        f"{place}: word {number} has no space after {_MAX_WORD} bytes. Expected "
                        f"'word ' and {dim} float32 values. The file is damaged or in another format."
                    )
                more = stream.read(_CHUNK)
                if not more:
                    raise InputError(
                        f"{place} is cut off at word {number}. The header says {declared} words. "
                        "Download or copy it again."
                    )
                buffer, at = buffer[at:] + more, 0
            yield number, buffer[at:space].lstrip(b"\n"), buffer[space + 1 : end]
            at = end
        if (buffer[at:] + stream.read(_CHUNK)).strip(b"\n"):
            raise InputError(
                f"{place} has more words than the {declared} that its header says. Correct the "
                "header, or download or copy the file again."
            )

    def parse(number: int, payload: bytes) -> np.ndarray:
        return _finite(np.frombuffer(payload, "<f4"), f"{place}: word {number}")

    return dim, declared, records(), parse


def _finite(row: np.ndarray, where: str) -> np.ndarray:
    if not np.isfinite(row).all():
        raise InputError(
            f"{where}: {row[~np.isfinite(row)][0]} is not a finite float32 number. Correct or delete "
            "this entry."
        )
    return row
