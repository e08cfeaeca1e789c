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
    strength: float | None = None  # of a hybrid's linear part, the median


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


def all_pairs(splits: Mapping[str, PairDataset]) -> PairDataset:
    """Training and validation pairs; questions of one name in both are different ones."""
    train, validation = splits["train"], splits["validation"]
    if train.groups and validation.groups and not set(train.groups).isdisjoint(validation.groups):
        groups = [f"{group} (validation)" for group in validation.groups]
        validation = PairDataset.from_dict({**validation.to_dict(), "groups": groups})
    return joined(train, validation)


def fold_splits(pairs: PairDataset, folds: int, seed: int) -> Iterator[dict[str, PairDataset]]:
    """Training and validation pairs of each fold; each class has its share in all of them.

    The candidates of a question stay together.
    """
    from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold

    kinds = {"classification": StratifiedKFold, "ranking": StratifiedGroupKFold}
    if why := why_no_folds(pairs, folds):
        raise InputError(f"training.folds is {folds}, but {why}: set it to 0, or give more pairs.")
    fold = kinds.get(pairs.task, KFold)(folds, shuffle=True, random_state=seed)
    labels = np.asarray(pairs.labels)
    for train, validation in fold.split(labels, labels, pairs.groups):
        yield {"train": pairs.select(train), "validation": pairs.select(validation)}


def why_no_folds(pairs: PairDataset, folds: int) -> str | None:
    """What the pairs lack to be divided into so many folds."""
    labels = np.asarray(pairs.labels)
    if pairs.task == "ranking":
        assert pairs.groups is not None
        right = len({group for group, label in zip(pairs.groups, labels) if label == 1})
        return f"only {right} questions have a right answer" if right < folds else None
    least = np.bincount(labels).min() if pairs.task == "classification" else len(pairs)
    return f"there are only {least} pairs of some class" if least < folds else None


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
    strengths = [run["linear_strength"] for run in runs if run["linear_strength"] is not None]
    return Folds(
        epochs,
        figures,
        float(np.mean(shares)) if shares else None,
        float(np.median(strengths)) if strengths else None,
    )


def _mean(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Figures as means, rows as their sum."""
    first = parts[0]
    found = {n: float(np.mean([p[n] for p in parts])) for n in first if isinstance(first[n], float)}
    return {**found, "rows": sum(p["rows"] for p in parts), "primary": first["primary"]}
