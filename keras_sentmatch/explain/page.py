"""What the templates of the page need: bars, grids of colored cells, images and legends.

The page is plain HTML and CSS in one file, without scripts, fonts or anything from the network.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from keras_sentmatch.display.rendering import render
from keras_sentmatch.explain.colors import PALETTES, is_dark, levels, palette_of, png_uri, stops_of
from keras_sentmatch.explain.erasure import Erasure
from keras_sentmatch.explain.pictures import TOKENS, Picture

MOST_NUMBERED = 24  # columns up to which cells carry numbers
MOST_CELLS = 48  # channels or features a side up to which there is a cell for each
LEAST_CHANGE = 0.05  # change of a probability that gets the darkest color

COLORS = [
    (f"{name}{level}", f"#{bytes(color).hex()}", is_dark(color))
    for name, colors in PALETTES.items()
    for level, color in enumerate(colors)
]


@dataclass(frozen=True)
class Legend:
    """A color scale and its ends."""

    low: float
    high: float

    @property
    def colors(self) -> str:
        return ", ".join(stops_of(self.low))


@dataclass(frozen=True)
class Bar:
    """A named number."""

    name: str
    value: float
    percent: float
    style: str


@dataclass(frozen=True)
class Cell:
    """A colored cell, or a colored word with the number `text` below it."""

    style: str
    title: str
    text: str
    name: str = ""


@dataclass(frozen=True)
class Row:
    """A row of cells, or an image of them."""

    name: str
    cells: Sequence[Cell] = ()
    image: str = ""
    height: int = 0


@dataclass(frozen=True)
class Grid:
    """A table of cells, or of images under the column names or beside the row names."""

    numbered: bool
    spans: Sequence[int]
    columns: Sequence[str]
    bodies: Sequence[Sequence[Row]]


@dataclass(frozen=True)
class Figure:
    """A picture as bars or as a grid. Numbers in cells are multiplied by ten to the `power`."""

    picture: Picture
    legend: Legend
    bars: Sequence[Bar] = ()
    grid: Grid | None = None
    power: int = 0
    parts: Mapping[str, str] = field(default_factory=dict)
    parts_legend: Legend | None = None


@dataclass(frozen=True)
class ErasureFigure:
    """The words of both sentences, colored by what they do for the label (or, if empty, the score)."""

    label: str
    sides: Sequence[Sequence[Cell]]
    legend: Legend


def render_page(template: str, title: str, **values: object) -> str:
    """An HTML document from a template that extends `page.html`."""
    return render(template, title=title, colors=COLORS, **values)


def make_bar(name: str, value: float, high: float, style: str = "") -> Bar:
    """A bar that is full at `high`."""
    percent = 100 * min(abs(value) / high, 1.0) if np.isfinite(value) else 0.0
    return Bar(name, value, percent, f"{style} least" if value < 0 else style)


def make_figure(picture: Picture) -> Figure:
    """A picture as the template draws it."""
    legend = Legend(picture.low, picture.high)
    if picture.kind == "bars":
        return Figure(picture, legend, bars=_bars(picture))
    grid, power = _grid(picture), _power(picture)
    if not picture.parts:
        return Figure(picture, legend, grid=grid, power=power)
    every = np.stack(list(picture.parts.values()))
    low = min(picture.low, float(every.min()))
    high = max(picture.high, float(every.max()), -low)
    low = -high if low < 0 else 0.0
    images = {name: png_uri(values, low, high) for name, values in picture.parts.items()}
    return Figure(
        picture, legend, grid=grid, power=power, parts=images, parts_legend=Legend(low, high)
    )


def make_erasure_figure(erasure: Erasure) -> ErasureFigure:
    """Erased words as the template draws them."""
    both = np.concatenate([erasure.importance_1, erasure.importance_2])
    greatest = float(np.abs(both).max(initial=0.0))
    scored = not (erasure.answers_1 or erasure.answers_2)
    high = (greatest or 1.0) if scored else max(greatest, LEAST_CHANGE)
    places = 2 if greatest >= 0.1 else 3 if greatest >= 0.01 else 4
    sides = []
    for side in "12":
        words, importance, answers = erasure.side(side)
        shades = levels(importance, -high, high)
        cells = []
        for word, change, shade, answer in zip(
            words, importance, shades, answers or [""] * len(words)
        ):
            flip = " flip" if answer not in ("", erasure.of) else ""
            title = f"{erasure.of}: {erasure.full:.3f}, without it {erasure.full - change:.3f}"
            title += f"; answer without it: {answer}" if answer else ""
            text = ("+" if change > 0 else "") + format_short(float(change), places)
            cells.append(Cell(f"d{shade}{flip}", title, text, word))
        sides.append(cells)
    return ErasureFigure("" if scored else erasure.of, sides, Legend(-high, high))


def format_short(value: float, places: int = 2) -> str:
    """A number for a cell, without the zero before the point."""
    if not np.isfinite(value):
        return "?"
    if abs(value) >= 0.995:
        return f"{value:.0f}" if abs(value) >= 9.95 else f"{value:.1f}"
    return f"{value:.{places}f}".replace("0.", ".", 1)


def _bars(picture: Picture) -> list[Bar]:
    several_rows, several_columns = len(picture.rows) > 1, len(picture.columns) > 1
    bars = []
    for row, values in zip(picture.rows, picture.values):
        for column, value in zip(picture.columns, values):
            names = [row] * several_rows + [column] * several_columns
            bars.append(make_bar(" · ".join(names) or row, float(value), picture.high))
    return bars


def _grid(picture: Picture) -> Grid:
    """Cells for what can be read one by one; else images."""
    few_rows, few_columns = (
        axis in TOKENS or len(names) <= MOST_CELLS
        for axis, names in zip(picture.axes, (picture.rows, picture.columns))
    )
    if few_columns and few_rows:
        bodies = list(_cell_bodies(picture))
    elif few_columns:
        count = len(picture.rows)
        image = png_uri(picture.values, picture.low, picture.high)
        bodies = [[Row(f"{count} rows", image=image, height=3 * count)]]
    else:
        images = [png_uri(values[None], picture.low, picture.high) for values in picture.values]
        names = [f"{n} (mean {v.mean():.2f})" for n, v in zip(picture.rows, picture.values)]
        bodies = [[Row(name, image=image, height=22) for name, image in zip(names, images)]]
    start = _second_sentence(picture.columns, picture.axes[1])
    spans = [span for span in (start, len(picture.columns) - start) if span]
    columns = picture.columns if few_columns else ()
    return Grid(len(picture.columns) <= MOST_NUMBERED, spans, columns, bodies)


def _cell_bodies(picture: Picture) -> Iterator[list[Row]]:
    """The rows of cells, those of the second sentence apart."""
    letter, numbered = palette_of(picture.low), len(picture.columns) <= MOST_NUMBERED
    shades = levels(picture.values, picture.low, picture.high)
    tops = picture.values.argmax(1) if picture.reread else np.full(len(picture.rows), -1)
    factor = 10.0 ** _power(picture)
    rows = [
        Row(
            row,
            [
                Cell(
                    (f"{letter}{shade}" if shade >= 0 else "x") + " top" * bool(place == top),
                    f"{row} · {column}: {value:.3g}",
                    format_short(value * factor) if numbered else "",
                )
                for place, (column, value, shade) in enumerate(
                    zip(picture.columns, values, levels_)
                )
            ],
        )
        for row, values, levels_, top in zip(picture.rows, picture.values, shades, tops)
    ]
    start = _second_sentence(picture.rows, picture.axes[0])
    yield from (body for body in (rows[:start], rows[start:]) if body)


def _power(picture: Picture) -> int:
    """The power of ten that makes small numbers readable with two digits."""
    numbered = picture.kind != "bars" and len(picture.columns) <= MOST_NUMBERED
    numbered &= picture.axes[0] in TOKENS or len(picture.rows) <= MOST_CELLS
    return -math.floor(math.log10(picture.high)) - 1 if numbered and picture.high < 0.1 else 0


def _second_sentence(pieces: Sequence[str], axis: str) -> int:
    """Where the second sentence of a joint sequence begins: after its first separators. Else 0."""
    if axis != "joint":
        return 0
    start, separator = pieces.index(pieces[-1]) + 1, pieces[-1]
    while start < len(pieces) and pieces[start] == separator:
        start += 1
    return start if start < len(pieces) else 0
