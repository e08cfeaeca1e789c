"""Load sentence pairs: one file or table, or all parts of a data set."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from keras_sentmatch.data import formats
from keras_sentmatch.data._reading import Columns, OnError, Reading, numbered_labels, without_header
from keras_sentmatch.data.dataset import PairDataset, Task, numbered
from keras_sentmatch.data.files import TextFile
from keras_sentmatch.data.frames import class_names, is_frame, rows_of
from keras_sentmatch.data.generated import Part, natural_logic_pairs
from keras_sentmatch.data.splits import log_repeats, split_pairs
from keras_sentmatch.errors import InputError, wording
from keras_sentmatch.safety import first_line

_EMBEDDED: dict[Part, int] = {"train": 8000, "validation": 1000, "test": 1000}
_SAVED = ("dataset_dict.json", "state.json")  # of Hugging Face's `save_to_disk`


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

    It is a file of a known data set (`keras-sentmatch models --datasets`), your own TSV, CSV, JSONL
    (also gzipped), Parquet or Excel file, or a table in memory (pandas, polars, Arrow, Hugging Face).
    Columns are found by their usual names (`sentence1`/`sentence2`, `premise`/`hypothesis`, `label`,
    `score`, …). An empty sentence is an input, not an error. Rows with the label `-` have no gold
    label; they are left out and counted. In a column of scores, `-` is a bad row.

    Args:
        path: The file or table. For parallel files, the first one, such as `s1.dev` or `a.toks`.
        format: Name of a format. By default it is recognized.
        split: Name of the part. Defaults to the part that the file name of a known data set says.
        sentence1, sentence2: Columns of the sentences, by name, or by number (from 0) in a file
            without a header.
        label: Column of the label. Without it the pairs are unlabeled.
        group: Column of the question id, for ranking.
        label_names: Label names in index order, or a mapping from the labels in the file to their
            names. The file may contain names or indices. Defaults to the names of the data set, or
            the labels found: inference labels in their usual order, others sorted. Case and the form
            of numbers do not count (`Yes` and `yes`, `1` and `01` are one label).
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

    >>> _ = Path("own.csv").write_text("premise,hypothesis,label\\nA dog runs.,It moves.,yes\\n")
    >>> read_pairs("own.csv", label_names=["no", "yes"]).labels.tolist()
    [1]
    """
    columns = Columns(
        sentence1, sentence2, label, group, label_names, task, delimiter, encoding, weight
    )
    if is_frame(path):
        if format is not None:
            kind = type(path).__name__
            raise InputError(f"format={format!r} is for files, not for a {kind}. Leave it out.")
        data = _read_frame(path, split, columns, on_error)
    else:
        path = formats.existing_path(path)
        if path.is_dir():
            raise InputError(f"{path} is a folder. Give one file, or use load_pairs.")
        known, layout, part = formats.recognize_file(path, format)
        data = _read_file(path, known, layout, split or part or "", columns, on_error)
    log_repeats({data.split: data})
    return data


