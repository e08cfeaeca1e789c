"""The labels of a file as numbers: spellings, names and their order, rows without a label."""

import logging
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache

from keras_sentmatch.data._columns import KeptRow, Reading
from keras_sentmatch.data.dataset import Task
from keras_sentmatch.data.formats import NLI, SENTENCES, TWO_WAY
from keras_sentmatch.errors import InputError, wording
from keras_sentmatch.metrics.scores import positive_class

_ALIASES = {"entails": "entailment"}
_ALIASES |= dict.fromkeys(("contradicts", "contradictory"), "contradiction")
_NEGATIVE = frozenset("no n f false wrong negative neg none different irrelevant mismatch".split())
_NOTHING = frozenset("nan null <na>".split())  # what programs write if a label is missing
_NO_NUMBER = frozenset("none na n/a inf -inf infinity -infinity".split())  # in a column of numbers
_INVISIBLE = (0xAD, *range(0x200B, 0x2010), 0x2060, 0xFEFF)
_ALIKE: dict[int, str | None] = dict.fromkeys(_INVISIBLE)
_ALIKE |= dict.fromkeys((*range(0x2010, 0x2016), 0x2212), "-")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_MANY_LABELS = 100  # more values are not classes, unless the caller says so
log = logging.getLogger(__name__)


@lru_cache(1 << 14)
def folded(label: str) -> str:
    """Return what all spellings of a label have in common: `Yes` and `yes`, `1`, `01` and `1e0`."""
    label = " ".join(unicodedata.normalize("NFKC", label).translate(_ALIKE).casefold().split())
    if _NUMBER.fullmatch(label) and (number := float(label)).is_integer() and abs(number) < 1e15:
        return str(int(number))
    return _ALIASES.get(label, label)


def numbered_labels(
    reading: Reading, rows: list[KeptRow], names: tuple[str, ...], task: Task | None, official: bool
) -> tuple[list[KeptRow], list[float] | None, tuple[str, ...], Task | None]:
    """Return the rows with a usable label, their labels as numbers, the label names and the task."""
    counts = Counter(row.label for row in rows)
    named = reading.columns.label_names or ()
    missing = (reading.columns.no_label | ({"", "-1"} if official else set())) - set(named)
    unlabeled = missing | {""}
    if counts.keys() <= unlabeled:
        return rows, None, names, task
    if names and task != "regression" and counts.keys() == {"-1"} - {*names, *named}:
        log.warning(f"{reading.path}: all labels are -1, so the pairs are read without labels.")
        return rows, None, names, task
    if task != "regression" and not names:
        names = _found_names(reading, {value: counts[value] for value in counts.keys() - unlabeled})
        if not names and task is not None:
            raise InputError(
                f"{reading.path} has fractions in its label column, but {task} needs classes. Name "
                "another column, or leave out task=…."
            )
        task = task if names else "regression"
    index = label_index(names, reading.columns.label_names)
    label: float | None
    kept, labels = [], []
    for row in rows:
        value = row.label
        if value in missing and task != "regression":
            reading.report.skip(f"no gold label ({value!r})")
            continue
        if not value:
            reading.bad(row.where, "empty label", "the label is empty. Fill it in, remove the row")
            continue
        if task == "regression":
            label, wrong = _finite(value), f"the score {value!r} is not a number. Correct it"
        else:
            label = index.get(folded(value))
            how = wording("pass label_names=…", f"say what it means with --labels '{value}=NAME'")
            wrong = f"the label {value!r} is not one of {', '.join(names)}. Correct it, {how}"
        if label is None:
            reading.bad(row.where, "unknown label", wrong)
            continue
        labels.append(label)
        kept.append(row)
    if not kept:
        raise InputError(
            f"{reading.path} has no usable label ({reading.report}). Correct the labels, or name "
            "another column."
        )
    return kept, labels, names, task


def label_index(
    names: Sequence[str], given: Sequence[str] | Mapping[str, str] | None
) -> dict[str, int]:
    """Return the number of each label by its folded spelling."""
    meant = list(given.items()) if isinstance(given, Mapping) else [(name, name) for name in names]
    index: dict[str, int] = {}
    for label, name in [*meant, *((name, name) for name in names)]:
        number = names.index(name)
        if index.setdefault(folded(str(label)), number) != number:
            raise InputError(
                f"{label!r} is the spelling of two labels, because case and the form of numbers do not "
                "count. Give each label another name."
            )
    if not isinstance(given, Mapping) and not any(_finite(name) is not None for name in names):
        index |= {str(i): i for i in range(len(names))}
    return index


