"""Reads GloVe, word2vec and fastText files into `WordVectors`."""

import difflib
import os
import warnings
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np

from keras_sentmatch.display.progress import progress_bar
from keras_sentmatch.errors import InputError
from keras_sentmatch.vectors.files import VectorStream, open_vectors, split_member
from keras_sentmatch.vectors.word_vectors import WordVectors, cached, case_forms

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
