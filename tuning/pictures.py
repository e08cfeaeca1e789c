"""Pictures of a search, as PNG files. The colors differ without color vision too."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.display.figures import empty_figure, save_png
from keras_sentmatch.tuning.importance import Importance
from keras_sentmatch.tuning.trials import Trials

DOTS, LINE, BEST = "#56B4E9", "#0072B2", "#D55E00"
COLUMNS = 3  # of panels
MOST_TICKS = 12
BELOW = -0.14  # where lines pass an axis that did not matter
GROUPS = 5  # of a range, for means


def sensitivity(trials: Trials, png: str | Path) -> Path:
    """The score against each parameter: each training, and mean ± standard deviation at each value.

    Of a range, at the medians of up to five groups of neighbors. The best mean is marked. What did
    not learn is drawn at the edge, and is in no mean.
    """
    names = trials.mattered
    columns = min(COLUMNS, len(names))
    lines = -(-len(names) // columns)
    figure = empty_figure(0.8 + 3.4 * columns, 0.6 + 2.9 * lines)
    panels = figure.subplots(lines, columns, sharey=True, squeeze=False)
    low, high = _ends([score for row in trials.completed for score in trials.scores(row)], trials)
    reached = [low, high]
    for panel, name in zip(panels.flat, names):
        reached += _sensitivity_panel(panel, trials, name, low, high)
    margin = 0.02 * (max(reached) - min(reached))
    panels.flat[0].set_ylim(min(reached) - margin, max(reached) + margin)  # of all
    for panel in panels.flat[len(names) :]:
        panel.remove()
    for line in panels:
        line[0].set_ylabel(trials.score_name)
    figure.suptitle(_counted(trials), fontsize="small")
    return save_png(figure, png)


def _sensitivity_panel(
    panel: Any, trials: Trials, name: str, low: float, high: float
) -> list[float]:
    """Draws one parameter; the ends of its bars."""
    places, scores = _trainings(trials, name)
    panel.set_xlabel(trials.names[name])
    panel.grid(axis="y", color="lightgray", linewidth=0.6)
    learned = trials.learned(scores)
    if trials.is_range(name):
        places = 10**places
        panel.set_xscale("log")
        _few_ticks(panel, places)
        order = np.flatnonzero(learned)[np.argsort(places[learned], kind="stable")]
        groups = np.array_split(order, max(1, min(GROUPS, len(order) // 3)))
        centers = [float(np.median(places[group])) for group in groups if len(group)]
    else:
        tried = trials.tried(name)
        groups = [np.flatnonzero((places == place) & learned) for place in range(len(tried))]
        centers = [place for place, group in enumerate(groups) if len(group)]
        groups = [group for group in groups if len(group)]
        texts = [_broken(str(value)) for value in tried]
        small = len(texts) > MOST_TICKS or max(map(len, texts)) > 8
        panel.set_xticks(range(len(texts)), texts, fontsize="x-small" if small else "small")
        panel.set_xlim(-0.6, max(len(tried) - 0.4, 0.6))
    _dots(panel, places, scores, trials, (low, high), color=DOTS, s=14, alpha=0.8)
    if not learned.any():
        return []
    means = np.array([scores[group].mean() for group in groups])
    spread = np.array([scores[group].std(ddof=1) if len(group) > 1 else 0 for group in groups])
    panel.errorbar(centers, means, spread, color=LINE, marker="o", markersize=5, capsize=3)
    best = int(means.argmax() if trials.rises else means.argmin())
    panel.plot(centers[best], means[best], "o", color=BEST, markersize=8, zorder=4)
    return [*(means - spread), *(means + spread)]


def cost(trials: Trials, front: Mapping[str, Sequence[str]], png: str | Path) -> Path:
    """The score against parameters and against the milliseconds of a pair, with the Pareto fronts."""
    heads = {"parameters": "parameters", "pair_seconds": "milliseconds a pair"}
    shown = [name for name in heads if front[name]]
    figure = empty_figure(1.0 + 4.2 * len(shown), 3.9)
    low, high = _ends([row["score"] for row in trials.completed], trials)
    by_name = {row["trial"]: row for row in trials.completed}
    for panel, name in zip(np.ravel(figure.subplots(1, len(shown), sharey=True)), shown):
        scale = 1000 if name == "pair_seconds" else 1
        rows = [row for row in trials.completed if row.get(name) is not None]
        costs = np.array([scale * row[name] for row in rows])
        scores = np.array([row["score"] for row in rows])
        _dots(panel, costs, scores, trials, (low, high), color=DOTS, s=22, label="trial")
        members = [by_name[trial] for trial in front[name]]
        ends = [*(scale * row[name] for row in members), costs.max()]
        heights = [*(row["score"] for row in members), members[-1]["score"]]
        panel.step(ends, heights, where="post", color=BEST, linewidth=1.2, label="Pareto front")
        panel.plot(ends[:-1], heights[:-1], "o", color=BEST, markersize=5)
        at: dict[tuple[float, float], list[str]] = {}
        for row, end in zip(members, ends):
            at.setdefault((end, row["score"]), []).append(row["trial"].lstrip("0") or "0")
        style: Any = {"textcoords": "offset points", "ha": "right", "fontsize": "x-small"}
        for point, numbers in at.items():
            text = ", ".join(numbers[:3]) + (", …" if len(numbers) > 3 else "")
            panel.annotate(text, point, xytext=(-3, 4), **style)
        panel.set_xscale("log")
        _few_ticks(panel, costs)
        panel.set(xlabel=heads[name], ylim=(low, high))
        panel.grid(color="lightgray", linewidth=0.6)
        panel.set_axisbelow(True)
    figure.axes[0].set_ylabel(trials.score_name)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.suptitle(_counted(trials), fontsize="small")
    return save_png(figure, png)


def parallel_coordinates(trials: Trials, png: str | Path) -> Path:
    """A line for each completed trial through its values, colored by score; the best is on top."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    names = trials.mattered
    low, high = _ends([row["score"] for row in trials.completed], trials)
    heights = np.stack([_heights(trials, name) for name in names], axis=1)
    missing = np.isnan(heights)
    heights[missing] = BELOW
    scores = np.array([row["score"] for row in trials.completed])
    last = np.clip((scores - low) / (high - low), 0, 1)
    colors = ScalarMappable(Normalize(low, high), "viridis" if trials.rises else "viridis_r")
    figure = empty_figure(max(6.0, 2.2 + 1.25 * (len(names) + 1)), 4.2)
    panel = figure.subplots()
    for number in range(len(scores))[::-1]:
        style: dict[str, Any] = {"color": colors.to_rgba(scores[number]), "linewidth": 1.1}
        style["alpha"] = 0.75
        if number == 0:
            name = f"the best, trial {trials.completed[0]['trial']}"
            style = {"color": BEST, "linewidth": 2.2, "label": name}
        panel.plot(range(len(names) + 1), [*heights[number], last[number]], **style)
    for place, name in enumerate(names):
        panel.axvline(place, color="black", linewidth=0.8, zorder=0)
        for height, text in _marks(trials, name):
            panel.text(place + 0.04, height, text, fontsize="x-small", va="center", **_BOXED)
        if missing[:, place].any():
            panel.text(place + 0.04, BELOW, "(none)", fontsize="x-small", va="center", **_BOXED)
    panel.axvline(len(names), color="black", linewidth=0.8, zorder=0)
    heads = [*(trials.names[name] for name in names), "score"]
    panel.set_xticks(range(len(heads)), map(_broken, heads), fontsize="small")
    panel.set(xlim=(-0.15, len(names) + 0.1), yticks=[], ylim=(-0.2, 1.06))
    for side in ("top", "left", "right", "bottom"):
        panel.spines[side].set_visible(False)
    figure.colorbar(colors, ax=panel, label=trials.score_name, pad=0.01)
    panel.legend(loc="lower right", bbox_to_anchor=(1, 1), fontsize="small", frameon=False)
    figure.suptitle(_counted(trials), fontsize="small")
    return save_png(figure, png)


