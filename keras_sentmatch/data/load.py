"""Load sentence pairs: one file, all parts of a data set, or a stream of a file's pairs."""

import copy
import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from keras_sentmatch.data._columns import Columns, KeptRow, OnError, Reading, read_file
from keras_sentmatch.data.dataset import PairDataset, ReadReport, Task
from keras_sentmatch.data.files import HEADER, StandardInput, TextFile, first_line
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
from keras_sentmatch.data.generated import natural_logic_pairs
from keras_sentmatch.data.splits import log_repeats, split_pairs
from keras_sentmatch.data.tables import class_names, is_frame, rows_of
from keras_sentmatch.errors import InputError, argument, wording

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
    """Reads one file of sentence pairs.

    The file may be one of a known data set (`list_formats()`), recognized by its name and header,
    or your own TSV, CSV, JSONL (`.gz` is unpacked), Parquet, Arrow, Feather or Excel. Or a table in
    memory: of pandas, polars, Arrow or Hugging Face's `datasets`. Columns are found by their usual names
    (`sentence1`/`sentence2`, `premise`/`hypothesis`, `question1`/`question2`, `label`, `score`, …).
    An empty sentence is an input, not an error. Rows without a gold label (`-`) are left out and
    counted.

    Args:
        path: The file, or a table. Of parallel files the first, such as `s1.dev` or `a.toks`.
        format: A name of `list_formats()`, or `"glue"`; found by itself by default.
        split: Name of the part; by default what the file name of a known data set says.
        sentence1, sentence2: The columns of the sentences. A number counts from 0 in a file
            without header.
        label: Column of the label. Without one the pairs are unlabeled.
        group: Column of the question id, for ranking.
        label_names: Names in index order; labels may be these or their numbers. Or a mapping from
            the labels of the file to their names. By default the names of the data set; else those
            found, inference labels in their usual order, others sorted.
        task: `"classification"`, `"ranking"` or `"regression"`, where it is not to be found.
        delimiter: What separates the fields of a table, if neither tab, comma nor semicolon.
        encoding: Encoding of the file, such as `"latin-1"`; by default UTF-8, or what its byte
            order mark says.
        weight: Column that says how much each pair counts in training; by default `weight`, if there
            is one. False reads none. Validation and test pairs have no weights.
        on_error: `"raise"`: the first bad row is an error. `"skip"`: it is left out and counted.

    Returns:
        A `PairDataset`; its `report` counts rows read, kept and skipped.

    Raises:
        InputError: A missing file or column, a bad row, an empty file. The message names file and
            line.

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
            raise InputError(f"format={format!r} is for files; a {_kind(path)} needs none.")
        data = _read_frame(path, split, columns, on_error)
        log_repeats({data.split: data})
        return data
    path = existing_path(path)
    if path.is_dir():
        raise InputError(
            f"{path} is a folder; read_pairs takes one file, load_pairs takes folders."
        )
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
            f"encoding={columns.encoding!r} is for files; a {_kind(frame)} needs none."
        )
    layout = Layout({}, lambda file: rows_of(frame))
    return read_file(
        Path(_kind(frame)), FORMATS["frame"], layout, split, columns, on_error, "frame"
    )


def format_and_path(source: str | Path) -> tuple[str | None, str | Path]:
    """`"FORMAT:path"` in two; the format is None where `source` names none."""
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
    """Loads the parts of a data set: `"train"`, `"validation"`, `"test"`, as far as there are any.

    A missing validation part is split off the training pairs (seeded, classes keep their shares,
    pairs with the same question or first sentence stay together). A missing test part stays
    missing, but for your own single file (or a folder with nothing but `train.*`), which is split
    three ways.

    Args:
        source: `"embedded"` (generated pairs, no file), `"tfds:NAME"` (TensorFlow Datasets), a
            folder or file, or `"FORMAT:path"` with a name of `list_formats()`, such as
            `"trecqa-clean:data/trecqa"`. Or a table, as `read_pairs` takes it, or a mapping of such
            tables by part, such as a `DatasetDict`.
        seed: Seed of the generator and of the splits.
        on_error: As in `read_pairs`.
        fractions: Shares of the training, validation and perhaps test pairs that one part is split
            into. By default 5% of the training pairs go to a missing validation part, and of one
            file that is split three ways 10% to the test part.
        sentence1, sentence2, label, group, label_names, task, delimiter, encoding, weight:
            As in `read_pairs`.

    Returns:
        A dict of `PairDataset`s by part.

    Raises:
        InputError: As `read_pairs`; or a folder with no known files in it.

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
    tables = {"train": source} if is_frame(source) else source
    if isinstance(tables, Mapping):
        source = _kind(source)
    elif columns != Columns() and str(source).partition(":")[0] in ("embedded", "tfds"):
        names = ", ".join(name for name, value in vars(columns).items() if value is not None)
        options = "--columns, --delimiter, --encoding, --labels and --weight"
        raise InputError(
            f"{source} is not read from a file of yours: leave out {wording(names, options)}."
        )
    three_way = False
    parts: dict[str, PairDataset]
    format, rest = format_and_path(source)
    if isinstance(tables, Mapping):
        if unknown := [str(name) for name in tables if name not in SPLITS]:
            raise InputError(
                f"The {source} has the part {unknown[0]!r}; expected {', '.join(SPLITS)}: leave out "
                "the others, or rename them in a dict."
            )
        parts = {}
        for name in (name for name in SPLITS if name in tables):
            if not is_frame(tables[name]):
                raise InputError(f"The {name} part is a {_kind(tables[name])}; expected a table.")
            parts[name] = _read_frame(tables[name], name, columns, on_error)
            if parts[name].label_names and not isinstance(columns.label_names, Mapping):
                columns = replace(columns, label_names=parts[name].label_names)
        three_way = set(parts) == {"train"}
    elif source == "embedded":
        parts = {
            name: natural_logic_pairs(n, seed=seed, split=name) for name, n in _EMBEDDED.items()
        }
    elif str(source).startswith("tfds:") and source != "tfds:":
        parts = load_tfds(str(source).removeprefix("tfds:"))
    elif (path := existing_path(rest)).is_file():
        known, layout, part = recognize_file(path, format)
        if known.name in OWN or part is None:
            part = "train"
        parts = {part: read_file(path, known, layout, part, columns, on_error)}
        three_way = part == "train"
    else:
        known, found = recognize_folder(path, format)
        parts = {}
        own_name = path.resolve().name if known.name in OWN else ""
        for split, (file, layout) in found.items():
            data = read_file(file, known, layout, split, columns, on_error, own_name)
            parts[split] = data
            # the parts of your own data share the names of the first
            if data.label_names and not isinstance(columns.label_names, Mapping):
                columns = replace(columns, label_names=data.label_names)
        three_way = set(parts) == {"train"} and (known.name in OWN or known.own_split)
        mixed = len({layout.rows for _, layout in found.values()}) > 1
        if known.name == "quora" and mixed and "train" in parts:
            parts["train"] = _without(parts)
    if "train" in parts:
        if parts["train"].labels is None:
            how = wording("label=…", "--columns FIRST,SECOND,LABEL")
            raise InputError(
                f"{source}: the training pairs have no labels; name their column with {how}."
            )
        shares = {} if "validation" in parts else {"validation": 0.05}
        if three_way:
            shares["test"] = 0.1
        if fractions is not None:
            shares = dict(zip(("validation", "test"), fractions[1:]))
        if taken := [name for name in shares if name in parts]:
            how = wording("fractions", "--split")
            raise InputError(
                f"{source} has {' and '.join(taken)} pairs of its own: leave {how} out, or give "
                "the file of the training pairs alone."
            )
        if shares:
            fractions = fractions or [1 - sum(shares.values()), *shares.values()]
            cut = split_pairs(parts["train"], fractions, seed=seed)
            for split, data in zip(("train", *shares), cut):
                parts[split] = data.select(range(len(data)), split=split)
    parts = {split: parts[split] for split in SPLITS if split in parts}
    log_repeats(parts)
    return parts


