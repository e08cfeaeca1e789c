"""PNG pictures of a run, drawn by Matplotlib, which is imported when a picture is drawn."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.safety import replace_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_CLASSES = 20  # number of classes up to which numbers stand in cells and curves are drawn


def learning_curve(history_csv: str | Path, png: str | Path) -> Path:
    """Draw each metric by epoch, of training and validation pairs, from a run's `history.csv`."""
    with open(history_csv, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name not in ("epoch", "learning_rate")]
    panels = list(dict.fromkeys(name.removeprefix("val_") for name in names))
    figure = empty_figure(4.0 * len(panels), 3.2)
    epochs = [int(row["epoch"]) + 1 for row in rows]
    for axis, panel in zip(np.ravel(figure.subplots(1, len(panels))), panels):
        for name, label in ((panel, "training"), (f"val_{panel}", "validation")):
            if name in names:
                axis.plot(epochs, [float(row[name]) for row in rows], marker=".", label=label)
        axis.set(title=panel.replace("_", " "), xlabel="epoch")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(color="lightgray", linewidth=0.5)
        axis.legend()
    return save_png(figure, png)


def confusion_matrix(y: ArrayLike, pred: ArrayLike, names: Sequence[str], png: str | Path) -> Path:
    """Draw how often each true label (row) got each predicted label, from integers."""
    from sklearn.metrics import ConfusionMatrixDisplay

    size = len(names)
    figure = empty_figure(2.5 + 0.8 * size, 2.0 + 0.8 * size)
    ConfusionMatrixDisplay.from_predictions(
        np.asarray(y),
        np.asarray(pred),
        labels=range(size),
        display_labels=names,
        include_values=size <= MAX_CLASSES,
        values_format="d",
        cmap="Blues",
        xticks_rotation=45,
        ax=figure.subplots(),
    )
    return save_png(figure, png)


def precision_recall(
    y: ArrayLike, probabilities: ArrayLike, names: Sequence[str], png: str | Path
) -> Path:
    """Draw the precision of each class by its recall, with the average precision."""
    from sklearn.metrics import PrecisionRecallDisplay

    labels, scores = np.asarray(y), np.asarray(probabilities)
    figure = empty_figure(5.6, 4.0)
    axis = figure.subplots()
    for number in np.unique(labels)[:MAX_CLASSES]:
        PrecisionRecallDisplay.from_predictions(
            labels == number, scores[:, number], name=names[number], ax=axis
        )
    axis.set(xlabel="recall", ylabel="precision")
    return save_png(figure, png)


def reliability_diagram(report: Mapping[str, Any], png: str | Path) -> Path:
    """Draw the share of right predictions by their probability, before and after calibration.

    Each bar is an interval of probability; bars of calibrated predictions end on the diagonal. Below
    them is the number of predictions in each interval.

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
        lower.set(xlabel="probability of the prediction")
    axes[0, 0].set(ylabel="share that is right")
    axes[1, 0].set(ylabel="predictions")
    return save_png(figure, png)


def empty_figure(width: float, height: float) -> "Figure":
    """Return a figure with its own canvas: no window and no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_png(figure: "Figure", png: str | Path) -> Path:
    content = io.BytesIO()
    figure.savefig(content, dpi=120, format="png")
    replace_file(Path(png), content.getvalue())  # follows no link
    return Path(png)
