"""The report of a search: `report.md` and its pictures."""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist, mean, median
from typing import Any

from keras_sentmatch.display.rendering import render
from keras_sentmatch.display.tables import markdown_table
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.run_folder import read_json
from keras_sentmatch.tuning import _search_pictures as pictures
from keras_sentmatch.tuning._trials import Row, Trials


def write_report(trials: Trials) -> Path:
    """Write `report.md`, `sensitivity.png` and `cost.png` into the folder of the search.

    Raises:
        InputError: The folder cannot be written to.
    """
    folder, front = trials.folder, front_of(trials)
    try:
        pictures.sensitivity(trials, folder / "sensitivity.png")
        if front:
            pictures.cost(trials, front, folder / "cost.png")
        page = folder / "report.md"
        page.write_text(to_markdown(trials, front), encoding="utf-8")
    except OSError as error:
        raise InputError(f"Cannot write into {folder}: {error.strerror or error}.") from error
    return page


def front_of(trials: Trials) -> list[Row]:
    """Return the trials that no other beats in both score and size, the smallest first."""
    rows = [row for row in trials.completed if row["parameters"] is not None]
    front: list[Row] = []
    for row in sorted(rows, key=lambda row: row["parameters"]):  # best first among equals
        if not front or (
            row["score"] > front[-1]["score"] if trials.rises else row["score"] < front[-1]["score"]
        ):
            front.append(row)
    return front


def luck_of(trials: Trials) -> dict[str, Any]:
    """Return how far the best score is from the median, and how far it would be by luck alone.

    With several seeds: `seed_sd` is the pooled standard deviation over the seeds of a
    configuration, `by_luck` the expected distance if all configurations were equally good, and
    `alike` the number of trials within two standard errors of the best.
    """
    rows = trials.completed
    best, count = rows[0]["score"], len(rows)
    found: dict[str, Any] = {"ahead": abs(best - median(row["score"] for row in rows))}
    variances = [row["score_sd"] ** 2 for row in rows if row.get("score_sd") is not None]
    if variances:
        sd = math.sqrt(mean(variances))
        of_mean = sd / math.sqrt(len(trials.scores(rows[0])))
        # Blom's approximation of the expected maximum of `count` normal numbers.
        greatest = NormalDist().inv_cdf((count - 0.375) / (count + 0.25))
        near = 2 * math.sqrt(2) * of_mean
        found["seed_sd"], found["by_luck"] = sd, of_mean * greatest
        found["alike"] = sum(abs(row["score"] - best) <= near for row in rows[1:])
    return found


def to_markdown(trials: Trials, front: Sequence[Row]) -> str:
    """Return the report as a page."""
    best, recipe = trials.completed[0], trials.folder / "best_recipe.toml"
    statuses = [row["status"] for row in trials.rows]
    counts = {status: statuses.count(status) for status in ("completed", "failed", "running")}
    chosen = (f"{trials.names[n]} = {in_short(v)}" for n, v in trials.chosen(best).items())
    return render(
        "search_report.md",
        trials=trials,
        seeds=len(trials.scores(best)),
        counts=", ".join(f"{number} {status}" for status, number in counts.items() if number),
        searched=markdown_table(["name", "key", "values", "tried"], _searched(trials)),
        best=best,
        chosen=", ".join(chosen),
        retrained=_retrained(trials),
        recipe=recipe.read_text("utf-8").strip() if recipe.is_file() else "",
        luck=luck_of(trials),
        table=markdown_table(*_table(trials, front)),
        failed=_failed(trials),
        front=front,
    )


def _table(trials: Trials, front: Sequence[Row]) -> tuple[list[str], list[list[Any]]]:
    """The completed trials, the best first."""
    several = len(trials.scores(trials.completed[0])) > 1
    heads = ["trial", trials.score_name, *(["sd"] if several else [])]
    heads += [trials.names[name] for name in trials.searched]
    return [*heads, "parameters", "seconds", "front"], [
        [
            row["trial"],
            row["score"],
            *([row["score_sd"]] if several else []),
            *(in_short(row[name]) for name in trials.searched),
            row["parameters"],
            in_short(row.get("seconds")),
            "yes" if row in front else "",
        ]
        for row in trials.completed
    ]


def in_short(value: Any) -> Any:
    """Return a fraction with three digits, and everything else as it is."""
    if not isinstance(value, float):
        return value
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _searched(trials: Trials) -> list[list[Any]]:
    rows = []
    for name, values in trials.searched.items():
        tried = trials.tried(name)
        if trials.is_range(name):
            listed = f"{in_short(values[0])} to {in_short(values[-1])}"
            ends = f", from {in_short(tried[0])} to {in_short(tried[-1])}" if tried else ""
            seen = f"{len(tried)}{ends}"
        else:
            listed, seen = (", ".join(map(str, found)) for found in (values, tried))
        rows.append([trials.names[name], f"`{name}`", listed, seen])
    return rows


def _retrained(trials: Trials) -> str:
    """The metrics of the best recipe, trained with seeds that no trial had."""
    objective = trials.objective.removeprefix("val_")
    noted = read_json(trials.folder / "best" / "ensemble.json")
    noted = noted or read_json(trials.folder / "best" / "metrics.json")
    said = []
    for split in ("validation", "test"):
        part = noted.get(split, {})
        value, sd = part.get("mean", part).get(objective), part.get("sd", {}).get(objective)
        if value is not None:
            said.append(f"{split} {value:.4f}" + ("" if sd is None else f" ± {sd:.4f}"))
    if not said:
        return ""
    seeds = noted.get("seeds") or [noted.get("seed")]
    counted = "seed" if len(seeds) == 1 else "seeds"
    return f"Retrained with {counted} {', '.join(map(str, seeds))}: {', '.join(said)}."


def _failed(trials: Trials) -> list[str]:
    heads = ["failed", *(trials.names[name] for name in trials.searched), "error"]
    rows = [
        [row["trial"], *(in_short(row[name]) for name in trials.searched), row["error"]]
        for row in trials.rows
        if row["status"] == "failed"
    ]
    return markdown_table(heads, rows) if rows else []
