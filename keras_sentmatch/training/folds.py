"""Choosing the number of epochs by cross-validation, where there are few pairs."""

import csv
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError

FOLDER = "folds"  # in the run folder: a run for each fold
KEPT = ("metrics.json", "history.csv", "matcher.json")  # of a fold that is done


@dataclass
class Folds:
    """What the folds found."""

    epochs: int  # the best number
    figures: dict[str, Any]  # `metrics.json` of the folds, averaged
    share: float | None = None  # of a hybrid's network, the mean


def joined(one: PairDataset, two: PairDataset) -> PairDataset:
    """The pairs of two datasets of one task and the same labels."""
    first, second = one.to_dict(), two.to_dict()
    found = {
        name: first[name] + second[name] if first[name] and second[name] else None
        for name in ("sentence1", "sentence2", "labels", "groups")
    }
    shared = first["columns"].keys() & second["columns"].keys()
    columns = {name: first["columns"][name] + second["columns"][name] for name in shared}
    if "weight" in {*first["columns"], *second["columns"]}:
        ones = [[1.0] * len(one), [1.0] * len(two)]
        known = [side["columns"].get("weight", some) for side, some in zip((first, second), ones)]
        columns["weight"] = known[0] + known[1]
    same = {name: first[name] for name in ("label_names", "task", "name", "split")}
    return PairDataset.from_dict({**found, **same, "columns": columns})


def fold_splits(pairs: PairDataset, folds: int, seed: int) -> Iterator[dict[str, PairDataset]]:
    """Training and validation pairs of each fold; each class has its share in all of them."""
    from sklearn.model_selection import KFold, StratifiedKFold

    if pairs.task == "ranking":
        raise InputError(
            "training.folds works for classes and scores, not for ranking: set it to 0."
        )
    kind = StratifiedKFold if pairs.task == "classification" else KFold
    labels = np.asarray(pairs.labels)
    least = np.bincount(labels).min() if pairs.task == "classification" else len(pairs)
    if least < folds:
        raise InputError(
            f"training.folds is {folds}, but there are only {least} pairs of some class: set "
            "training.folds=0, or give more pairs."
        )
    for train, validation in kind(folds, shuffle=True, random_state=seed).split(labels, labels):
        yield {"train": pairs.select(train), "validation": pairs.select(validation)}


def clean_up(folder: Path) -> None:
    """Removes what a fold that is done needs no more: its model."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in KEPT:
            path.unlink()


def together(folders: Sequence[Path], runs: Sequence[Mapping[str, Any]], mode: str) -> Folds:
    """The best number of epochs by the mean curve of the folds, and their mean figures.

    A fold that stopped early counts with its last value afterward.
    """
    curves, monitor = [], runs[0]["monitor"]
    for folder in folders:
        with open(folder / "history.csv", newline="", encoding="utf-8") as file:
            curves.append([float(row[monitor]) for row in csv.DictReader(file)])
    longest = max(map(len, curves))
    mean = np.mean([curve + curve[-1:] * (longest - len(curve)) for curve in curves], axis=0)
    epochs = 1 + int(np.nanargmax(mean) if mode == "max" else np.nanargmin(mean))
    errors = [run["standard_error"] for run in runs]
    figures: dict[str, Any] = {
        "validation": _mean([run["validation"] for run in runs]),
        "standard_error": float(np.sqrt(np.mean(np.square(errors)) / len(errors))),
        "majority": runs[0]["majority"] and _mean([run["majority"] for run in runs]),
    }
    if all("baseline" in run for run in runs):
        figures["baseline"] = {"validation": _mean([run["baseline"]["validation"] for run in runs])}
    shares = [run["network_share"] for run in runs if run["network_share"] is not None]
    return Folds(epochs, figures, float(np.mean(shares)) if shares else None)


def _mean(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Figures as means, rows as their sum."""
    first = parts[0]
    found = {n: float(np.mean([p[n] for p in parts])) for n in first if isinstance(first[n], float)}
    return {**found, "rows": sum(p["rows"] for p in parts), "primary": first["primary"]}
