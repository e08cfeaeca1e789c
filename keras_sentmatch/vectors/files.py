"""Read GloVe, word2vec and fastText files in one streaming pass."""

import contextlib
import difflib
import gzip
import io
import itertools
import os
import warnings
import zipfile
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
_MAX_WORD = 10_000  # bytes; a longer "word" in a binary file means that it is no word2vec file

Record = tuple[int, bytes, bytes]  # line (or record) number, word, payload
Parse = Callable[[int, bytes], np.ndarray]  # (number, payload) -> float32 [dim]


@dataclass
class VectorStream:
    """An open vector file: dimension, number of words it declares (or None), records."""

    dim: int
    declared: int | None
    records: Iterator[Record]
    parse: Parse
    packed: bool  # whether the file is compressed
    position: Callable[[], int]  # bytes of the file on the disk read so far


def split_member(path: str | Path) -> tuple[Path, str]:
    """Split `archive.zip:member` into the archive and the member ("" where none is named)."""
    text = str(path)
    if ".zip:" in text:
        archive, member = text.split(".zip:", 1)
        return Path(archive + ".zip").expanduser(), member
    return Path(text).expanduser(), ""


@contextlib.contextmanager
def open_vectors(path: Path, member: str = "") -> Iterator[VectorStream]:
    """Open a vector file for one streaming pass; broken compression raises `InputError`."""
    place = f"{path}:{member}" if member else str(path)
    number = 0

    def counted(records: Iterator[Record]) -> Iterator[Record]:
        nonlocal number
        for record in records:
            number = record[0]
            yield record

    with contextlib.ExitStack() as stack:
        try:
            try:
                raw = stack.enter_context(open(path, "rb", buffering=0))
                stream, name = _decompressed(raw, path, member, stack)
            except (PermissionError, RuntimeError) as error:  # no rights; encrypted, or an odd zip
                raise InputError(
                    f"{place}: cannot be read ({error}); unpack it, or fix its permissions"
                ) from error
            opener = _binary if name.lower().endswith(".bin") else _text
            dim, declared, records, parse = opener(stream, place)
            packed = path.suffix.lower() in (".gz", ".zip")
            yield VectorStream(dim, declared, counted(records), parse, packed, raw.tell)
        except (EOFError, OSError, zlib.error, zipfile.BadZipFile, NotImplementedError) as error:
            after = f" after entry {number}" if number else ""
            raise InputError(
                f"{place}: the compressed file is cut off or damaged{after} ({error}); "
                "download or copy it again"
            ) from error


def _decompressed(
    raw: IO[bytes], path: Path, member: str, stack: contextlib.ExitStack
) -> tuple[IO[bytes], str]:
    suffix = path.suffix.lower()
    if suffix == ".zip":
        archive = stack.enter_context(zipfile.ZipFile(raw))
        names = [n for n in archive.namelist() if not n.endswith("/") and "__MACOSX" not in n]
        if not member and len(names) == 1:
            member = names[0]
        if member not in names:
            asked = f"it has no member {member!r}" if member else f"it has {len(names)} members"
            raise InputError(
                f"{path}: {asked}, expected one of {', '.join(names) or '(it is empty)'}; "
                f"write {path}:{names[0] if names else 'MEMBER'}"
            )
        inner = stack.enter_context(archive.open(member))
        return io.BufferedReader(_Unpacked(inner, path), _CHUNK), member
    if suffix == ".gz":
        return io.BufferedReader(_Unpacked(gzip.GzipFile(fileobj=raw), path), _CHUNK), path.stem
    return io.BufferedReader(raw, _CHUNK), path.name  # type: ignore[type-var]


class _Unpacked(io.RawIOBase):
    """A decompressed file that stops where it comes to far more than it should."""

    def __init__(self, file: Any, path: Path):
        self.file, self.path, self.left = file, path, compressed_room(path)

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
                f"{place}:{number}: a line of more than {most:,} bytes; expected a word and its "
                f"vector a line. {raise_limit_hint('LINE_BYTES')}"
            )

    first = stream.readline(most)
    check_size(1, first)
    if not first:
        raise InputError(f"{place}: the file is empty, expected lines of 'word v1 v2 … vD'")
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
            f"{place}:{start}: no numbers after the word, expected 'word v1 v2 … vD' or a first "
            "line 'N D'; a word2vec binary file must be named *.bin"
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
                f"{place}:{number}: {error}; expected {dim} numbers after the word"
            ) from error
        return _finite(row, f"{place}:{number}")

    return dim, declared, records(), parse


