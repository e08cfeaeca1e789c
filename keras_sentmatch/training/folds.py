"""Folds: they choose the number of epochs of a run, or measure a recipe by cross-validation."""

import contextlib
import csv
import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.splits import part_numbers
from keras_sentmatch.errors import InputError, wording
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.safety import read_arrays
from keras_sentmatch.training.adapt import adapted, why_no_folds
from keras_sentmatch.training.callbacks import figure_of, monitor_of
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.resume import (
    check_identity,
    finished_metrics,
    run_identity,
    write_arrays,
)
from keras_sentmatch.training.training_data import Splits, joined_splits

FOLDER = "folds"  # in the run folder: a run per fold
SCORES = "scores.npz"  # of the pairs that a fold did not learn from
KEPT = ("metrics.json", "history.csv", "matcher.json", SCORES)  # of a finished fold
VALIDATION = 0.1  # share of the pairs to train on that chooses the best epoch
ROLES = ("train", "validation")
SEED = 0  # of the folds of a cross-validation, so that all models share them
log = logging.getLogger(__name__)
Train = Callable[..., Any]  # `train`, which folds call and cannot import


@dataclass
class Folds:
    """The results of the folds of a run."""

    epochs: int  # the best number
    pairs: PairDataset  # all of them
    scores: np.ndarray  # of each pair, by the model of the fold that did not learn from it
    baseline: dict[str, Any] | None  # its mean metrics
    chosen: dict[str, float]  # by the hooks of the model, see `PairModel.before_fit`