def importance(found: Importance, names: Mapping[str, str], png: str | Path) -> Path:
    """The share of the scores' variance that goes with each parameter."""
    figure = empty_figure(6.0, 1.3 + 0.34 * len(found.shares))
    panel = figure.subplots()
    panel.barh([names[name] for name in found.shares], list(found.shares.values()), color=LINE)
    panel.invert_yaxis()
    panel.axvline(0, color="black", linewidth=0.8)
    panel.set(xlabel="share of the variance of the scores")
    panel.set_title(f"predicted of unseen trials: {found.explained:.0%}", fontsize="small")
    panel.grid(axis="x", color="lightgray", linewidth=0.6)
    panel.set_axisbelow(True)
    return save_png(figure, png)


_BOXED: dict[str, Any] = {
    "bbox": {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 0.6},
    "zorder": 5,
}


def _counted(trials: Trials) -> str:
    """How many trials there are, and which are not drawn or at the edge."""
    counts = {status: len(trials.with_status(status)) for status in ("failed", "running")}
    left_out = [f"{number} {status}" for status, number in counts.items() if number]
    worse = sum(not trials.learned(row["score"]) for row in trials.completed)
    parts = [
        f"{len(trials.completed)} trials",
        f"not drawn: {', '.join(left_out)}" if left_out else "",
        f"far worse than the others: {worse}" if worse else "",
    ]
    return "; ".join(part for part in parts if part)


