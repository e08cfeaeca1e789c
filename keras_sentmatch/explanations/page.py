"""What the templates of the page need: bars, grids of colored cells, images and words.

The page is one file of HTML, CSS and a small script, without anything from the network. It can be
read without the script, and printed.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby, product
from typing import Any, NamedTuple

import numpy as np

from keras_sentmatch.display.rendering import render
from keras_sentmatch.explanations.colors import NIGHT_PALETTES, PALETTES, Scale, is_dark, png_uri
from keras_sentmatch.explanations.pictures import TOKENS, Picture, parts_scale
from keras_sentmatch.explanations.words import Links, ShownWord

MOST_NUMBERED = 24  # columns up to which the cells of a strip carry numbers
MOST_CELLS = 48  # channels or features a side up to which there is a cell for each
LEAST_CHANGE = 0.05  # change of a probability that gets the darkest color
LABELED = 0.25  # share of the largest change from which a word's change is always shown

COLORS = [
    [
        (f"{name}{level}", f"#{bytes(color).hex()}", is_dark(color))
        for name, colors in palettes.items()
        for level, color in enumerate(colors)
    ]
    for palettes in (PALETTES, NIGHT_PALETTES)
]


class Bar(NamedTuple):
    """A named number."""

    name: str
    value: float
    percent: float
    style: str


class Row(NamedTuple):
    """A row of cells (style, title, text), or an image of them."""

    name: str
    cells: Sequence[tuple[str, str, str]] = ()
    image: str = ""
    height: int = 0


class Figure(NamedTuple):
    """A picture as bars, or as a table; columns and rows of the second sentence stand apart."""

    picture: Picture
    title: str
    bars: Sequence[Bar] = ()
    numbered: bool = False
    spans: Sequence[int] = ()
    columns: Sequence[str] = ()
    bodies: Sequence[Sequence[Row]] = ()
    parts: Mapping[str, str] = {}


class Group(NamedTuple):
    """Pictures of the same kind, such as the layers of an attention."""

    title: str
    caption: str
    figures: Sequence[Figure]

    @property
    def scale(self) -> Scale | None:
        """The scale of all its figures, if they share it."""
        scales = {figure.picture.scale for figure in self.figures if not figure.bars}
        evens = {scale.even for scale in scales}
        same = len(scales) == 1 or (len(evens) == 1 and evens != {0.0})
        return next(iter(scales)) if same else None


def render_page(template: str, title: str, **values: object) -> str:
    """An HTML document from a template that extends `page.html`."""
    light, dark = COLORS
    return render(template, title=title, light=light, dark=dark, **values)


def make_bar(name: str, value: float, high: float, style: str = "") -> Bar:
    """A bar that is full at `high`."""
    percent = 100 * min(abs(value) / high, 1.0) if np.isfinite(value) else 0.0
    return Bar(name, value, percent, f"{style} least" if value < 0 else style)


def make_groups(pictures: Sequence[Picture]) -> list[Group]:
    """Pictures as the template draws them: those under one title, such as layers, together."""

    def heading(picture: Picture) -> tuple[str, str]:
        return _split_title(picture.title)[0], picture.caption

    return [
        Group(title, caption, [_figure(picture) for picture in group])
        for (title, caption), group in groupby(pictures, heading)
    ]


def make_words(sides: Sequence[Sequence[ShownWord]], scored: bool) -> list[list[dict[str, Any]]]:
    """The words of both sentences with the style, the title and the number of each."""
    effects = [word.effect for side in sides for word in side if word.effect]
    greatest = max((abs(effect.change) for effect in effects), default=0.0)
    high = greatest if scored else max(greatest, LEAST_CHANGE)
    scale = Scale(-(high or 1.0), high or 1.0)
    places = _places(greatest)
    shown: list[list[dict[str, Any]]] = []
    for side in sides:
        shown.append([])
        for word in side:
            styles = [name for name in ("unknown", "cut") if getattr(word, name)]
            number = ""
            if word.effect:
                change = word.effect.change
                styles.append(f"d{scale.levels(np.array([change]))[0]}")
                styles += ["flip"] * bool(word.effect.answer)
                styles += ["labeled"] * (abs(change) >= max(LABELED * greatest, 10**-places))
                number = ("+" if change > 0 else "") + format_short(change, places)
            shown[-1].append({"word": word, "style": " ".join(styles), "number": number})
    return shown


def pack_links(links: Sequence[Links]) -> list[dict[str, Any]]:
    """Attention as the script reads it."""
    return [
        {"name": layer.name, "to": [np.round(x, 4).tolist() for x in (layer.forth, layer.back)]}
        for layer in links
    ]


def _places(greatest: float) -> int:
    """Digits after the point, so that the greatest number has two that count."""
    return 2 if greatest >= 0.1 else 3 if greatest >= 0.01 else 4


def format_short(value: float, places: int = 2) -> str:
    """A number for a cell, without the zero before the point."""
    if not np.isfinite(value):
        return "?"
    if abs(value) >= 0.995:
        return f"{value:.0f}" if abs(value) >= 9.95 else f"{value:.1f}"
    return f"{value:.{places}f}".replace("0.", ".", 1)


def _split_title(title: str) -> tuple[str, str]:
    """`"Attention: layer 1"` or `"Attention, layer 1"` is `"Attention"` and `"layer 1"`."""
    whole, _, part = re.sub(", (layer [0-9]+)$", r": \1", title).partition(": ")
    return whole, part


def _figure(picture: Picture) -> Figure:
    title = _split_title(picture.title)[1]
    if picture.kind == "bars":
        return Figure(picture, title, bars=_bars(picture))
    few_rows, few_columns = (
        axis in TOKENS or len(names) <= MOST_CELLS
        for axis, names in zip(picture.axes, (picture.rows, picture.columns))
    )
    count, scale = len(picture.columns), picture.scale
    numbered = picture.kind == "strip" and few_rows and count <= MOST_NUMBERED
    if few_columns and few_rows:
        bodies = _cells(picture, numbered)
    elif few_columns:
        height = 3 * len(picture.rows)
        image = png_uri(picture.values, scale)
        bodies = [[Row(f"{len(picture.rows)} rows", image=image, height=height)]]
    else:
        images = [png_uri(values[None], scale) for values in picture.values]
        names = [f"{n} (mean {v.mean():.2f})" for n, v in zip(picture.rows, picture.values)]
        bodies = [[Row(name, image=image, height=22) for name, image in zip(names, images)]]
    start, shared = _second_sentence(picture.columns, picture.axes[1]), parts_scale(picture)
    spans = [span for span in (start, count - start) if span]
    parts = {name: png_uri(values, shared) for name, values in picture.parts.items()}
    columns = picture.columns if few_columns else ()
    return Figure(picture, title, (), numbered, spans, columns, bodies, parts)


def _bars(picture: Picture) -> list[Bar]:
    rows = picture.rows if len(picture.rows) > 1 else ("",)
    columns = picture.columns if len(picture.columns) > 1 else ("",)
    names = [" · ".join(filter(None, both)) for both in product(rows, columns)]
    values, high = map(float, picture.values.ravel()), picture.scale.high
    return [make_bar(name or picture.rows[0], value, high) for name, value in zip(names, values)]


def _cells(picture: Picture, numbered: bool) -> list[list[Row]]:
    """The rows of cells, those of the second sentence apart."""
    scale = picture.scale
    tops = picture.values.argmax(1) if picture.reread else np.full(len(picture.rows), -1)
    rows = []
    for name, values, levels, top in zip(
        picture.rows, picture.values, scale.levels(picture.values), tops
    ):
        styles = [f"{scale.palette}{level}" if level >= 0 else "x" for level in levels]
        if top >= 0:
            styles[top] += " top"
        titles = [f"{name} · {column}: {x:.3g}" for column, x in zip(picture.columns, values)]
        texts = [format_short(x, _places(scale.high)) if numbered else "" for x in values]
        rows.append(Row(name, list(zip(styles, titles, texts))))
    start = _second_sentence(picture.rows, picture.axes[0])
    return [body for body in (rows[:start], rows[start:]) if body]


def _second_sentence(pieces: Sequence[str], axis: str) -> int:
    """Where the second sentence of a joint sequence begins: after its first separators. Else 0."""
    if axis != "joint":
        return 0
    start, separator = pieces.index(pieces[-1]) + 1, pieces[-1]
    while start < len(pieces) and pieces[start] == separator:
        start += 1
    return start if start < len(pieces) else 0
