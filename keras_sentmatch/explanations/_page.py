"""Values for the templates of the page: bars, grids of colored cells, images and words.

The page is one file with HTML, CSS and a small script, and loads nothing from the network. It can be
printed and read without the script.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby, product
from typing import Any, NamedTuple

import numpy as np

from keras_sentmatch.display.colors import Scale, png_uri
from keras_sentmatch.explanations._panels import TOKENS, Picture, parts_scale
from keras_sentmatch.explanations._words import Links, ShownWord

MOST_NUMBERED = 24  # columns of a strip whose cells show numbers
MOST_CELLS = 48  # channels or features that get a cell each; more are drawn as an image
LEAST_CHANGE = 0.05  # the darkest color means at least this change of a probability
LABELED = 0.25  # a word's change is always shown from this share of the largest change


class Bar(NamedTuple):
    """A named number."""

    name: str
    value: float
    percent: float
    style: str


class Row(NamedTuple):
    """A row of cells (style, title, text), or one image of many rows."""

    name: str
    cells: Sequence[tuple[str, str, str]] = ()
    image: str = ""
    height: int = 0


class Figure(NamedTuple):
    """A picture as bars or as a table, in which the second sentence is set apart."""

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
        """The scale that all figures share, or `None`."""
        scales = {figure.picture.scale for figure in self.figures if not figure.bars}
        evens = {scale.even for scale in scales}
        same = len(scales) == 1 or (len(evens) == 1 and evens != {0.0})
        return next(iter(scales)) if same else None


def make_bar(name: str, value: float, high: float, style: str = "") -> Bar:
    """Return a bar that is full at `high`."""
    percent = 100 * min(abs(value) / high, 1.0) if np.isfinite(value) else 0.0
    return Bar(name, value, percent, f"{style} least" if value < 0 else style)


def make_groups(pictures: Sequence[Picture]) -> list[Group]:
    """Group pictures under one title, such as layers, for the template."""

    def heading(picture: Picture) -> tuple[str, str]:
        return _split_title(picture.title)[0], picture.caption

    return [
        Group(title, caption, [_figure(picture) for picture in group])
        for (title, caption), group in groupby(pictures, heading)
    ]


def make_words(sides: Sequence[Sequence[ShownWord]], scored: bool) -> list[list[dict[str, Any]]]:
    """Return the style and the number of each word of both sentences."""
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
    """Return attention in the form that the script reads."""
    return [
        {"name": layer.name, "to": [np.round(x, 4).tolist() for x in (layer.forth, layer.back)]}
        for layer in links
    ]


def _places(greatest: float) -> int:
    """Return the number of decimals that gives the largest number two significant digits."""
    return 2 if greatest >= 0.1 else 3 if greatest >= 0.01 else 4


def format_short(value: float, places: int = 2) -> str:
    """Format a number for a narrow cell, without the leading zero."""
    if not np.isfinite(value):
        return "?"
    if abs(value) >= 0.995:
        return f"{value:.0f}" if abs(value) >= 9.95 else f"{value:.1f}"
    return f"{value:.{places}f}".replace("0.", ".", 1)


def _split_title(title: str) -> tuple[str, str]:
    """Split `"Attention: layer 1"` or `"Attention, layer 1"` into title and part."""
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
    """Return the rows of cells, with the second sentence in a body of its own."""
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
    """Return where the second sentence of a joint sequence begins (after the first separators), or 0."""
    if axis != "joint":
        return 0
    start, separator = pieces.index(pieces[-1]) + 1, pieces[-1]
    while start < len(pieces) and pieces[start] == separator:
        start += 1
    return start if start < len(pieces) else 0
