"""PNG plots of a run, by matplotlib (imported when one is drawn)."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEFORE, AFTER = "#0072B2", "#D55E00"  # colors that the color-blind tell apart
BASELINES = ("#000000", "#009E73", "#CC79A7", "#777777")
MAX_NUMBERED = 20  # classes up to which the cells of a confusion matrix carry numbers


def learning_curve(history_csv: str | Path, png: str | Path) -> Path:
    """Plots each measured value by epoch, training and validation together, from `history.csv`.

    Args:
        history_csv: What Keras's `CSVLogger` wrote.
        png: File to write.
    """
    try:
        with open(history_csv, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise InputError(f"Cannot read {history_csv}: {error}.") from error
    if not rows or "epoch" not in rows[0]:
        raise InputError(f"{history_csv} holds no epochs; expected what CSVLogger writes.")
    names = [name for name in rows[0] if name not in ("epoch", "learning_rate")]
    panels = list(dict.fromkeys(name.removeprefix("val_") for name in names))
    figure = empty_figure(4.0 * len(panels), 3.2)
    epochs = [int(row["epoch"]) + 1 for row in rows]
    for axis, panel in zip(np.ravel(figure.subplots(1, len(panels))), panels):
        for name, label in ((panel, "training"), (f"val_{panel}", "validation")):
            if name in names:
                # CSVLogger writes NA for what was not measured
                values = [float(row[name].replace("NA", "nan")) for row in rows]
                axis.plot(epochs, values, marker=".", label=label)
        axis.set(title=panel.replace("_", " "), xlabel="epoch")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(color="lightgray", linewidth=0.5)
        axis.legend()
    return save_png(figure, png)


def confusion_matrix(y: ArrayLike, pred: ArrayLike, names: Sequence[str], png: str | Path) -> Path:
    """Plots how often each true label got each predicted label.

    Args:
        y: Integer labels, [n].
        pred: Integer predictions, [n].
        names: Label names in index order.
        png: File to write.

    """
    labels, predicted = np.asarray(y), np.asarray(pred)
    size = len(names)
    if labels.shape != predicted.shape or labels.ndim != 1:
        raise InputError(
            f"Labels of shape {labels.shape} and predictions of shape {predicted.shape}; expected "
            "two equally long columns of integers."
        )
    both = np.concatenate([labels, predicted])
    if both.size and not 0 <= both.min() <= both.max() < size:
        raise InputError(
            f"Labels run from {both.min()} to {both.max()}, but there are {size} names "
            f"({', '.join(names)}); give one for each label."
        )
    figure = empty_figure(2.5 + 0.8 * size, 2.0 + 0.8 * size)
    counts = np.zeros((size, size), int)
    np.add.at(counts, (labels, predicted), 1)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    axis = figure.subplots()
    image = axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    figure.colorbar(image, label="share of the true label")
    axis.set_xticks(range(size), names, rotation=45, ha="right")
    axis.set_yticks(range(size), names)
    axis.set(xlabel="predicted", ylabel="true")
    if size <= MAX_NUMBERED:
        for (row, column), count in np.ndenumerate(counts):
            color = "white" if shares[row, column] > 0.5 else "black"
            axis.text(column, row, str(count), ha="center", va="center", color=color)
    return save_png(figure, png)


def precision_recall(
    y: ArrayLike, probabilities: ArrayLike, names: Sequence[str], png: str | Path
) -> Path:
    """Plots the precision of each class by its recall, with the average precision.

    Args:
        y: Integer labels, [n].
        probabilities: Of each class, [n, classes].
        names: Label names in index order.
        png: File to write.
    """
    from sklearn.metrics import average_precision_score, precision_recall_curve

    labels, scores = np.asarray(y), np.asarray(probabilities)
    figure = empty_figure(5.6, 4.0)
    axis = figure.subplots()
    for number in np.unique(labels)[:MAX_NUMBERED]:
        right = labels == number
        precision, recall, _ = precision_recall_curve(right, scores[:, number])
        area = average_precision_score(right, scores[:, number])
        (line,) = axis.step(recall, precision, where="post", label=f"{names[number]}  {area:.3f}")
        axis.axhline(right.mean(), color=line.get_color(), linestyle=":", linewidth=1)
    axis.set(xlabel="recall", ylabel="precision", xlim=(0, 1.02), ylim=(0, 1.02))
    axis.grid(color="lightgray", linewidth=0.5)
    axis.legend(title="average precision\n(dotted: by chance)", fontsize="small")
    return save_png(figure, png)


def reliability_diagram(report: Mapping[str, Any], png: str | Path) -> Path:
    """Plots how often answers are right by their probability, before and after calibration.

    Each bar is an interval of probability; bars of calibrated answers end on the diagonal. Below: the
    number of answers in each.

    Args:
        report: The report of `Matcher.calibrate`.
        png: File to write.
    """
    figure = empty_figure(7.0, 4.4)
    axes = figure.subplots(2, 2, sharex=True, sharey="row", height_ratios=[3, 1])
    for column, when in enumerate(("before", "after")):
        table = report[when]["reliability"]
        bins = len(table["count"])
        middles = (np.arange(bins) + 0.5) / bins
        right = [0.0 if share is None else share for share in table["accuracy"]]
        upper, lower = axes[:, column]
        upper.bar(middles, right, 0.9 / bins)
        upper.plot([0, 1], [0, 1], "--", color="gray")
        upper.set(title=f"{when}: ECE {report[when]['ece']:.3f}", xlim=(0, 1), ylim=(0, 1))
        lower.bar(middles, table["count"], 0.9 / bins, color="gray")
        lower.set(xlabel="probability of the answer")
    axes[0, 0].set(ylabel="share that is right")
    axes[1, 0].set(ylabel="answers")
    return save_png(figure, png)


def empty_figure(width: float, height: float) -> "Figure":
    """A figure with its own canvas: no window and no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_png(figure: Any, png: str | Path) -> Path:
    figure.savefig(png, dpi=120)
    return Path(png)


