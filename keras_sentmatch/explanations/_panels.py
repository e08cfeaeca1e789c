"""Turns the arrays of an explainer into pictures, as the model's `pictures` describe them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from keras_sentmatch.applications import PictureSpec
from keras_sentmatch.display.colors import Scale

MOST_BARS = 32  # a longer row of numbers is drawn as a strip
TOKENS = ("1", "2", "joint", "position")
# Each entry of these axes is a picture of its own. Layers are also averaged. Heads are averaged and
# shown small below their mean.
PANELS = ("autoencoder", "layer", "head", "direction", "unit")

Shape = Sequence[int | None]
Names = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Picture:
    """A picture to draw.

    Attributes:
        title: The title above it.
        kind: `"map"` (tokens by tokens), `"strip"` (rows by tokens or channels) or `"bars"`.
        caption: What it shows.
        values: `[rows, columns]`.
        rows: The names of the rows.
        columns: The names of the columns.
        axes: The kinds of rows and columns: `"1"`, `"2"` and `"joint"` are tokens.
        scale: The mapping from values to colors.
        parts: Small pictures by name with the same axes, such as the heads that `values` averages.
        keys: The names of the explainer's arrays that are shown.
        reread: Whether each row is a step that read the token with the largest weight.
    """

    title: str
    kind: str
    caption: str
    values: np.ndarray
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    axes: tuple[str, str]
    scale: Scale
    parts: Mapping[str, np.ndarray] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    reread: bool = False

    @property
    def steps(self) -> list[tuple[str, float]]:
        """The word read at each step, with its weight."""
        places = self.values.argmax(1)
        return [(self.columns[place], float(row[place])) for place, row in zip(places, self.values)]


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
        model: The model, whose `pictures` describe the arrays. Other arrays are drawn last, by their
            shapes.

    Returns:
        The arrays without padding, the pictures, and notes on arrays that cannot be drawn.
    """
    specs: Sequence[PictureSpec] = getattr(model, "pictures", ())
    classes = label_names or ("score",)
    found = [(key, *_find(key, shapes[key], specs, tokens, len(classes))) for key in values]
    trimmed: dict[str, np.ndarray] = {}
    pictures: list[Picture] = []
    notes: list[str] = []
    for key, order, spec, axes in sorted(found, key=lambda row: row[1]):  # stable
        array = trimmed[key] = _trim(np.asarray(values[key], "float64"), axes, tokens)
        if order == len(specs) and array.ndim > 3 and array.size:
            notes.append(f"{key} has too many axes to draw: {_format_shape(array.shape)}.")
        elif array.size:
            known = {**tokens, "class": classes, **spec.names}
            names = {
                axis: _entry_names(axis, size, known, model)
                for axis, size in zip(axes, array.shape)
            }
            pictures += _pictures(_Panel(key, spec, spec.title, axes, array, names))
    empty = [key for key, array in trimmed.items() if not array.size]
    if empty:
        notes.append(f"A sentence is empty, so there is no picture of {', '.join(empty)}.")
    return {key: trimmed[key] for key in values}, _join_rows(pictures), notes


def find_scale(values: np.ndarray, top: float | None = None, low: float = 0.0) -> Scale:
    """Return the scale of an array: of shares if rows sum to 1, symmetric if values are negative."""
    finite = values[np.isfinite(values)]
    high = float(max(np.abs(finite).max(initial=0.0), top or 0.0)) or 1.0
    if finite.min(initial=0.0) < 0:
        return Scale(-high, high)
    if np.allclose(values.sum(-1), 1, atol=1e-3):
        return Scale(0.0, high, 1 / values.shape[-1])
    return Scale(low if low < high else 0.0, high)


def parts_scale(picture: Picture) -> Scale:
    """Return one scale for a picture and its parts."""
    every = np.stack([picture.values, *picture.parts.values()])
    return find_scale(every, picture.scale.high, float(every.min()))


def _find(
    key: str, shape: Shape, specs: Sequence[PictureSpec], tokens: Names, classes: int
) -> tuple[int, PictureSpec, list[str]]:
    """Return the position of an array's spec, the spec without placeholders, and its axes."""
    for order, spec in enumerate(specs):
        match = re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>\\d+)", spec.key), key)
        if match is None:
            continue
        groups = match.groupdict()
        groups["other"] = "1" if groups.get("side") == "2" else "2"
        if "layer" in groups:
            groups["layer"] = str(int(groups["layer"]) + 1)
        axes = _drop_optional(spec.axes.format(**groups).split(), len(shape))
        if _fits(axes, shape, tokens, classes):
            title, caption = spec.title.format(**groups), spec.caption.format(**groups)
            return order, replace(spec, title=title, caption=caption), axes
    caption = f"An array of the explainer with the shape {_format_shape(shape)}."
    return len(specs), PictureSpec(key, "", key, caption), _guess_axes(key, shape, tokens)