def _found_names(reading: Reading, counts: Mapping[str, int]) -> tuple[str, ...]:
    """Return label names in index order from the values of a column; none if they are scores."""
    spellings: defaultdict[str, list[str]] = defaultdict(list)
    for value in sorted(counts):
        spellings[folded(value)].append(value)
    known = spellings.keys() - _NOTHING or spellings.keys()
    numbers_alone = known - _NO_NUMBER
    if all(_finite(key) is not None for key in numbers_alone):
        known = numbers_alone or known
    spellings = defaultdict(list, {key: spellings[key] for key in known})
    counts = {value: counts[value] for some in spellings.values() for value in some}
    # The most frequent spelling gives the name.
    names = [max(some, key=lambda value: (counts[value], value)) for some in spellings.values()]
    numbers = [_finite(key) for key in spellings]
    if not all(number is None or number.is_integer() for number in numbers):
        return ()
    if None not in numbers:
        if reading.columns.task is None and len(names) > _MANY_LABELS:
            option = wording("label=…, or pass task='classification'", "--columns")
            log.warning(
                f"{reading.path}: the label column has {len(names):,} different whole numbers, which "
                f"are read as scores. If it is the wrong column, name another with {option}."
            )
            return ()
        names = sorted(spellings, key=float)
    else:
        if len(names) > _MANY_LABELS:
            other = wording(
                "Name another with label=…, or pass label_names=…",
                "Name another with --columns FIRST,SECOND,LABEL, or all labels with --labels",
            )
            raise InputError(
                f"The label column has {len(names)} different texts, such as {min(names)!r}, which is "
                f"too many for classes. {other}."
            )
        names.sort()
        if len(names) == 2 and (_denies(names[1], names[0]) or positive_class(names) == 0):
            names.reverse()
    for some in spellings.values():
        if len(some) > 1:
            log.warning(f"{reading.path}: {', '.join(map(repr, some))} are read as one label.")
    usual = (labels for labels in (NLI, TWO_WAY) if spellings.keys() <= {*labels})
    return next(usual, tuple(names))


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _denies(one: str, other: str) -> bool:
    """Return whether `one` denies `other`; such a label comes first, so that the other is positive."""
    one, other = (re.sub(r"[\W_]+", "", name.lower()) for name in (one, other))
    return one in _NEGATIVE or bool(
        re.fullmatch(f"(not?|non|un|in|ir|dis|mis)(an?)?{re.escape(other)}", one)
    )


def without_header(reading: Reading, rows: list[KeptRow], names: Sequence[str]) -> list[KeptRow]:
    """Leave out a first row of column names, if the columns are numbered.

    It is known by its sentences ("premise" and "hypothesis"), or by a label that no other row has. A row
    whose label is declared, usual, a number or missing is a pair.
    """
    if not reading.numbered or not rows or rows[0].where != reading.first:
        return rows
    first, others = rows[0], Counter(folded(row.label) for row in rows[1:])
    pair = first.sentence1.lower(), first.sentence2.lower()
    header = pair in SENTENCES and len(pair[0]) > 1  # "a" and "b" may be sentences
    if "label" in reading.names:
        usual = any(others.keys() <= {*labels} for labels in (NLI, TWO_WAY))
        declared = (*names, *(reading.columns.label_names or ()), *reading.columns.no_label, "")
        known = others.keys() | {folded(str(label)) for label in (*declared, *NLI, *TWO_WAY)}
        if folded(first.label) in known or _finite(first.label) is not None:
            return rows
        scores = all(_finite(label) is not None for label in others)
        clear = scores or names or usual or (len(others) > 1 and min(others.values()) > 1)
        header |= bool(others and clear)
        if others and not header:
            log.warning(
                f"{reading.path}: only row 1 has the label {first.label!r}. If it is a header, name the "
                "columns instead of numbering them."
            )
    if header:
        log.warning(
            f"{reading.path}: row 1 ({first.sentence1}, {first.sentence2}) is read as a header. Name "
            "the columns instead of numbering them."
        )
        reading.report.skip("header")
        reading.report.kept = max(0, reading.report.kept - 1)
    return rows[header:]
