"""Pretrained word vectors: read from any of the usual files, or distilled from an encoder."""

import difflib
import hashlib
import json
import os
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.data.distiller import Distiller
from keras_sentmatch.data.vector_files import VectorStream, open_vectors, split_member
from keras_sentmatch.display.progress import progress_bar
from keras_sentmatch.errors import InputError
from keras_sentmatch.safety import read_arrays

_CACHE_FORMAT = 2
_GROW = 1.25
_DENSEST = 1032  # times its size is what a compressed file can come to


def case_forms(word: str) -> list[str]:
    """The spellings under which a word's vector is looked for, best first."""
    return list(dict.fromkeys((word, word.lower(), word.capitalize(), word.upper())))


class WordVectors:
    """Words and their vectors.

    A word is looked up as it stands, then in lower case, Capitalised and in UPPER case, so that a
    lower-case vocabulary finds `Paris` and `USA` in a cased file.

    Args:
        words: Word to row of `matrix`.
        matrix: Float array `[n, d]`.
        source: Where the vectors come from.
        report: What was counted when they were made, on one line.
        distiller: Makes the vectors of further words, if these were distilled.

    Raises:
        InputError: if `matrix` has not one row for each word.

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
        distiller: Distiller | None = None,
    ) -> None:
        matrix = np.asarray(matrix, np.float32)
        if matrix.ndim != 2 or len(matrix) != len(words):
            raise InputError(
                f"matrix of shape {matrix.shape} for {len(words)} words, expected one row a word"
            )
        self.words = words
        self.matrix = matrix
        self.source = source
        self.report = report
        self.distiller = distiller

    @property
    def dim(self) -> int:
        return self.matrix.shape[1]

    def __len__(self) -> int:
        return len(self.words)

    def _row(self, word: str) -> int | None:
        return next((self.words[f] for f in case_forms(word) if f in self.words), None)

    def __contains__(self, word: str) -> bool:
        return self._row(word) is not None

    def __getitem__(self, word: str) -> np.ndarray:
        row = self._row(word)
        if row is None:
            raise KeyError(word)
        return self.matrix[row]

    def __repr__(self) -> str:
        return f"WordVectors({len(self)} words × {self.dim}, source={self.source!r})"

    def matrix_for(self, vocabulary: Any, seed: int) -> np.ndarray:
        """The embedding matrix of a vocabulary.

        Args:
            vocabulary: An object with a list `words`: padding at index 0, the unknown word at 1.
            seed: Seed of the vectors of the words without one, drawn from U(-0.05, 0.05).

        Returns:
            float32 `[len(vocabulary.words), dim]`; row 0 is zero.
        """
        words = vocabulary.words
        rng = np.random.default_rng(seed)
        matrix = np.empty((len(words), self.dim), np.float32)
        for start in range(0, len(words), 4096):  # no float64 copy of all
            part = matrix[start : start + 4096]
            part[:] = rng.uniform(-0.05, 0.05, part.shape)
        matrix[:1] = 0
        for index, word in enumerate(words[2:], 2):
            row = self._row(word)
            if row is not None:
                matrix[index] = self.matrix[row]
        return matrix

    def coverage(self, tokens: Iterable[str] | Mapping[str, int]) -> str:
        """Say how many of the words (types) and of the running words (tokens) have a vector.

        Args:
            tokens: Running words, or a mapping of word to count.

        Returns:
            One line such as `"vectors for 98.2% of 2314 words, 99.7% of 88120 tokens"`.
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
    matrix. A word takes the vector of its own spelling, wherever in the file that stands, else of
    its lower-case, Capitalised or UPPER-case form. Of a spelling given twice the first wins.
    Dimensions are checked on every line, the numbers only on the kept ones.

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


def load_vectors(
    spec: str | Path,
    words: Collection[str],
    *,
    dim: int | None = None,
    counts: Mapping[str, int] | None = None,
    cache_dir: str | Path | None = None,
    progress: bool = True,
    **options: Any,
) -> WordVectors | None:
    """Load word vectors by a short text, as the command line and the recipes name them.

    Args:
        spec: `"none"`, the path of a file (see `read_vectors`), or `"distil:PRESET_OR_FOLDER"`
            (see `distil_vectors`).
        words: The words to keep.
        dim: Dimension: of the distilled vectors (300 by default), or what a file must have.
        counts: Token counts for the options of distilled vectors that weigh words.
        cache_dir: See `read_vectors`.
        progress: Show a progress bar where standard error is a terminal.
        **options: Further arguments of `distil_vectors`, for distilled vectors only.

    Returns:
        The vectors, or None for `"none"`.

    Raises:
        InputError: for a file that is missing, damaged or of another dimension, or options that
            do not apply.

    Example:

    >>> load_vectors("none", ["cat"]) is None
    True
    """
    spec = str(spec)
    distil = spec.startswith("distil:")
    if options and not distil:
        raise InputError(
            f"{', '.join(options)}: an option of distilled vectors (distil:ENCODER), not of {spec!r}"
        )
    if spec == "none":
        return None
    if distil:
        from keras_sentmatch.data.distil import distil_vectors

        return distil_vectors(
            spec.removeprefix("distil:"),
            words,
            dim=dim or 300,
            counts=counts,
            cache_dir=cache_dir,
            progress=progress,
            **options,
        )
    vectors = read_vectors(spec, words, cache_dir=cache_dir, progress=progress)
    if dim is not None and vectors.dim != dim:
        raise InputError(
            f"{spec}: vectors of dimension {vectors.dim}, expected {dim}; "
            f"ask for dim={vectors.dim} or give another file"
        )
    return vectors