def _ends(scores: Sequence[float], trials: Trials) -> tuple[float, float]:
    """The ends of the axis of scores: of those that learned."""
    found = np.array(scores)
    found = found[trials.learned(found)]
    margin = 0.06 * (found.max() - found.min()) or 0.01
    return float(found.min() - margin), float(found.max() + margin)


def _trainings(trials: Trials, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The place and the score of every training in which a parameter mattered."""
    found = [
        (place, score)
        for place, row in zip(trials.places(name), trials.completed)
        for score in trials.scores(row)
        if not np.isnan(place)
    ]
    places, scores = np.array(found).reshape(-1, 2).T
    return places, scores


def _dots(
    panel: Any, places: np.ndarray, scores: np.ndarray, trials: Trials, ends: Any, **style: Any
) -> None:
    """Dots, and triangles at the edge for what did not learn."""
    learned = trials.learned(scores)
    panel.scatter(places[learned], scores[learned], **style)
    if not learned.all():
        margin = 0.02 * (ends[1] - ends[0])
        edge, marker = (ends[0] + margin, "v") if trials.rises else (ends[1] - margin, "^")
        style["label"] = "far worse" if "label" in style else None
        panel.scatter(places[~learned], np.full((~learned).sum(), edge), marker=marker, **style)


def _broken(text: str) -> str:
    """A long name on several lines."""
    lines = textwrap.wrap(text.replace("_", "_ "), 9, break_long_words=False)
    return "\n".join(lines).replace("_ ", "_")


def _few_ticks(panel: Any, values: np.ndarray) -> None:
    """Round numbers on a logarithmic axis that may span less than a power of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

    low, high = values.min(), values.max()
    if low == high:
        panel.set_xlim(low / 1.5, high * 1.5)
    tight = high / low < 4
    panel.xaxis.set_major_locator(
        MaxNLocator(4) if tight else LogLocator(subs=(1.0, 2.0, 5.0), numticks=8)
    )
    panel.tick_params(axis="x", labelsize="small")
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _with_unit(value)))


def _with_unit(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _heights(trials: Trials, name: str) -> np.ndarray:
    """Each completed trial's value from 0 to 1, NaN where it did not matter."""
    places = trials.places(name)
    low, high = np.nanmin(places), np.nanmax(places)
    return (places - low) / (high - low) if high > low else np.where(np.isnan(places), places, 0.5)


def _marks(trials: Trials, name: str) -> list[tuple[float, str]]:
    """Heights and texts along an axis of the parallel coordinates."""
    tried = trials.tried(name)
    if trials.is_range(name):
        return [(0.0, f"{tried[0]:.2g}"), (1.0, f"{tried[-1]:.2g}")]
    if len(tried) == 1:
        return [(0.5, str(tried[0]))]
    return [(place / (len(tried) - 1), str(value)) for place, value in enumerate(tried)]
