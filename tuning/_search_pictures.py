"""Pictures of a search. Their colors can be told apart without color vision."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.display.figures import empty_figure, save_png
from keras_sentmatch.tuning._trials import Row, Trials

DOTS, LINE, BEST = "#56B4E9", "#0072B2", "#D55E00"
COLUMNS = 3  # panels side by side
GROUPS = 5  # of the values of a range, for means


def sensitivity(trials: Trials, png: Path) -> None:
    """Plot the score against each parameter: one dot per training, and mean ± standard deviation.

    Values of a range are averaged in up to five groups. The best mean is marked. Scores far below
    the others are drawn at the edge, and are left out of the means.
    """
    names = [name for name in trials.searched if trials.tried(name)]
    columns = min(COLUMNS, len(names))
    lines = -(-len(names) // columns)
    figure = empty_figure(0.8 + 3.4 * columns, 0.6 + 2.9 * lines)
    panels = figure.subplots(lines, columns, sharey=True, squeeze=False)
    ends = _ends([score for row in trials.completed for score in trials.scores(row)], trials)
    reached = list(ends)
    for panel, name in zip(panels.flat, names):
        reached += _sensitivity_panel(panel, trials, name, ends)
    margin = 0.02 * (max(reached) - min(reached))
    panels.flat[0].set_ylim(min(reached) - margin, max(reached) + margin)  # shared by all
    for panel in panels.flat[len(names) :]:
        panel.remove()
    for line in panels:
        line[0].set_ylabel(trials.score_name)
    figure.suptitle(_counted(trials), fontsize="small")
    save_png(figure, png)


def _sensitivity_panel(
    panel: Any, trials: Trials, name: str, ends: tuple[float, float]
) -> list[float]:
    """Draw the panel of one parameter. Returns the ends of its bars."""
    rows = [row for row in trials.completed if row[name] is not None]
    values = [row[name] for row in rows for _ in trials.scores(row)]
    scores = np.array([score for row in rows for score in trials.scores(row)])
    learned = trials.learned(scores)
    panel.set_xlabel(trials.names[name])
    panel.grid(axis="y", color="lightgray", linewidth=0.6)
    if trials.is_range(name):
        places = np.array(values)
        panel.set_xscale("log")
        order = np.flatnonzero(learned)[np.argsort(places[learned], kind="stable")]
        groups = np.array_split(order, max(1, min(GROUPS, len(order) // 3)))
    else:
        tried = trials.tried(name)
        places = np.array([float(tried.index(value)) for value in values])
        groups = [np.flatnonzero((places == place) & learned) for place in range(len(tried))]
        panel.set_xticks(range(len(tried)), [_broken(str(v)) for v in tried], fontsize="small")
        panel.set_xlim(-0.6, max(len(tried) - 0.4, 0.6))
    panel.scatter(places, np.clip(scores, *ends), color=DOTS, s=14, alpha=0.8)
    groups = [group for group in groups if len(group)]
    if not groups:
        return []
    centers = [float(np.median(places[group])) for group in groups]
    means = np.array([scores[group].mean() for group in groups])
    spread = np.array([scores[group].std(ddof=1) if len(group) > 1 else 0 for group in groups])
    panel.errorbar(centers, means, spread, color=LINE, marker="o", markersize=5, capsize=3)
    best = int(means.argmax() if trials.rises else means.argmin())
    panel.plot(centers[best], means[best], "o", color=BEST, markersize=8, zorder=4)
    return [*(means - spread), *(means + spread)]


def cost(trials: Trials, front: Sequence[Row], png: Path) -> None:
    """Plot the score against the number of parameters, with the Pareto front."""
    rows = [row for row in trials.completed if row["parameters"] is not None]
    costs = np.array([row["parameters"] for row in rows])
    scores = np.array([row["score"] for row in rows])
    low, high = _ends(scores.tolist(), trials)
    figure = empty_figure(5.2, 3.9)
    panel = figure.subplots()
    panel.scatter(costs, np.clip(scores, low, high), color=DOTS, s=22, label="trial")
    ends = [*(row["parameters"] for row in front), costs.max()]
    heights = [*(row["score"] for row in front), front[-1]["score"]]
    panel.step(ends, heights, where="post", color=BEST, linewidth=1.2, label="Pareto front")
    panel.plot(ends[:-1], heights[:-1], "o", color=BEST, markersize=5)
    for row in front:
        text, point = row["trial"].lstrip("0") or "0", (row["parameters"], row["score"])
        style: Any = {"textcoords": "offset points", "ha": "right", "fontsize": "x-small"}
        panel.annotate(text, point, xytext=(-3, 4), **style)
    panel.set_xscale("log")
    panel.set(xlabel="parameters", ylabel=trials.score_name, ylim=(low, high))
    panel.grid(color="lightgray", linewidth=0.6)
    panel.set_axisbelow(True)
    figure.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.suptitle(_counted(trials), fontsize="small")
    save_png(figure, png)


def _counted(trials: Trials) -> str:
    """The number of trials, of those not drawn, and of those at the edge."""
    statuses = [row["status"] for row in trials.rows]
    counts = {status: statuses.count(status) for status in ("failed", "running")}
    left_out = [f"{number} {status}" for status, number in counts.items() if number]
    worse = sum(not trials.learned(row["score"]) for row in trials.completed)
    parts = [
        f"{len(trials.completed)} trials",
        f"not drawn: {', '.join(left_out)}" if left_out else "",
        f"far worse than the others: {worse}" if worse else "",
    ]
    return "; ".join(part for part in parts if part)


def _ends(scores: Sequence[float], trials: Trials) -> tuple[float, float]:
    """The ends of the axis of scores."""
    found = np.array(scores)
    found = found[trials.learned(found)]
    margin = 0.06 * (found.max() - found.min()) or 0.01
    return float(found.min() - margin), float(found.max() + margin)


def _broken(text: str) -> str:
    """Break a long name into lines."""
    lines = textwrap.wrap(text.replace("_", "_ "), 9, break_long_words=False)
    return "\n".join(lines).replace("_ ", "_")
