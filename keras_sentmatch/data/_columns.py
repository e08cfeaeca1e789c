"""Columns and labels: the rows of a file become a `PairDataset`."""

import logging
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from keras_sentmatch.data.dataset import PairDataset, ReadReport, Task, numbered, weight_of
from keras_sentmatch.data.files import (
    HEADER,
    BadRow,
    Rows,
    TextFile,
    first_line,
    recognized_separator,
    table,
)
from keras_sentmatch.data.formats import (
    GROUP,
    ID,
    LABEL,
    NLI,
    OWN,
    SCORE,
    SENTENCES,
    TWO_WAY,
    WEIGHT,
    Format,
    Layout,
)
from keras_sentmatch.errors import InputError, argument, wording
from keras_sentmatch.text.tags import tags_of_parse

OnError = Literal["raise", "skip"]
_ALIASES = {"entails": "entailment"}
_ALIASES |= dict.fromkeys(("contradicts", "contradictory"), "contradiction")
_NEGATIVE = frozenset("no n f false wrong negative neg none different irrelevant mismatch".split())
_MANY_LABELS = 100  # more values are not classes, unless the caller says so
log = logging.getLogger(__name__)
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Columns:
    """Columns that the caller named; `None` looks for the usual names."""

    sentence1: str | int | None = None
    sentence2: str | int | None = None
    label: str | int | None = None
    group: str | int | None = None
    label_names: Sequence[str] | Mapping[str, str] | None = None
    task: Task | None = None
    delimiter: str | None = None
    encoding: str | None = None
    weight: str | int | Literal[False] | None = None  # False: no weights

    def numbered(self) -> bool:
        return isinstance(self.sentence1, int) or str(self.sentence1).isdigit()


class KeptRow(NamedTuple):
    """A usable row."""

    where: str
    sentence1: str
    sentence2: str
    label: str | None
    group: str
    id: str
    further: dict[str, Any]  # the columns to keep


