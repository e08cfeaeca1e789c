"""Cross-validation: every pair is a test pair once."""

import contextlib
import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.splits import part_numbers
from keras_sentmatch.errors import InputError, wording
from keras_sentmatch.training.adapt import adapted
from keras_sentmatch.training.callbacks import figure_of
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.resume import check_identity, finished_metrics, run_identity
from keras_sentmatch.training.training_data import Splits

KEPT = ("metrics.json", "history.csv", "matcher.json")  # of a finished fold
VALIDATION = 0.1  # share of the pairs to train on that chooses the best epoch
SEED = 0  # of the folds of a cross-validation, so that all models share them
log = logging.getLogger(__name__)
Train = Callable[..., Any]  # `train`, which folds call and cannot import


def train_folds(
    train: Train,
    recipe: Recipe,
    folds: Iterable[Splits],
    folders: Sequence[Path],
    **options: Any,
) -> list[dict[str, Any]]:
    """Train a run per fold, and return the metrics of each.

    Finished folds are kept, and an unfinished one continues if `resume` is among the options. The
    model of a fold is deleted. Ctrl-C raises `KeyboardInterrupt`.
    """
    found = []
    for number, (splits, folder) in enumerate(zip(folds, folders), 1):
        metrics = finished_metrics(folder) if options["resume"] else None
        if metrics is None:
            log.info(f"Fold {number} of {len(folders)}")
            with quieter(logging.WARNING if number == 1 else logging.ERROR):
                metrics = train(recipe, splits, folder, **options).metrics
            if metrics["interrupted"]:
                log.warning(f"Stopped by Ctrl-C in fold {number}; --resume continues")
                raise KeyboardInterrupt
        else:
            now = run_identity(adapted(recipe, splits)[0], splits)
            check_identity(folder, metrics["identity"], now)
        clean_up(folder)
        found.append(metrics)
        role = "test" if "test" in metrics else "validation"
        name = figure_of(metrics["monitor"], metrics["task"])
        log.info(f"Fold {number} of {len(folders)}: {role} {name} {metrics[role][name]:.3f}")
    return found


@contextlib.contextmanager
def quieter(level: int) -> Iterator[None]:
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
