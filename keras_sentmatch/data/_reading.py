"""The rows of a file as pairs: which columns hold them, which rows are bad, and labels as numbers."""

import logging
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

from keras_sentmatch.data import formats
from keras_sentmatch.data.dataset import LARGEST, ReadReport, Task, as_text, weight_of
from keras_sentmatch.data.files import HEADER, BadRow, TextFile
from keras_sentmatch.errors import InputError, argument, wording
from keras_sentmatch.metrics.scores import positive_class
from keras_sentmatch.text.tags import tags_of_parse

OnError = Literal["raise", "skip"]
_SURROGATE = re.compile("[\ud800-\udfff]")
_LABELS = formats.LABEL + formats.SCORE
_USUAL = {"label": _LABELS, "group": formats.GROUP, "id": formats.ID, "weight": formats.WEIGHT}
_ALIASES = {"entails": "entailment"}
_ALIASES |= dict.fromkeys(("contradicts", "contradictory"), "contradiction")
_NEGATIVE = frozenset(
    "no n f false wrong negative neg none different irrelevant mismatch other".split()
)
# What programs write if a label is missing, and what may also be a label.
_NOTHING = frozenset("nan -nan null <na> n/a #n/a #na".split())
_PERHAPS_NOTHING = frozenset("none na".split())
_NO_ID = _NOTHING | {"none"}
# Names of two labels; the same label under two of its names is not read as two labels.
_TWO_LABELS = frozenset("1 true t yes y".split()), frozenset("0 false f no n".split())
_NO_NUMBER = frozenset("none na inf -inf infinity -infinity".split())  # in a column of numbers
_INVISIBLE = (0xAD, *range(0x200B, 0x2010), 0x2060, 0xFEFF)
_ALIKE: dict[int, str | None] = dict.fromkeys(_INVISIBLE)
_ALIKE |= dict.fromkeys((*range(0x2010, 0x2016), 0x2212), "-")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_COMMA = re.compile(r"[+-]?\d+([.,]\d+)?\s?%?")  # a number as some spreadsheets write it
_BETWEEN_WORDS = re.compile(r"(?<=[^\W\d_])[-_ ](?=[^\W\d_])")
_MANY_LABELS = 100  # more values are not classes, unless the caller says so
log = logging.getLogger(__name__)


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

    def __post_init__(self) -> None:
        names: Any = self.label_names
        if isinstance(names, str):
            how = "Give a list of names, or a mapping from the labels in the file to names."
            raise InputError(f"label_names={names!r} is one string. {how}")
        if isinstance(names, Mapping):
            names = {str(label): str(name) for label, name in names.items()}
        elif names is not None:
            names = [str(name) for name in names]
        object.__setattr__(self, "label_names", names)


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
        known: formats.Format,
        layout: formats.Layout,
        columns: Columns,
        on_error: OnError,
        weighted: bool = False,
    ):
        if on_error not in get_args(OnError):
            raise InputError(f'on_error={on_error!r} does not exist. Use "raise" or "skip".')
        self.file, self.path, self.known, self.layout = file, file.path, known, layout
        self.columns, self.on_error = columns, on_error
        self.usual = {role: _USUAL[role] for role in _USUAL if weighted or role != "weight"}
        first = columns.sentence1
        is_number = isinstance(first, int) or str(first).isdigit()
        self.numbered = file.numbered = is_number and known.name != "frame"
        self.report = ReadReport(str(self.path))
        self.names: dict[str, str] = {}  # the columns by role
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
            if isinstance(row, dict) and not self.names:
                self.header = self.header or list(row)
                self._find_columns(self.header, row)
            found = row if isinstance(row, BadRow) else self._usable(where, row)
            if isinstance(found, BadRow):
                self.bad(where, found)
                yield None
            else:
                yield found
        if self.file.delimiter and not self.file.is_table:
            how = wording("delimiter", "--delimiter")
            raise InputError(f"{self.path} is not a table of separated values. Leave out {how}.")
        if not self.report.rows:
            raise InputError(f"{self.path} has no rows. Expected at least one pair.")

    def has_groups(self) -> bool:
        """Return whether there is a column of groups that the task uses."""
        task = self.columns.task or self.known.task
        scored = task is None and self.names.get("label", "").lower() in formats.SCORE
        return "group" in self.names and task in (None, "ranking") and not scored

    def bad(self, where: str, row: BadRow) -> None:
        if self.on_error == "raise" and row.reason not in self.layout.skips:
            how = wording('pass on_error="skip"', "leave bad rows out with --on-error skip")
            raise InputError(f"{self.path}{where}: {row.message}, or {how}.")
        self.report.skip(row.reason)

    def _find_columns(self, found: Sequence[str], first: Mapping[str, Any]) -> None:
        """Set `names`: the columns of sentence1, sentence2, and if they exist, label, group and id."""
        spelled: defaultdict[str, list[str]] = defaultdict(list)
        for name in found:
            spelled[name.lower()].append(name)

        def only(name: str) -> str:
            if len(spelled[name]) > 1:
                same = " and ".join(spelled[name])
                raise InputError(f"{self.path} has {same}, which differ in case only. Rename one.")
            return spelled[name][0]

        guess = _guess(found, first)
        for role in ("sentence1", "sentence2", *self.usual.keys() - {"id"}):
            given = getattr(self.columns, role)
            asked = getattr(self.layout, role, None) if given is None else str(given)
            if asked and (asked in found or asked.lower() in spelled):
                self.names[role] = asked if asked in found else only(asked.lower())
            elif given is not None or (asked and role.startswith("sentence")):
                hint = "" if self.numbered else f" Perhaps {guess}."
                wrong = f"{self.path} has no column {asked!r}"
                raise InputError(f"{wrong}. Its columns are {', '.join(found)}.{hint}")
        for one, two in formats.SENTENCES:
            if one in spelled and two in spelled and "sentence1" not in self.names:
                self.names |= {"sentence1": only(one), "sentence2": only(two)}
        for role, usual in self.usual.items():
            known = next((name for name in usual if name in spelled), None)
            if role not in self.names and known and only(known) not in self.names.values():
                self.names[role] = only(known)
        for side in ("1", "2"):
            if f"sentence{side}_parse" in spelled:
                self.names[f"parse_{side}"] = only(f"sentence{side}_parse")
        if len({self.names.get("sentence1"), self.names.get("sentence2"), None}) < 3:
            quoted = any(name[:1] == name[-1:] == '"' for name in found)
            how = wording('format="tsv-quoted"', "--format tsv-quoted")
            separator = f" Or name the separator of fields with {argument('delimiter')}."
            raise InputError(
                f"{self.path} has the columns {', '.join(found)}, of which no two are known as columns "
                f"of sentences. Name them, such as {guess} (numbers from 0 if the file has no header)."
                f"{separator if len(found) == 1 else ''}"
                f"{f' Or read quotes as in CSV with {how}.' if quoted else ''}"
            )
        label = self.names.get("label")
        self.report.guess = "" if label else guess
        if label and [*self.names.values()].count(label) > 1:
            raise InputError(f"{self.path}: the column {label!r} is named twice. Name another.")

    def _usable(self, where: str, row: dict[str, Any]) -> KeptRow | BadRow:
        names, sentences = self.names, []
        for role in ("sentence1", "sentence2"):
            value = row.get(names[role])
            wrong = f"the column {names[role]!r} holds "
            if not isinstance(value, str):
                reason = "no text" if names[role] in row else "missing column"
                return BadRow(reason, f"{wrong}{value!r}. Expected text. Correct the row")
            if not value.isascii() and _SURROGATE.search(value):
                wrong += "half a character (\\ud800 to \\udfff). Correct the escapes"
                return BadRow("half a character", wrong)
            sentences.append(value.strip())
        if sentences == [names["sentence1"], names["sentence2"]] and len(sentences[0]) > 1:
            if all(as_text(value) == name for name, value in row.items()):
                wrong = "the row repeats the names of the columns, as if files had been joined"
                return BadRow("header", f"{wrong}. Remove it")
        cells = {role: row.get(names.get(role, "")) for role in ("label", "group", "id")}
        for role, value in cells.items():
            if hasattr(value, "__len__") and not isinstance(value, str):
                wrong = f"the column {names[role]!r} holds {value!r:.60}"
                return BadRow("no text", f"{wrong}. Expected text or a number. Correct the row")
        label, group, id = map(as_text, cells.values())
        if group or id:
            group, id = ("" if text.casefold() in _NO_ID else text for text in (group, id))
        if late := row.keys() - set(self.header):  # such a column would be ignored silently
            usual = {name for role in self.usual.keys() - names for name in self.usual[role]}
            if name := next((name for name in sorted(late) if name.lower() in usual), None):
                wrong = f"the column {name!r} is missing in the first row"
                return BadRow("late column", f"{wrong}. Give all rows the same columns")
        if self.has_groups() and not group:
            text = as_text(cells["group"])
            found = f"holds {text!r}" if text else "is empty"
            wrong = f"the column {names['group']!r} {found}, but says to which question the pair"
            return BadRow("no question", f"{wrong} belongs. Fill it in, remove the row")
        further: dict[str, Any] = {name: as_text(row.get(name)) for name in self.layout.keep}
        if {"parse_1", "parse_2"} <= names.keys():
            for side in "12":
                parse = as_text(row.get(names[f"parse_{side}"]))
                further[f"tags_{side}"] = tags_of_parse(parse)
        if "weight" in names:
            further["weight"] = weight_of(given := row.get(names["weight"]))
            if further["weight"] is None:
                how = wording("pass weight=False", "rename the column if it has no weights")
                wrong = f"the weight {given!r} is not a number of at least 0. Correct it, {how}"
                return BadRow("bad weight", wrong)
        one, two = sentences
        return KeptRow(where, one, two, self.layout.label_of(label), group, id, further, row)