def _without(parts: dict[str, PairDataset]) -> PairDataset:
    """The training pairs that occur in no other part, spelling and spacing aside."""

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


# The first of these that a data set has becomes the part.
_SPLITS = {
    "train": ("train",),
    "validation": ("validation", "validation_matched", "dev"),
    "test": ("test", "test_matched"),
}


def load_tfds(name: str) -> dict[str, PairDataset]:
    """Loads a TensorFlow dataset of sentence pairs, such as `"glue/mrpc"`; it is downloaded once.

    Label names come from the dataset's info. Rows labeled -1 (no gold label) are left out and
    counted; a part in which every row is so is unlabeled.
    """
    try:
        import tensorflow_datasets as tfds
    except ImportError:
        raise InputError(
            f"tfds:{name} needs tensorflow_datasets: pip install keras-sentmatch[datasets]."
        ) from None
    try:
        builder = tfds.builder(name)
    except (tfds.core.DatasetNotFoundError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"tfds:{name}: no such TensorFlow dataset ({reason}).") from None
    features = builder.info.features
    columns = [key for key in features if hasattr(features[key], "np_dtype")]
    sentences = next((pair for pair in SENTENCES if set(pair) <= set(columns)), None)
    if sentences is None:
        raise InputError(
            f"tfds:{name} is no data set of sentence pairs: its columns are {', '.join(columns)}."
        )
    label = next((column for column in LABEL + SCORE if column in columns), None)
    try:
        builder.download_and_prepare()
    except ImportError as error:
        raise InputError(f"tfds:{name} needs another package: pip install {error.name}.") from error
    except OSError as error:
        raise InputError(
            f"tfds:{name} could not be downloaded or written ({error}); check the network and "
            "TFDS_DATA_DIR, or point at local files."
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
_LONGEST = 16_000_000  # characters, about, of the pairs that are in memory at a time


class Window(NamedTuple):
    """Some pairs of a stream, with the number of rows read so far and the digest of these rows."""

    pairs: PairDataset
    rows: int
    digest: str


class PairStream:
    """Reads the pairs of a file as they are needed; labels are kept as the file has them.

    Args:
        source: A file, as `read_pairs` takes it, or `"-"` for standard input.
        format: As in `read_pairs`.
        on_error: As in `read_pairs`.
        shard: Only the part `(number, of)` of the rows: the first of them is number 1.
        **columns: The other arguments of `read_pairs`: `sentence1`, `label_names`, ….

    Attributes:
        report: The counts of the rows read so far.

    Raises:
        InputError: As `read_pairs`; or a shard of standard input, or without rows.

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
        shard: tuple[int, int] | None = None,
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
                    "standard input is read as text: give a Parquet, Arrow or Excel file by name."
                )
            if shard is not None:
                raise InputError("standard input has no shards: its rows cannot be counted first.")
        else:
            path = existing_path(source)
            if path.is_dir():
                raise InputError(f"{path} is a folder; expected a file of pairs.")
            known, layout, _ = recognize_file(path, format)
            file = TextFile(path, how.encoding, how.delimiter)
        self._how = known, layout, how, on_error
        self._reading = Reading(file, *self._how)
        self.report, self.file = self._reading.report, file
        given = how.label_names or known.labels
        names = given if isinstance(given, Mapping) else dict(enumerate(given))
        self._names = {str(label).lower(): name for label, name in names.items()}
        self._first: int
        self._end: float
        self._first, self._end = (0, math.inf) if shard is None else self._bounds(*shard)

    def _bounds(self, number: int, of: int) -> tuple[int, int]:
        """How many rows come before a shard, and how many up to its end."""
        if not 1 <= number <= of:
            raise InputError(
                f"{argument('shard', f'{number}/{of}')}: expected a number from 1 to {of}, such as "
                f"1/{of}."
            )
        file = copy.copy(self.file)
        counted = Reading(file, *self._how).source()
        rows = sum(where != HEADER for where, _ in counted)
        if rows < of:
            raise InputError(f"{file.path} has {rows} rows, which are too few for {of} shards.")
        return (number - 1) * rows // of, number * rows // of

    def windows(self, size: int, *, after: int = 0, digest: str = "") -> Iterator[Window]:
        """The pairs, `size` at a time, or fewer very long ones, after the row `after`.

        Args:
            size: Pairs of a window.
            after: The `rows` of a window, to continue after it.
            digest: The `digest` of that window: other rows are refused.

        Raises:
            InputError: A bad row, a file without any usable one, or one that has changed.
        """
        found, block, length = hashlib.sha256(), list[KeptRow](), 0
        reading = self._reading
        for row in reading.rows(self._first, self._end):
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
                f"{self.file.path} has changed: its first {after:,} rows are not those that were "
                "answered before. Delete the partial answers to start again."
            )
        if not self.report.kept:
            raise InputError(f"{self.file.path}: no usable row ({self.report}).")
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
        """The name of a label if it is known, otherwise the text in the file."""
        value = value or ""
        return self._names.get(value.lower(), value)
