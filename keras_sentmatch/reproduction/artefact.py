"""A table or figure of a paper: what is trained for each row and measured for each column.

`artefacts/PAPER/NAME.toml` has the paper's own rows, columns and figures. `kind` says how its cells
are filled:

- `"metrics"`: each row is trained on the data of each column, for each seed and each value of `vary`.
- `"data"`: rows are data sets, and columns count their pairs and classes.
- `"examples"`: each row is trained on `train_on` and answers `pairs`.
- `"maps"`: the same, and the arrays `show` of the row's explainer become pictures side by side.
- `"history"`: the loss and accuracy of each row by epoch.
"""

import importlib.resources
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, TypeVar

from keras_sentmatch.data.formats import FORMATS
from keras_sentmatch.errors import InputError
from keras_sentmatch.safety import check_depth, read_bytes
from keras_sentmatch.training.config import did_you_mean

KINDS = ("metrics", "data", "examples", "maps", "history")
METRICS = tuple(
    "accuracy macro_f1 nll ece map mrr pearson spearman mse parameters milliseconds mean sd "
    "loss pairs classes".split()
)
FIGURES = ("", "bars", "lines", "points", "curves", "maps")
T = TypeVar("T")


@dataclass(frozen=True)
class Column:
    """A column: a metric on a part of a data set.

    Args:
        name: The heading.
        data: A name of `keras-sentmatch models --datasets`.
        part: `"test"` or `"validation"`.
        metric: A metric of `Matcher.evaluate`; or `"parameters"` (millions, without word embeddings),
            `"milliseconds"` (one pair), `"category:NAME"`, `"change:NAME"` (accuracy after a
            transformation), `"mean"` or `"sd"` (of the columns before it, back to the last of these).
        train: The data set to train on, if it is another one.
        ensemble: Number of seeds whose mean prediction is measured.

    `metric` may be a list in the file: a column for each. A column without `data` is the mean over the
    data sets of the row.
    """

    name: str
    data: str = ""
    part: str = "test"
    metric: str = "accuracy"
    train: str = ""
    ensemble: int = 0

    @property
    def trained_on(self) -> str:
        return self.train or self.data


@dataclass(frozen=True)
class Row:
    """A row: a model and its settings, and the figures that the paper prints.

    A row of a file that has a `preset` or `set` but no `model` has that of the row above it.

    Args:
        name: The row's name in the paper.
        model: A name of `list_models()`; empty for a model that is not built here.
        preset: One of the model's presets.
        set: Overrides of the recipe, as after `--set`.
        backbone: The pretrained network that the paper uses: `"base"`, `"large"`, ….
        data: The data set, for the kind `"data"`.
        ensemble: Number of seeds whose mean prediction is measured.
        vary: Whether the row is trained with the values of `vary`.
        against: The row that a paired t-test compares this one with.
        paper: The paper's figure for each column; NaN if it prints none.
        answers: The paper's answer to each of `pairs`.
        show: Arrays of the explainer, for `"maps"`.
    """

    name: str
    model: str = ""
    preset: str = ""
    set: tuple[str, ...] = ()
    backbone: str = ""
    data: str = ""
    ensemble: int = 0
    vary: bool = True
    against: str = ""
    paper: tuple[float, ...] = ()
    answers: tuple[str, ...] = ()
    show: tuple[str, ...] = ()


@dataclass(frozen=True)
class Vary:
    """A setting that every row is trained with all values of."""

    setting: str
    values: tuple[Any, ...]
    label: str = ""