def _declared(fields: list[bytes], place: str) -> tuple[int, int] | None:
    """The numbers of a first line `N D`; None where it is none."""
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        return None
    most = limit("VECTOR_DIM")
    if max(map(len, fields)) > 18 or int(fields[1]) > most:
        raise InputError(
            f"{place}: the first line says {fields[0][:20]!r} words of {fields[1][:20]!r} numbers, "
            f"expected at most {most:,} numbers a word; fix the line. {raise_limit_hint('VECTOR_DIM')}"
        )
    return int(fields[0]), int(fields[1])


def _uneven(line: bytes, dim: int, where: str, torn: bool) -> tuple[bytes, bytes]:
    """The word and payload of a line whose word has spaces inside; anything else is an error."""
    parts = line.strip().rsplit(None, dim)
    middle = parts[0].split()[1:] if parts else []
    if len(parts) == dim + 1 and not (middle and all(map(_is_number, middle))):
        return parts[0], b" ".join(parts[1:])
    found = line.count(b" ")
    if torn and found < dim:
        fix = "the file is cut off in the middle of this line: download or copy it again"
    elif b"\0" in line:
        fix = "this is not text: a word2vec binary file must be named *.bin"
    else:
        fix = "fix or delete the line (and check the first line, which sets the dimension)"
    raise InputError(f"{where}: {found} numbers, expected {dim}; {fix}")


def _binary(stream: IO[bytes], place: str) -> tuple[int, int, Iterator[Record], Parse]:
    header = stream.readline(100)
    fields = header.split()
    if header.startswith(_FASTTEXT_MODEL):
        raise InputError(
            f"{place}: a fastText model (.bin), expected word2vec's binary format; "
            "give the text vectors (.vec) that come with it"
        )
    sizes = _declared(fields, place)
    if not sizes or not sizes[1]:
        raise InputError(
            f"{place}: {'no' if header else 'empty file, no'} header 'N D', expected word2vec's "
            "binary format; a text file must not be named *.bin"
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
                        f"{place}: word {number}: no space after {_MAX_WORD} bytes, expected "
                        f"'word ' and {dim} float32; the file is damaged or of another format"
                    )
                more = stream.read(_CHUNK)
                if not more:
                    raise InputError(
                        f"{place}: cut off at word {number}, expected {declared} words as the "
                        "header says; download or copy it again"
                    )
                buffer, at = buffer[at:] + more, 0
            yield number, buffer[at:space].lstrip(b"\n"), buffer[space + 1 : end]
            at = end
        if (buffer[at:] + stream.read(_CHUNK)).strip(b"\n"):
            raise InputError(
                f"{place}: more than the {declared} words that the header says; fix the header, or "
                "download or copy it again"
            )

    def parse(number: int, payload: bytes) -> np.ndarray:
        return _finite(np.frombuffer(payload, "<f4"), f"{place}: word {number}")

    return dim, declared, records(), parse


def _finite(row: np.ndarray, where: str) -> np.ndarray:
    if not np.isfinite(row).all():
        raise InputError(
            f"{where}: {row[~np.isfinite(row)][0]} among the values, expected finite float32 "
            "numbers; fix or delete this entry"
        )
    return row


_GROW = 1.25
_DENSEST = 1032  # times its size is what a compressed file can come to