def _guess(found: Sequence[str], first: Mapping[str, Any]) -> str:
    """Say how to name the columns: the two with the longest texts in the first row, and a label."""
    lower = {name: name.lower() for name in found}
    others = [name for name in found if lower[name] not in sum(_USUAL.values(), ())]
    usual = next((pair for pair in formats.SENTENCES if {*pair} <= {*lower.values()}), ())
    longest = sorted(others, key=lambda x: (lower[x] not in usual, -len(as_text(first.get(x)))))[:2]
    if len(longest) < 2:
        return wording("sentence1=… and sentence2=…", "--columns FIRST,SECOND,LABEL")
    chosen = [name for name in others if name in longest]
    labels = [name for name in found if lower[name] in _LABELS]
    chosen += (labels or [name for name in reversed(others) if name not in chosen])[:1]
    named = zip(("sentence1", "sentence2", "label"), chosen)
    python = ", ".join(f"{role}={name!r}" for role, name in named)
    return wording(python, f"--columns {','.join(chosen)}")


@lru_cache(1 << 14)
def folded(label: str) -> str:
    """Return what all spellings of a label have in common: `Yes` and `yes`, `1`, `01` and `1e0`.

    A space, a hyphen or an underscore between two words makes no difference either.
    """
    label = " ".join(unicodedata.normalize("NFKC", label).translate(_ALIKE).casefold().split())
    if _NUMBER.fullmatch(label) and (number := float(label)).is_integer() and abs(number) < 1e15:
        return str(int(number))
    label = _BETWEEN_WORDS.sub("_", label)
    return _ALIASES.get(label, label)