def load_pairs(
    source: Any,
    *,
    seed: int = 0,
    on_error: OnError = "raise",
    fractions: Sequence[float] | None = None,
    **columns: Any,
) -> dict[str, PairDataset]:
    """Load the parts of a data set: `"train"`, `"validation"` and `"test"`, if they exist.

    A missing validation part is split off the training pairs as `split_pairs` does. A missing test part
    stays missing, but your own single file (or a folder with only `train.*`) is split three ways.

    Args:
        source: `"embedded"` (pairs of a small natural logic), `"tfds:NAME"` (TensorFlow Datasets), a
            folder or file, `"FORMAT:path"`, such as `"trecqa-clean:data/trecqa"`, a table as for
            `read_pairs`, a mapping of tables by part, or the folder of a `DatasetDict.save_to_disk`.
        seed: Seed of the splits. Defaults to `0`.
        on_error: See `read_pairs`.
        fractions: Shares of the training, validation and perhaps test pairs into which one part is
            split. By default a missing validation part gets 5% of the training pairs, and the test
            part of a single file 10%.
        **columns: Further arguments of `read_pairs`: `sentence1`, `sentence2`, `label`, `group`,
            `label_names`, `task`, `delimiter`, `encoding` and `weight`.

    Returns:
        The `PairDataset`s by part.

    Raises:
        InputError: As for `read_pairs`, or if a folder has no known files.

    Example:

    >>> {split: len(data) for split, data in load_pairs("embedded").items()}
    {'train': 8000, 'validation': 1000, 'test': 1000}
    """
    fractions = None if fractions is None else list(fractions)
    if fractions is not None and len(fractions) not in (2, 3):
        raise InputError(f"{fractions=} is not accepted. Give two or three shares of the pairs.")
    how, whole, named = Columns(**columns), False, isinstance(source, (str, Path))
    if named and any((Path(source) / name).is_file() for name in _SAVED):
        source = _load_from_disk(source)
    if isinstance(source, Mapping) or is_frame(source):
        tables = source if isinstance(source, Mapping) else {"train": source}
        source = type(source).__name__
        parts = _read_tables(tables, source, how, on_error)
        whole = set(parts) == {"train"}
    elif source == "embedded" or (named and str(source).startswith("tfds:")):
        if how != Columns():
            names = ", ".join(name for name, value in columns.items() if value is not None)
            options = "--columns, --delimiter, --encoding and --labels"
            names = wording(names, options)
            raise InputError(f"{source} is not a file of yours. Leave out {names}.")
        if source == "embedded":
            parts = {
                part: natural_logic_pairs(n, seed=seed, split=part) for part, n in _EMBEDDED.items()
            }
        else:
            parts = load_tfds(str(source).removeprefix("tfds:"))
    else:
        parts, whole = _read_files(source, how, on_error)
    if "train" in parts:
        parts |= _split_off(parts, source, whole, fractions, seed)
    parts = {split: parts[split] for split in formats.SPLITS if split in parts}
    log_repeats(parts)
    return parts


def _read_file(
    path: Path,
    known: formats.Format,
    layout: formats.Layout,
    split: str,
    columns: Columns,
    on_error: OnError,
    name: str = "",
) -> PairDataset:
    """Read `path`, a file of `known` with `layout`."""
    # Only training pairs have weights.
    weighted = columns.weight is not False and split in ("", "train")
    file = TextFile(path, columns.encoding, columns.delimiter)
    reading = Reading(file, known, layout, columns, on_error, weighted)
    same: dict[str, str] = {}  # equal sentences share their memory
    rows = []
    for row in reading.rows():
        if row is not None:
            one, two = (same.setdefault(text, text) for text in (row.sentence1, row.sentence2))
            rows.append(row._replace(sentence1=one, sentence2=two, given={}))
    task, given = columns.task or known.task, columns.label_names or known.labels
    names = tuple(dict.fromkeys(given.values()) if isinstance(given, Mapping) else given)
    if isinstance(given, Mapping) and set(names) <= set(known.labels):
        names = known.labels  # in their usual order
    rows = without_header(reading, rows, names)
    if not rows:
        raise InputError(f"{path} has no usable row ({reading.report}). Expected at least one.")
    if task is None and not names and reading.names.get("label", "").lower() in formats.SCORE:
        task = "regression"
    official = known.name not in formats.OWN
    rows, labels, names, task = numbered_labels(reading, rows, names, task, official)
    reading.report.kept = len(rows)
    grouped = reading.has_groups() and task != "regression"
    data = PairDataset(
        [row.sentence1 for row in rows],
        [row.sentence2 for row in rows],
        labels,
        label_names=names or None,
        task=task,
        groups=[row.group for row in rows] if grouped else None,
        ids=[row.id for row in rows] if "id" in reading.names else None,
        name=name or (known.name if official else path.name.split(".")[0]),
        split=split,
        report=reading.report,
        columns={key: [row.further[key] for row in rows] for key in rows[0].further},
    )
    if split not in known.clean:
        return data
    codes = numbered(data.groups or ())
    right = np.bincount(codes, weights=data.labels)
    mixed = (right > 0) & (right < np.bincount(codes))
    return _reported(data, data.select(mixed[codes]), "question without right and wrong answer")


def _reported(before: PairDataset, kept: PairDataset, reason: str) -> PairDataset:
    """Count in the report what was left out."""
    if kept.report and len(kept) < len(before):
        kept.report.skipped[reason] = len(before) - len(kept)
        kept.report.kept = len(kept)
    return kept


