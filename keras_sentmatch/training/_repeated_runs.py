"""A recipe trained several times: with several seeds, or on the folds of a cross-validation."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.run_folder import read_json, write_json
from keras_sentmatch.training._model import jit_compile
from keras_sentmatch.training.adapt import adapted
from keras_sentmatch.training.checks import check_splits
from keras_sentmatch.training.distillation import compute_teacher_targets
from keras_sentmatch.training.folds import fold_parts, train_folds
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.resume import check_identity, finished_metrics, run_identity
from keras_sentmatch.training.run import train


def train_ensemble(
    recipe: Recipe,
    splits: Mapping[str, PairDataset],
    out: str | Path,
    seeds: Sequence[int],
    **arguments: Any,
) -> tuple[EnsembleMatcher, dict[str, Any]]:
    """Train a run per seed in `out/seed-N`, and measure each run, their mean, and the ensemble.

    Args:
        recipe: The recipe, as `load_recipe` returns it.
        splits: Pairs by split, as for `train`.
        out: Folder of the runs. `ensemble.json` is written there too.
        seeds: At least one seed, all different.
        **arguments: Further arguments of `train`. The baseline is trained once, with the first
            seed. With `resume`, finished seeds are kept and the next one continues.

    Returns:
        The ensemble, and the content of `ensemble.json`: the trained `seeds`, whether Ctrl-C ended
        the training early (`interrupted`), and for each labeled split the metrics of each seed
        (`members`), their `mean`, `sd` (of the sample) and `standard_error` (both absent for one
        seed), and those of the `ensemble`.

    Raises:
        InputError: `seeds` is empty or names a seed twice, or `train` refuses the arguments.

    Example:

    ```python
    from keras_sentmatch.data import load_pairs
    from keras_sentmatch.training import load_recipe, train_ensemble

    pairs = load_pairs("embedded")
    ensemble, report = train_ensemble(load_recipe("drcn", "embedded"), pairs, "runs/e", range(8))
    ```
    """
    seeds, out = list(seeds), Path(out)
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"seeds={seeds}; expected at least one seed, all different.")
    check_splits(splits)
    recipe, _ = adapted(recipe, splits)
    finished = read_json(out / "ensemble.json")
    if finished and not finished.get("interrupted"):
        raise InputError(f"{out} holds a finished ensemble. Name another folder.")
    if recipe.training.teacher:
        progress = arguments.get("progress", True)
        arguments["teacher_targets"] = compute_teacher_targets(recipe.training, splits, progress)
    baseline = arguments.pop("baseline", True)
    results: list[tuple[Matcher, dict[str, Any]]] = []
    for seed in seeds:
        folder = out / f"seed-{seed}"
        metrics = finished_metrics(folder) if arguments.get("resume") else None
        if metrics is None:
            first = baseline and seed == seeds[0]
            result = train(recipe, splits, folder, seed=seed, baseline=first, **arguments)
            results.append((result.matcher, result.metrics))
        else:
            now = run_identity(recipe.with_training(seed=seed), splits)
            check_identity(folder, metrics["identity"], now)
            matcher = Matcher.load(folder)  # with the engine of the run that has just ended
            if matcher.engine == "keras":
                matcher.model.jit_compile = jit_compile()
            results.append((matcher, metrics))
        if interrupted := results[-1][1]["interrupted"]:
            break
    ensemble = EnsembleMatcher([matcher for matcher, _ in results])
    report: dict[str, Any] = {"seeds": seeds[: len(results)], "interrupted": interrupted}
    for role in ("validation", "test"):
        if all(role in metrics for _, metrics in results):
            members = [metrics[role] for _, metrics in results]
            known = ensemble.learned
            out_of_fold = role == "validation" and known is not None and known.scores is not None
            figures = ensemble.evaluate(None if out_of_fold else splits[role])
            report[role] = {**spread(members), "ensemble": figures}
    write_json(out / "ensemble.json", report)
    return ensemble, report


def cross_validate(
    recipe: Recipe,
    pairs: PairDataset,
    out: str | Path,
    *,
    folds: int = 5,
    resume: bool = False,
    progress: bool = True,
    baseline: bool = True,
    **arguments: Any,
) -> dict[str, Any]:
    """Train on all pairs but those of one fold at a time, and measure on that fold.

    Each label has its share in every fold. Pairs of one question stay together; without questions,
    pairs with the same first sentence do. A tenth of the pairs to train on chooses the best epoch.
    The folds are the same for every model.

    Args:
        recipe: The recipe, as `load_recipe` returns it. `"auto"` folds within a fold are left out.
        pairs: Labeled pairs.
        out: Folder to write: the metrics of each fold in `fold-N`, without its model, and
            `crossval.json`.
        folds: Number of folds. Defaults to 5.
        resume: Whether to keep the finished folds in `out` and continue with the next one.
        progress: Whether to show epochs on standard error.
        baseline: Whether to train the bag-of-words baseline on each fold too.
        **arguments: Further arguments of `train`.

    Returns:
        The content of `crossval.json`: facts, and under `test` and `baseline` the metrics of each
        fold (`members`), their `mean`, `sd` (of the sample) and `standard_error` (`sd` divided by
        the square root of the number of folds).

    Raises:
        InputError: There are more folds than pairs or groups, or `train` refuses the arguments.
        KeyboardInterrupt: Ctrl-C. The finished folds are kept.

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
    options = {"resume": resume, "progress": progress, "baseline": baseline, **arguments}
    parts = fold_parts(pairs, folds)
    folders = [out / f"fold-{number}" for number in range(1, folds + 1)]
    found = train_folds(train, recipe, parts, folders, **options)
    report: dict[str, Any] = {
        "model": recipe.name,
        "data": pairs.name,
        "backend": keras.config.backend(),
        "rows": len(pairs),
        "folds": folds,
        "seed": recipe.training.seed,
        "test": spread([metrics["test"] for metrics in found]),
    }
    if all("baseline" in metrics for metrics in found):
        report["baseline"] = spread([metrics["baseline"]["test"] for metrics in found])
    report["seconds"] = round(time.perf_counter() - start, 1)
    write_json(out / "crossval.json", report)
    return report


def spread(members: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the metrics of runs, their means, and for several runs standard deviations and errors."""
    names = [n for n in members[0] if all(isinstance(m.get(n), float) for m in members)]
    values = {name: np.array([member[name] for member in members]) for name in names}
    found: dict[str, Any] = {
        "members": members,
        "mean": {name: float(v.mean()) for name, v in values.items()},
    }
    if (count := len(members)) > 1:
        found["sd"] = {name: float(v.std(ddof=1)) for name, v in values.items()}
        found["standard_error"] = {name: sd / count**0.5 for name, sd in found["sd"].items()}
    return found