def numbered_labels(
    reading: Reading, rows: list[KeptRow], names: tuple[str, ...], task: Task | None, official: bool
) -> tuple[list[KeptRow], list[float] | None, tuple[str, ...], Task | None]:
    """Return the rows with a usable label, their labels as numbers, the label names and the task."""
    counts = Counter(row.label for row in rows)
    named = reading.columns.label_names or ()
    missing = (reading.columns.no_label | ({"", "-1"} if official else set())) - set(named)
    if not official and counts.keys() - {""} == {"+", "-"}:
        missing = missing - {"-"}
    unlabeled = missing | {""}
    if counts.keys() <= unlabeled:
        return rows, None, names, task
    if names and task != "regression" and counts.keys() == {"-1"} - {*names, *named}:
        log.warning(f"{reading.path}: all labels are -1, so the pairs are read without labels.")
        return rows, None, names, task
    if task != "regression" and not names:
        names = _found_names(reading, {value: counts[value] for value in counts.keys() - unlabeled})
        if not names and task is not None:
            wrong = f"has fractions in its label column, but {task} needs classes"
            raise InputError(f"{reading.path} {wrong}. Name another column, or leave out task=….")
        task = task if names else "regression"
    index = label_index(names, reading.columns.label_names)
    kept, labels = [], list[float]()
    for row in rows:
        value, label = row.label, None
        if value in missing and task != "regression":
            reading.report.skip(f"no gold label ({value!r})")
            continue
        reason = "unknown label" if value else "empty label"
        if not value:
            wrong = "the label is empty. Fill it in, remove the row"
        elif task == "regression":
            label, wrong = _finite(value), f"the score {value!r} is not a number. Correct it"
            label = None if label is None or abs(label) > LARGEST else label
        else:
            label = index.get(folded(value))
            how = wording("pass label_names=…", f"say what it means with --labels '{value}=NAME'")
            wrong = f"the label {value!r} is not one of {', '.join(names)}. Correct it, {how}"
        if label is None:
            reading.bad(row.where, BadRow(reason, wrong))
        else:
            labels.append(label)
            kept.append(row)
    if not kept:
        wrong = f"{reading.path} has no usable label ({reading.report})"
        raise InputError(f"{wrong}. Correct the labels, or name another column.")
    return kept, labels, names, task


