"""Sentence pairs in memory: columns of strings, labels with names, and the counts of a reader."""

import copy
import hashlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from keras_sentmatch.errors import InputError, argument
from keras_sentmatch.metrics.scores import positive_class

LARGEST = float(np.finfo("float32").max)
_MOST_CLASSES = 1000  # most classes of integer labels without names
Task = Literal["classification", "ranking", "regression"]


@dataclass
class ReadReport:
    """Numbers of rows that a reader saw, kept and skipped."""

    source: str = ""
    rows: int = 0
    kept: int = 0
    skipped: dict[str, int] = field(default_factory=dict)  # by reason
    guess: str = ""  # how to name the columns of data without a label column

    def skip(self, reason: str) -> None:
        """Count one more row that was left out for `reason`."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def __str__(self) -> str:
        skipped = ", ".join(f"{n} {why}" for why, n in self.skipped.items())
        text = f"{self.source}: {self.kept} of {self.rows} rows"
        return f"{text} (skipped: {skipped})" if skipped else text


def as_text(value: Any) -> str:
    """Return a cell as text: empty if it is missing, and 7.0 as 7."""
    if isinstance(value, str):
        return value.strip()
    try:
        missing = value is None or bool(value != value)
    except TypeError:  # pandas.NA is neither equal nor unequal to anything
        missing = True
    if missing:
        return ""
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if whole else value).strip()


def numbered(values: Sequence[str]) -> np.ndarray:
    """Number values as `np.unique` does, which would give every row the room of the longest string."""
    numbers = {value: number for number, value in enumerate(sorted(set(values)))}
    return np.fromiter((numbers[value] for value in values), int, len(values))


def rows_by_group(groups: Iterable[Hashable]) -> list[np.ndarray]:
    """Return the rows of each group, groups in the order of their first rows."""
    rows: dict[Hashable, list[int]] = {}
    for row, group in enumerate(groups):
        rows.setdefault(group, []).append(row)
    return [np.array(some) for some in rows.values()]


class PairDataset:
    """Sentence pairs as immutable columns; label names travel with the labels.

    Args:
        sentence1: First sentences. An empty string is an input like any other.
        sentence2: Second sentences.
        labels: Class indices, class names (in the order of `label_names`, or sorted; of two, `yes`,
            `match` and the like come second), floats (regression), or `None` for unlabeled pairs.
        label_names: Names in index order. Defaults to `"0"`, `"1"`, … for integer labels.
        task: `"classification"`, `"ranking"` or `"regression"`. Defaults to regression for floats,
            ranking if there are groups, and otherwise classification.
        groups: Group of each pair (for ranking: the question).
        ids: Id of each pair in the file; empty if it is missing.
        name: Name of the data, such as `"sick"`.
        split: `"train"`, `"validation"`, `"test"` or empty.
        report: Counts of the reader.
        columns: Further columns with one value per row. `tags_1` and `tags_2` hold part-of-speech tags,
            `weight` the weight of each pair in training.

    Raises:
        InputError: If columns differ in length, a label has no name, or a weight is not a number of at
            least 0.

    Example:

    >>> PairDataset(["A dog."], ["An animal."], ["yes"], label_names=["no", "yes"]).label_counts()
    {'no': 0, 'yes': 1}
    """

    def __init__(
        self,
        sentence1: Sequence[str],
        sentence2: Sequence[str],
        labels: Any = None,
        *,
        label_names: Sequence[str] | None = None,
        task: Task | None = None,
        groups: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        name: str = "",
        split: str = "",
        report: ReadReport | None = None,
        columns: Mapping[str, Sequence[Any]] | None = None,
    ):
        if isinstance(sentence1, str) or isinstance(sentence2, str):
            raise InputError("sentence1 or sentence2 is a single string. Write sentence1=['…'].")
        for side in (sentence1, sentence2):
            if isinstance(side, set | frozenset | dict):
                kind = type(side).__name__
                raise InputError(f"sentence1 or sentence2 is a {kind}. Expected a list of strings.")
        if task is not None and task not in get_args(Task):
            raise InputError(f"task={task!r} does not exist. Use {', '.join(get_args(Task))}.")
        self.sentence1, self.sentence2 = tuple(sentence1), tuple(sentence2)
        for side in ("sentence1", "sentence2"):
            for row, sentence in enumerate(getattr(self, side)):
                if not isinstance(sentence, str):
                    raise InputError(f"{side}[{row}] is {sentence!r}. Expected a string.")
        self.groups = None if groups is None else tuple(map(as_text, groups))
        if self.groups is not None and "" in self.groups:
            row = self.groups.index("")
            raise InputError(f"groups[{row}] is empty. Expected the id of the pair's question.")
        self.ids = None if ids is None else tuple(map(as_text, ids))
        plain = {k: v.tolist() if hasattr(v, "tolist") else v for k, v in (columns or {}).items()}
        self.columns = {key: tuple(value) for key, value in plain.items()}
        self.labels, self.label_names, self.task = _labels(
            labels, label_names, task, groups is not None
        )
        for row, weight in enumerate(self.columns.get("weight", ())):
            if weight_of(weight) is None:
                wrong = f"columns['weight'][{row}] is {weight!r}"
                raise InputError(f"{wrong}. Expected a number of at least 0.")
        self.name, self.split, self.report = name, split, report
        names = ("sentence1", "sentence2", "labels", "groups", "ids")
        whole = {name: getattr(self, name) for name in names} | self.columns
        lengths = {key: len(value) for key, value in whole.items() if value is not None}
        if len(set(lengths.values())) > 1:
            wrong = f"The columns have the lengths {lengths}"
            raise InputError(f"{wrong}. Give columns of equal length.")

    def __len__(self) -> int:
        return len(self.sentence1)

    def __repr__(self) -> str:
        what = " ".join(part for part in (self.name, self.split) if part)
        names = f", labels {'/'.join(self.label_names)}" if self.label_names else ""
        return f"<PairDataset {what}: {len(self)} pairs, {self.task}{names}>"

    @property
    def num_classes(self) -> int:
        """Number of label names; 0 for regression and for unlabeled pairs without names."""
        return len(self.label_names or ())

    @property
    def tags(self) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
        """The columns `tags_1` and `tags_2`, or None if the data has no part-of-speech tags."""
        if not {"tags_1", "tags_2"} <= self.columns.keys():
            return None
        return self.columns["tags_1"], self.columns["tags_2"]

    @property
    def weights(self) -> np.ndarray | None:
        """Weight of each pair in training from the column `weight`, or None without that column."""
        if "weight" not in self.columns:
            return None
        return np.array([weight_of(weight) for weight in self.columns["weight"]], "float32")

    def select(self, indices: Any, *, split: str | None = None) -> "PairDataset":
        """Return the rows at `indices` as a new dataset.

        Args:
            indices: Row numbers in the new order, or a boolean mask.
            split: Name of the new part. Defaults to the old name.
        """
        rows = np.arange(len(self))[np.asarray(indices, dtype=None if len(indices) else int)]

        def take(column: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(column[i] for i in rows)

        part = copy.copy(self)
        part.sentence1, part.sentence2 = take(self.sentence1), take(self.sentence2)
        part.groups, part.ids = self.groups and take(self.groups), self.ids and take(self.ids)
        if self.labels is not None:
            part.labels = self.labels[rows]
            part.labels.flags.writeable = False
        part.columns = {key: take(value) for key, value in self.columns.items()}
        part.split = self.split if split is None else split
        return part

    def limit(self, n: int, seed: int = 0) -> "PairDataset":
        """Draw about `n` rows with `seed`, in their old order. Classes keep their shares.

        Groups stay whole: together they have at most `n` rows, but at least one group is drawn.
        """
        if n < 1:
            raise InputError(f"{argument('limit', n)} is too small. Ask for at least one row.")
        if n >= len(self):
            return self
        rng = np.random.default_rng(seed)
        if self.groups is not None:
            codes = numbered(self.groups)
            sizes = np.bincount(codes)
            order = rng.permutation(len(sizes))
            count = int(np.searchsorted(np.cumsum(sizes[order]), n, side="right"))
            return self.select(np.isin(codes, order[: max(1, count)]))
        strata = np.zeros(len(self), int)
        if self.labels is not None and self.task != "regression":
            strata = self.labels
        # Rows are ranked at random within their class; the smallest relative ranks keep the shares.
        order = rng.permutation(len(self))
        rank = np.empty(len(self))
        for value in np.unique(strata):
            rows = order[strata[order] == value]
            rank[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
        return self.select(np.sort(order[np.argsort(rank[order], kind="stable")[:n]]))

    def label_counts(self) -> dict[str, int]:
        """Count the rows per label name, in index order; empty for regression and unlabeled pairs."""
        if self.labels is None or self.label_names is None:
            return {}
        counts = np.bincount(self.labels, minlength=len(self.label_names))
        return {name: int(count) for name, count in zip(self.label_names, counts)}

    def to_dict(self) -> dict[str, Any]:
        """Return the arguments of `PairDataset`, but for the report, as lists for JSON."""
        names = ("sentence1", "sentence2", "labels", "label_names", "groups", "ids")
        values = {name: getattr(self, name) for name in names}
        data: dict[str, Any] = {k: v if v is None else list(v) for k, v in values.items()}
        data["labels"] = None if self.labels is None else self.labels.tolist()
        data["columns"] = {key: list(value) for key, value in self.columns.items()}
        return data | {"task": self.task, "name": self.name, "split": self.split}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "PairDataset":
        """Build a dataset from the dict that `to_dict` returned."""
        return cls(**data)

    def fingerprint(self) -> str:
        """Return the SHA-256 of sentences, labels, label names, groups and columns."""
        digest = hashlib.sha256(f"{self.task} {self.label_names}".encode("utf-8", "surrogatepass"))
        for column in (self.sentence1, self.sentence2, self.groups or ()):
            for value in column:
                raw = value.encode("utf-8", "surrogatepass")
                digest.update(len(raw).to_bytes(8, "little") + raw)
        if self.labels is not None:
            digest.update(self.labels.dtype.str.encode() + self.labels.tobytes())
        digest.update(repr(sorted(self.columns.items())).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def weight_of(value: Any) -> float | None:
    """Return a weight as a number, or None if it is not a number of at least 0."""
    try:
        return weight if 0 <= (weight := float(value)) <= LARGEST else None
    except (TypeError, ValueError):
        return None


def _labels(
    labels: Any, names: Sequence[str] | None, task: Task | None, grouped: bool
) -> tuple[np.ndarray | None, tuple[str, ...] | None, Task]:
    """Return labels as int32 or float32 (read-only), their names in index order, and the task."""
    label_names = None if names is None else tuple(str(name) for name in names)
    if label_names and len(set(label_names)) < len(label_names):
        raise InputError(f"label_names={list(label_names)} repeats a name. Give each name once.")
    if labels is None:
        task = task or ("ranking" if grouped else "classification")
        return None, None if task == "regression" else label_names, task
    values = np.asarray(labels)
    if values.dtype.kind == "O" and all(
        isinstance(x, int | float | np.number) for x in values.flat
    ):
        values = np.array(values.tolist())  # numbers in a column of objects
    kind = values.dtype.kind if values.size else ("f" if task == "regression" else "i")
    if values.ndim != 1 or kind not in "biufUO":
        what = f"the shape {values.shape} and the type {values.dtype}"
        raise InputError(f"labels has {what}. Give one integer, name or float per pair.")
    if kind in "UO":
        given = [value for value in values if as_text(value)]
        label_names = label_names or tuple(sorted({str(value) for value in given}))
        if names is None and len(label_names) == 2 and positive_class(label_names) == 0:
            label_names = label_names[::-1]  # F1, rankings and thresholds are of the second one
        index = {name: i for i, name in enumerate(label_names)}
        for row, value in enumerate(values):
            if value not in index:
                known = ", ".join(label_names)
                raise InputError(f"labels[{row}] is {value!r}. Expected one of {known}.")
        values, kind = np.array([index[value] for value in values], dtype="int32"), "i"
    scores = kind == "f" and not label_names
    task = task or ("regression" if scores else "ranking" if grouped else "classification")
    if task == "regression":
        array = values.astype("float32")
        if not np.isfinite(array).all():
            row = int(np.flatnonzero(~np.isfinite(array))[0])
            raise InputError(f"labels[{row}] is {values[row]}. Regression needs a finite number.")
        label_names = None
    else:
        if kind == "f" and not (np.isfinite(values).all() and (values % 1 == 0).all()):
            wrong = "labels has fractions or missing values"
            how = "Pass task='regression' and no label_names for scores"
            raise InputError(f"{wrong}, so these are no classes. {how}.")
        array = values.astype("int64")  # a greater number would become another label in 32 bits
        count = len(label_names) if label_names else int(array.max(initial=-1)) + 1
        if not label_names and count > _MOST_CLASSES:
            wrong = f"labels go up to {count - 1:,}, which means {count:,} classes"
            raise InputError(f"{wrong}. Pass task='regression' for scores, or label_names.")
        for row in np.flatnonzero((array < 0) | (array >= count))[:1]:
            known = f" ({', '.join(label_names)})" if label_names else ""
            raise InputError(f"labels[{row}] is {array[row]}. Expected 0 to {count - 1}{known}.")
        array = array.astype("int32")
        label_names = label_names or tuple(str(i) for i in range(count))
    array.flags.writeable = False
    return array, label_names, task
