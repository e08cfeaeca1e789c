"""Cross-validation: a run for each fold, and what their figures are together."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.splits import part_numbers, sentence_groups
from keras_sentmatch.errors import InputError, argument, wording
from keras_sentmatch.inference.run_folder import write_json
from keras_sentmatch.training.adapt import adapted
from keras_sentmatch.training.ensemble import spread
from keras_sentmatch.training.folds import clean_up
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.resume import check_identity, finished_metrics
from keras_sentmatch.training.run import run_identity, train

VALIDATION = 0.1  # of the pairs to train on: chooses the best epoch
SEED = 0  # of the folds, whatever the seed of the training: all models share them
log = logging.getLogger(__name__)


def cross_validate(
    recipe: Recipe,
    pairs: PairDataset,
    out: str | Path,
    *,
    folds: int = 5,
    group_by_sentence: bool = False,
    resume: bool = False,
    progress: bool = True,
    baseline: bool = True,
    **arguments: Any,
) -> dict[str, Any]:
    """Trains on all pairs but those of one fold at a time, and measures on that fold.

    Each label has its share in every fold. Pairs of one question stay together; without questions,
    pairs with the same first sentence. A tenth of the pairs to train on chooses the best epoch. The
    folds are the same for every model. `out` gets the figures of each fold in `fold-N`, without its
    model, and `crossval.json`.

    Args:
        recipe: What `load_recipe` returns. `"auto"` folds within a fold are left out.
        pairs: Labeled pairs.
        out: Folder to write.
        folds: How many.
        group_by_sentence: Whether all pairs that share a sentence, on any side and through other
            pairs, stay in one fold.
        resume: Whether to keep the finished folds in `out` and continue with the next one.
        progress: Whether to show epochs on standard error.
        baseline: Whether to train the bag-of-words baseline on each fold too.
        **arguments: Further arguments of `train`.

    Returns:
        What `crossval.json` holds: facts, and under `test` and `baseline` the figures of each fold
        (`members`), their `mean`, `sd` (of the sample) and `standard_error` (`sd` by the root of the
        number of folds).

    Raises:
        InputError: More folds than pairs or than groups of them, or what `train` refuses.
        KeyboardInterrupt: Ctrl-C; the finished folds are kept.

    Example:

    ```python
    from keras_sentmatch.data import read_pairs
    from keras_sentmatch.training import cross_validate, load_recipe

    report = cross_validate(load_recipe("re2", "pairs"), read_pairs("pairs.tsv"), "crossval/re2")
    report["test"]["mean"]["accuracy"], report["test"]["standard_error"]["accuracy"]
    ```
    """
    start, out = time.perf_counter(), Path(out)
    if recipe.training.folds == "auto":
        recipe = recipe.with_training(folds=0)
    found = []
    for number, parts in enumerate(fold_parts(pairs, folds, group_by_sentence), 1):
        folder = out / f"fold-{number}"
        metrics = finished_metrics(folder) if resume else None
        if metrics is None:
            log.info(f"Fold {number} of {folds}")
            options = {"resume": resume, "progress": progress, "baseline": baseline, **arguments}
            metrics = train(recipe, parts, folder, **options).metrics
            if metrics["interrupted"]:
                log.warning(f"Stopped by Ctrl-C in fold {number}; --resume continues")
                raise KeyboardInterrupt
            clean_up(folder)
        else:
            check_identity(
                folder, metrics["identity"], run_identity(adapted(recipe, parts)[0], parts)
            )
        found.append(metrics)
    report: dict[str, Any] = {
        "model": recipe.name,
        "data": pairs.name,
        "backend": keras.config.backend(),
        "rows": len(pairs),
        "folds": folds,
        "group_by_sentence": group_by_sentence,
        "seed": recipe.training.seed,
        "test": _together([metrics["test"] for metrics in found]),
    }
    if all("baseline" in metrics for metrics in found):
        report["baseline"] = _together([metrics["baseline"]["test"] for metrics in found])
    report["seconds"] = round(time.perf_counter() - start, 1)
    write_json(out / "crossval.json", report)
    return report


def fold_parts(
    pairs: PairDataset, folds: int, group_by_sentence: bool = False
) -> Iterator[dict[str, PairDataset]]:
    """Training, validation and test pairs of each fold."""
    part, groups = fold_numbers(pairs, folds, group_by_sentence)
    for number in range(folds):
        rest = pairs.select(part != number)
        theirs = None if groups is None else groups[part != number]
        inner = part_numbers(rest, [1 - VALIDATION, VALIDATION], seed=SEED, groups=theirs)
        yield {
            "train": rest.select(inner == 0, split="train"),
            "validation": rest.select(inner == 1, split="validation"),
            "test": pairs.select(part == number, split="test"),
        }


def fold_numbers(
    pairs: PairDataset, folds: int, group_by_sentence: bool = False
) -> tuple[np.ndarray, np.ndarray | None]:
    """The fold of each pair, from 0, and numbers of what stays together, if that is asked."""
    if type(folds) is not int or not 2 <= folds <= len(pairs):
        raise InputError(
            f"{argument('folds', folds)}: expected 2 to {len(pairs):,}, the number of pairs."
        )
    if pairs.labels is None:
        how = wording("label=…", "--columns FIRST,SECOND,LABEL")
        raise InputError(f"The pairs have no labels; name their column with {how}.")
    groups = sentence_groups(pairs) if group_by_sentence else None
    if groups is not None and len(counts := np.bincount(groups)) < folds:
        raise InputError(
            f"{argument('folds', folds)}: the {len(pairs):,} pairs make only {len(counts)} groups "
            "that share no sentence; take fewer folds, or do without "
            f"{wording('group_by_sentence', '--group-by-sentence')}."
        )
    if groups is not None and counts.max() > len(pairs) / folds:
        log.warning(
            f"{counts.max():,} of {len(pairs):,} pairs share sentences: their fold is larger than "
            "the others"
        )
    for name, count in pairs.label_counts().items():
        if count < folds:
            log.warning(f"{name!r} has {count} pairs, too few for each of {folds} folds")
    return part_numbers(pairs, [1 / folds] * folds, seed=SEED, groups=groups), groups


def _together(figures: list[dict[str, Any]]) -> dict[str, Any]:
    found = spread(figures)
    root = np.sqrt(len(figures))
    return {**found, "standard_error": {n: float(sd / root) for n, sd in found["sd"].items()}}
