"""The pictures of tables and figures, by Matplotlib."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from keras_sentmatch.display.figures import empty_figure, save_png
from keras_sentmatch.reproduction.artefact import Artefact, Column

Cells = Sequence[Mapping[str, Any]]
Results = Mapping[tuple[str, Any], Sequence[Mapping[str, Any]]]


def draw(artefact: Artefact, cells: Cells, results: Results, out: Path) -> Path | None:
    """Draw `figure.png` in the form that the artefact names; None if nothing has been measured."""
    if not results:
        return None
    kind = artefact.figure
    if kind != "points":
        measured = {one["column"] for one in cells if one.get("mean") is not None}
        measured |= {name for runs in results.values() for name in runs[0]}
        columns = tuple(one for one in artefact.columns if one.name in measured)
        artefact = replace(artefact, columns=columns)
    if kind == "maps":
        figure = _maps(artefact, results)
    elif kind == "curves":
        figure = _curves(artefact, results, out)
    else:
        figure = {"bars": _bars, "lines": _lines, "points": _points}[kind](artefact, cells)
    title = f"{artefact.title} ({artefact.place})"
    figure.suptitle(fill(title, int(10 * figure.get_figwidth())))  # about ten letters per inch
    return save_png(figure, out / "figure.png")


def _bars(artefact: Artefact, cells: Cells) -> Any:
    """A group of bars for each column; a line on a bar is the paper's figure."""
    rows = [row.name for row in artefact.built]
    columns = [column.name for column in artefact.columns]
    figure = empty_figure(1.5 + 0.5 * len(rows) * len(columns), 4.2)
    axis = figure.subplots()
    _set_colors(axis, len(rows))
    shown = {(one["row"], one["column"]): one for one in cells}
    values = [
        one["mean"] + side * (one.get("sd") or 0)
        for one in cells
        if one.get("mean") is not None
        for side in (-1, 1)
    ]
    width = 0.8 / len(rows)
    for number, row in enumerate(rows):
        found = [shown[row, column] for column in columns]
        places = np.arange(len(columns)) + (number - (len(rows) - 1) / 2) * width
        heights = [np.nan if one.get("mean") is None else one["mean"] for one in found]
        axis.bar(
            places, heights, 0.9 * width, yerr=[one.get("sd") or 0 for one in found], label=row
        )
        for place, one in zip(places, found):
            if one["paper"] is not None:
                axis.plot([place - width / 2, place + width / 2], [one["paper"]] * 2, color="black")
                values.append(one["paper"])
    if values:
        margin = max(0.1 * (max(values) - min(values)), 1e-3)
        axis.set_ylim(min(values) - margin, max(values) + margin)
    axis.set_xticks(range(len(columns)), columns)
    axis.set_ylabel(_units(artefact))
    axis.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    if any(one["paper"] is not None for one in cells):
        axis.set_xlabel("black lines: the paper's figures")
    return figure


def _lines(artefact: Artefact, cells: Cells) -> Any:
    """A line over the values of `vary` for each row and column.

    Columns of another unit have panels of their own; if there are many rows, so has each model.
    """
    models = list(dict.fromkeys(row.model for row in artefact.built))
    groups = [models] if len(artefact.built) <= 10 else [[model] for model in models]
    units: dict[str, list[Column]] = {}
    for column in artefact.columns:
        units.setdefault(_unit(column), []).append(column)
    alone = 6.4 if len(artefact.built) <= 5 else 9.6  # with a legend next to the lines
    width = alone if len(groups) == 1 else 7.2 * len(groups)
    figure = empty_figure(width, 4.2 * len(units))
    panels = figure.subplots(len(units), len(groups), squeeze=False, sharey="row")
    for line, columns in zip(panels, units.values()):
        for axis, group in zip(line, groups):
            _draw_lines(axis, replace(artefact, columns=tuple(columns)), cells, group)
    return figure


def _draw_lines(axis: Any, artefact: Artefact, cells: Cells, models: Sequence[str]) -> None:
    values = artefact.vary.values if artefact.vary else ()
    names = [value if isinstance(value, int | float) else _short(value) for value in values]
    numeric = all(isinstance(name, int | float) for name in names)
    places = names if numeric else list(range(len(names)))
    rows = [row for row in artefact.built if row.model in models]
    _set_colors(axis, len(rows) * len(artefact.columns))
    for row in rows:
        for column in artefact.columns:
            found = [c for c in cells if (c["row"], c["column"]) == (row.name, column.name)]
            found *= 1 if row.vary else len(places)  # a level line
            heights = [np.nan if one.get("mean") is None else one["mean"] for one in found]
            errors = [one.get("sd") or 0 for one in found]
            label = ", ".join(
                part
                for part, many in (
                    (row.name, len(artefact.built) > 1),
                    (column.name, len(artefact.columns) > 1 or len(artefact.built) == 1),
                )
                if many
            )
            axis.errorbar(places, heights, yerr=errors, marker="o", capsize=3, label=label)
    axis.set_xticks(places, [str(name) for name in names])
    axis.set_xlabel(artefact.vary.label or artefact.vary.setting if artefact.vary else "")
    axis.set_ylabel(_units(artefact))
    axis.grid(color="lightgray", linewidth=0.5)
    outside = {"loc": "upper left", "bbox_to_anchor": (1, 1)}
    axis.legend(fontsize="small", **(outside if len(axis.get_lines()) > 5 else {}))


