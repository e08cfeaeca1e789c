"""Turns the arrays of an explainer into pictures, as the model's `pictures` describe them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keras_sentmatch.applications.picture_specs import PictureSpec
from keras_sentmatch.display.colors import Scale

TOKENS = ("1", "2", "joint")
# Each entry of these axes is a picture of its own.
PANELS = ("autoencoder", "layer", "direction", "unit")
MOST_ENTRIES = 48  # features or channels, of which more are averaged
MOST_NUMBERED = 24  # columns of a strip whose cells show numbers

Shape = Sequence[int | None]
Names = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Picture:
    """A grid of colored cells.

    Attributes:
        title: The title above it.
        caption: What it shows.
        values: `[rows, columns]`.
        rows: The names of the rows.
        columns: The names of the columns.
        axes: The kinds of rows and columns: `"1"`, `"2"` and `"joint"` are tokens.
        scale: The mapping from values to colors.
        keys: The names of the explainer's arrays that are shown.
        reread: Whether each row is a step that read the token with the largest weight.
    """

    title: str
    caption: str
    values: np.ndarray
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    axes: tuple[str, str]
    scale: Scale
    keys: tuple[str, ...] = ()
    reread: bool = False

    @property
    def numbered(self) -> bool:
        """Whether the cells show numbers."""
        return self.axes[0] not in TOKENS and len(self.columns) <= MOST_NUMBERED

    @property
    def steps(self) -> list[tuple[str, float]]:
        """The word read at each step, with its weight."""
        places = self.values.argmax(1)
        return [(self.columns[place], float(row[place])) for place, row in zip(places, self.values)]

    @property
    def cells(self) -> list[tuple[str, list[tuple[str, str, str]]]]:
        """The name of each row, with the style, the title and the text of its cells."""
        places = 2 if self.scale.high >= 0.1 else 3 if self.scale.high >= 0.01 else 4
        found = []
        for name, values, levels in zip(self.rows, self.values, self.scale.levels(self.values)):
            styles = [f"{self.scale.palette}{level}" if level >= 0 else "x" for level in levels]
            if self.reread:
                styles[values.argmax()] += " top"
            titles = [f"{name} · {column}: {x:.3g}" for column, x in zip(self.columns, values)]
            texts = [format_short(x, places) if self.numbered else "" for x in values]
            found.append((name, list(zip(styles, titles, texts))))
        return found


def format_short(value: float, places: int = 2) -> str:
    """Format a number for a narrow cell, without the leading zero."""
    if not np.isfinite(value):
        return "?"
    if abs(value) >= 0.995:
        return f"{value:.0f}" if abs(value) >= 9.95 else f"{value:.1f}"
    return f"{value:.{places}f}".replace("0.", ".", 1)


@dataclass(frozen=True)
class _Panel:
    """An array that becomes pictures, with a name for each axis and for each of its entries."""

    key: str
    spec: PictureSpec
    title: str
    axes: list[str]
    array: np.ndarray
    names: Names

    def without(self, place: int, array: np.ndarray, title: str = "") -> "_Panel":
        """Return the panel of one entry (or of the mean) of an axis."""
        axes = self.axes[:place] + self.axes[place + 1 :]
        return replace(self, axes=axes, array=array, title=title or self.title)


def make_pictures(
    values: Mapping[str, np.ndarray],
    shapes: Mapping[str, Shape],
    tokens: Names,
    label_names: Sequence[str] | None = None,
    model: Any = None,
) -> tuple[dict[str, np.ndarray], list[Picture], list[str]]:
    """Trim an explainer's arrays to the real lengths, and decide how to draw each array.

    Args:
        values: The arrays of one pair, without the batch axis.
        shapes: Their symbolic shapes, without the batch axis: `None` for a length.
        tokens: The tokens of `"1"` and `"2"`, and of `"joint"` if the model reads one sequence.
        label_names: Names for arrays with one number per class.
        model: The model, whose `pictures` describe the arrays.

    Returns:
        The arrays without padding, the pictures, and notes on arrays that cannot be drawn.
    """
    specs: Sequence[PictureSpec] = getattr(model, "pictures", ())
    classes = label_names or ("score",)
    trimmed = {key: np.asarray(array, "float64") for key, array in values.items()}
    found: list[tuple[int, Picture]] = []
    notes: list[str] = []
    empty: list[str] = []
    for key, array in trimmed.items():
        match = _find(key, shapes[key], specs, tokens, len(classes))
        if match is None:
            notes.append(f"{key} is not drawn: no PictureSpec of the model fits it.")
            continue
        order, spec, axes = match
        for place, axis in enumerate(axes):
            if axis in TOKENS:
                real = min(len(tokens[axis]), array.shape[place])
                array = np.take(array, range(real), axis=place)
        trimmed[key] = array
        if not array.size:
            empty.append(key)
            continue
        known = {**tokens, "class": classes, **spec.names}
        names = {
            axis: _entry_names(axis, size, known, model) for axis, size in zip(axes, array.shape)
        }
        panel = _Panel(key, spec, spec.title, axes, array, names)
        found += [(order, picture) for picture in _pictures(panel)]
    if empty:
        notes.append(f"A sentence is empty, so there is no picture of {', '.join(empty)}.")
    return trimmed, _join_rows([picture for _, picture in sorted(found, key=lambda x: x[0])]), notes


def find_scale(values: np.ndarray, top: float | None = None, low: float = 0.0) -> Scale:
    """Return the scale of an array: of shares if rows sum to 1, symmetric if values are negative."""
    finite = values[np.isfinite(values)]
    high = float(max(np.abs(finite).max(initial=0.0), top or 0.0)) or 1.0
    if finite.min(initial=0.0) < 0:
        return Scale(-high, high)
    if np.allclose(values.sum(-1), 1, atol=1e-3):
        return Scale(0.0, high, 1 / values.shape[-1])
    return Scale(low if low < high else 0.0, high)


def _find(
    key: str, shape: Shape, specs: Sequence[PictureSpec], tokens: Names, classes: int
) -> tuple[int, PictureSpec, list[str]] | None:
    """Return the position of an array's spec, the spec without placeholders, and its axes."""
    for order, spec in enumerate(specs):
        match = re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>\\d+)", spec.key), key)
        if match is None:
            continue
        groups = match.groupdict()
        groups["other"] = "1" if groups.get("side") == "2" else "2"
        if "layer" in groups:
            groups["layer"] = str(int(groups["layer"]) + 1)
        axes = spec.axes.format(**groups).split()
        optional = [place for place, axis in enumerate(axes) if axis.endswith("?")]
        dropped = optional[: max(0, len(axes) - len(shape))]
        axes = [axis.removesuffix("?") for place, axis in enumerate(axes) if place not in dropped]
        if _fits(axes, shape, tokens, classes):
            title, caption = spec.title.format(**groups), spec.caption.format(**groups)
            return order, replace(spec, title=title, caption=caption), axes
    return None