def train_folds(
    train: Train,
    recipe: Recipe,
    folds: Iterable[Splits],
    folders: Sequence[Path],
    scored: str | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Train a run per fold, and return the metrics of each.

    Finished folds are kept, and an unfinished one continues if `resume` is among the options. The
    scores of the split `scored` are kept in the file `SCORES`; the model of a fold is deleted.
    Ctrl-C raises `KeyboardInterrupt`.
    """
    found = []
    for number, (splits, folder) in enumerate(zip(folds, folders), 1):
        metrics, matcher = finished_metrics(folder) if options["resume"] else None, None
        if metrics is None:
            log.info(f"Fold {number} of {len(folders)}")
            with _quieter(logging.WARNING if number == 1 else logging.ERROR):
                result = train(recipe, splits, folder, **options)
            metrics, matcher = result.metrics, result.matcher
            if metrics["interrupted"]:
                log.warning(f"Stopped by Ctrl-C in fold {number}; --resume continues")
                raise KeyboardInterrupt
        else:
            now = run_identity(adapted(recipe, splits)[0], splits)
            check_identity(folder, metrics["identity"], now)
        if scored and not (folder / SCORES).exists():
            matcher = matcher or Matcher.load(folder)
            write_arrays(folder / SCORES, {"scores": matcher.predict_proba(splits[scored])})
        clean_up(folder)
        found.append(metrics)
        role = "test" if "test" in metrics else "validation"
        name = figure_of(metrics["monitor"], metrics["task"])
        log.info(f"Fold {number} of {len(folders)}: {role} {name} {metrics[role][name]:.3f}")
    return found


@contextlib.contextmanager
def _quieter(level: int) -> Iterator[None]:
    """Hide messages below a level: each fold would repeat them."""
    library = logging.getLogger("keras_sentmatch")
    before = library.level
    library.setLevel(max(before, level))
    try:
        yield
    finally:
        library.setLevel(before)


def clean_up(folder: Path) -> None:
    """Delete what a finished fold no longer needs: its model."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in KEPT:
            path.unlink()


# === Folds of a run: they choose its number of epochs, and measure the recipe ===


def choose_epochs(
    train: Train, recipe: Recipe, splits: Splits, folder: Path, resume: bool, **options: Any
) -> Folds:
    """Train on all pairs but those of one fold at a time, and choose the number of epochs."""
    count, seed = int(recipe.training.folds), recipe.training.seed
    if (folder / FOLDER).exists() and not resume:
        raise InputError(
            f"{folder} holds an unfinished run (in its folder {FOLDER!r}). Continue it with --resume "
            "(resume=True), name another folder, or delete this one."
        )
    pairs = joined_splits(splits)
    log.info(f"Training {count} models, one without each fold, and then one on all pairs")
    if why := why_no_folds(pairs, count, seed):
        raise InputError(f"training.folds is {count}, but {why}. Set it to 0, or give more pairs.")
    part = part_numbers(pairs, [1 / count] * count, seed=seed)
    parts = [
        {role: pairs.select((part == n) == (role != "train"), split=role) for role in ROLES}
        for n in range(count)
    ]
    folders = [folder / FOLDER / str(number) for number in range(1, count + 1)]
    recipe = recipe.with_training(folds=0)
    runs = train_folds(train, recipe, parts, folders, "validation", resume=resume, **options)
    outputs = [read_arrays(one / SCORES)["scores"] for one in folders]
    scores = np.empty((len(pairs), *outputs[0].shape[1:]), "float32")
    for number, found in enumerate(outputs):
        scores[part == number] = found
    epochs = _best_epochs(folders, *monitor_of(pairs.task, recipe.training.monitor))
    log.info(f"{count} folds: {epochs} epochs are best; training on all {len(pairs):,} pairs")
    baseline = None
    if all("baseline" in run for run in runs):
        each = [run["baseline"]["validation"] for run in runs]
        names = [n for n in each[0] if all(isinstance(one.get(n), float) for one in each)]
        mean = {name: float(np.mean([one[name] for one in each])) for name in names}
        rows = sum(one["rows"] for one in each)
        baseline = {"validation": {**mean, "rows": rows, "primary": each[0]["primary"]}}
    means: dict[str, Any] = {"linear_strength": np.median, "network_share": np.mean}
    chosen = {
        name: float(mean_of(values))
        for name, mean_of in means.items()
        if (values := [run[name] for run in runs if run[name] is not None])
    }
    return Folds(epochs, pairs, scores, baseline, chosen)


def _best_epochs(folders: Sequence[Path], monitor: str, mode: str) -> int:
    """Return the best number of epochs by the mean curve of the folds.

    After a fold stopped early, its last value counts.
    """
    curves = []
    for folder in folders:
        with open(folder / "history.csv", newline="", encoding="utf-8") as file:
            curves.append([float(row[monitor]) for row in csv.DictReader(file)])
    longest = max(map(len, curves))
    mean = np.mean([curve + curve[-1:] * (longest - len(curve)) for curve in curves], axis=0)
    return 1 + int(np.nanargmax(mean) if mode == "max" else np.nanargmin(mean))


# === Cross-validation: every pair is a test pair once ===


def fold_parts(pairs: PairDataset, folds: int) -> Iterator[dict[str, PairDataset]]:
    """Yield the training, validation and test pairs of each fold of a cross-validation."""
    part = fold_numbers(pairs, folds)
    for number in range(folds):
        rest = pairs.select(part != number)
        inner = part_numbers(rest, [1 - VALIDATION, VALIDATION], seed=SEED)
        yield {
            "train": rest.select(inner == 0, split="train"),
            "validation": rest.select(inner == 1, split="validation"),
            "test": pairs.select(part == number, split="test"),
        }


def fold_numbers(pairs: PairDataset, folds: int) -> np.ndarray:
    """Return the fold of each pair, from 0."""
    if type(folds) is not int or not 2 <= folds <= len(pairs):
        raise InputError(
            f"{wording(f'folds={folds}', f'--crossval {folds}')}; expected 2 to {len(pairs):,}, the "
            "number of pairs."
        )
    if pairs.labels is None:
        how = wording("label=…", "--columns FIRST,SECOND,LABEL")
        raise InputError(f"The pairs have no labels. Name their column with {how}.")
    return part_numbers(pairs, [1 / folds] * folds, seed=SEED)
