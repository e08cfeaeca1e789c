"""From the arrays of an explainer to pictures: one table says what each array is."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

MOST_BARS = 32  # more numbers than that are drawn as a strip


@dataclass(frozen=True)
class Picture:
    """What will be drawn.

    Attributes:
        title: Above it.
        kind: `"map"` (tokens by tokens), `"strip"` (rows by tokens, or by channels) or `"bars"`.
        caption: What it shows.
        values: `[rows, columns]`.
        rows: A name for each row.
        columns: A name for each column.
        axes: What rows and columns are: `"1"`, `"2"` and `"joint"` are tokens, others are said by name.
        low: The value of the one end of the colours; 0, or `-high` where there are negative values.
        high: The value of the other end.
        parts: Small pictures on the same axes, by name, such as the heads whose mean `values` is.
        keys: The explainer's arrays that it shows.
        reread: Whether each row is a step in which the greatest column was read.
    """

    title: str
    kind: str
    caption: str
    values: np.ndarray
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    axes: tuple[str, str]
    low: float
    high: float
    parts: Mapping[str, np.ndarray] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    reread: bool = False

    @property
    def steps(self) -> list[tuple[str, float]]:
        """Of re-read words the one read at each step, with its weight."""
        places = self.values.argmax(1)
        return [(self.columns[place], float(row[place])) for place, row in zip(places, self.values)]


class Entry(NamedTuple):
    """One line of the table: which array, what its axes are, how to call it.

    Attributes:
        key: Pattern of the array's name. Its groups, such as `(?P<side>[12])`, can be named in what follows;
            `{other}` is the other side.
        axes: The axes after the batch. `1`, `2` and `joint` are tokens; those in `PANELS` become pictures of their own;
            of the rest there are at most two. An entry is taken only if the axes fit the array.
        title: Arrays of one row with the same title and columns become the rows of one picture.
        caption: What it shows.
        row: Name of the row, if it has one only.
        top: The value of the darkest colour, where the greatest one isn't wanted.
        reread: See `Picture`.
    """

    key: str
    axes: str
    title: str
    caption: str = ""
    row: str = ""
    top: float | None = None
    reread: bool = False


SIDE, NUMBER = "(?P<side>[12])", r"(?P<n>\d+)"
ALIGNED = "How much each word (row) attends to each word of sentence {other}; rows sum to 1."
ALIGNED_2 = ALIGNED.format(other=1)
WITHIN = "How much each word (row) attends to each word of its own sentence; rows sum to 1."
POOLED = "The share of the max-pooled features that come from each word; sums to 1."
HEADS = "From each piece (row) to the others, rows sum to 1: the mean of the heads, which stand small below it."
GATES = (
    "How much of each piece's fused vector is affinity, and how much of that vector is let through."
)
PRODUCTS = "The mean over the features of the product of two words' vectors."
FEATURES = (
    "A column for each feature; a row for each branch of SFA (or for each autoencoder, with FA)."
)
READ = "A row for each step. The outlined token is the one read, or the middle of the phrase read."
FACTORIZED = "What factorization machines make of each word with its alignments."
STRATEGIES = (
    "For each strategy (a block of rows; by default full, max, attentive, max-attentive) the perspectives of the forward "
    "states, then of the backward ones."
)
INTERACTION = (
    "The size of the interaction matrix of each word of sentence 2 (row) after each word of sentence 1; "
    "from 0, the least of the row, to 1."
)
MADE = "The size of the weights that are made for the GRU; from 0, the least of the row, to 1."

# In the order of the page. A new model whose arrays have new names gets a line each.
# fmt: off
TABLE = (
    # Feature attention (of DRCN once for each autoencoder)
    Entry("feature_map_before", "1 2", "Feature-averaged dot product, before the blocks", PRODUCTS),
    Entry("feature_map_before", "autoencoder 1 2", "Feature-averaged dot product, before the blocks", PRODUCTS),
    Entry("feature_map", "1 2", "Feature-averaged dot product, after the blocks", PRODUCTS),
    Entry("feature_map", "autoencoder 1 2", "Feature-averaged dot product, after the blocks", PRODUCTS),
    Entry(f"gates_{SIDE}", "feature", "Gates of the features, sentence {side}", FEATURES, "gate", 1),
    Entry(f"gates_{SIDE}", "part feature", "Gates of the features, sentence {side}", FEATURES, top=1),
    Entry(f"gates_{SIDE}", "autoencoder part feature", "Gates of the features, sentence {side}", FEATURES, top=1),
    Entry(f"selection_{SIDE}", "part feature", "Weights of the branches, sentence {side}", FEATURES, top=1),
    Entry(f"selection_{SIDE}", "autoencoder part feature", "Weights of the branches, sentence {side}", FEATURES, top=1),
    # DRr-Net
    Entry(f"selection_{SIDE}", "step {side}", "Words read again, sentence {side}", READ, reread=True),
    Entry("p_h", "class", "Predictions before they are joined", "", "from the global vectors", 1),
    Entry("p_v", "class", "Predictions before they are joined", "", "from the re-read vectors", 1),
    Entry("gate_h", "one", "Gates of these predictions", "", "from the global vectors", 1),
    Entry("gate_v", "one", "Gates of these predictions", "", "from the re-read vectors", 1),
    # LadRa-Net
    Entry("selection", "step unit joint", "Read again", READ, reread=True),
    Entry("coverage", "step unit joint", "Coverage", "What is left to read of each piece after each step.", top=1),
    Entry("unit_weights", "step reader", "Weights of the units", "At each step.", top=1),
    Entry("layer_weights", "block", "Weights of the encoder's blocks"),
    # DRCN, RE2, ESIM, CAFE
    Entry(f"attention_{SIDE}", "layer {side} {other}", "Attention, sentence {side}", ALIGNED),
    Entry(f"attention_{SIDE}", "{side} {other}", "Attention, sentence {side}", ALIGNED),
    Entry(f"pool_rates_{SIDE}", "{side}", "Max-pool rates, sentence {side}", POOLED, "rate"),
    Entry(f"intra_attention_{SIDE}", "{side} {side}", "Intra-attention, sentence {side}", WITHIN),
    Entry(f"features_{SIDE}", "{side} comparison", "Alignment features, sentence {side}", FACTORIZED),
    # DIIN
    Entry(f"self_attention_{SIDE}", "{side} {side}", "Self-attention, sentence {side}", WITHIN),
    # BiMPM
    Entry("cosines", "direction 1 2", "Cosines", "Of the LSTM states of two words."),
    Entry(f"matching_{SIDE}", "{side} perspective", "Matching vectors, sentence {side}", STRATEGIES),
    # What feature attention may be added to, without it
    Entry("feature_map_base", "1 2", "Feature-averaged dot product", PRODUCTS),
    Entry("feature_map_base", "autoencoder 1 2", "Feature-averaged dot product", PRODUCTS),
    # DIN
    Entry("interaction_2", "2 1", "Interaction matrices", INTERACTION, top=1),
    Entry("update_gate_2", "2", "Gates made at each word of sentence 2", MADE, "update gate z", 1),
    Entry("reset_gate_2", "2", "Gates made at each word of sentence 2", MADE, "reset gate r", 1),
    Entry("candidate_2", "2", "Gates made at each word of sentence 2", MADE, "candidate h", 1),
    # rLSTM
    Entry("attention_(?P<way>forward|backward)_2", "2 1", "Attention while reading {way}, sentence 2", ALIGNED_2),
    # DABERT, cross encoders
    Entry(f"affinity_{NUMBER}", "head joint joint", "Affinity attention, layer {n}", HEADS),
    Entry(f"difference_{NUMBER}", "head joint joint", "Difference attention, layer {n}", HEADS),
    Entry(f"gate_{NUMBER}", "joint", "Fusion gates, layer {n}", GATES, "share of affinity g", 1),
    Entry(f"filter_{NUMBER}", "joint", "Fusion gates, layer {n}", GATES, "let through f", 1),
    Entry(f"attention_{NUMBER}", "head joint joint", "Attention, layer {n}", HEADS),
)
# fmt: on

# Axes whose entries are pictures of their own; of layers the mean is shown too. Of heads the mean is the picture, and
# they stand small below it.
PANELS = ("autoencoder", "layer", "head", "direction", "unit")


def _units(model: Any, size: int) -> list[str]:
    return ["tokens", *(f"phrases of {width}" for width in getattr(model, "widths", ()))]


def _parts(model: Any, size: int) -> list[str]:
    kind = str(getattr(model, "feature_attention", ""))  # a name, or the config of a layer
    what = "branch" if kind == "sfa" or "Selective" in kind else "autoencoder"
    return [f"{what} {number}" for number in range(1, size + 1)]


# What the entries of an axis are called, given the model and how many they are, where a number isn't enough.
AXES: dict[str, Callable[[Any, int], Sequence[str]]] = {
    "direction": lambda model, size: ("forward", "backward"),
    "unit": _units,
    "reader": _units,
    "part": _parts,
    "one": lambda model, size: ("gate",),
    "comparison": lambda model, size: [
        f"{what}, {alignment}"
        for alignment in ("first", "second")
        for what in ("concatenation", "product", "difference")
    ],
}
TOKENS = ("1", "2", "joint", "position")


def make_pictures(
    values: Mapping[str, np.ndarray],
    shapes: Mapping[str, Sequence[int | None]],
    tokens: Mapping[str, Sequence[str]],
    label_names: Sequence[str] | None = None,
    model: Any = None,
) -> tuple[dict[str, np.ndarray], list[Picture], list[str]]:
    """Cuts an explainer's arrays at the real lengths and says how each is drawn.

    Args:
        values: The arrays of one pair, without the batch.
        shapes: What the explainer says of them, without the batch: `None` for a length.
        tokens: The tokens of `"1"` and `"2"`, and, where the model reads them as one sequence, of `"joint"`.
        label_names: For arrays with a number a class.
        model: For the names of its units.

    Returns:
        The arrays without padding; the pictures in the order of `TABLE`, then those of unknown arrays, which are
        drawn by their shape; and, in words, what could not be drawn.
    """
    found: list[tuple[int, str, Entry, list[str]]] = []
    notes: list[str] = []
    empty: list[str] = []
    for key in values:
        order, entry, axes = _find(key, shapes[key], tokens, label_names)
        found.append((order, key, entry, axes))
    found.sort(key=lambda row: row[0])  # stable: equal lines keep the explainer's order
    cut: dict[str, np.ndarray] = {}
    pictures: list[Picture] = []
    for order, key, entry, axes in found:
        cut[key] = _cut(np.asarray(values[key], "float64"), axes, tokens)
        if cut[key].size == 0:
            empty.append(key)
        elif order == len(TABLE) and cut[key].ndim > 3:
            notes.append(f"{key}: an array {_size(cut[key])}, too many axes to draw.")
        else:
            known = {**tokens, "class": label_names or ("score",)}
            names = {
                axis: _names(axis, size, known, model) for axis, size in zip(axes, cut[key].shape)
            }
            pictures.extend(_arrange(key, entry, axes, cut[key], names))
    if empty:
        notes.append(f"Nothing to draw of {', '.join(empty)}: a sentence is empty.")
    return {key: cut[key] for key in values}, _joined(pictures), notes


def _find(
    key: str,
    shape: Sequence[int | None],
    tokens: Mapping[str, Sequence[str]],
    label_names: Sequence[str] | None,
) -> tuple[int, Entry, list[str]]:
    """The line of the table for an array, with names filled in, and its axes; an own one where none fits."""
    for order, entry in enumerate(TABLE):
        match = re.fullmatch(entry.key, key)
        if match is None:
            continue
        groups = match.groupdict()
        groups["other"] = {"1": "2", "2": "1"}.get(groups.get("side", ""), "")
        if "n" in groups:  # keys count layers from 0, papers from 1
            groups["n"] = str(int(groups["n"]) + 1)
        title, caption = entry.title.format(**groups), entry.caption.format(**groups)
        axes = entry.axes.format(**groups).split()
        if _fits(axes, shape, tokens, len(label_names or ("score",))):
            return order, entry._replace(title=title, caption=caption), axes
    axes = _guess(key, shape, tokens)
    caption = f"An array {_size(shape)} of the model's explainer, drawn by its shape."
    return len(TABLE), Entry(key, "", key, caption), axes


def _fits(
    axes: Sequence[str],
    shape: Sequence[int | None],
    tokens: Mapping[str, Sequence[str]],
    classes: int,
) -> bool:
    if len(axes) != len(shape):
        return False
    for axis, size in zip(axes, shape):
        if axis in TOKENS:  # a fixed size is a limit
            if axis not in tokens or ("joint" in tokens) != (axis == "joint"):
                return False
            if size is not None and size < len(tokens[axis]):
                return False
        elif size is None or (axis == "class" and size != classes) or (axis == "one" and size != 1):
            return False
    return True


def _guess(key: str, shape: Sequence[int | None], tokens: Mapping[str, Sequence[str]]) -> list[str]:
    """Axes of unknown length are tokens; of which sentence is read off the end of the name."""
    lengths = [place for place, size in enumerate(shape) if size is None]
    side = key[-1] if key.endswith(("_1", "_2")) else ""
    if "joint" in tokens:
        names = ["joint"] * len(lengths)
    elif len(lengths) == 2:
        names = ["2", "1"] if side == "2" else ["1", "2"]
    else:
        names = [side or "position"] * len(lengths)
    axes = [f"axis {place + 1}" for place in range(len(shape))]
    for place, name in zip(lengths, names):
        axes[place] = name
    return ["head", *axes[1:]] if len(axes) == 3 and axes[0] not in TOKENS else axes


def _cut(array: np.ndarray, axes: Sequence[str], tokens: Mapping[str, Sequence[str]]) -> np.ndarray:
    longest = max(len(found) for found in tokens.values())
    for place, axis in enumerate(axes):
        if axis in TOKENS:
            real = longest if axis == "position" else len(tokens[axis])
            array = np.take(array, range(min(real, array.shape[place])), axis=place)
    return array


def _arrange(
    key: str, entry: Entry, axes: list[str], array: np.ndarray, names: Mapping[str, Sequence[str]]
) -> Iterator[Picture]:
    """The pictures of one array: a panel axis at a time is taken off, until two axes are left."""
    panel = next((axis for axis in axes if axis in PANELS), None)
    if panel is None and len(axes) > 2:
        panel = axes[0]
    if panel is None:
        yield _picture(key, entry, axes, array, names)
        return
    place = axes.index(panel)
    rest, panels = axes[:place] + axes[place + 1 :], np.moveaxis(array, place, 0)
    called = names[panel]
    if panel == "head":
        for picture in _arrange(key, entry, rest, panels.mean(0), names):
            flip = picture.values.shape != panels.shape[1:]
            small = {name: x.T if flip else x for name, x in zip(called, panels)}
            yield replace(picture, parts=small) if len(small) > 1 else picture
        return
    if len(panels) == 1:
        yield from _arrange(key, entry, rest, panels[0], names)
        return
    for name, values in zip(called, panels):
        titled = entry._replace(title=f"{entry.title}: {name}")
        yield from _arrange(key, titled, rest, values, names)
    if panel == "layer":
        titled = entry._replace(title=f"{entry.title}: mean of the layers")
        yield from _arrange(key, titled, rest, panels.mean(0), names)


def _picture(
    key: str, entry: Entry, axes: list[str], array: np.ndarray, names: Mapping[str, Sequence[str]]
) -> Picture:
    one_row = array.ndim < 2
    if one_row:
        array, axes = array.reshape(1, -1), ["", *(axes or ["one"])]
    elif axes[0] in TOKENS and axes[1] not in TOKENS:
        array, axes = array.T, axes[::-1]
    rows = [entry.row or key] if one_row else names[axes[0]]
    kind = "map" if axes[0] in TOKENS else "strip"
    if one_row and axes[1] not in TOKENS and array.size <= MOST_BARS:
        kind = "bars"
    low, high = scale(array, entry.top)
    return Picture(
        entry.title,
        kind,
        entry.caption,
        array,
        tuple(rows),
        tuple(names.get(axes[1], ("value",))),
        (axes[0], axes[1]),
        low,
        high,
        keys=(key,),
        reread=entry.reread,
    )


def scale(array: np.ndarray, top: float | None = None) -> tuple[float, float]:
    """The values of the ends of the colours: 0 and the greatest, or as far below 0 as above."""
    good = array[np.isfinite(array)]
    high = float(max(np.abs(good).max(initial=0.0), top or 0.0)) or 1.0
    return (-high if good.min(initial=0.0) < 0 else 0.0), high


def _joined(pictures: Sequence[Picture]) -> list[Picture]:
    """Pictures of one row with one title and the same columns become the rows of one."""
    joined: list[Picture] = []
    for picture in pictures:
        same = [
            place
            for place, old in enumerate(joined)
            if (old.title, old.columns) == (picture.title, picture.columns)
            and not old.axes[0] and not picture.axes[0]
        ]  # fmt: skip
        if not same:
            joined.append(picture)
            continue
        old = joined[same[0]]
        high = max(old.high, picture.high)
        joined[same[0]] = replace(
            old,
            values=np.concatenate([old.values, picture.values]),
            rows=old.rows + picture.rows,
            keys=old.keys + picture.keys,
            low=-high if min(old.low, picture.low) < 0 else 0.0,
            high=high,
        )
    return joined


def _names(axis: str, size: int, known: Mapping[str, Sequence[str]], model: Any) -> Sequence[str]:
    """What the entries of an axis are called: by name if there is one for each, else by number."""
    called = known[axis] if axis in known else AXES[axis](model, size) if axis in AXES else ()
    if len(called) == size:
        return called
    numbered = "" if axis in ("feature", "position", "perspective") else f"{axis} "
    return [f"{numbered}{number}" for number in range(1, size + 1)]


def _size(shape: Any) -> str:
    sizes = shape.shape if isinstance(shape, np.ndarray) else shape
    return "[" + ", ".join("L" if size is None else str(size) for size in sizes) + "]"