def _fits(axes: Sequence[str], shape: Shape, tokens: Names, classes: int) -> bool:
    if len(axes) != len(shape):
        return False
    for axis, size in zip(axes, shape):
        if axis in TOKENS:  # a fixed size is the maximum length
            if axis not in tokens or ("joint" in tokens) != (axis == "joint"):
                return False
            if size is not None and size < len(tokens[axis]):
                return False
        elif size is None or (axis == "class" and size != classes):
            return False
    return True


def _entry_names(axis: str, size: int, known: Names, model: Any) -> Sequence[str]:
    """Return the names of an axis's entries: those known if there is one per entry, or numbers."""
    names: Sequence[str] = known.get(axis, ())
    if axis in ("unit", "reader"):
        names = ["tokens", *(f"phrases of {width}" for width in getattr(model, "widths", ()))]
    elif axis == "part":
        block = str(getattr(model, "feature_attention", ""))  # a name or a layer's config
        axis = "branch" if block == "sfa" or "Selective" in block else "autoencoder"
    if len(names) == size:
        if axis in TOKENS:
            return names
        plain = (re.sub("_([12])$", r", sentence \1", name) for name in names)
        return [name.replace("_", " ") for name in plain]
    if axis in ("feature", "perspective"):
        return [str(number) for number in range(1, size + 1)]
    return [axis] if size == 1 else [f"{axis} {number}" for number in range(1, size + 1)]


def _pictures(panel: _Panel) -> Iterator[Picture]:
    """Yield the pictures of one array: axes become panels until two are left."""
    axes, shape = panel.axes, panel.array.shape
    many = [a for a, n in zip(axes, shape) if n > MOST_ENTRIES and a not in TOKENS]
    axis = next((axis for axis in axes if axis in ("head", *PANELS)), None)
    if axis is not None:
        place = axes.index(axis)
        arrays, names = np.moveaxis(panel.array, place, 0), panel.names[axis]
        if axis == "head" or len(arrays) == 1:
            yield from _pictures(panel.without(place, arrays.mean(0)))
            return
        for name, array in zip(names, arrays):
            yield from _pictures(panel.without(place, array, f"{panel.title}: {name}"))
    elif many:
        place = axes.index(many[0])
        title = f"{panel.title}: mean of {shape[place]}"
        yield from _pictures(panel.without(place, panel.array.mean(place), title))
    else:
        yield _picture(panel)


def _picture(panel: _Panel) -> Picture:
    array, axes, names, spec = panel.array, panel.axes, panel.names, panel.spec
    one_row = array.ndim < 2
    if one_row:
        array, axes = array.reshape(1, -1), ["", *(axes or ["value"])]
    elif axes[0] in TOKENS and axes[1] not in TOKENS:
        array, axes = array.T, axes[::-1]
    rows = [spec.row or panel.title if one_row else name for name in names.get(axes[0], [""])]
    if axes[0] not in TOKENS and array.any():
        kept = [place for place, row in enumerate(array) if row.any()]  # rows of zeros say nothing
        array, rows = array[kept], [rows[place] for place in kept]
    low = 0.0 if spec.top or axes[0] not in TOKENS else np.nanmin(array)
    columns = tuple(names.get(axes[1], ("value",)))
    scale = find_scale(array, spec.top, low)
    return Picture(
        *(panel.title, spec.caption, array, tuple(rows), columns, (axes[0], axes[1]), scale),
        keys=(panel.key,),
        reread=spec.reread,
    )


def _join_rows(pictures: Sequence[Picture]) -> list[Picture]:
    """Join single rows with the same title and columns into one picture."""
    joined: dict[object, Picture] = {}
    for place, picture in enumerate(pictures):
        key = place if picture.axes[0] else (picture.title, picture.columns)
        if key not in joined:
            joined[key] = picture
            continue
        old = joined[key]
        values = np.concatenate([old.values, picture.values])
        joined[key] = replace(
            old,
            values=values,
            rows=old.rows + picture.rows,
            keys=old.keys + picture.keys,
            scale=find_scale(values, max(old.scale.high, picture.scale.high)),
        )
    return list(joined.values())
