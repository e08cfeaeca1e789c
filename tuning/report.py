"""What a search says: its trials as a page with pictures, and for TensorBoard."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import NormalDist, mean, median
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.display.rendering import render
from keras_sentmatch.display.tables import markdown_table
from keras_sentmatch.errors import InputError
from keras_sentmatch.safety import read_object
from keras_sentmatch.tuning import pictures
from keras_sentmatch.tuning.hparams import write_hparams
from keras_sentmatch.tuning.importance import Importance, importance_of
from keras_sentmatch.tuning.trials import Trials, read_trials

COSTS = {"parameters": "parameters", "pair_seconds": "milliseconds a pair"}


def write_report(folder: str | Path) -> dict[str, Any]:
    """Writes `report.md`, its pictures, and the trials for TensorBoard's HParams tab.

    They go into the folder of the search, which may be over or still run. An earlier report is
    replaced.

    Args:
        folder: The `out` of `search`.

    Returns:
        The counts of trials by `status`, the `best` row, what is `luck`, the trials on each
        `front`, the `importance` of the parameters (or `no_importance`: why not), and the `files`.

    Raises:
        InputError: It is no folder of a search, or no trial in it is completed.

    Example:

    ```python
    from keras_sentmatch.tuning import write_report

    write_report("searches/steps")["front"]["parameters"]
    ```
    """
    trials = read_trials(folder)
    folder = trials.folder
    importance, reason = importance_of(trials)
    report: dict[str, Any] = {
        "folder": str(folder),
        "objective": trials.objective,
        "status": {
            status: len(trials.with_status(status))
            for status in ("completed", "failed", "running", "requeued")
        },
        "best": trials.completed[0],
        "luck": luck_of(trials),
        "front": {cost: front_of(trials, cost) for cost in COSTS},
        "importance": importance and vars(importance),
        "no_importance": reason or None,
    }
    try:
        drawn = [
            pictures.sensitivity(trials, folder / "sensitivity.png"),
            pictures.parallel_coordinates(trials, folder / "parallel.png"),
        ]
        if any(report["front"].values()):
            drawn.append(pictures.cost(trials, report["front"], folder / "cost.png"))
        if importance is None:
            (folder / "importance.png").unlink(missing_ok=True)
        else:
            drawn.append(pictures.importance(importance, trials.names, folder / "importance.png"))
        page = folder / "report.md"
        page.write_text(to_markdown(trials, report, importance), encoding="utf-8")
        board = write_hparams(trials, folder / "tensorboard")
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror or error}.") from error
    report["files"] = [str(path) for path in (page, *drawn, *([board] if board else []))]
    return report


def front_of(trials: Trials, cost: str) -> list[str]:
    """The trials that no other beats in score and cost at once, the cheapest first."""
    measured = [row for row in trials.completed if row.get(cost) is not None]
    if not measured:
        return []
    sign = -1 if trials.rises else 1
    front = pareto_front([[sign * row["score"], row[cost]] for row in measured])
    return [measured[i]["trial"] for i in sorted(front, key=lambda i: measured[i][cost])]


def pareto_front(costs: ArrayLike) -> list[int]:
    """The rows that no other dominates: none is at most as costly in every column and less in one."""
    rows = np.asarray(costs, float)
    below = (rows[:, None] <= rows).all(-1) & (rows[:, None] < rows).any(-1)  # [by, dominated]
    return np.flatnonzero(~below.any(0)).tolist()


def luck_of(trials: Trials) -> dict[str, Any]:
    """How far the best stands from the middle one, and how far it would by luck alone.

    With several seeds: `seed_sd`, the pooled standard deviation over the seeds of a configuration;
    `by_luck`, how far the best of so many equally good configurations is expected from the middle
    one; and `alike`, how many others are within two standard errors of the best.
    """
    rows = trials.completed
    best, count = rows[0]["score"], len(rows)
    found: dict[str, Any] = {"ahead": abs(best - median(row["score"] for row in rows))}
    variances = [row["score_sd"] ** 2 for row in rows if row.get("score_sd") is not None]
    if variances:
        sd = math.sqrt(mean(variances))
        of_mean = sd / math.sqrt(len(trials.scores(rows[0])))
        # Blom's approximation of the expected greatest of so many normal numbers
        greatest = NormalDist().inv_cdf((count - 0.375) / (count + 0.25))
        near = 2 * math.sqrt(2) * of_mean
        found["seed_sd"], found["by_luck"] = sd, of_mean * greatest
        found["alike"] = sum(abs(row["score"] - best) <= near for row in rows[1:])
    return found


def to_markdown(trials: Trials, report: Mapping[str, Any], importance: Importance | None) -> str:
    """The report as a page."""
    best, recipe = trials.completed[0], trials.folder / "best_recipe.toml"
    chosen = (
        f"{trials.names[name]} = {in_short(best[name])}"
        for name in trials.searched
        if best[name] is not None
    )
    shares = importance.shares.items() if importance else ()
    return render(
        "search_report.md",
        trials=trials,
        seeds=len(trials.scores(best)),
        counts=", ".join(
            f"{number} {status}" for status, number in report["status"].items() if number
        ),
        searched=markdown_table(["name", "key", "values", "tried"], _searched(trials)),
        best=best,
        chosen=", ".join(chosen),
        retrained=_retrained(trials),
        recipe=recipe.read_text("utf-8").strip() if recipe.is_file() else "",
        luck=report["luck"],
        table=markdown_table(*trials_table(trials, report["front"])),
        failed=_failed(trials),
        costs=any(report["front"].values()),
        importance=importance,
        no_importance=report["no_importance"],
        shares=markdown_table(
            ["parameter", "share of the variance"],
            [[trials.names[name], share] for name, share in shares],
        ),
    )


def trials_table(
    trials: Trials, front: Mapping[str, Sequence[str]]
) -> tuple[list[str], list[list[Any]]]:
    """The completed trials, the best first: heads and rows."""
    several = len(trials.scores(trials.completed[0])) > 1
    heads = ["trial", trials.score_name, *(["sd"] if several else [])]
    heads += [trials.names[name] for name in trials.searched]
    heads += ["parameters", "ms a pair", "pairs/s", "seconds", "front"]
    return heads, [
        [
            row["trial"],
            row["score"],
            *([row["score_sd"]] if several else []),
            *(in_short(row[name]) for name in trials.searched),
            row["parameters"],
            in_short(None if row.get("pair_seconds") is None else 1000 * row["pair_seconds"]),
            in_short(row.get("pairs_per_second")),
            in_short(row.get("seconds")),
            ", ".join(
                {"parameters": "size", "pair_seconds": "speed"}[cost]
                for cost in COSTS
                if row["trial"] in front[cost]
            ),
        ]
        for row in trials.completed
    ]


def in_short(value: Any) -> Any:
    """Numbers with a fraction to three digits, all else as it is."""
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
    """The figures of the best recipe trained with seeds that no trial had."""
    objective = trials.objective.removeprefix("val_")
    for name, key in (("ensemble.json", "mean"), ("metrics.json", "")):
        path = trials.folder / "best" / name
        if not path.is_file():
            continue
        noted = read_object(path)
        seeds = noted.get("seeds") or [noted.get("seed")]
        said = []
        for split in ("validation", "test"):
            part = noted.get(split, {})
            value, sd = part.get(key, part).get(objective), part.get("sd", {}).get(objective)
            if value is not None:
                said.append(f"{split} {value:.4f}" + ("" if sd is None else f" ± {sd:.4f}"))
        if said:
            counted = "seed" if len(seeds) == 1 else "seeds"
            return f"Retrained with the {counted} {', '.join(map(str, seeds))}: {', '.join(said)}."
    return ""


def _failed(trials: Trials) -> list[str]:
    heads = ["failed", *(trials.names[name] for name in trials.searched), "error"]
    rows = [
        [row["trial"], *(in_short(row[name]) for name in trials.searched), row["error"]]
        for row in trials.with_status("failed")
    ]
    return markdown_table(heads, rows) if rows else []
