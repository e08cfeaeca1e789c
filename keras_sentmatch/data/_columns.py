"""The rows of a file as pairs: which columns hold them, and which rows are bad."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from keras_sentmatch.data.dataset import ReadReport, Task, as_text, weight_of
from keras_sentmatch.data.files import HEADER, BadRow, TextFile
from keras_sentmatch.data.formats import (
    GROUP,
    ID,
    LABEL,
    SCORE,
    SENTENCES,
    WEIGHT,
    Format,
    Layout,
)
from keras_sentmatch.errors import InputError, argument, wording
from keras_sentmatch.text.tags import tags_of_parse

OnError = Literal["raise", "skip"]
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
    no_label: frozenset[str] = frozenset("-")  # labels that mean "no gold label"

    def numbered(self) -> bool:
        return isinstance(self.sentence1, int) or str(self.sentence1).isdigit()


class KeptRow(NamedTuple):
    """A usable row."""

    where: str
    sentence1: str
    sentence2: str
    label: str
    group: str
    id: str
    further: dict[str, Any]  # the columns to keep
    given: dict[str, Any]  # the row as it is in the file


class Reading:
    """A file that is being read: its columns, and how bad rows are handled."""

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
        self.numbered = file.numbered = columns.numbered() and known.name != "frame"
        self.report = ReadReport(str(self.path))
        self.names: dict[str, str] = {}
        self.first = ""  # where the first row is
        self.header: list[str] = []  # the columns of the first row

    def rows(self) -> Iterator[KeptRow | None]:
        """Yield each usable row, and `None` for a bad one."""
        for where, row in self.layout.rows(self.file):
            if where == HEADER and isinstance(row, dict):
                self.header = list(row)
                continue
            self.report.rows += 1
            self.first = self.first or where
            if isinstance(row, BadRow):
                self.bad(where, row.reason, row.message)
                yield None
                continue
            if not self.names:
                self.header = self.header or list(row)
                self._find_columns(self.header, row)
            late = row.keys() - set(self.header)
            if late and (name := self._unused(late)):
                wrong = f"the column {name!r} is missing in the first row"
                self.bad(where, "late column", f"{wrong}. Give all rows the same columns")
                yield None
                continue
            yield self._usable(where, row)
        if self.file.delimiter and not self.file.is_table:
            how = wording("delimiter", "--delimiter")
            raise InputError(f"{self.path} is not a table of separated values. Leave out {how}.")
        if not self.report.rows:
            raise InputError(f"{self.path} has no rows. Expected at least one pair.")

    def has_groups(self) -> bool:
        """Return whether there is a column of groups that the task uses."""
        task = self.columns.task or self.known.task
        scored = task is None and self.names.get("label", "").lower() in SCORE
        return "group" in self.names and task in (None, "ranking") and not scored

    def bad(self, where: str, reason: str, message: str) -> None:
        if self.on_error == "raise" and reason not in self.layout.skips:
            skip = wording('pass on_error="skip"', "leave bad rows out with --on-error skip")
            raise InputError(f"{self.path}{where}: {message}, or {skip}.")
        self.report.skip(reason)

    def _unused(self, names: set[str]) -> str | None:
        """Return a name that the first row lacks, so that the column would be ignored silently."""
        roles = {"label": LABEL + SCORE, "group": GROUP, "weight": WEIGHT if self.weighted else ()}
        usual = {name for role in roles.keys() - self.names.keys() for name in roles[role]}
        return next((name for name in sorted(names) if name.lower() in usual), None)

    def _find_columns(self, found: Sequence[str], first: Mapping[str, Any]) -> None:
        """Set `names`: the columns of sentence1, sentence2, and if they exist, label, group and id."""
        spelled: defaultdict[str, list[str]] = defaultdict(list)
        for name in found:
            spelled[name.lower()].append(name)

        def only(name: str) -> str:
            if len(spelled[name]) > 1:
                raise InputError(
                    f"{self.path} has the columns {' and '.join(spelled[name])}, which differ in case "
                    "only. Rename one of them."
                )
            return spelled[name][0]

        guess = _guess(found, first)
        for role in ("sentence1", "sentence2", "label", "group", *["weight"] * self.weighted):
            given = getattr(self.columns, role)
            asked = getattr(self.layout, role, None) if given is None else str(given)
            if asked is None:
                continue
            if asked in found or asked.lower() in spelled:
                self.names[role] = asked if asked in found else only(asked.lower())
            elif given is not None or role.startswith("sentence"):
                hint = "" if self.numbered else f" Perhaps {guess}."
                raise InputError(
                    f"{self.path} has no column {asked!r}. Its columns are {', '.join(found)}.{hint}"
                )
        for one, two in SENTENCES:
            if one in spelled and two in spelled and "sentence1" not in self.names:
                self.names |= {"sentence1": only(one), "sentence2": only(two)}
        usual_names = [("label", LABEL + SCORE), ("group", GROUP), ("id", ID)]
        for role, usual in [*usual_names, *[("weight", WEIGHT)] * self.weighted]:
            known = next((name for name in usual if name in spelled), None)
            if role not in self.names and known and only(known) not in self.names.values():
                self.names[role] = only(known)
        for side in ("1", "2"):
            if f"sentence{side}_parse" in spelled:
                self.names[f"parse_{side}"] = only(f"sentence{side}_parse")
        if len({self.names.get("sentence1"), self.names.get("sentence2"), None}) < 3:
            separated = ""
            if len(found) == 1:
                separated = f" Or name the separator of fields with {argument('delimiter')}."
            raise InputError(
                f"{self.path} has the columns {', '.join(found)}, of which no two are known as columns "
                f"of sentences. Name them, such as {guess} (numbers from 0 if the file has no header)."
                f"{separated}"
            )
        if "label" not in self.names:
            self.report.guess = guess
        elif list(self.names.values()).count(label := self.names["label"]) > 1:
            raise InputError(
                f"The column {label!r} of {self.path} is named twice. Name another column of labels."
            )

    def _usable(self, where: str, row: dict[str, Any]) -> KeptRow | None:
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
        values = {role: row.get(self.names.get(role, "")) for role in _CELLS}
        for role, value in values.items():
            if hasattr(value, "__len__") and not isinstance(value, str):
                wrong = f"the column {self.names[role]!r} holds {value!r:.60}"
                self.bad(where, "no text", f"{wrong}. Expected text or a number. Correct the row")
                return None
        cells = {role: as_text(value) for role, value in values.items()}
        if self.has_groups() and not cells["group"]:
            wrong = (
                f"the column {self.names['group']!r} is empty, but says to which question the pair"
            )
            self.bad(where, "no question", f"{wrong} belongs. Fill it in, remove the row")
            return None
        further: dict[str, Any] = {name: as_text(row.get(name)) for name in self.layout.keep}
        if {"parse_1", "parse_2"} <= self.names.keys():
            for side in "12":
                further[f"tags_{side}"] = tags_of_parse(
                    as_text(row.get(self.names[f"parse_{side}"]))
                )
        if "weight" in self.names:
            further["weight"] = weight_of(given := row.get(self.names["weight"]))
            if further["weight"] is None:
                how = wording("pass weight=False", "rename the column if it has no weights")
                wrong = f"the weight {given!r} is not a number of at least 0. Correct it, {how}"
                self.bad(where, "bad weight", wrong)
                return None
        label = self.layout.label_of(cells["label"])
        return KeptRow(where, one, two, label, cells["group"], cells["id"], further, row)


_CELLS = ("label", "group", "id")


def _guess(found: Sequence[str], first: Mapping[str, Any]) -> str:
    """Say how to name the columns: the two with the longest texts in the first row, and a label."""
    known = [name for name in found if name.lower() in LABEL + SCORE]
    usual = next((pair for pair in SENTENCES if {*pair} <= {name.lower() for name in found}), ())
    others = [name for name in found if name.lower() not in LABEL + SCORE + GROUP + ID + WEIGHT]
    by_length = sorted(
        others, key=lambda name: (name.lower() not in usual, -len(as_text(first.get(name))))
    )
    chosen = [name for name in others if name in by_length[:2]]
    if len(chosen) < 2:
        return wording("sentence1=… and sentence2=…", "--columns FIRST,SECOND,LABEL")
    label = known[:1] or [name for name in reversed(others) if name not in chosen][:1]
    named = dict(zip(("sentence1", "sentence2", "label"), chosen + label))
    python = ", ".join(f"{role}={name!r}" for role, name in named.items())
    return wording(python, f"--columns {','.join(named.values())}")