def _missing(file: Path) -> str:
    if file.is_dir():
        return f"{file}: a folder, expected a file of vectors; an encoder is named distil:{file}"
    near: list[str] = []
    if file.parent.is_dir():
        near = difflib.get_close_matches(file.name, os.listdir(file.parent), 3)
    hint = f"is it {' or '.join(near)}?" if near else "check the path"
    return (
        f"{file}: no such file, {hint} (expected a GloVe, word2vec or fastText file, "
        "distil:PRESET_OR_FOLDER or none)"
    )


def _read(
    file: Path, member: str, source: str, wanted: list[str] | None, progress: bool
) -> WordVectors:
    with open_vectors(file, member) as stream:
        with progress_bar(f"Reading {file.name}", file.stat().st_size, progress) as update:
            room = file.stat().st_size * (_DENSEST if stream.packed else 1)
            words, matrix, seen = _kept(stream, wanted, update, room // (2 * stream.dim) + 1)
    if stream.declared is not None and stream.declared != seen["entries"]:
        _say(source, f"the header says {stream.declared} words, the file has {seen['entries']}")
    if seen["bad"]:
        _say(source, f"{seen['bad']} words are not UTF-8 and were left out")
    if wanted and not words:
        _say(source, f"none of the {len(wanted)} words asked for is in it")
    kept = f"{len(words)} of {len(wanted)} words found" if wanted is not None else "all words kept"
    report = f"{kept} in {seen['entries']} entries"
    for name, text in (
        ("other_case", "by another case"),
        ("duplicates", "duplicates dropped"),
        ("bad", "not UTF-8"),
    ):
        report += f", {seen[name]} {text}" if seen[name] else ""
    return WordVectors(words, matrix, source, report)


def _say(source: str, text: str) -> None:
    warnings.warn(f"{source}: {text}", stacklevel=2)


def _kept(
    stream: VectorStream, wanted: list[str] | None, update: Callable[[int], None], most: int
) -> tuple[dict[str, int], np.ndarray, Counter[str]]:
    """One pass over the records; the rows stand in the order in which their words are met."""
    slots: dict[bytes, list[str]] = {}  # lower-cased word -> the wanted words of that spelling
    for word in wanted or ():
        slots.setdefault(word.lower().encode("utf-8", "surrogatepass"), []).append(word)
    words: dict[str, int] = {}
    ranks: dict[str, int] = {}  # of the words that have so far only been met in another case
    seen: Counter[str] = Counter()
    rows = len(wanted) if wanted is not None else min(stream.declared or 1 << 16, 1 << 20)
    rows = min(rows, most)  # than that the file cannot hold, whatever its first line says
    matrix = np.empty((rows, stream.dim), np.float32)  # pages never written to cost no memory
    for number, raw, payload in stream.records:
        seen["entries"] += 1
        if not seen["entries"] & 1023:
            update(stream.position())
        try:
            # bytes.lower() is right for ASCII only
            word = "" if wanted is not None and raw.isascii() else raw.decode()
        except UnicodeDecodeError:
            seen["bad"] += 1
            continue
        if wanted is None:
            targets = [word]
        else:
            found = slots.get(word.lower().encode() if word else raw.lower())
            if found is None:
                continue
            word, targets = raw.decode(), found
        values = None
        for target in targets:
            forms = case_forms(target)
            if word not in forms:
                continue
            rank = forms.index(word)
            row = words.get(target)
            if row is not None and rank >= ranks.get(target, 0):
                seen["duplicates"] += rank == ranks.get(target, 0)
                continue
            if row is None:
                row = words[target] = len(words)
                if row == len(matrix):
                    matrix.resize((int(row * _GROW) + 1, stream.dim), refcheck=False)
            ranks[target] = rank
            if not rank:
                del ranks[target]
            values = stream.parse(number, payload) if values is None else values
            matrix[row] = values
    seen["other_case"] = len(ranks)
    matrix.resize((len(words), stream.dim), refcheck=False)
    return words, matrix, seen


def cached(
    key: Sequence[Any], cache_dir: str | Path | None, make: Callable[[], WordVectors]
) -> WordVectors:
    """`make()`, or what it made before under the same key: one `.npz` file a key, no pickle."""
    folder = Path(cache_dir).expanduser() if cache_dir is not None else _default_cache()
    digest = hashlib.sha256(json.dumps([_CACHE_FORMAT, *key]).encode()).hexdigest()
    file = folder / f"vectors-{digest[:32]}.npz"
    if file.is_file():
        try:
            data: dict[str, Any] = read_arrays(file)
            info = json.loads(data.pop("info").tobytes())
            words = {word: row for row, word in enumerate(info["words"])}
            matrix, distiller = data.pop("matrix"), None
            if plain := info["distiller"]:
                distiller = Distiller(**plain, **data)
            return WordVectors(words, matrix, info["source"], info["report"], distiller)
        except (OSError, ValueError, KeyError, TypeError) as error:
            _say(str(file), f"damaged cache entry, made again ({error})")
    vectors = make()
    plain, arrays = vectors.distiller.parts() if vectors.distiller else ({}, {})
    info = {
        "words": sorted(vectors.words, key=vectors.words.__getitem__),
        "source": vectors.source,
        "report": vectors.report,
        "distiller": plain,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as part:
            try:
                text = np.frombuffer(json.dumps(info).encode(), np.uint8)
                np.savez(part, matrix=vectors.matrix, info=text, **arrays)
                part.close()
                os.replace(part.name, file)
            except BaseException:
                os.unlink(part.name)
                raise
    except OSError as error:
        _say(str(file), f"the vectors could not be cached ({error})")
    return vectors


def _default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "keras_sentmatch"