class Reading:
    """A file that is being read: its columns, the kept rows, and how bad rows are handled."""

    def __init__(
        self,
        file: TextFile,
        known: Format,
        layout: Layout,
        columns: Columns,
        on_error: OnError,
        weighted: bool = False,
    ):
        if on_error not in get_args(OnError):
            raise InputError(f'on_error={on_error!r} does not exist. Use "raise" or "skip".')
        self.file, self.path, self.known, self.layout = file, file.path, known, layout
        self.columns, self.on_error, self.weighted = columns, on_error, weighted
        self.report = ReadReport(str(self.path))
        self.names: dict[str, str] = {}
        self.kept: list[KeptRow] = []
        self.place = 0  # number of rows read

    def source(self) -> Rows:
        """Yield the rows as they are in the file."""
        if not self.columns.numbered() or self.known.name == "frame":
            return self.layout.rows(self.file)
        line = first_line(self.file)
        width = len(line.split(self.file.delimiter or recognized_separator(line)))
        return table([str(i) for i in range(width)], separator=None, quoted=None)(self.file)

    def rows(self) -> Iterator[KeptRow | None]:
        """Yield each usable row, and `None` for a bad one."""
        for where, row in self.source():
            if where == HEADER and isinstance(row, dict):
                self.find_columns(list(row))
                continue
            self.place += 1
            self.report.rows += 1
            if isinstance(row, BadRow):
                self.bad(where, row.reason, row.message)
                yield None
                continue
            if not self.names:
                self.find_columns(list(row))
            yield self.usable(where, row)
        if self.file.delimiter and not self.file.is_table:
            how = wording("delimiter", "--delimiter")
            raise InputError(f"{self.path} is not a table of separated values. Leave out {how}.")
        if not self.place:
            raise InputError(f"{self.path} has no rows. Expected at least one pair.")

    def has_groups(self, task: Task | None) -> bool:
        """Return whether there is a column of groups that the task uses."""
        return "group" in self.names and task in (None, "ranking")

    def bad(self, where: str, reason: str, message: str) -> None:
        if self.on_error == "raise" and reason not in self.layout.skips:
            skip = wording('pass on_error="skip"', "leave bad rows out with --on-error skip")
            raise InputError(f"{self.path}{where}: {message}, or {skip}.")
        self.report.skip(reason)

    def find_columns(self, found: Sequence[str]) -> None:
        """Set `names`: the columns of sentence1, sentence2, and if they exist, label, group and id."""
        lower = {name.lower(): name for name in reversed(found)}
        for role in ("sentence1", "sentence2", "label", "group", *["weight"] * self.weighted):
            given = getattr(self.columns, role)
            asked = getattr(self.layout, role, None) if given is None else str(given)
            if asked is None:
                continue
            if asked.lower() in lower:
                self.names[role] = asked if asked in found else lower[asked.lower()]
            elif given is not None or role.startswith("sentence"):
                raise InputError(
                    f"{self.path} has no column {asked!r}. Its columns are {', '.join(found)}."
                )
        for one, two in SENTENCES:
            if one in lower and two in lower:
                self.names.setdefault("sentence1", lower[one])
                self.names.setdefault("sentence2", lower[two])
                break
        usual_names = [("label", LABEL + SCORE), ("group", GROUP), ("id", ID)]
        for role, usual in [*usual_names, *[("weight", WEIGHT)] * self.weighted]:
            name = next((lower[name] for name in usual if name in lower), None)
            if name is not None and name not in self.names.values():
                self.names.setdefault(role, name)
        for side in ("1", "2"):
            if f"sentence{side}_parse" in lower:
                self.names[f"parse_{side}"] = lower[f"sentence{side}_parse"]
        if len({self.names.get("sentence1"), self.names.get("sentence2"), None}) < 3:
            separated = ""
            if len(found) == 1:
                separated = f" Or name the separator of fields with {argument('delimiter')}."
            how = wording("sentence1=… and sentence2=…", "--columns FIRST,SECOND,LABEL")
            raise InputError(
                f"{self.path} has the columns {', '.join(found)}, of which no two are known as columns "
                f"of sentences. Name them with {how} (numbers from 0 if the file has no header)."
                f"{separated}"
            )

    def usable(self, where: str, row: dict[str, Any]) -> KeptRow | None:
        """Return the kept row, or `None` if it is left out."""
        sentences = []
        for role in ("sentence1", "sentence2"):
            value = row.get(self.names[role])
            wrong = f"the column {self.names[role]!r} holds "
            if not isinstance(value, str):
                reason = "no text" if self.names[role] in row else "missing column"
                self.bad(where, reason, f"{wrong}{value!r}. Expected text. Correct the row")
                return None
            if not value.isascii() and _SURROGATE.search(value):
                wrong += "half a character (\\ud800 to \\udfff). Correct the escapes"
                self.bad(where, "half a character", wrong)
                return None
            sentences.append(value.strip())
        one, two = sentences
        raw = row.get(self.names.get("label", ""))
        value = None if raw is None else self.layout.label_of(str(raw).strip())
        if value is not None and re.fullmatch(r"[+-]?\d+\.0*", value):
            value = value.partition(".")[0]
        group, number = (str(row.get(self.names.get(role, ""), "")) for role in ("group", "id"))
        further: dict[str, Any] = {name: str(row.get(name, "")) for name in self.layout.keep}
        if {"parse_1", "parse_2"} <= self.names.keys():
            for side in "12":
                parse = row.get(self.names[f"parse_{side}"], "")
                further[f"tags_{side}"] = tags_of_parse(str(parse))
        if "weight" in self.names:
            further["weight"] = weight_of(given := row.get(self.names["weight"]))
            if further["weight"] is None:
                how = wording("pass weight=False", "rename the column if it has no weights")
                wrong = f"the weight {given!r} is not a number of at least 0. Correct it, {how}"
                self.bad(where, "bad weight", wrong)
                return None
        return KeptRow(where, one, two, value, group, number, further)