def read_vectors(
    path: str | Path,
    words: Collection[str] | None = None,
    *,
    cache_dir: str | Path | None = None,
    progress: bool = True,
) -> WordVectors:
    """Read GloVe, word2vec or fastText vectors in one streaming pass.

    Text files with or without a first line `N D`, `.gz`, `.zip` (`archive.zip:member` where it has
    several members) and word2vec's binary `.bin` are read; memory stays near the size of the kept
    matrix. A word takes the vector of its own spelling, wherever in the file that is, or else of
    its lower-case, Capitalized or UPPER-case form. Of a spelling given twice the first wins.

    Args:
        path: The file. `~` is expanded.
        words: The words to keep; None keeps the whole file (which is then not cached).
        cache_dir: Folder of the cache; `$XDG_CACHE_HOME/keras_sentmatch` or
            `~/.cache/keras_sentmatch` by default. An entry belongs to the file's path, size and
            time and to `words`; a damaged one is made again.
        progress: Show a progress bar where standard error is a terminal.

    Returns:
        The vectors; their `words` have the spelling of `words`.

    Raises:
        InputError: for a missing, empty, cut-off or damaged file, a line with another number of
            values, or a value that is no finite number; the message names file and line.

    Example:

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "glove.txt")
    >>> _ = path.write_text("the 0.1 0.2\\nParis 0.3 0.4\\n", encoding="utf-8")
    >>> read_vectors(path, ["paris", "the", "of"], cache_dir=path.parent).report
    '2 of 3 words found in 2 entries, 1 by another case'
    """
    file, member = split_member(path)
    if not file.is_file():
        raise InputError(_missing(file))
    source = f"{file}:{member}" if member else str(file)
    if words is None:
        return _read(file, member, source, None, progress)
    wanted = sorted(set(words))
    stat = file.stat()
    key = ["file", str(file.resolve()), member, stat.st_size, stat.st_mtime_ns, wanted]
    return cached(key, cache_dir, lambda: _read(file, member, source, wanted, progress))


def _missing(file: Path) -> str:
    if file.is_dir():
        return f"{file}: a folder, expected a file of vectors; an encoder is named encoder:{file}"
    names = os.listdir(file.parent) if file.parent.is_dir() else []
    near = difflib.get_close_matches(file.name, names, 3)
    hint = f"is it {' or '.join(near)}?" if near else "check the path"
    return (
        f"{file}: no such file, {hint} (expected a GloVe, word2vec or fastText file, "
        "encoder:NAME or none)"
    )


def _read(
    file: Path, member: str, source: str, wanted: list[str] | None, progress: bool
) -> WordVectors:
    with open_vectors(file, member) as stream:
        with progress_bar(f"Reading {file.name}", file.stat().st_size, progress) as update:
            room = file.stat().st_size * (_DENSEST if stream.packed else 1)
            words, matrix, seen = _kept(stream, wanted, update, room // (2 * stream.dim) + 1)
    if stream.declared not in (None, seen["entries"]):
        _warn(source, f"the header says {stream.declared} words, the file has {seen['entries']}")
    if seen["not UTF-8"]:
        _warn(source, f"{seen['not UTF-8']} words are not UTF-8 and were left out")
    if wanted and not words:
        _warn(source, f"none of the {len(wanted)} words asked for is in it")
    kept = f"{len(words)} of {len(wanted)} words found" if wanted is not None else "all words kept"
    report = f"{kept} in {seen['entries']} entries"
    for name in ("by another case", "duplicates dropped", "not UTF-8"):
        report += f", {seen[name]} {name}" if seen[name] else ""
    return WordVectors(words, matrix, source, report)


def _warn(source: str, text: str) -> None:
    warnings.warn(f"{source}: {text}", stacklevel=2)


def _kept(
    stream: VectorStream, wanted: list[str] | None, update: Callable[[int], None], most: int
) -> tuple[dict[str, int], np.ndarray, Counter[str]]:
    """One pass over the records; rows are in the order in which their words occur."""
    forms: dict[bytes, list[tuple[str, int]]] = {}  # spelling -> the words it is for, how well
    for word in wanted or ():
        for rank, form in enumerate(case_forms(word)):
            forms.setdefault(form.encode("utf-8", "surrogatepass"), []).append((word, rank))
    words: dict[str, int] = {}
    ranks: dict[str, int] = {}
    seen: Counter[str] = Counter()
    rows = len(wanted) if wanted is not None else min(stream.declared or 1 << 16, 1 << 20)
    rows = min(rows, most)  # than that the file cannot hold, whatever its first line says
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