def label_index(
    names: Sequence[str], given: Sequence[str] | Mapping[str, str] | None
) -> dict[str, int]:
    """Return the number of each label by its folded spelling."""
    meant = [*given.items()] if isinstance(given, Mapping) else []
    index: dict[str, int] = {}
    for label, name in [*meant, *zip(names, names)]:
        number = names.index(name)
        if index.setdefault(folded(str(label)), number) != number:
            why = f"{label!r} is the spelling of two labels, because case does not count"
            raise InputError(f"{why}. Give each label another name.")
    if not meant and not any(_finite(name) is not None for name in names):
        index |= {str(i): i for i in range(len(names))}
    return index


def _found_names(reading: Reading, counts: Mapping[str, int]) -> tuple[str, ...]:
    """Return label names in index order from the values of a column; none if they are scores."""
    spellings: defaultdict[str, list[str]] = defaultdict(list)
    for value in sorted(counts):
        spellings[folded(value)].append(value)
    known = spellings.keys() - _NOTHING or spellings.keys()
    if known - _PERHAPS_NOTHING <= {"true", "false"}:
        known = known - _PERHAPS_NOTHING or known
    numbers = [_finite(key) for key in known - _NO_NUMBER]
    if None not in numbers:
        known = known - _NO_NUMBER or known
    else:
        numbers = []
    if not all(number is None or number.is_integer() for number in map(_finite, known)):
        return ()
    _refuse_odd_names(reading, known)
    many = len(known) > _MANY_LABELS
    if numbers:
        if many and reading.columns.task is None:
            option = wording("label=…, or pass task='classification'", "--columns")
            log.warning(
                f"{reading.path}: the label column has {len(known):,} different whole numbers, which "
                f"are read as scores. If it is the wrong column, name another with {option}."
            )
            return ()
        names = sorted(known, key=float)
    else:
        # The most frequent spelling gives the name.
        names = sorted(max(spellings[k], key=lambda x: (counts[x], x)) for k in known)
        if many:
            other = wording(
                "label=…, or pass label_names=…", "--columns, or all labels with --labels"
            )
            wrong = f"{len(names)} different texts, such as {names[0]!r}, which is too many"
            raise InputError(f"The label column has {wrong}. Name another with {other}.")
        if names == ["+", "-"]:
            names.reverse()
        elif len(names) == 2 and (_denies(names[1], names[0]) or positive_class(names) == 0):
            names.reverse()
    for key in sorted(known):
        if len(spellings[key]) > 1:
            same = ", ".join(map(repr, spellings[key]))
            log.warning(f"{reading.path}: {same} are read as one label.")
    usual = (labels for labels in (formats.NLI, formats.TWO_WAY) if known <= {*labels})
    return next(usual, tuple(names))


