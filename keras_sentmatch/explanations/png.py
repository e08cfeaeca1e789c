"""The pictures of an explanation as PNG files, by matplotlib (imported when they are drawn)."""

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_sentmatch.display.figures import empty_figure, save_png
from keras_sentmatch.errors import InputError
from keras_sentmatch.explanations.colors import PALETTES, Scale
from keras_sentmatch.explanations.erasure import Erasure
from keras_sentmatch.explanations.pictures import Picture, parts_scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_NAMED = 64  # rows or columns up to which each has its name
CELL = 0.24  # inches
FOR, AGAINST = "#1764ab", "#b35806"


def draw_all(pictures: Sequence[Picture], erasure: Erasure | None, folder: Path) -> list[Path]:
    """Draws each picture and its parts, then the words left out; returns the files."""
    figures: list[tuple[str, Figure]] = []
    for picture in pictures:
        draw = _bars if picture.kind == "bars" else _grid
        figures.append((picture.title, draw(picture)))
        if picture.parts:
            figures.append((f"{picture.title} each", _parts(picture)))
    if erasure is not None:
        figures.append(("words left out", _erasure(erasure)))
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph", UserWarning)  # scripts that its fonts lack
            for number, (title, figure) in enumerate(figures, 1):
                name = re.sub(r"\W+", "-", title.lower()).strip("-")
                paths.append(save_png(figure, folder / f"{number:02}-{name}.png"))
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror or error}.") from error
    return paths


def _grid(picture: Picture) -> "Figure":
    rows, columns = picture.values.shape
    tall, wide = (CELL * size if size <= MOST_NAMED else 4.0 for size in (rows, columns))
    figure = empty_figure(wide + 3.0, tall + 2.2)
    axis = figure.subplots()
    image = _show(axis, picture.values, picture.scale)
    _names(axis.xaxis, picture.columns, rotation=90)
    _names(axis.yaxis, picture.rows)
    if picture.reread:
        places = picture.values.argmax(1)
        axis.plot(places, range(rows), "s", markersize=11, mfc="none", mec=AGAINST, mew=1.6)
    axis.set_title(picture.title, fontsize="small", parse_math=False)
    _add_legend(figure, image, picture.scale, shrink=0.8)
    return figure


def _parts(picture: Picture) -> "Figure":
    across = min(4, len(picture.parts))
    down = -(-len(picture.parts) // across)
    figure = empty_figure(2.2 * across, 2.4 * down)
    scale = parts_scale(picture)
    for axis in (axes := np.ravel(figure.subplots(down, across))):
        axis.set_axis_off()
    for axis, (name, values) in zip(axes, picture.parts.items()):
        image = _show(axis, values, scale)
        axis.set_title(name, fontsize="small")
    _add_legend(figure, image, scale, ax=list(axes), shrink=0.6)
    figure.suptitle(picture.title, fontsize="small")
    return figure


def _bars(picture: Picture) -> "Figure":
    names = [" · ".join(n for n in (r, c) if n) for r in picture.rows for c in picture.columns]
    return _barh(picture.title, names, picture.values.ravel())


def _erasure(erasure: Erasure) -> "Figure":
    names = [*erasure.words_1, "", *erasure.words_2]
    values = np.concatenate([erasure.importance_1, [0.0], erasure.importance_2])
    return _barh(f"{erasure.of}: what each word adds", names, values)


def _barh(title: str, names: Sequence[str], values: np.ndarray) -> "Figure":
    figure = empty_figure(6.0, 1.2 + CELL * len(names))
    axis = figure.subplots()
    colors = [FOR if value >= 0 else AGAINST for value in values]
    axis.barh(range(len(names)), values, color=colors)
    axis.axvline(0, color="gray", linewidth=1)
    _names(axis.yaxis, names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_title(title, fontsize="small", parse_math=False)
    return figure


def _show(axis: Any, values: np.ndarray, scale: Scale) -> Any:
    from matplotlib.colors import ListedColormap

    colors = ListedColormap(PALETTES[scale.palette] / 255.0)
    aspect = "equal" if max(values.shape) <= MOST_NAMED else "auto"
    shown = {"vmin": 0, "vmax": 1, "interpolation": "nearest", "aspect": aspect}
    return axis.imshow(scale.positions(values), colors, **shown)


def _add_legend(figure: "Figure", image: Any, scale: Scale, **options: Any) -> None:
    places, names = zip(*scale.ticks)
    figure.colorbar(image, **options).set_ticks(places, labels=names, fontsize="x-small")


def _names(axis: Any, names: Sequence[str], **options: Any) -> None:
    """A name for each row or column, taken literally: a dollar sign does not start a formula."""
    if len(names) > MOST_NAMED:
        return
    axis.set_ticks(range(len(names)), [name[:24] for name in names], fontsize="x-small", **options)
    for label in axis.get_ticklabels():
        label.set_parse_math(False)