@dataclass(frozen=True)
class Artefact:
    """A table or figure of a paper.

    Args:
        title: What it shows.
        place: Its name in the paper.
        rows, columns: See `Row` and `Column`.
        kind: One of `KINDS`.
        protocol: What the paper says of seeds and selection.
        seeds: The number of runs in the paper.
        summary: What the paper reports of them: `"mean"`, or the `"best"`.
        figure: The kind of picture, if the paper has one.
        vary: A setting with several values.
        pairs: `[sentence 1, sentence 2, label, what the paper prints]`, for `"examples"` and `"maps"`.
        train_on: The data set for these.
        layers: The layers that `"maps"` shows, from 1, and `"mean"` for their mean; all by default.
        against: `"base"`: each row is compared with the last one that names a model.
        note: What the paper says about it in words, or what is unclear in it.
        name: `PAPER/NAME`.
    """

    title: str
    place: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...] = ()
    kind: str = "metrics"
    protocol: str = ""
    seeds: int = 1
    summary: Literal["mean", "best"] = "mean"
    figure: str = ""
    vary: Vary | None = None
    pairs: tuple[tuple[str, ...], ...] = ()
    train_on: str = ""
    layers: tuple[int | str, ...] = ()
    against: str = ""
    note: str = ""
    name: str = ""

    def on(self, data: str) -> "Artefact":
        """Return the same table with another data set in place of all of its own.

        Columns that then measure the same are one: the one that is about this data set in the paper
        too, or the first, with its figures of the paper.
        """
        if self.kind == "data":
            raise InputError(f"{self.name} counts data sets. Leave out --on.")
        if data not in FORMATS:
            raise InputError(f"There is no data set {data!r}.{did_you_mean(data, FORMATS)}")
        kept: dict[tuple[str, ...], int] = {}
        moved = [
            replace(one, data=one.data and data, train="", name=f"{one.name} → {data} {one.part}")
            if one.data not in ("", data)
            else one
            for one in self.columns
        ]
        own = [n for n, one in enumerate(self.columns) if one.data == data]
        for place in dict.fromkeys([*own, *range(len(moved))]):
            one = moved[place]
            several = one.name if one.metric in ("mean", "sd") else ""
            kept.setdefault((one.data, one.part, one.metric, str(one.ensemble), several), place)
        places = sorted(kept.values())
        rows = tuple(
            replace(row, paper=tuple(row.paper[n] for n in places) if row.paper else ())
            for row in self.rows
        )
        columns = tuple(moved[n] for n in places)
        where = f"on {data} in place of {', '.join(self.data_names)}"
        note = " ".join(filter(None, (f"Trained and measured {where}.", self.note)))
        train_on = data if self.train_on else ""
        return replace(self, rows=rows, columns=columns, train_on=train_on, note=note)

    @property
    def built(self) -> list[Row]:
        """The rows that have a model."""
        return [row for row in self.rows if row.model]

    @property
    def trainings(self) -> int:
        """The number of trainings with the paper's number of seeds."""
        data = {column.trained_on for column in self.columns if column.trained_on}
        each = 0 if self.kind == "data" else 1 if self.train_on else len(data)
        values = [len(self.values_of(row)) for row in self.built]
        return sum(values) * each * self.seeds

    @property
    def data_names(self) -> list[str]:
        """The names of the data sets that it needs."""
        names = [name for column in self.columns for name in (column.trained_on, column.data)]
        rows = [row.data for row in self.rows]
        return [name for name in dict.fromkeys([*names, self.train_on, *rows]) if name]

    def values_of(self, row: Row) -> tuple[Any, ...]:
        """Return the values of `vary` that a row is trained with, or one None."""
        return self.vary.values if self.vary and row.vary and row.model else (None,)


def list_artefacts() -> list[str]:
    """Return the names of all tables and figures: `"drcn/table-6"`, …."""
    papers = [paper for paper in _folder().iterdir() if paper.is_dir()]
    return sorted(
        f"{paper.name}/{file.name.removesuffix('.toml')}"
        for paper in papers
        for file in paper.iterdir()
        if file.name.endswith(".toml")
    )