def _refuse_odd_names(reading: Reading, known: Set[str]) -> None:
    """Refuse numbers that would become names, and two names of one label that would become two."""
    how = wording("label_names=…", "--labels THEIRS=OURS,…")
    odd = sorted(label for label in known if _finite(label) is None)
    if reading.columns.task is None and odd and all(map(_COMMA.fullmatch, known)):
        wrong = f"the label column has {odd[0]!r}, which looks like a number"
        raise InputError(
            f"{reading.path}: {wrong}. Write numbers as 0.5, or name such labels with {how}."
        )
    for same in _TWO_LABELS:
        if known <= frozenset.union(*_TWO_LABELS) and len(same & known) > 1:
            wrong = f"the labels {', '.join(sorted(known))} have several names for one label"
            raise InputError(f"{reading.path}: {wrong}. Give each a name with {how}.")
    perhaps = _PERHAPS_NOTHING & known
    if len(odd) == len(known) - 1 > 1:  # texts and one number
        perhaps |= known & {"-1"}
    if perhaps:
        said = f"{min(perhaps)!r} is read as a label, not as a missing one."
        log.warning(f"{reading.path}: {said}")


def _finite(text: str) -> float | None:
    try:
        number = float("" if "_" in text else text)  # Python reads 1_0 as 10
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _denies(one: str, other: str) -> bool:
    """Return whether `one` denies `other`; such a label comes first, so that the other is positive."""
    one, other = (re.sub(r"[\W_]+", "", name.lower()) for name in (one, other))
    pattern = f"(not?|non|un|in|ir|dis|mis)(an?)?{re.escape(other)}"
    return one in _NEGATIVE or bool(re.fullmatch(pattern, one))


def without_header(reading: Reading, rows: list[KeptRow], names: Sequence[str]) -> list[KeptRow]:
    """Leave out a first row of column names, if the columns are numbered.

    It is known by its sentences ("premise" and "hypothesis"), or by a label that no other row has. A row
    whose label is declared, usual, a number or missing is a pair.
    """
    if not reading.numbered or not rows or rows[0].where != reading.first:
        return rows
    first, others = rows[0], Counter(folded(row.label) for row in rows[1:])
    pair = first.sentence1.lower(), first.sentence2.lower()
    header = (
        bool({pair, pair[::-1]} & {*formats.SENTENCES}) and len(pair[0]) > 1
    )  # "a" and "b" may be sentences
    if "label" in reading.names:
        declared = (*names, *(reading.columns.label_names or ()), *reading.columns.no_label, "")
        usual = (*formats.NLI, *formats.TWO_WAY)
        known = others.keys() | {folded(str(label)) for label in (*declared, *usual)}
        if folded(first.label) in known or _finite(first.label) is not None:
            return rows
        scores = all(_finite(label) is not None for label in others)
        clear = scores or names or others.keys() <= {*usual}
        clear = clear or (len(others) > 1 and min(others.values()) > 1)
        header |= bool(others and clear)
        if others and not header:
            said = f"only row 1 has the label {first.label!r}. If it is a header,"
            log.warning(f"{reading.path}: {said} name the columns instead of numbering them.")
    if header:
        said = f"row 1 ({first.sentence1}, {first.sentence2}) is read as a header."
        log.warning(f"{reading.path}: {said} Name the columns instead of numbering them.")
        reading.report.skip("header")
        reading.report.kept = max(0, reading.report.kept - 1)
    return rows[header:]