def _set_colors(axis: Any, count: int) -> None:
    from matplotlib import colormaps

    colors = colormaps["tab10" if count <= 10 else "tab20"]
    axis.set_prop_cycle(color=list(colors(np.arange(colors.N))))


def _units(artefact: Artefact) -> str:
    return ", ".join(dict.fromkeys(map(_unit, artefact.columns)))


def _unit(column: Column) -> str:
    """Return what a column measures; of categories and after changes, it is accuracy."""
    if column.metric in ("parameters", "milliseconds"):
        return column.name
    changed = column.metric.startswith(("category:", "change:"))
    return "accuracy" if changed else column.metric


def _short(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _points(artefact: Artefact, cells: Cells) -> Any:
    """The last column of each row by the columns before it: a panel for each of these."""
    *firsts, last = [column.name for column in artefact.columns]
    figure = empty_figure(4.4 * len(firsts), 4.2)
    shown = {(one["row"], one.get("value"), one["column"]): one.get("mean") for one in cells}
    for axis, first in zip(np.ravel(figure.subplots(1, len(firsts))), firsts):
        for row in artefact.built:
            for value in artefact.values_of(row):
                x, y = shown.get((row.name, value, first)), shown.get((row.name, value, last))
                if x is not None and y is not None:
                    axis.scatter(x, y)
                    axis.annotate(row.name if value is None else f"{row.name} {value}", (x, y))
        axis.set(xlabel=first, ylabel=last)
        axis.grid(color="lightgray", linewidth=0.5)
    return figure


def _curves(artefact: Artefact, results: Results, out: Path) -> Any:
    """The loss by epoch of each row, a panel for each column: validation solid, training dashed."""
    figure = empty_figure(4.8 * len(artefact.columns), 4.2)
    panels = figure.subplots(1, len(artefact.columns), squeeze=False)[0]
    for axis, column in zip(panels, artefact.columns):
        for number, ((row, _), runs) in enumerate(results.items()):
            if column.name not in runs[0]:
                continue
            with (out / runs[0][column.name]).open(encoding="utf-8", newline="") as file:
                lines = list(csv.DictReader(file))
            epochs = [int(line["epoch"]) + 1 for line in lines]
            for key, style in ((column.metric, "--"), (f"val_{column.metric}", "-")):
                values = [float(line[key].replace("NA", "nan")) for line in lines]
                label = row if style == "-" else None
                axis.plot(epochs, values, style, color=f"C{number}", marker=".", label=label)
        axis.set(title=column.name, xlabel="epoch", ylabel=column.metric)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(color="lightgray", linewidth=0.5)
        axis.legend(fontsize="small", title="validation (dashed: training)", title_fontsize="small")
    return figure


def _maps(artefact: Artefact, results: Results) -> Any:
    """The pictures of the explainer: a line of panels for each model and pair.

    Where each of these has one picture, a line is a pair, with a panel for each model.
    """
    found: list[tuple[int, int, str, Sequence[Mapping[str, Any]]]] = []
    for model, ((row, _), runs) in enumerate(results.items()):
        for number, answer in enumerate(runs[0]["answers"]):
            name = f"{row}, pair {number + 1}: {answer['answer']}"
            found.append((model, number, name, answer["pictures"]))
    most = max(1, *(len(pictures) for *_, pictures in found))
    pairs = len(artefact.pairs)
    lines, width = (pairs, len(results)) if most == 1 else (pairs * len(results), most)
    figure = empty_figure(3.4 * width + 1, 3.4 * lines)
    panels = figure.subplots(lines, width, squeeze=False)
    for axis in panels.ravel():
        axis.set_axis_off()
    for model, number, name, pictures in found:
        line = panels[number, model:] if most == 1 else panels[model * pairs + number]
        for place, (axis, one) in enumerate(zip(line, pictures)):
            values = np.asarray(one["values"])
            axis.set_axis_on()
            axis.imshow(values, cmap="Blues", aspect="auto")
            if len(values) == 1:
                axis.set_box_aspect(0.1)  # a strip
            if values.shape[1] <= 40:
                axis.set_xticks(range(values.shape[1]), one["columns"], rotation=90, fontsize=6)
            else:
                axis.set_xticks([])
            axis.set_yticks(range(values.shape[0]), one["rows"], fontsize=6)
            axis.set_title(f"{name}\n{one['title']}" if place == 0 else one["title"], fontsize=7)
    return figure