def load_artefact(name: str | Path) -> Artefact:
    """Load the description of a table or figure.

    Args:
        name: A name of `list_artefacts()`, or a TOML file of the same form.

    Raises:
        InputError: There is none of this name, or the file is not of this form.

    Example:

    ```python
    from keras_sentmatch.reproduction import load_artefact

    [row.name for row in load_artefact("ladra_net/table-6").built]
    ```
    """
    name = str(name)
    if name in list_artefacts():
        paper, _, file = name.partition("/")
        text = (_folder() / paper / f"{file}.toml").read_text("utf-8")
    elif name.endswith(".toml"):
        text = read_bytes(Path(name), "JSON_BYTES").decode("utf-8", "replace")
    else:
        raise InputError(
            f"There is no artefact {name!r}.{did_you_mean(name, list_artefacts())} Show all of them "
            "with keras-sentmatch reproduce list, or give a TOML file of the same form."
        )
    try:
        content = tomllib.loads(text)
    except ValueError as error:
        raise InputError(f"{name}: not valid TOML: {error}.") from error
    check_depth(content, name)
    return _artefact(name, content)


def _folder() -> Traversable:
    return importlib.resources.files("keras_sentmatch.reproduction") / "artefacts"


def _artefact(name: str, content: dict[str, Any]) -> Artefact:
    values: dict[str, Any] = dict(content)
    values["columns"] = [
        {**one, "name": f"{one['name']}: {metric.split(':')[-1]}", "metric": metric}
        if isinstance(one.get("metric"), list)
        else one
        for one in values.get("columns", [])
        for metric in (one["metric"] if isinstance(one.get("metric"), list) else [""])
    ]
    values["rows"] = _with_models(values.get("rows", []), values.get("against") == "base")
    for key, cls in (("rows", Row), ("columns", Column)):
        given = values.get(key, [])
        values[key] = tuple(_made(cls, item, f"{name}: {key}[{n}]") for n, item in enumerate(given))
    if "vary" in values:
        values["vary"] = _made(Vary, values["vary"], f"{name}: vary")
    found = _made(Artefact, {**values, "name": name.removesuffix(".toml")}, name)
    known = {row.name for row in found.rows}
    for key, value, allowed in (
        ("kind", found.kind, KINDS),
        ("figure", found.figure, FIGURES),
        ("summary", found.summary, ("mean", "best")),
        *(("against", row.against, ("", *known)) for row in found.rows),
        *(("metric", one.metric, METRICS) for one in found.columns if ":" not in one.metric),
    ):
        if value not in allowed:
            raise InputError(
                f"{name}: {key} is {value!r}.{did_you_mean(value, allowed)} Expected one of "
                f"{', '.join(repr(one) for one in allowed if one)}."
            )
    for row in found.rows:
        if row.paper and len(row.paper) != len(found.columns):
            raise InputError(
                f"{name}: the row {row.name!r} has {len(row.paper)} figures of the paper for "
                f"{len(found.columns)} columns. Give one per column, and nan if the paper prints none."
            )
    return found


def _with_models(rows: Any, against_base: bool) -> list[Any]:
    """Give rows without a model that of the row above, and its name as `against`."""
    found: list[Any] = []
    base: Mapping[str, Any] = {}
    for row in rows:
        if "model" in row:
            base = row
        elif base and not row.keys().isdisjoint(("preset", "set")):
            against = {"against": base["name"]} if against_base else {}
            row = {"model": base["model"], **against, **row}
        found.append(row)
    return found


def _made(cls: type[T], values: Any, place: str) -> T:
    """Make a dataclass from a table of TOML, with tuples for its arrays."""
    if not isinstance(values, Mapping):
        raise InputError(f"{place} is {values!r:.60}. Expected a table.")
    known = {one.name: one for one in fields(cls)}  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            raise InputError(f"{place}: unknown key {key!r}.{did_you_mean(key, known)}")
    missing = [
        key
        for key, one in known.items()
        if one.default is MISSING and one.default_factory is MISSING and key not in values
    ]
    if missing:
        raise InputError(f"{place} has no {' and no '.join(missing)}.")
    return cls(**{key: _frozen(value) for key, value in values.items()})


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list | tuple) else value