def _drop_optional(axes: Sequence[str], rank: int) -> list[str]:
    optional = [place for place, axis in enumerate(axes) if axis.endswith("?")]
    dropped = optional[: max(0, len(axes) - rank)]
    return [axis.removesuffix("?") for place, axis in enumerate(axes) if place not in dropped]


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


def _guess_axes(key: str, shape: Shape, tokens: Names) -> list[str]:
    """Guess the axes: an unknown length means tokens; the array's name ends with the sentence."""
    count, side = list(shape).count(None), key[-1] if key.endswith(("_1", "_2")) else ""
    names = [side or "position"] * count
    if "joint" in tokens:
        names = ["joint"] * count
    elif count == 2:
        names = ["2", "1"] if side == "2" else ["1", "2"]
    numbered = (f"axis {place}" for place in range(1, len(shape) + 1))
    left = iter(names)
    axes = [next(left) if size is None else name for name, size in zip(numbered, shape)]
    return ["head", *axes[1:]] if len(axes) == 3 and axes[0] not in TOKENS else axes


def _trim(array: np.ndarray, axes: Sequence[str], tokens: Names) -> np.ndarray:
    longest = max(len(sentence) for sentence in tokens.values())
    for place, axis in enumerate(axes):
        if axis in TOKENS:
            real = longest if axis == "position" else len(tokens[axis])
            array = np.take(array, range(min(real, array.shape[place])), axis=place)
    return array


def _entry_names(axis: str, size: int, known: Names, model: Any) -> Sequence[str]:
    """Return the names of an axis's entries: those known if there is one per entry, or numbers."""
    names: Sequence[str] = known.get(axis, ())
    if axis in ("unit", "reader"):
        names = ["tokens", *(f"phrases of {width}" for width in getattr(model, "widths", ()))]
    elif axis == "part":
        block = str(getattr(model, "feature_attention", ""))  # a name or a layer's config
        axis = "branch" if block == "sfa" or "Selective" in block else "autoencoder"
    if len(names) == size:
        return names
    if axis in ("feature", "position", "perspective"):
        return [str(number) for number in range(1, size + 1)]
    return [axis] if size == 1 else [f"{axis} {number}" for number in range(1, size + 1)]


def _pictures(panel: _Panel) -> Iterator[Picture]:
    """Yield the pictures of one array: axes become panels until two are left."""
    axes = panel.axes
    axis = next((axis for axis in axes if axis in PANELS), axes[0] if len(axes) > 2 else None)
    if axis is None:
        yield _picture(panel)
        return
    place = axes.index(axis)
    arrays, names = np.moveaxis(panel.array, place, 0), panel.names[axis]
    if axis == "head":
        for picture in _pictures(panel.without(place, arrays.mean(0))):
            flip = picture.values.shape != arrays.shape[1:]
            heads = {name: x.T if flip else x for name, x in zip(names, arrays)}
            yield replace(picture, parts=heads) if len(heads) > 1 else picture
    elif len(arrays) == 1:
        yield from _pictures(panel.without(place, arrays[0]))
    else:
        for name, array in zip(names, arrays):
            yield from _pictures(panel.without(place, array, f"{panel.title}: {name}"))
        if axis == "layer":
            title = f"{panel.title}: mean of the layers"
            yield from _pictures(panel.without(place, arrays.mean(0), title))


def _picture(panel: _Panel) -> Picture:
    array, axes, names, spec = panel.array, panel.axes, panel.names, panel.spec
    one_row = array.ndim < 2
    if one_row:
        array, axes = array.reshape(1, -1), ["", *(axes or ["value"])]
    elif axes[0] in TOKENS and axes[1] not in TOKENS:
        array, axes = array.T, axes[::-1]
    rows = [spec.row or panel.key] if one_row else names[axes[0]]
    kind = "map" if axes[0] in TOKENS else "strip"
    if one_row and axes[1] not in TOKENS and array.size <= MOST_BARS:
        kind = "bars"
    columns = tuple(names.get(axes[1], ("value",)))
    scale = find_scale(array, spec.top, np.nanmin(array) if kind == "map" and not spec.top else 0.0)
    return Picture(
        *(panel.title, kind, spec.caption, array, tuple(rows), columns, (axes[0], axes[1]), scale),
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


def _format_shape(shape: Shape) -> str:
    return "[" + ", ".join("L" if size is None else str(size) for size in shape) + "]"