def read_file(
    path: Path,
    known: Format,
    layout: Layout,
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
    reading.kept = [row for row in reading.rows() if row is not None]
    if not reading.kept:
        raise InputError(f"{path} has no usable row ({reading.report}). Expected at least one.")

    task = columns.task or known.task
    given = columns.label_names or known.labels
    names = tuple(given)
    if isinstance(given, Mapping):
        names = tuple(dict.fromkeys(given.values()))
        if set(names) <= set(known.labels):
            names = known.labels  # in their usual order
    if task is None and not names and reading.names.get("label", "").lower() in SCORE:
        task = "regression"
    labels, names, task = _resolve_labels(reading, names, task, known.name not in OWN)
    reading.report.kept = len(reading.kept)
    groups = [row.group for row in reading.kept] if reading.has_groups(task) else None
    data = PairDataset(
        [row.sentence1 for row in reading.kept],
        [row.sentence2 for row in reading.kept],
        labels,
        label_names=names or None,
        task=task,
        groups=groups,
        ids=[row.id for row in reading.kept] if "id" in reading.names else None,
        name=name or (known.name if known.name not in OWN else path.name.split(".")[0]),
        split=split,
        report=reading.report,
        columns={
            key: [row.further[key] for row in reading.kept] for key in reading.kept[0].further
        },
    )
    return _answerable(data) if split in known.clean else data


def _resolve_labels(
    reading: Reading, names: tuple[str, ...], task: Task | None, official: bool
) -> tuple[list[float] | None, tuple[str, ...], Task | None]:
    """Turn the labels of the kept rows into numbers; drop rows without a usable label."""
    values = {row.label for row in reading.kept if row.label is not None}
    missing = {"-"} | ({""} if official else set())
    if official or "0" in values:
        missing.add("-1")  # the usual mark for "unlabeled" next to classes that count from 0
    if isinstance(reading.columns.label_names, Mapping):
        missing -= reading.columns.label_names.keys()
    if values <= missing | {""} or (task != "regression" and values == {"-1"}):
        return None, names, task
    if task != "regression" and not names:
        names = _found_names(values - missing - {""})
        if task is None and len(names) > _MANY_LABELS:
            option = wording("label=…, or pass task='classification'", "--columns")
            log.warning(
                f"{reading.path}: the label column has {len(names):,} different whole numbers, which "
                f"are read as scores. If it is the wrong column, name another with {option}."
            )
            names = ()
        if not names:
            task = "regression"
    index = {name.lower(): i for i, name in enumerate(names)}
    if isinstance(meant := reading.columns.label_names, Mapping):
        index |= {label.lower(): names.index(name) for label, name in meant.items()}
    else:
        for i in range(len(names)):
            index.setdefault(str(i), i)
    label: float | None
    kept, labels = [], []
    for row in reading.kept:
        where, value = row.where, row.label
        if value in missing and task != "regression":
            reading.report.skip("no gold label")
            continue
        if value is None or value == "":
            reading.bad(where, "empty label", "the label is empty. Fill it in, remove the row")
            continue
        if task == "regression":
            label, wrong = _finite(value), f"the score {value!r} is not a number. Correct it"
        else:
            lower = value.lower()
            label = index.get(_ALIASES.get(lower, lower), index.get(lower))
            how = wording("pass label_names=…", f"say what it means with --labels '{value}=NAME'")
            wrong = f"the label {value!r} is not one of {', '.join(names)}. Correct it, {how}"
        if label is None:
            reading.bad(where, "unknown label", wrong)
            continue
        labels.append(label)
        kept.append(row)
    reading.kept = kept
    if not kept:
        raise InputError(
            f"{reading.path} has no usable label ({reading.report}). Correct the labels, or name "
            "another column."
        )
    return labels, names, task


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _found_names(values: set[str]) -> tuple[str, ...]:
    """Return label names in index order from the values of a column; none if they are scores."""
    lower = {_ALIASES.get(value.lower(), value.lower()) for value in values}
    for usual in (NLI, TWO_WAY):
        if lower <= set(usual):
            return usual
    try:
        numbers = {value: float(value) for value in values}
    except ValueError:
        if len(values) > _MANY_LABELS:
            other = wording(
                "Name another with label=…, or pass label_names=…",
                "Name another with --columns FIRST,SECOND,LABEL, or all labels with --labels",
            )
            raise InputError(
                f"The label column has {len(values)} different texts, such as {min(values)!r}, which "
                f"is too many for classes. {other}."
            ) from None
        names = sorted(values)
        if len(names) == 2 and _denies(names[1], names[0]):
            names.reverse()
        return tuple(names)
    if all(number.is_integer() for number in numbers.values()):
        return tuple(sorted(values, key=lambda value: numbers[value]))
    return ()


def _denies(one: str, other: str) -> bool:
    """Return whether `one` denies `other`; such a label comes first, so that the other is positive."""
    one, other = (re.sub(r"[\W_]+", "", name.lower()) for name in (one, other))
    return one in _NEGATIVE or bool(
        re.fullmatch(f"(not?|non|un|in|ir|dis|mis)(an?)?{re.escape(other)}", one)
    )


def _answerable(data: PairDataset) -> PairDataset:
    """Keep only the questions with a right and a wrong candidate."""
    assert data.groups is not None and data.labels is not None
    codes = numbered(data.groups)
    right = np.bincount(codes, weights=data.labels)
    mixed = (right > 0) & (right < np.bincount(codes))
    kept = data.select(np.flatnonzero(mixed[codes]))
    if kept.report and len(kept) < len(data):
        kept.report.skipped["question without right and wrong answer"] = len(data) - len(kept)
        kept.report.kept = len(kept)
    return kept
