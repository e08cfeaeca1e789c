"""Pictures of reports, as PNG files. Colours are told apart without colour vision."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_sentmatch.training.plots import empty_figure, save_png

BEFORE, AFTER = "#0072B2", "#D55E00"


def before_and_after(
    names: Sequence[str],
    before: Sequence[float | None],
    after: Sequence[float],
    png: str | Path,
    title: str = "",
) -> Path:
    """A row for each name: accuracy before (a ring) and after (a disc), and the way between.

    Args:
        names: The rows, from top to bottom.
        before: Shares in [0, 1]; `None` where there was no before.
        after: Shares in [0, 1].
        png: File to write.
        title: Above the picture.

    Returns:
        Path of the file.
    """
    figure = empty_figure(7.0, 1.4 + 0.34 * len(names))
    axis = figure.subplots()
    places = range(len(names))
    known = [(place, old, new) for place, old, new in zip(places, before, after) if old is not None]
    for place, old, new in known:
        axis.plot([old, new], [place, place], color="gray", linewidth=1, zorder=1)
    axis.scatter(
        [old for _, old, _ in known],
        [place for place, *_ in known],
        facecolors="white",
        edgecolors=BEFORE,
        linewidths=2,
        label="before",
        zorder=2,
    )
    axis.scatter(list(after), list(places), color=AFTER, label="after", zorder=3)
    axis.set_yticks(list(places), list(names))
    axis.invert_yaxis()
    axis.set(xlim=(-0.02, 1.02), xlabel="accuracy")
    figure.suptitle(title, fontsize="small", wrap=True)
    axis.grid(axis="x", color="lightgray")
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return save_png(figure, png)


def categories(
    rows: Sequence[Mapping[str, Any]], lines: Mapping[str, float], png: str | Path
) -> Path:
    """The accuracy of each category with its interval, and lines for what holds of all pairs.

    Args:
        rows: `name`, `pairs`, `accuracy`, `low` and `high` each.
        lines: Name and accuracy of the matcher and of baselines.
        png: File to write.

    Returns:
        Path of the file.
    """
    figure = empty_figure(8.0, 1.6 + 0.34 * len(rows))
    axis = figure.subplots()
    for place, row in enumerate(rows):
        axis.plot([row["low"], row["high"]], [place, place], color=BEFORE)
        axis.scatter([row["accuracy"]], [place], color=BEFORE, zorder=2)
    for (name, value), style in zip(lines.items(), ("-", "--", ":", "-.", (0, (1, 4)))):
        axis.axvline(value, color=AFTER, linestyle=style, linewidth=1, label=f"{name} {value:.3f}")
    axis.set_yticks(range(len(rows)), [f"{row['name']} ({row['pairs']:,})" for row in rows])
    axis.set(xlim=(-0.02, 1.02), ylim=(len(rows) - 0.5, -0.5), xlabel="accuracy, 95% interval")
    axis.grid(axis="x", color="lightgray")
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return save_png(figure, png)


def comparison(report: Mapping[str, Any], png: str | Path) -> Path:
    """The figure of each matcher with its seeds, and under it the differences with their intervals.

    Args:
        report: What `comparison_report` gives.
        png: File to write.

    Returns:
        Path of the file.
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
    """The end of a path, cut where it is long."""
    name = name.rstrip("/").rpartition("/")[2]
    return name if len(name) <= 44 else f"{name[:28]}…{name[-15:]}"