def _read_frame(frame: Any, split: str, columns: Columns, on_error: OnError) -> PairDataset:
    kind = type(frame).__name__
    if columns.encoding is not None:
        given = f"encoding={columns.encoding!r}"
        raise InputError(f"{given} is for files, not for a {kind}. Leave it out.")
    features = None if hasattr(frame, "iloc") else getattr(frame, "features", None)
    columns = _with_class_names(columns, features)
    layout, known = formats.Layout({}, lambda file: rows_of(frame)), formats.FORMATS["frame"]
    return _read_file(Path(kind), known, layout, split, columns, on_error, "frame")


def _with_class_names(columns: Columns, features: Mapping[str, Any] | None) -> Columns:
    """Name the labels 0, 1, … of a data set whose features name them; there -1 is no label."""
    usual = formats.LABEL + formats.SCORE if columns.label is None else (str(columns.label),)
    names = class_names(features, usual)
    if not names or isinstance(columns.label_names, Mapping):
        return columns
    meant = {str(i): name for i, name in enumerate(columns.label_names or names)}
    return replace(columns, label_names=meant, no_label=frozenset(("-", "-1")))


def _read_tables(
    tables: Mapping[str, Any], kind: str, columns: Columns, on_error: OnError
) -> dict[str, PairDataset]:
    """Read tables in memory by part; the first part gives the label names of the others."""
    if unknown := [str(name) for name in tables if name not in formats.SPLITS]:
        wrong = f"The {kind} has the part {unknown[0]!r}"
        raise InputError(f"{wrong}. Expected {', '.join(formats.SPLITS)}. Rename it in a dict.")
    parts = {}
    for name in (name for name in formats.SPLITS if name in tables):
        if not is_frame(tables[name]):
            kind = type(tables[name]).__name__
            raise InputError(f"The {name} part is a {kind}. Expected a table.")
        parts[name] = _read_frame(tables[name], name, columns, on_error)
        columns = _with_names_of(parts[name], columns)
    return parts


def _load_from_disk(folder: str | Path) -> Any:
    try:
        from datasets import load_from_disk

        return load_from_disk(str(folder))
    except Exception as error:  # whatever the files led to
        how = "Save it again"
        if isinstance(error, ImportError):
            how = "Install Hugging Face's datasets with pip install datasets"
        wrong = f"{folder} is not a whole data set ({first_line(error)})"
        raise InputError(f"{wrong}. {how}.") from error


def format_and_path(source: str | Path) -> tuple[str | None, str | Path]:
    """Split `"FORMAT:path"`; the format is None if `source` does not name one."""
    prefix, _, rest = str(source).partition(":")
    return (prefix, rest) if rest and prefix in formats.FORMATS else (None, source)


def _read_files(
    source: str | Path, columns: Columns, on_error: OnError
) -> tuple[dict[str, PairDataset], bool]:
    """Read a file or folder by part, and whether the training part is to be split three ways."""
    format, rest = format_and_path(source)
    path = formats.existing_path(rest)
    if path.is_file():
        known, layout, part = formats.recognize_file(path, format)
        if known.name in formats.OWN or part is None:
            part = "train"
        return {part: _read_file(path, known, layout, part, columns, on_error)}, part == "train"
    known, found = formats.recognize_folder(path, format)
    parts = {}
    own_name = path.resolve().name if known.name in formats.OWN else ""
    for split, (file, layout) in found.items():
        parts[split] = _read_file(file, known, layout, split, columns, on_error, own_name)
        columns = _with_names_of(parts[split], columns)
    mixed = len({layout.rows for _, layout in found.values()}) > 1
    if known.name == "quora" and mixed and "train" in parts:
        parts["train"] = _without(parts)
    return parts, set(parts) == {"train"} and (known.name in formats.OWN or known.own_split)


def _with_names_of(data: PairDataset, columns: Columns) -> Columns:
    """Return the columns for the other parts, whose labels are to be read in the same way."""
    if data.task == "regression" and data.labels is not None:
        missing = columns.no_label | ({"-1"} if (data.labels >= 0).all() else set())
        return replace(columns, task=columns.task or "regression", no_label=missing)
    given = isinstance(columns.label_names, Mapping) or not data.label_names
    return columns if given else replace(columns, label_names=data.label_names)


