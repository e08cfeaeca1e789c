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

MAX_NUMBERED = 20  # classes up to which the cells of a confusion matrix carry numbers


def learning_curve(history_csv: str | Path, png: str | Path) -> Path:
    """Plots each measured value by epoch, training and validation together, from `history.csv`.

    Args:
        history_csv: What Keras's `CSVLogger` wrote.
        png: File to write.

    Returns:
        Path of the file.

    Raises:
        InputError: No such file, or no epoch in it.

    Example:

    ```python
    learning_curve("runs/drcn-embedded/history.csv", "curve.png")
    ```
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
                values = [_number(row[name]) for row in rows]
                axis.plot(epochs, values, marker=".", label=label)
        axis.set(title=panel, xlabel="epoch")
        axis.legend()
    return save_png(figure, png)


def confusion_matrix(y: ArrayLike, pred: ArrayLike, names: Sequence[str], png: str | Path) -> Path:
    """Plots how often each true label got each predicted label.

    Args:
        y: Integer labels, [n].
        pred: Integer predictions, [n].
        names: Label names in index order.
        png: File to write.

    Returns:
        Path of the file.

    Raises:
        InputError: A label without a name, or columns of unequal length.

    Example:

    ```python
    confusion_matrix([0, 1, 1], [0, 1, 0], ("no", "yes"), "confusion.png")
    ```
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


def reliability_diagram(report: Mapping[str, Any], png: str | Path) -> Path:
    """Plots how often answers are right against how sure they are, before and after calibration.

    Each bar is an interval of probability; calibrated ones end on the diagonal. Under them: how many
    answers fall into each.

    Args:
        report: What `keras_sentmatch.metrics.calibrate_predictions` or `Matcher.calibrate` gives.
        png: File to write.

    Returns:
        Path of the file.

    Example:

    ```python
    reliability_diagram(matcher.calibrate(pairs), "reliability.png")
    ```
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
    """A figure of its own canvas: no window and no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_png(figure: Any, png: str | Path) -> Path:
    figure.savefig(png, dpi=120)
    return Path(png)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:  # CSVLogger writes NA for what was not measured
        return float("nan")
