"""The trials of a search, the table `trials.csv`, and the report: `report.md`, `sensitivity.png`."""

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.display.figures import empty_figure, save_png
from keras_sentmatch.display.rendering import render
from keras_sentmatch.display.tables import markdown_table
from keras_sentmatch.inference.run_folder import read_json
from keras_sentmatch.safety import replace_file

DOTS, LINE = "#56B4E9", "#0072B2"
COLUMNS = 3  # panels side by side

Row = dict[str, Any]


@dataclass
class Trials:
    """The trials of a search so far."""

    folder: Path
    model: str
    tuner: str
    objective: str
    searched: dict[str, list[Any]]  # labels of each parameter, or both ends of its range
    names: dict[str, str]  # short names of the parameters
    rows: list[Row]  # of `trials.csv`
    completed: list[Row] = field(init=False)  # best first

    def __post_init__(self) -> None:
        over = [row for row in self.rows if row["status"] == "completed"]
        self.completed = sorted(over, key=lambda row: row["score"], reverse=self.rises)

    @property
    def rises(self) -> bool:
        """Whether a higher score is better."""
        return self.objective != "val_loss"

    @property
    def score_name(self) -> str:
        """The objective in words."""
        return self.objective.replace("val_", "validation ").replace("_", " ")

    def chosen(self, row: Row) -> dict[str, Any]:
        """Return the configuration of a row."""
        return {name: row[name] for name in self.searched if row[name] is not None}

    def is_range(self, name: str) -> bool:
        """Whether a parameter can be any number between two."""
        return any(row[name] not in (None, *self.searched[name]) for row in self.rows)

    def tried(self, name: str) -> list[Any]:
        """Return the values of completed trials: of a choice in its order, else sorted."""
        values = {row[name] for row in self.completed} - {None}
        if self.is_range(name):
            return sorted(values)
        return [value for value in self.searched[name] if value in values]

    def write(self) -> None:
        """Write `trials.csv`."""
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(self.rows[0]))
        writer.writeheader()
        writer.writerows(self.rows)
        replace_file(self.folder / "trials.csv", text.getvalue())


def write_report(trials: Trials) -> Path:
    """Write `report.md` and `sensitivity.png` into the folder of the search."""
    page = trials.folder / "report.md"
    sensitivity(trials, trials.folder / "sensitivity.png")
    replace_file(page, _page(trials))
    return page


def sensitivity(trials: Trials, png: Path) -> None:
    """Plot a dot per trial against each parameter, with mean ± standard deviation per choice."""
    names = [name for name in trials.searched if trials.tried(name)]
    columns = min(COLUMNS, len(names))
    lines = -(-len(names) // columns)
    figure = empty_figure(0.8 + 3.4 * columns, 0.6 + 2.9 * lines)
    panels = figure.subplots(lines, columns, sharey=True, squeeze=False)
    for panel, name in zip(panels.flat, names):
        _panel(panel, trials, name)
    for panel in panels.flat[len(names) :]:
        panel.remove()
    for line in panels:
        line[0].set_ylabel(trials.score_name)
    save_png(figure, png)


def _panel(panel: Any, trials: Trials, name: str) -> None:
    rows = [row for row in trials.completed if row[name] is not None]
    values = [row[name] for row in rows]
    scores = np.array([row["score"] for row in rows])
    panel.set_xlabel(trials.names[name])
    panel.grid(axis="y", color="lightgray", linewidth=0.6)
    if trials.is_range(name):
        panel.set_xscale("log")
        panel.scatter(values, scores, color=DOTS, s=14)
        return
    tried = trials.tried(name)
    places = np.array([tried.index(value) for value in values])
    panel.set_xticks(range(len(tried)), [str(value) for value in tried], fontsize="small")
    panel.scatter(places, scores, color=DOTS, s=14)
    groups = [scores[places == place] for place in range(len(tried))]
    means = [group.mean() for group in groups]
    spread = [group.std(ddof=1) if len(group) > 1 else 0.0 for group in groups]
    panel.errorbar(range(len(tried)), means, spread, color=LINE, marker="o", capsize=3)


def _page(trials: Trials) -> str:
    best, recipe = trials.completed[0], trials.folder / "best_recipe.toml"
    statuses = [row["status"] for row in trials.rows]
    counts = {status: statuses.count(status) for status in ("completed", "failed", "running")}
    facts = ["trial", "score", *trials.searched, "parameters", "seconds"]
    heads = [trials.names.get(name, name) for name in facts]
    table = [[_short(row.get(name)) for name in facts] for row in trials.completed]
    failed = [
        [row["trial"], *(_short(row[name]) for name in trials.searched), row["error"]]
        for row in trials.rows
        if row["status"] == "failed"
    ]
    failed_heads = ["failed", *(trials.names[name] for name in trials.searched), "error"]
    chosen = (f"{trials.names[name]} = {_short(v)}" for name, v in trials.chosen(best).items())
    return render(
        "search_report.md",
        trials=trials,
        counts=", ".join(f"{number} {status}" for status, number in counts.items() if number),
        searched=markdown_table(["name", "key", "values"], _searched(trials)),
        best=best,
        chosen=", ".join(chosen),
        retrained=_retrained(trials),
        recipe=recipe.read_text("utf-8").strip() if recipe.is_file() else "",
        table=markdown_table(heads, table),
        failed=markdown_table(failed_heads, failed) if failed else [],
    )


def _short(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value


def _searched(trials: Trials) -> list[list[Any]]:
    return [
        [
            trials.names[name],
            f"`{name}`",
            (" to " if trials.is_range(name) else ", ").join(str(_short(v)) for v in values),
        ]
        for name, values in trials.searched.items()
    ]


def _retrained(trials: Trials) -> str:
    """Describe the metrics of the best recipe, trained with seeds that no trial had."""
    objective = trials.objective.removeprefix("val_")
    best = trials.folder / "best"
    noted = read_json(best / "ensemble.json") or read_json(best / "metrics.json")
    said = []
    for split in ("validation", "test"):
        part = noted.get(split, {})
        value, sd = part.get("mean", part).get(objective), part.get("sd", {}).get(objective)
        if value is not None:
            said.append(f"{split} {value:.4f}" + ("" if sd is None else f" ± {sd:.4f}"))
    seeds = noted.get("seeds") or [noted.get("seed")]
    return f"Retrained with seeds {', '.join(map(str, seeds))}: {', '.join(said)}." if said else ""