def _split_off(
    parts: Mapping[str, PairDataset],
    source: Any,
    whole: bool,
    fractions: Sequence[float] | None,
    seed: int,
) -> dict[str, PairDataset]:
    """Split the missing parts off the training pairs."""
    train = parts["train"]
    if train.labels is None:
        guess = train.report.guess if train.report else ""
        how = guess or wording("label=…", "--columns FIRST,SECOND,LABEL")
        wrong = f"The training pairs of {source} have no labels"
        raise InputError(f"{wrong}. Name their column, such as {how}.")
    shares = {} if "validation" in parts else {"validation": 0.05}
    shares |= {"test": 0.1} if whole else {}
    if fractions is not None:
        shares = dict(zip(("validation", "test"), fractions[1:]))
    if taken := [name for name in shares if name in parts]:
        how = wording("fractions", "--split")
        wrong = f"{source} has its own {' and '.join(taken)} pairs"
        raise InputError(f"{wrong}. Leave out {how}, or give only the training pairs.")
    whole_shares = fractions or [1 - sum(shares.values()), *shares.values()]
    cut = split_pairs(train, whole_shares, seed=seed) if shares else ()
    for name, part in zip(("train", *shares), cut):
        part.split = name
    return dict(zip(("train", *shares), cut))


def _without(parts: dict[str, PairDataset]) -> PairDataset:
    """Return the training pairs that occur in no other part, ignoring spelling and spacing."""

    def keys(data: PairDataset) -> list[frozenset[str]]:
        pairs = zip(data.sentence1, data.sentence2)
        return [frozenset(re.sub(r"\W+", "", text.lower()) for text in pair) for pair in pairs]

    train = parts["train"]
    held = {key for name, data in parts.items() if name != "train" for key in keys(data)}
    kept = train.select([i for i, key in enumerate(keys(train)) if key not in held])
    return _reported(train, kept, "also in another part")


# The first of these names that a data set has becomes the part.
_TFDS_SPLITS = {
    "train": ("train",),
    "validation": ("validation", "validation_matched", "dev"),
    "test": ("test", "test_matched"),
}


def _decoded(value: Any) -> Any:
    """Return bytes as text if they are UTF-8; other values stay as they are."""
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value


def load_tfds(name: str) -> dict[str, PairDataset]:
    """Load a TensorFlow dataset of sentence pairs, such as `"glue/mrpc"`; it is downloaded once."""
    try:
        import tensorflow_datasets as tfds

        builder = tfds.builder(name)
        builder.download_and_prepare()
    except Exception as error:  # whatever the import, the builder or the download met
        how = "Check the name, the network and TFDS_DATA_DIR, or give local files"
        if isinstance(error, ImportError):
            ours = '"keras-sentmatch[datasets]"'
            package = ours if error.name in (None, "tensorflow_datasets") else error.name
            how = f"Install it with pip install {package}"
        raise InputError(f"tfds:{name} cannot be loaded ({first_line(error)}). {how}.") from error
    columns = _with_class_names(Columns(), dict(builder.info.features.items()))

    def rows(split: str) -> Any:
        for number, row in enumerate(tfds.as_numpy(builder.as_dataset(split=split))):
            arrays = {key: np.asarray(value) for key, value in row.items()}
            plain = {k: a.item() if a.size == 1 else a.tolist() for k, a in arrays.items()}
            yield f" row {number}", {name: _decoded(value) for name, value in plain.items()}

    parts, place, known = {}, Path(f"tfds:{name}"), formats.FORMATS["frame"]
    for split, candidates in _TFDS_SPLITS.items():
        for found in [part for part in candidates if part in builder.info.splits][:1]:
            layout = formats.Layout({}, lambda file, found=found: rows(found))  # type: ignore[misc]
            parts[split] = _read_file(place, known, layout, split, columns, "raise", name)
            columns = _with_names_of(parts[split], columns)
    if not parts:
        has = ", ".join(builder.info.splits) or "none"
        expected = "Expected train, validation or test"
        raise InputError(f"tfds:{name} has other parts ({has}). {expected}. Save them as files.")
    return parts
