"""Pictures of reports, as PNG files. Colours are told apart without colour vision."""

from collections.abc import Sequence
from pathlib import Path

from keras_sentmatch.training.plots import _figure, _save

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
    figure = _figure(7.0, 1.4 + 0.34 * len(names))
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
    axis.set(xlim=(-0.02, 1.02), xlabel="accuracy", title=title)
    axis.grid(axis="x", color="lightgray")
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return _save(figure, png)
