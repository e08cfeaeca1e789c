"""`probe`: whether the mechanisms of a trained model act on given pairs. Nothing is trained.

A mechanism is a layer that a paper adds to what was there before it. While the model reads the pairs, the arguments
of each such layer are kept, and the layer is called on them again: with what its `return_…` option shows, and with the
arguments of another pair. Then the model reads the pairs once more, with the mechanism's output replaced by its mean
over all pairs and tokens. If no answer changes, the model does not need what the mechanism finds out about a pair.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_sentmatch import layers
from keras_sentmatch.data import PairDataset
from keras_sentmatch.display.figures import empty_figure, save_png
from keras_sentmatch.display.tables import markdown_table
from keras_sentmatch.encoders.batches import prediction_batches
from keras_sentmatch.errors import InputError
from keras_sentmatch.layers.drcn import AutoencoderBottleneck
from keras_sentmatch.metrics.calibration import decide
from keras_sentmatch.safety import replace_file

if TYPE_CHECKING:
    from keras_sentmatch.inference import Matcher

Array = Any  # of NumPy
Call = dict[str, Any]  # the arguments of a layer's call by name
VERDICTS = ("does nothing", "acts weakly", "acts")
COLUMNS = ("mechanism", "layer", "measure", "value", "verdict")


class Measure(NamedTuple):
    """A number that grows with what a mechanism does: up to `dead` it does nothing, up to `weak` it acts weakly."""

    name: str
    dead: float
    weak: float
    reduce: Callable[[Array], float] = lambda values: float(np.mean(values))


def _spread(values: Array) -> float:
    """Return by how much a value differs from pair to pair, in the mean over the features."""
    return float(np.mean(np.std(values, axis=0)))


DISTINCT = Measure("distinct tokens read", 1.05, 1.5)
CONCENTRATION = Measure("concentration of a choice (0: uniform, 1: one)", 0.01, 0.1)
OTHER_GUIDE = Measure("share of sentences in which another guide changes a choice", 0.01, 0.1)
OTHER_START = Measure("share of sentences in which another start changes a choice", 0.01, 0.1)
MOVES = Measure("change of the state from the first step to the last", 0.01, 0.05)
SIZE = Measure("size of the change relative to the input", 0.01, 0.05)
NEIGHBORS = Measure("change of a phrase with other neighbors", 0.01, 0.05)
GATE = Measure("spread of a gate over the pairs", 0.005, 0.02, _spread)
FILTER = Measure("spread of the filter over the pairs", 0.005, 0.02, _spread)
APART = Measure("difference of the two attentions (0: equal, 1: disjoint)", 0.01, 0.05)
OTHER_SENTENCE = Measure("change if the other sentence is replaced", 0.01, 0.05)
EXPLAINED = Measure("share of the input that the code rebuilds", 0.05, 0.5)
CHANGED = Measure("share of answers changed without it", 0.01, 0.05)
CHANGED_SCORE = CHANGED._replace(name="change of the score without it, relative to its spread")
Found = Iterator[tuple[Measure, Array]]


# === What is measured of each layer ===


def _rereading(layer: Any, call: Call) -> Found:
    found = layer(**call, return_selection=True)
    states, selection = _array(found[1]), _array(found[2])  # [B, T, d], [B, T, L]
    yield from _choices(selection, _array(call["mask"]))
    yield MOVES, _relative(states[:, -1], states[:, 0])
    for measure, name in ((OTHER_GUIDE, "guide"), (OTHER_START, "initial_state")):
        if call.get(name) is not None and len(selection) > 1:
            other = layer(**{**call, name: _rolled(call[name])}, return_selection=True)[2]
            yield measure, _read_otherwise(selection, _array(other))


def _phrase_rereading(layer: Any, call: Call) -> Found:
    states, selection, _, units = map(_array, layer(**call, return_selection=True))
    each = np.moveaxis(selection, 2, 0)  # [units, B, T, L]
    for selected in each:
        yield from _choices(selected, _array(call["mask"]))
    if sum(layer.fused) > 1:
        used = units[..., np.array(layer.fused, bool)]
        yield CONCENTRATION._replace(name="concentration of the weights of units"), _sharp(used)
    yield MOVES, _relative(states[:, -1], states[:, 0])
    if len(states) > 1:
        other = _array(layer(**{**call, "guide": _rolled(call["guide"])}, return_selection=True)[1])
        pairs = [_read_otherwise(a, b) for a, b in zip(each, np.moveaxis(other, 2, 0))]
        yield OTHER_GUIDE, np.max(pairs, axis=0)


def _choices(selection: Array, mask: Array) -> Found:
    """Measure the weights `[B, T, L]` by which tokens are read, of sentences with two or more."""
    several = mask.sum(1) > 1
    chosen = selection[several].argmax(-1)
    yield DISTINCT, np.array([len(set(row)) for row in chosen.tolist()], float)
    lengths = np.broadcast_to(mask[:, None].sum(-1), selection.shape[:2])
    yield CONCENTRATION, _sharp(selection[several], lengths[several])


def _phrases(layer: Any, call: Call) -> Found:
    x, mask = _array(call["x"]), _array(call["mask"])
    y = _array(layer(**call))  # [B, n, L, D]
    yield (
        SIZE,
        _size(y, np.zeros_like(y), mask[:, None])
        / np.maximum(_size(x, np.zeros_like(x), mask), 1e-9),
    )
    odd = (np.arange(x.shape[1]) % 2 == 1)[None, :, None]
    if len(x) > 1:
        others = np.where(odd, np.roll(x, 1, axis=0), x)
        z = _array(layer(**{**call, "x": ops.cast(others, call["x"].dtype)}))
        yield NEIGHBORS, _relative(z[:, :, ::2], y[:, :, ::2])


def _two_attentions(layer: Any, call: Call) -> Found:
    *_, affinity, difference = map(_array, layer(**call, return_attention=True))
    lengths = np.broadcast_to(_array(call["mask"]).sum(1)[:, None, None], affinity.shape[:3])
    real = np.broadcast_to(_array(call["mask"])[:, None], affinity.shape[:3]) & (lengths > 1)
    for name, weights in (("affinity", affinity), ("difference", difference)):
        measure = CONCENTRATION._replace(name=f"concentration of the {name} (0: uniform, 1: one)")
        yield measure, _sharp(weights[real], lengths[real])
    yield APART, (np.abs(affinity - difference).sum(-1) / 2)[real]


def _fusion(layer: Any, call: Call) -> Found:
    _, gate, kept, size = map(_array, layer(**call, return_gates=True))
    real = _array(call["mask"])
    yield SIZE, size[real]
    for measure, values in ((GATE, gate), (FILTER, kept)):
        yield measure, values[real]


def _feature_gates(layer: Any, call: Call) -> Found:
    u, gates = map(_array, layer(**call, return_gates=True))
    yield GATE, gates
    yield SIZE, _size(u, _array(call["x"]), _array(call["mask"]))


def _selection_of_branches(layer: Any, call: Call) -> Found:
    u, gates, weights = map(_array, layer(**call, return_gates=True))
    if layer.selects:
        yield CONCENTRATION, _sharp(np.moveaxis(weights, 1, -1))  # over the branches
        yield GATE._replace(name="spread of a branch's weight over the pairs"), weights
    else:
        yield GATE, gates
    x = _array(call["x"])
    if u.shape == x.shape:
        yield SIZE, _size(u, x, _array(call["mask"]))


def _co_attention(layer: Any, call: Call) -> Found:
    if layer.attention and call.get("x2") is not None:
        *_, attention, _ = map(_array, layer(**call, return_attention=True))  # [B, layers, L1, L2]
        lengths = _array(call["mask_2"]).sum(1)[:, None, None]
        lengths = np.broadcast_to(lengths, attention.shape[:3])
        real = np.broadcast_to(_array(call["mask_1"])[:, None], lengths.shape) & (lengths > 1)
        yield CONCENTRATION, _sharp(attention[real], lengths[real])
    if call.get("x2") is not None and len(call["x1"]) > 1:
        other = {**call, "x2": _rolled(call["x2"]), "mask_2": _rolled(call["mask_2"])}
        yield OTHER_SENTENCE, _relative(_array(layer(**other)[0]), _array(layer(**call)[0]))


def _made_weights(layer: Any, call: Call) -> Found:
    if len(call["x1"]) > 1:
        other = {**call, "x1": _rolled(call["x1"]), "mask_1": _rolled(call["mask_1"])}
        yield OTHER_SENTENCE, _relative(_array(layer(**other)), _array(layer(**call)))


def _code(layer: Any, call: Call) -> Found:
    x, mask = _array(call["x"]), _array(call["mask"])
    rebuilt = _array(layer.decoder(layer.encoder(call["x"])))
    spread = np.square(x[mask] - x[mask].mean(0)).mean()
    error = np.square(rebuilt - x).mean(-1)[mask]
    yield EXPLAINED, 1 - error / max(spread, 1e-9)


MECHANISMS: dict[type[keras.layers.Layer], Callable[[Any, Call], Found]] = {
    layers.RerereadAttention: _rereading,
    layers.DynamicSequentialAttention: _phrase_rereading,
    layers.PhraseCNN: _phrases,
    layers.DenseCoAttentiveRNN: _co_attention,
    AutoencoderBottleneck: _code,
    layers.DualAttention: _two_attentions,
    layers.AdaptiveFusion: _fusion,
    layers.FeatureAttention: _feature_gates,
    layers.SelectiveFeatureAttention: _selection_of_branches,
    layers.MatrixDynamicGRU: _made_weights,
}


def _array(x: Any) -> Array:
    x = ops.convert_to_numpy(x)
    return x if x.dtype.kind in "bi" else np.asarray(x, "float32")


def _rolled(x: Any) -> Any:
    """Return the rows shifted by one: each pair gets the value of the pair before it."""
    return (
        ops.roll(x, 1, axis=0)
        if x.dtype != "bool"
        else ops.roll(ops.cast(x, "int32"), 1, axis=0) > 0
    )


def _sharp(weights: Array, counts: Array | None = None) -> Array:
    """Return 1 for all weight on one place and 0 for equal weights; the places are on the last axis."""
    counts = np.full(weights.shape[:-1], weights.shape[-1]) if counts is None else counts
    entropy = -np.sum(weights * np.log(np.maximum(weights, 1e-30)), axis=-1)
    return 1 - entropy / np.log(np.maximum(counts, 2))


def _read_otherwise(one: Array, two: Array) -> Array:
    """Return for each pair whether another token is chosen at some step."""
    return (one.argmax(-1) != two.argmax(-1)).any(-1).astype(float)


def _relative(new: Array, old: Array) -> Array:
    """Return for each pair the size of the change relative to what was there."""
    axes = tuple(range(1, old.ndim))
    change = np.sqrt(np.square(new - old).sum(axes))
    return change / np.maximum(np.sqrt(np.square(old).sum(axes)), 1e-9)


def _size(new: Array, old: Array, mask: Array) -> Array:
    """Return for each pair the length of the change of a token, relative to the token if there is one."""
    change, before = (np.sqrt(np.square(x).sum(-1)) for x in (new - old, old))
    change = change / np.maximum(before, 1e-9) if before.any() else change
    real = np.broadcast_to(mask, change.shape)
    axes = tuple(range(1, change.ndim))
    return (change * real).sum(axes) / np.maximum(real.sum(axes), 1)


# === The probe ===


@dataclass(frozen=True)
class Probe:
    """The result of `probe`.

    Attributes:
        rows: For each measure of each mechanism: `mechanism` (the layer's name), `layer` (its class), `measure`,
            `value`, `verdict` (`"acts"`, `"acts weakly"` or `"does nothing"`) and `scale`, the value up to which it
            acts weakly.
        accuracy: With the mechanism as it is (the key ""), and by name without it; empty without labels.
        pairs: Number of pairs.
    """

    rows: list[dict[str, Any]]
    accuracy: dict[str, float]
    pairs: int

    def sentences(self) -> list[str]:
        """Return a sentence for each row, such as "rereading does nothing: distinct tokens read 1.02"."""
        return [
            f"{row['mechanism']} {row['verdict']}: {row['measure']} {row['value']:.3g}"
            for row in self.rows
        ]

    def verdict(self, mechanism: str) -> str:
        """Return whether the answers need a mechanism: the verdict of the answers changed without it."""
        measures = (CHANGED.name, CHANGED_SCORE.name)
        found = {r["mechanism"]: r["verdict"] for r in self.rows if r["measure"] in measures}
        if mechanism not in found:
            known = ", ".join(found) or "none"
            raise InputError(f"{mechanism!r} was not replaced by its mean, only: {known}.")
        return str(found[mechanism])

    def save(self, folder: str | Path) -> None:
        """Write `probe.md` and `probe.png`."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.draw(folder / "probe.png")
        rows = [[f"{row[c]:.3g}" if c == "value" else row[c] for c in COLUMNS] for row in self.rows]
        lines = [f"# Do the mechanisms act? {self.pairs:,} pairs", ""]
        lines += [
            *markdown_table(COLUMNS, rows),
            "",
            *self.summary(),
            "",
            "![probe](probe.png)",
            "",
        ]
        replace_file(folder / "probe.md", "\n".join(lines))

    def summary(self) -> list[str]:
        """Return a sentence for each mechanism on the accuracy without it."""
        whole = self.accuracy.get("")
        return [
            f"Accuracy is {whole:.3f}, and {value:.3f} with the output of {name} replaced by its mean."
            for name, value in self.accuracy.items()
            if name
        ]

    def draw(self, png: str | Path) -> Path:
        """Draw a bar for each row, on a scale where 1 is the value above which it acts."""
        figure = empty_figure(9.0, 1.2 + 0.3 * len(self.rows))
        axis = figure.subplots()
        colors = dict(zip(VERDICTS, ("#b0b0b0", "#56B4E9", "#0072B2")))
        names = [f"{row['mechanism']}: {row['measure']}" for row in self.rows]
        widths = [min(max(row["value"] / row["scale"], 0.02), 4) for row in self.rows]
        kinds = [colors[row["verdict"]] for row in self.rows]
        axis.barh(range(len(names)), widths, color=kinds)
        for place, (row, width) in enumerate(zip(self.rows, widths)):
            axis.text(width + 0.05, place, f"{row['value']:.3g}", va="center", fontsize=7)
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_yticks(range(len(names)), names, fontsize=7)
        axis.set_xlim(0, 4.6)
        axis.invert_yaxis()
        axis.set_xlabel("right of the line: acts; light: acts weakly; gray: does nothing")
        return save_png(figure, Path(png))


def probe(matcher: "Matcher", pairs: PairDataset, *, batch_size: int = 64) -> Probe:
    """Measure whether each mechanism of a trained model acts on these pairs.

    Args:
        matcher: A matcher with a model that has a mechanism: a layer of `MECHANISMS`.
        pairs: At least 20 pairs. With labels, accuracy is measured with and without each mechanism.
        batch_size: Maximum number of pairs per batch.

    Raises:
        InputError: The model has no such layer, or there are fewer than 20 pairs.

    Example:

    ```python
    from keras_sentmatch import Matcher
    from keras_sentmatch.data import load_pairs
    from keras_sentmatch.explanations import probe

    found = probe(Matcher.load("runs/drr_net"), load_pairs("pairs.tsv")["test"])
    print("\\n".join(found.sentences()))
    ```
    """
    model: Any = getattr(matcher, "model", None)
    every = list(model._flatten_layers(include_self=False)) if model is not None else []
    watched = {one.name: one for one in every if type(one) in MECHANISMS}
    if not watched:
        raise InputError(
            f"{matcher!r} has none of the layers that a probe knows: "
            f"{', '.join(cls.__name__ for cls in MECHANISMS)}."
        )
    if len(pairs) < 20:
        raise InputError(
            f"There are {len(pairs)} pairs. Give at least 20, or the figures are chance."
        )
    labeled = matcher.relabel(pairs) if pairs.labels is not None and matcher.label_names else None
    if labeled is not None:
        matcher.warn_of_learned(labeled)
    given = pairs if labeled is None else labeled
    values: dict[tuple[str, Measure], list[Array]] = {}
    means: dict[str, list[_Mean]] = {}
    with _watching(watched) as calls:
        scores = _scores(
            matcher, given, batch_size, functools.partial(_note, watched, calls, values, means)
        )
    answers = _answers(matcher, scores)
    rows, accuracy = [], {}
    if labeled is not None:
        accuracy[""] = float(np.mean(answers == labeled.labels))
    for name, layer in watched.items():
        for (whose, measure), found in values.items():
            if whose == name and any(map(len, found)):  # a choice needs two words or more
                rows.append(_row(name, layer, measure, measure.reduce(np.concatenate(found))))
        if name not in means or any(mean.count == 0 for mean in means[name]):
            continue
        with _replacing(layer, means[name]) as start:
            without = _scores(matcher, given, batch_size, start)
        if matcher.label_names is None:
            changed = np.abs(without - scores) / max(float(np.std(scores)), 1e-9)
            measure = CHANGED_SCORE
        else:
            other, measure = _answers(matcher, without), CHANGED
            changed = other != answers
            if labeled is not None:
                accuracy[name] = float(np.mean(other == labeled.labels))
        rows.append(_row(name, layer, measure, float(np.mean(changed))))
    return Probe(rows, accuracy, len(given))


def _row(name: str, layer: Any, measure: Measure, value: float) -> dict[str, Any]:
    verdict = VERDICTS[(value > measure.dead) + (value > measure.weak)]
    facts = {"mechanism": name, "layer": type(layer).__name__, "measure": measure.name}
    return {**facts, "value": value, "verdict": verdict, "scale": measure.weak}


def _answers(matcher: Any, scores: Array) -> Array:
    return scores if matcher.label_names is None else decide(scores, matcher.threshold)


def _scores(
    matcher: Any, pairs: PairDataset, batch_size: int, between: Callable[[], None]
) -> Array:
    """Return the array of `predict_proba`, from eager calls of the model; `between` follows each batch."""
    tags = pairs.tags if "pos" in matcher.encoder.features else None
    scores: Array | None = None
    with matcher.lending(pairs.sentence1, pairs.sentence2) as parts:
        for part in parts:
            some = None if tags is None else (tags[0][part], tags[1][part])
            texts = pairs.sentence1[part], pairs.sentence2[part]
            encoded = matcher.encoder.encode_pairs(*texts, tags=some)
            first = part.start or 0
            lengths, most = encoded.lengths.max(axis=1), matcher.encoder.max_length
            for rows, _, length in prediction_batches(lengths, batch_size, most):
                arrays = encoded.arrays(rows, length)
                names = matcher.model.input_names
                inputs = {name: ops.convert_to_tensor(arrays[name]) for name in names}
                with _without_gradients():
                    found = matcher.model(inputs, training=False)
                    here = _array(found[0] if isinstance(found, list | tuple) else found)
                    between()
                if scores is None:
                    scores = np.zeros((len(pairs), here.shape[-1]), "float32")
                scores[first + rows] = here
    assert scores is not None
    tempered: Array = matcher.tempered(scores if matcher.label_names is not None else scores[:, 0])
    return tempered


@contextmanager
def _without_gradients() -> Iterator[None]:
    if keras.backend.backend() != "torch":
        yield
        return
    import torch

    with torch.no_grad():
        yield


class _Mean:
    """The mean of a layer's output over pairs and tokens: all axes but the last, and those of units."""

    def __init__(self) -> None:
        self.total: Any = 0.0
        self.count = 0.0

    def add(self, x: Array, mask: Array | None) -> None:
        if x.ndim == 2:  # [B, D]
            self.total, self.count = self.total + x.sum(0), self.count + len(x)
            return
        real = np.ones((len(x), x.shape[-2])) if mask is None else mask.astype(float)
        real = real.reshape(len(x), *[1] * (x.ndim - 3), -1, 1)  # [B, …, L, 1]
        self.total = self.total + (x * real).sum((0, -2))
        self.count += real.sum()

    def like(self, x: Any, mask: Any) -> Any:
        """Return the mean in the shape of `x`, 0 at padding."""
        mean = ops.cast(self.total / max(self.count, 1), x.dtype)
        if len(x.shape) == 2:
            return ops.broadcast_to(ops.expand_dims(mean, 0), ops.shape(x))
        full = ops.broadcast_to(ops.expand_dims(ops.expand_dims(mean, 0), -2), ops.shape(x))
        if mask is None:
            return full
        real = ops.reshape(mask, (len(x), *[1] * (len(x.shape) - 3), x.shape[-2], 1))
        return full * ops.cast(real, x.dtype)


def _masks(call: Call, outputs: Sequence[Any]) -> list[Any]:
    """Return the mask of each output: one that has its number of tokens."""
    masks = [call[name] for name in ("mask", "mask_1", "mask_2") if call.get(name) is not None]
    if len(outputs) == 1 and "mask_2" in call and call.get("mask") is None:
        masks = masks[::-1]  # MatrixDynamicGRU returns the states of sentence 2
    found = []
    for place, x in enumerate(outputs):
        here = masks[place:] + masks[:place]
        fits = (m for m in here if len(x.shape) > 2 and m.shape[1] == x.shape[-2])
        found.append(next(fits, None))
    return found


def _own_outputs(result: Any, original: Any, args: Any, kwargs: Call) -> tuple[Any, ...]:
    """Return the outputs of a call that are there without its `return_…` arguments."""
    outputs = result if isinstance(result, tuple) else (result,)
    plain = {name: x for name, x in kwargs.items() if not name.startswith("return_")}
    if len(plain) == len(kwargs):
        return outputs
    found = original(*args, **plain)
    return outputs[: len(found) if isinstance(found, tuple) else 1]


@contextmanager
def _watching(
    watched: Mapping[str, Any],
) -> Iterator[dict[str, list[tuple[Call, tuple[Any, ...]]]]]:
    """Keep the arguments and results of each call of these layers."""
    calls: dict[str, list[tuple[Call, tuple[Any, ...]]]] = {name: [] for name in watched}

    def watch(name: str, layer: Any, original: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        given = inspect.signature(type(layer).call).bind(layer, *args, **kwargs).arguments
        plain = {key: x for key, x in given.items() if not key.startswith("return_")}
        call = {key: x for key, x in plain.items() if key not in ("self", "training")}
        calls[name].append((call, _own_outputs(result, original, args, kwargs)))
        return result

    with _patched(watched, watch):
        yield calls


@contextmanager
def _replacing(layer: Any, means: list[_Mean]) -> Iterator[Callable[[], None]]:
    """Replace what each call of the layer returns by its mean. Call the function after each batch."""
    number = 0

    def replace(name: str, layer: Any, original: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal number
        result = original(*args, **kwargs)
        outputs = _own_outputs(result, original, args, kwargs)
        call = dict(inspect.signature(type(layer).call).bind(layer, *args, **kwargs).arguments)
        new = []
        for x, mask in zip(outputs, _masks(call, outputs)):
            new.append(means[number].like(x, mask))
            number += 1
        return (*new, *result[len(new) :]) if isinstance(result, tuple) else new[0]

    def start() -> None:
        nonlocal number
        number = 0

    with _patched({layer.name: layer}, replace):
        yield start


@contextmanager
def _patched(watched: Mapping[str, Any], wrapper: Callable[..., Any]) -> Iterator[None]:
    """Put a wrapper around `call` of these layers of this model only."""
    for name, layer in watched.items():
        object.__setattr__(layer, "call", functools.partial(wrapper, name, layer, layer.call))
    try:
        yield
    finally:
        for layer in watched.values():
            object.__delattr__(layer, "call")


def _note(
    watched: Mapping[str, Any],
    calls: dict[str, list[tuple[Call, tuple[Any, ...]]]],
    values: dict[tuple[str, Measure], list[Array]],
    means: dict[str, list[_Mean]],
) -> None:
    """Measure the calls of a batch, and forget them."""
    noted = {name: list(found) for name, found in calls.items()}
    for name, layer in watched.items():
        number = 0
        for call, outputs in noted[name]:
            for measure, found in MECHANISMS[type(layer)](layer, call):
                values.setdefault((name, measure), []).append(found)
            for x, mask in zip(outputs, _masks(call, outputs)):
                if number == len(means.setdefault(name, [])):
                    means[name].append(_Mean())
                means[name][number].add(_array(x), None if mask is None else _array(mask))
                number += 1
    for noted_calls in calls.values():
        noted_calls.clear()
