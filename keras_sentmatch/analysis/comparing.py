"""Runs compared on the same pairs, by paired bootstrap."""

import copy
import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.dataset import rows_by_group
from keras_sentmatch.display.rendering import render
from keras_sentmatch.display.tables import data_name, write_report
from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics import mean_average_precision, paired_bootstrap, wilson_interval
from keras_sentmatch.metrics.calibration import decide, log_odds

COLUMNS = ["first", "second", "difference", "low", "high", "p"]


def group_runs(folders: Sequence[str | Path]) -> dict[str, list[Path]]:
    """Group run folders by matcher: runs that differ only in the seed, or members of an ensemble.

    Runs are the same matcher if their recipes, backends and pairs (with labels and weights) are the
    same, as the identity in `metrics.json` says.
    """
    from keras_sentmatch.inference.run_folder import is_packaged, members_of, read_json

    groups: dict[str, list[Path]] = {}
    names: dict[str, str] = {}
    given = [Path(folder) for folder in folders]
    if len({folder.resolve() for folder in given}) < len(given):
        raise InputError(f"The same run appears twice in {', '.join(map(str, given))}.")
    for folder in given:
        members = members_of(folder)
        for member in members:
            if not ((member / "matcher.json").is_file() or is_packaged(member)):
                raise InputError(f"{member} is not a run folder: it has no matcher.json.")
        key = str(folder.resolve())
        identity = read_json(folder / "metrics.json").get("identity")
        if isinstance(identity, dict):
            identity = copy.deepcopy(identity)
            training = identity.get("training")
            if isinstance(training, dict):
                training.pop("seed", None)
            key = json.dumps(identity, sort_keys=True)
        groups.setdefault(key, []).extend(members)
        names.setdefault(key, str(folder))
    return {
        names[key] + (f" … ({len(found)} seeds)" if len(found) > 1 else ""): found
        for key, found in groups.items()
    }


def is_ranked(pairs: PairDataset) -> bool:
    """Whether runs are compared by the order of each question's candidates: by MAP, not accuracy."""
    return pairs.task == "ranking" and pairs.groups is not None


def values_of(
    labeled: PairDataset, scores: np.ndarray, threshold: float | None
) -> tuple[str, np.ndarray]:
    """Return the metric that is compared, and its values.

    It is `"accuracy"`, with 1 for each right pair, or `"map"`, with the average precision of each
    question that has a right answer.

    Args:
        labeled: Pairs with the label indices of the matcher.
        scores: What `Matcher.predict_proba` returns.
        threshold: The matcher's threshold.
    """
    labels = np.asarray(labeled.labels)
    if labeled.groups is not None and is_ranked(labeled):
        ranks = log_odds(scores, 1) if scores.ndim == 2 else scores
        kept = [rows for rows in rows_by_group(labeled.groups) if labels[rows].any()]
        found = [mean_average_precision(labels[r], ranks[r], np.zeros(len(r))) for r in kept]
        return "map", np.array(found)
    if labeled.task == "regression" or scores.ndim != 2:
        raise InputError(
            "These runs return scores. Runs are compared by the labels that they predict. Compare "
            "scores with `evaluate`."
        )
    return "accuracy", np.asarray(decide(scores, threshold) == labels, dtype=float)


def comparison_report(
    metric: str, values: Mapping[str, Sequence[np.ndarray]], *, samples: int = 10_000, seed: int = 0
) -> dict[str, Any]:
    """Compare each matcher with each other one.

    Args:
        metric: The metric of the values.
        values: For each matcher by name, what `values_of` returns for each of its seeds.
        samples: Number of bootstrap samples.
        seed: Random seed of the bootstrap.

    Returns:
        `metric`, `rows`, `matchers` (`name`, `seeds` (the metric of each), `mean`, `sd`, and for the
        accuracy of a single run its Wilson interval `low` to `high`) and `pairs` (`first`, `second`
        and what `paired_bootstrap` returns).

    Example:

    >>> import numpy as np
    >>> values = {"a": [np.ones(40)], "b": [np.repeat([0, 1.0], 20)]}
    >>> comparison_report("accuracy", values)["pairs"][0]["p"] < 0.01
    True
    """
    if len(values) < 2:
        raise InputError(
            f"There is {len(values)} matcher to compare. Give runs of at least two recipes (runs that "
            "differ only in the seed count as one)."
        )
    arrays = {name: np.array(list(seeds), float) for name, seeds in values.items()}
    matchers = []
    for name, array in arrays.items():
        seeds = [float(value) for value in array.mean(axis=1)]
        sd = float(np.std(seeds, ddof=1)) if len(seeds) > 1 else None
        row: dict[str, Any] = {"name": name, "seeds": seeds, "mean": float(array.mean()), "sd": sd}
        if metric == "accuracy" and len(seeds) == 1:
            row["low"], row["high"] = wilson_interval(int(array.sum()), array.shape[1])
        matchers.append(row)
    pairs = [
        {
            "first": first,
            "second": second,
            **paired_bootstrap(arrays[first], arrays[second], samples=samples, seed=seed),
        }
        for first, second in combinations(arrays, 2)
    ]
    rows = next(iter(arrays.values())).shape[1]
    return {
        "metric": metric,
        "rows": rows,
        "samples": samples,
        "matchers": matchers,
        "pairs": pairs,
    }


def tables(report: Mapping[str, Any]) -> list[tuple[list[str], list[list[Any]]]]:
    """Return the columns and rows of two tables: the matchers, and their comparisons."""
    matchers = [
        [row["name"], len(row["seeds"]), row["mean"], row["sd"], row.get("low"), row.get("high")]
        for row in report["matchers"]
    ]
    return [
        (["matcher", "seeds", report["metric"], "sd", "low", "high"], matchers),
        (COLUMNS, [[row[name] for name in COLUMNS] for row in report["pairs"]]),
    ]


def save_comparison(report: Mapping[str, Any], folder: str | Path) -> None:
    """Write compare.json, .md and .csv into a folder."""
    both = tables(report)
    page = render("compare.md", report=report, data=data_name(report), tables=both)
    write_report(Path(folder), "compare", report, page, *both[1])