def accuracies(
    rows: Sequence[Mapping[str, Any]], lines: Mapping[str, float], png: str | Path
) -> Path:
    """Plot the accuracy on several sets of pairs, with intervals.

    Args:
        rows: Dicts with `name`, `pairs`, `accuracy`, `low` and `high`. If a dict has `before`, this
            earlier accuracy is a ring.
        lines: Names and accuracies of the matcher and of baselines, drawn as vertical lines.
        png: File to write.
    """
    figure = empty_figure(8.0, 1.6 + 0.34 * len(rows))
    axis = figure.subplots()
    for place, row in enumerate(rows):
        color = BEFORE if row["before"] is None else AFTER
        axis.plot([row["low"], row["high"]], [place, place], color=color)
        axis.scatter([row["accuracy"]], [place], color=color, zorder=2)
    changed = [(row["before"], at) for at, row in enumerate(rows) if row["before"] is not None]
    if changed:
        axis.scatter([], [], color=AFTER, label="after the change")
        axis.scatter(
            *zip(*changed),
            facecolors="white",
            edgecolors=BEFORE,
            linewidths=2,
            zorder=3,
            label="before the change",
        )
    styles = zip(("-", "--", ":", "-.", (0, (1, 4))), (BEFORE, *BASELINES))
    for (name, value), (style, color) in zip(lines.items(), styles):
        axis.axvline(value, color=color, linestyle=style, label=f"{name} {value:.3f}")
    axis.set_yticks(range(len(rows)), [f"{row['name']} ({row['pairs']:,})" for row in rows])
    axis.set(xlim=(-0.02, 1.02), ylim=(len(rows) - 0.5, -0.5), xlabel="accuracy, 95% interval")
    axis.grid(axis="x", color="lightgray")
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return save_png(figure, png)


def comparison(report: Mapping[str, Any], png: str | Path) -> Path:
    """Plots each matcher with its seeds, and below it the differences with their intervals.

    Args:
        report: What `comparison_report` returns.
        png: File to write.
    """
    matchers, pairs = report["matchers"], report["pairs"]
    figure = empty_figure(8.0, 2.2 + 0.4 * (len(matchers) + len(pairs)))
    upper, lower = figure.subplots(2, 1, height_ratios=[len(matchers) + 1, len(pairs) + 1])
    for place, row in enumerate(matchers):
        if "low" in row:
            upper.plot([row["low"], row["high"]], [place, place], color=BEFORE)
        upper.scatter(row["seeds"], [place] * len(row["seeds"]), marker="|", color="gray", s=120)
        upper.scatter([row["mean"]], [place], color=BEFORE, zorder=2)
    upper.set_yticks(range(len(matchers)), [_short(row["name"]) for row in matchers])
    upper.set(xlabel=report["figure"], ylim=(len(matchers) - 0.5, -0.5))
    for place, row in enumerate(pairs):
        found = row["bootstrap"]
        lower.plot([found["low"], found["high"]], [place, place], color=AFTER)
        lower.scatter([found["difference"]], [place], color=AFTER, zorder=2)
    names = [f"{_short(row['first'])}\n− {_short(row['second'])}" for row in pairs]
    lower.set_yticks(range(len(pairs)), names, fontsize="small")
    lower.axvline(0, color="gray", linestyle="--", linewidth=1)
    lower.set(xlabel="difference", ylim=(len(pairs) - 0.5, -0.5))
    for axis in (upper, lower):
        axis.grid(axis="x", color="lightgray")
    return save_png(figure, png)


def _short(name: str) -> str:
    """The end of a path, shortened if it is long."""
    name = name.rstrip("/").rpartition("/")[2]
    return name if len(name) <= 44 else f"{name[:28]}…{name[-15:]}"
