"""Load sentence pairs: one file, all parts of a data set, or a stream of a file's pairs."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from keras_sentmatch.data._columns import Columns, KeptRow, OnError, Reading, read_file
from keras_sentmatch.data.dataset import PairDataset, ReadReport, Task
from keras_sentmatch.data.files import StandardInput, TextFile, first_line
from keras_sentmatch.data.formats import (
    FAMILIES,
    FORMATS,
    LABEL,
    OWN,
    SCORE,
    SENTENCES,
    SPLITS,
    Layout,
    existing_path,
    recognize_file,
    recognize_folder,
)
from keras_sentmatch.data.frames import class_names, is_frame, rows_of
from keras_sentmatch.data.generated import natural_logic_pairs
from keras_sentmatch.data.splits import log_repeats, split_pairs
from keras_sentmatch.errors import InputError, wording

_Split = Literal["train", "validation", "test"]
_EMBEDDED: dict[_Split, int] = {"train": 8000, "validation": 1000, "test": 1000}


def read_pairs(
    path: Any,
    *,
    format: str | None = None,
    split: str = "",
    sentence1: str | int | None = None,
    sentence2: str | int | None = None,
    label: str | int | None = None,
    group: str | int | None = None,
    label_names: Sequence[str] | Mapping[str, str] | None = None,
    task: Task | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    weight: str | int | Literal[False] | None = None,
    on_error: OnError = "raise",
) -> PairDataset:
    """Read one file of sentence pairs.

    The file belongs to a known data set (`list_formats()`), which is recognized by its name and
    header, or is your own TSV, CSV, JSONL (also `.gz`), Parquet or Excel file. It may also be a table
    in memory: of pandas, polars, Arrow or Hugging Face's `datasets`. Columns are found by their usual
    names (`sentence1`/`sentence2`, `premise`/`hypothesis`, `question1`/`question2`, `label`, `score`,
    …). An empty sentence is an input, not an error. Rows without a gold label (`-`) are left out and
    counted.

    Args:
        path: The file or table. For parallel files, the first one, such as `s1.dev` or `a.toks`.
        format: A name of `list_formats()`, or `"glue"`. By default it is recognized.
        split: Name of the part. Defaults to the part that the file name of a known data set says.
        sentence1, sentence2: Columns of the sentences. Numbers count from 0 in a file without header.
        label: Column of the label. Without it the pairs are unlabeled.
        group: Column of the question id, for ranking.
        label_names: Label names in index order, or a mapping from the labels in the file to their
            names. The file may contain names or indices. Defaults to the names of the data set, or
            the labels found: inference labels in their usual order, others sorted.
        task: `"classification"`, `"ranking"` or `"regression"`, if it cannot be inferred.
        delimiter: Separator of fields, if it is neither tab, comma nor semicolon.
        encoding: Encoding of the file, such as `"latin-1"`. Defaults to the byte order mark's, or UTF-8.
        weight: Column with the weight of each pair in training. Defaults to `weight`, if it exists.
            `False` ignores weights. Validation and test pairs have no weights.
        on_error: `"raise"` makes the first bad row an error; `"skip"` leaves bad rows out and counts
            them. Defaults to `"raise"`.

    Returns:
        A `PairDataset`. Its `report` counts the rows read, kept and skipped.

    Raises:
        InputError: If the file or a column is missing, a row is bad, or the file is empty. The message
            names file and line.

    Example:

    ```python
    from pathlib import Path

    from keras_sentmatch.data import read_pairs

    Path("own.tsv").write_text(
        "premise\\thypothesis\\tlabel\\nA dog runs.\\tAn animal moves.\\tyes\\n"
    )
    read_pairs("own.tsv", label_names=["no", "yes"]).labels  # array([1], dtype=int32)
    ```
    """
    columns = Columns(
        sentence1, sentence2, label, group, label_names, task, delimiter, encoding, weight
    )
    if is_frame(path):
        if format is not None:
            raise InputError(
                f"format={format!r} is for files, but a {_kind(path)} was given. Leave it out."
            )
        data = _read_frame(path, split, columns, on_error)
        log_repeats({data.split: data})
        return data
    path = existing_path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder. Give one file, or use load_pairs.")
    known, layout, part = recognize_file(path, format)
    data = read_file(path, known, layout, split or part or "", columns, on_error)
    log_repeats({data.split: data})
    return data


def _kind(frame: Any) -> str:
    return type(frame).__name__


def _read_frame(frame: Any, split: str, columns: Columns, on_error: OnError) -> PairDataset:
    if columns.label_names is None and (names := class_names(frame)):
        columns = replace(columns, label_names=names)
    if columns.encoding is not None:
        raise InputError(
            f"encoding={columns.encoding!r} is for files, but a {_kind(frame)} was given. Leave it out."
        )
    layout = Layout({}, lambda file: rows_of(frame))
    return read_file(
        Path(_kind(frame)), FORMATS["frame"], layout, split, columns, on_error, "frame"
    )


def format_and_path(source: str | Path) -> tuple[str | None, str | Path]:
    """Split `"FORMAT:path"`; the format is None if `source` does not name one."""
    prefix, _, rest = str(source).partition(":")
    return (prefix, rest) if rest and (prefix in FORMATS or prefix in FAMILIES) else (None, source)


def load_pairs(
    source: Any,
    *,
    seed: int = 0,
    on_error: OnError = "raise",
    fractions: Sequence[float] | None = None,
    sentence1: str | int | None = None,
    sentence2: str | int | None = None,
    label: str | int | None = None,
    group: str | int | None = None,
    label_names: Sequence[str] | Mapping[str, str] | None = None,
    task: Task | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    weight: str | int | Literal[False] | None = None,
) -> dict[str, PairDataset]:
    """Load the parts of a data set: `"train"`, `"validation"` and `"test"`, if they exist.

    A missing validation part is split off the training pairs: seeded, with equal shares of classes,
    and pairs with the same question or first sentence stay together. A missing test part stays
    missing, except for your own single file (or a folder with only `train.*`), which is split three
    ways.

    Args:
        source: `"embedded"` (generated pairs), `"tfds:NAME"` (TensorFlow Datasets), a folder or file, or
            `"FORMAT:path"` with a name of `list_formats()`, such as `"trecqa-clean:data/trecqa"`. Or a
            table as for `read_pairs`, or a mapping of tables by part, such as a `DatasetDict`.
        seed: Seed of the generator and of the splits. Defaults to `0`.
        on_error: See `read_pairs`.
        fractions: Shares of the training, validation and perhaps test pairs into which one part is
            split. By default a missing validation part gets 5% of the training pairs, and the test
            part of a single file 10%.
        sentence1, sentence2, label, group, label_names, task, delimiter, encoding, weight:
            See `read_pairs`.

    Returns:
        The `PairDataset`s by part.

    Raises:
        InputError: As for `read_pairs`, or if a folder has no known files.

    Example:

    ```python
    from keras_sentmatch.data import load_pairs

    {split: len(data) for split, data in load_pairs("embedded").items()}
    # {"train": 8000, "validation": 1000, "test": 1000}
    ```
    """
    columns = Columns(
        sentence1, sentence2, label, group, label_names, task, delimiter, encoding, weight
    )
    if isinstance(source, Mapping) or is_frame(source):
        tables = source if isinstance(source, Mapping) else {"train": source}
        source = _kind(source)
        parts = _read_tables(tables, source, columns, on_error)
        whole = set(parts) == {"train"}
    elif source == "embedded" or str(source).startswith("tfds:"):
        if columns != Columns():
            names = ", ".join(name for name, value in vars(columns).items() if value is not None)
            options = "--columns, --delimiter, --encoding and --labels"
            raise InputError(
                f"{source} is not a file of yours. Leave out {wording(names, options)}."
            )
        parts, whole = _without_files(str(source), seed), False
    else:
        parts, whole = _read_files(source, columns, on_error)
    if "train" in parts:
        parts |= _split_off(parts, source, whole, fractions, seed)
    parts = {split: parts[split] for split in SPLITS if split in parts}
    log_repeats(parts)
    return parts


def _read_tables(
    tables: Mapping[str, Any], kind: str, columns: Columns, on_error: OnError
) -> dict[str, PairDataset]:
    """Read tables in memory by part; the first part gives the label names of the others."""
    if unknown := [str(name) for name in tables if name not in SPLITS]:
        raise InputError(
            f"The {kind} has the part {unknown[0]!r}. Expected {', '.join(SPLITS)}. Leave out other "
            "parts, or rename them in a dict."
        )
    parts = {}
    for name in (name for name in SPLITS if name in tables):
        if not is_frame(tables[name]):
            raise InputError(f"The {name} part is a {_kind(tables[name])}. Expected a table.")
        parts[name] = _read_frame(tables[name], name, columns, on_error)
        columns = _with_names_of(parts[name], columns)
    return parts


def _without_files(source: str, seed: int) -> dict[str, PairDataset]:
    if source == "embedded":
        return {
            name: natural_logic_pairs(n, seed=seed, split=name) for name, n in _EMBEDDED.items()
        }
    return load_tfds(source.removeprefix("tfds:"))


def _read_files(
    source: str | Path, columns: Columns, on_error: OnError
) -> tuple[dict[str, PairDataset], bool]:
    """Read a file or folder by part, and whether the training part is to be split three ways."""
    format, rest = format_and_path(source)
    path = existing_path(rest)
    if path.is_file():
        known, layout, part = recognize_file(path, format)
        if known.name in OWN or part is None:
            part = "train"
        return {part: read_file(path, known, layout, part, columns, on_error)}, part == "train"
    known, found = recognize_folder(path, format)
    parts = {}
    own_name = path.resolve().name if known.name in OWN else ""
    for split, (file, layout) in found.items():
        parts[split] = read_file(file, known, layout, split, columns, on_error, own_name)
        columns = _with_names_of(parts[split], columns)
    mixed = len({layout.rows for _, layout in found.values()}) > 1
    if known.name == "quora" and mixed and "train" in parts:
        parts["train"] = _without(parts)
    return parts, set(parts) == {"train"} and (known.name in OWN or known.own_split)


def _with_names_of(data: PairDataset, columns: Columns) -> Columns:
    if not data.label_names or isinstance(columns.label_names, Mapping):
        return columns
    return replace(columns, label_names=data.label_names)


def _split_off(
    parts: Mapping[str, PairDataset],
    source: Any,
    whole: bool,
    fractions: Sequence[float] | None,
    seed: int,
) -> dict[str, PairDataset]:
    """Split the missing parts off the training pairs."""
    if parts["train"].labels is None:
        how = wording("label=…", "--columns FIRST,SECOND,LABEL")
        raise InputError(
            f"The training pairs of {source} have no labels. Name their column with {how}."
        )
    shares = {} if "validation" in parts else {"validation": 0.05}
    if whole:
        shares["test"] = 0.1
    if fractions is not None:
        shares = dict(zip(("validation", "test"), fractions[1:]))
    if taken := [name for name in shares if name in parts]:
        how = wording("fractions", "--split")
        raise InputError(
            f"{source} has its own {' and '.join(taken)} pairs. Leave out {how}, or give only the file "
            "of the training pairs."
        )
    if not shares:
        return {}
    cut = split_pairs(
        parts["train"], fractions or [1 - sum(shares.values()), *shares.values()], seed=seed
    )
    names = ("train", *shares)
    return {name: data.select(range(len(data)), split=name) for name, data in zip(names, cut)}


def _without(parts: dict[str, PairDataset]) -> PairDataset:
    """Return the training pairs that occur in no other part, ignoring spelling and spacing."""

    def keys(data: PairDataset) -> list[frozenset[str]]:
        def plain(text: str) -> str:
            return re.sub(r"\W+", "", text.lower())

        return [frozenset((plain(a), plain(b))) for a, b in zip(data.sentence1, data.sentence2)]

    train = parts["train"]
    held = {key for name, data in parts.items() if name != "train" for key in keys(data)}
    kept = train.select([i for i, key in enumerate(keys(train)) if key not in held])
    if kept.report and len(kept) < len(train):
        kept.report.skipped["also in another part"] = len(train) - len(kept)
        kept.report.kept = len(kept)
    return kept


# The first of these names that a data set has becomes the part.
_SPLITS = {
    "train": ("train",),
    "validation": ("validation", "validation_matched", "dev"),
    "test": ("test", "test_matched"),
}


def load_tfds(name: str) -> dict[str, PairDataset]:
    """Load a TensorFlow dataset of sentence pairs, such as `"glue/mrpc"`; it is downloaded once.

    Label names come from the dataset's info. Rows with the label -1 are left out and counted, except
    in a part where all rows have it, which is unlabeled.
    """
    try:
        import tensorflow_datasets as tfds
    except ImportError:
        raise InputError(
            f"tfds:{name} needs TensorFlow Datasets. Install it with pip install "
            '"keras-sentmatch[datasets]".'
        ) from None
    try:
        builder = tfds.builder(name)
    except (tfds.core.DatasetNotFoundError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"There is no TensorFlow dataset tfds:{name} ({reason}). Check the name."
        ) from None
    features = builder.info.features
    columns = [key for key in features if hasattr(features[key], "np_dtype")]
    sentences = next((pair for pair in SENTENCES if set(pair) <= set(columns)), None)
    if sentences is None:
        raise InputError(
            f"tfds:{name} has the columns {', '.join(columns)}, of which no two are known as columns "
            "of sentences. Write the data set to a file, and name its columns."
        )
    label = next((column for column in LABEL + SCORE if column in columns), None)
    try:
        builder.download_and_prepare()
    except ImportError as error:
        raise InputError(
            f"tfds:{name} needs {error.name}. Install it with pip install {error.name}."
        ) from error
    except OSError as error:
        raise InputError(
            f"tfds:{name} cannot be downloaded or written ({error}). Check the network and "
            "TFDS_DATA_DIR, or give local files."
        ) from error
    parts = {}
    for split, candidates in _SPLITS.items():
        found = next((part for part in candidates if part in builder.info.splits), None)
        if found is not None:
            rows = tfds.as_numpy(builder.as_dataset(split=found))
            kind = features[label] if label else None
            parts[split] = _pairs(rows, sentences, label, kind, f"tfds:{name}", split)
    return parts


def _pairs(
    rows: Any, sentences: tuple[str, str], label: str | None, kind: Any, name: str, split: str
) -> PairDataset:
    found = [
        (*(row[side].decode("utf-8") for side in sentences), row[label].item() if label else -1)
        for row in rows
    ]
    regression = label is not None and isinstance(found[0][2] if found else 0, float)
    labeled = [row for row in found if row[2] != -1]
    kept = found if regression or not labeled else labeled
    report = ReadReport(f"{name} {split}", rows=len(found), kept=len(kept))
    if len(kept) < len(found):
        report.skipped["no gold label"] = len(found) - len(kept)
    first, second, values = zip(*kept) if kept else ((), (), ())
    return PairDataset(
        first,
        second,
        None if all(value == -1 for value in values) else values,
        label_names=tuple(kind.names) if hasattr(kind, "names") else None,
        task="regression" if regression else "classification",
        name=name.removeprefix("tfds:"),
        split=split,
        report=report,
    )


STANDARD_INPUT = "-"
_LONGEST = 16_000_000  # approximate number of characters that are in memory at a time


class Window(NamedTuple):
    """Some pairs of a stream, the number of rows read so far, and the digest of these rows."""

    pairs: PairDataset
    rows: int
    digest: str


class PairStream:
    """Read the pairs of a file piece by piece, with labels as they are in the file.

    Args:
        source: A file as for `read_pairs`, or `"-"` for standard input.
        format: See `read_pairs`.
        on_error: See `read_pairs`.
        **columns: Other arguments of `read_pairs`: `sentence1`, `label_names`, ….

    Attributes:
        report: Counts of the rows read so far.

    Raises:
        InputError: As for `read_pairs`.

    Example:

    ```python
    from keras_sentmatch.data import PairStream

    for window in PairStream("big.tsv").windows(4096):
        print(window.rows, len(window.pairs))
    ```
    """

    def __init__(
        self,
        source: str | Path,
        *,
        format: str | None = None,
        on_error: OnError = "raise",
        **columns: Any,
    ) -> None:
        how = Columns(**columns)
        if str(source) == STANDARD_INPUT:
            file: TextFile = StandardInput(Path("standard input"), how.encoding, how.delimiter)
            begins = "" if format else first_line(file).lstrip()[:1]
            kind = format or ("jsonl" if begins in ("{", "[") else "tsv")
            known, layout, _ = recognize_file(file.path, kind)
            if known.name == "frame":
                raise InputError(
                    "Standard input is read as text. Give a Parquet or Excel file by its name."
                )
        else:
            path = existing_path(source)
            if path.is_dir():
                raise InputError(f"{path} is a folder. Give a file of pairs.")
            known, layout, _ = recognize_file(path, format)
            file = TextFile(path, how.encoding, how.delimiter)
        self._reading = Reading(file, known, layout, how, on_error)
        self.report, self.file = self._reading.report, file
        given = how.label_names or known.labels
        names = given if isinstance(given, Mapping) else dict(enumerate(given))
        self._names = {str(label).lower(): name for label, name in names.items()}

    def windows(self, size: int, *, after: int = 0, digest: str = "") -> Iterator[Window]:
        """Yield the pairs after the row `after`, `size` at a time, or fewer if they are very long.

        Args:
            size: Number of pairs per window.
            after: The `rows` of a window, to continue after it.
            digest: The `digest` of that window. Other rows are refused.

        Raises:
            InputError: If a row is bad, no row is usable, or the file has changed.
        """
        found, block, length = hashlib.sha256(), list[KeptRow](), 0
        reading = self._reading
        for row in reading.rows():
            found.update(repr(row).encode("utf-8", "surrogatepass"))
            if row is not None:
                self.report.kept += 1
                block.append(row)
                length += len(row.sentence1) + len(row.sentence2)
            if reading.place <= after:
                block.clear()
                length = 0
                if reading.place == after and found.hexdigest() != digest:
                    break
            elif len(block) == size or length > _LONGEST:
                yield Window(self._pairs(block), reading.place, found.hexdigest())
                block, length = [], 0
        if after and (
            reading.place < after or (reading.place == after and found.hexdigest() != digest)
        ):
            raise InputError(
                f"{self.file.path} has changed: its first {after:,} rows differ from those with "
                "predictions. Delete the partial predictions to start again."
            )
        if not self.report.kept:
            raise InputError(f"{self.file.path} has no usable row ({self.report}).")
        if block:
            yield Window(self._pairs(block), reading.place, found.hexdigest())

    def _pairs(self, block: list[KeptRow]) -> PairDataset:
        reading, names = self._reading, self._reading.names
        columns = {key: [row.further[key] for row in block] for key in block[0].further}
        if "label" in names:
            columns["gold"] = [self._label(row.label) for row in block]
        task = reading.columns.task or reading.known.task
        return PairDataset(
            [row.sentence1 for row in block],
            [row.sentence2 for row in block],
            groups=[row.group for row in block] if reading.has_groups(task) else None,
            ids=[row.id for row in block] if "id" in names else None,
            columns=columns,
        )

    def _label(self, value: str | None) -> str:
        """Return the name of a label if it is known, otherwise the text in the file."""
        value = value or ""
        return self._names.get(value.lower(), value)
