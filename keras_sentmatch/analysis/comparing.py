"""Runs compared on the same pairs: intervals, paired bootstrap, McNemar's test."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.dataset import rows_by_group
from keras_sentmatch.display.figures import comparison
from keras_sentmatch.display.rendering import render
from keras_sentmatch.display.tables import data_name, write_report
from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics import (
    mcnemar,
    mean_average_precision,
    paired_bootstrap,
    wilson_interval,
)
from keras_sentmatch.metrics.calibration import decide
from keras_sentmatch.safety import inside, read_bytes

COLUMNS = (
    "first second difference low high bootstrap_p only_first_right only_second_right mcnemar_p"
).split()


@dataclass(frozen=True)
class Entry:
    """A matcher to compare: the folders of a run, or of several with different seeds."""

    name: str
    folders: tuple[Path, ...]


def group_runs(folders: Sequence[str | Path]) -> list[Entry]:
    """Groups run folders by matcher: runs whose recipes differ only in the seed are one matcher.

    So are the members of an ensemble.
    """
    from keras_sentmatch.inference.run_folder import is_packaged, members_of

    entries: dict[str, list[Path]] = {}
    names: dict[str, str] = {}
    given = [Path(folder) for folder in folders]
    if len({folder.resolve() for folder in given}) < len(given):
        raise InputError(f"The same run appears twice in {', '.join(map(str, given))}.")
    for folder in given:
        members = members_of(folder)
        for member in members:
            if not ((member / "matcher.json").is_file() or is_packaged(member)):
                raise InputError(f"{member} is not a run folder: it has no matcher.json.")
        key = str(folder.resolve()) if members != [folder] else _recipe_key(folder)
        entries.setdefault(key, []).extend(members)
        names.setdefault(key, str(folder))
    return [
        Entry(names[key] + (f" … ({len(found)} seeds)" if len(found) > 1 else ""), tuple(found))
        for key, found in entries.items()
    ]


def _recipe_key(folder: Path) -> str:
    """A key that is the same for runs that differ only in the seed."""
    from keras_sentmatch.inference.run_folder import read_json

    file = folder / "recipe.toml"
    metrics = read_json(folder / "metrics.json")
    if not metrics or not file.exists():  # not written by `train`
        return str(folder.resolve())
    text = read_bytes(inside(folder, file.name), "JSON_BYTES").decode("utf-8", "replace")
    facts = [metrics.get(name) for name in ("model", "data", "rows", "backend")]
    return json.dumps([re.sub(r"(?m)^seed *=.*$", "", text), facts], sort_keys=True)


def values_of(labeled: PairDataset, scores: np.ndarray, threshold: float | None) -> np.ndarray:
    """What is compared: a 1 for each right pair, or each answerable question's average precision.

    Args:
        labeled: Pairs with the label indices of the matcher.
        scores: What `Matcher.predict_proba` returns.
        threshold: The matcher's threshold.
    """
    labels = np.asarray(labeled.labels)
    if labeled.task == "ranking" and labeled.groups is not None:
        ranks = scores[:, 1] if scores.ndim == 2 else scores
        kept = [rows for rows in rows_by_group(labeled.groups) if labels[rows].any()]
        return np.array(
            [mean_average_precision(labels[r], ranks[r], np.zeros(len(r))) for r in kept]
        )
    if labeled.task == "regression" or scores.ndim != 2:
        raise InputError(
            "Runs are compared by the answers that they get right, but these runs return scores."
        )
    return np.asarray(decide(scores, threshold) == labels, dtype=float)


def comparison_report(
    values: Mapping[str, Sequence[np.ndarray]], *, samples: int = 10_000, seed: int = 0
) -> dict[str, Any]:
    """Compares each matcher with each other one.

    Args:
        values: For each matcher by name, what `values_of` returns for each of its seeds.
        samples: Number of bootstrap samples.
        seed: Random seed of the bootstrap.

    Returns:
        `figure` (`"accuracy"`, or `"map"` if values are not all 0 or 1), `rows`, `matchers` (`name`,
        `seeds` (the figure of each), `mean`, `sd`, and for the accuracy of a single run its Wilson
        interval `low` to `high`) and `pairs` (`first`, `second`, `bootstrap`, and `mcnemar` of the
        first seeds of both, the second seeds, …).

    Example:

    >>> import numpy as np
    >>> report = comparison_report({"a": [np.ones(40)], "b": [np.repeat([0, 1.0], 20)]})
    >>> report["pairs"][0]["mcnemar"][0]["only1"], report["pairs"][0]["bootstrap"]["p"] < 0.01
    (20, True)
    """
    if len(values) < 2:
        raise InputError(
            f"There is {len(values)} matcher to compare: give runs of at least two recipes (runs that "
            "differ only in the seed count as one)."
        )
    arrays = {name: np.array(list(seeds), float) for name, seeds in values.items()}
    shapes = {array.shape[1:] for array in arrays.values()}
    if len(shapes) > 1 or any(array.ndim != 2 or not array.size for array in arrays.values()):
        raise InputError(
            "Matchers are compared on the same pairs, but these were measured on different ones."
        )
    binary = all(np.isin(array, (0, 1)).all() for array in arrays.values())
    matchers = []
    for name, array in arrays.items():
        seeds = [float(value) for value in array.mean(axis=1)]
        sd = float(np.std(seeds, ddof=1)) if len(seeds) > 1 else None
        row: dict[str, Any] = {"name": name, "seeds": seeds, "mean": float(array.mean()), "sd": sd}
        if binary and len(seeds) == 1:
            row["low"], row["high"] = wilson_interval(int(array.sum()), array.shape[1])
        matchers.append(row)
    pairs = []
    for first, second in combinations(arrays, 2):
        single = len(arrays[first]) == len(arrays[second]) == 1
        row = {"first": first, "second": second, "single": single}
        both = arrays[first], arrays[second]
        row["bootstrap"] = paired_bootstrap(*both, samples=samples, seed=seed)
        row["mcnemar"] = [mcnemar(*seeds) for seeds in zip(*both)] if binary else []
        pairs.append(row)
    return {
        "figure": "accuracy" if binary else "map",
        "rows": shapes.pop()[0],
        "samples": samples,
        "matchers": matchers,
        "pairs": pairs,
    }


def table(report: Mapping[str, Any]) -> list[list[Any]]:
    """The comparisons as rows of `COLUMNS`: of two matchers, and of two seeds of them."""
    rows = []
    for row in report["pairs"]:
        both = [row["first"], row["second"]]
        bootstrap = [row["bootstrap"][key] for key in ("difference", "low", "high", "p")]
        tests = [[test[key] for key in ("only1", "only2", "p")] for test in row["mcnemar"]]
        alone = tests.pop() if tests and row["single"] else [None] * 3
        rows.append([*both, *bootstrap, *alone])
        for seed, test in enumerate(tests, 1):
            rows.append([*(f"{name}, seed {seed}" for name in both), *[None] * 4, *test])
    return rows


def matcher_table(report: Mapping[str, Any]) -> list[list[Any]]:
    """Name, number of seeds, mean, standard deviation and interval of each matcher."""
    return [
        [row["name"], len(row["seeds"]), row["mean"], row["sd"], row.get("low"), row.get("high")]
        for row in report["matchers"]
    ]


def matcher_columns(report: Mapping[str, Any]) -> list[str]:
    """The heads of `matcher_table`."""
    return ["matcher", "seeds", report["figure"], "sd", "low", "high"]


def to_markdown(report: Mapping[str, Any]) -> str:
    """The report as a Markdown page."""
    return render(
        "compare.md",
        report=report,
        data=data_name(report),
        matcher_columns=matcher_columns(report),
        matchers=matcher_table(report),
        columns=[name.replace("_", " ") for name in COLUMNS],
        rows=table(report),
    )


def save_report(report: Mapping[str, Any], folder: str | Path) -> None:
    """Writes compare.json, .md, .csv and .png into a folder."""
    folder = Path(folder)
    write_report(folder, "compare", report, to_markdown(report), COLUMNS, table(report))
    comparison(report, folder / "compare.png")
