"""Training an ensemble: one run for each seed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.run_folder import read_json, write_json
from keras_sentmatch.training.adapt import adapted
from keras_sentmatch.training.distillation import compute_teacher_targets
from keras_sentmatch.training.prepare import check_splits, jit_compile
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.resume import check_identity, finished_metrics
from keras_sentmatch.training.run import run_identity, train


def train_ensemble(
    recipe: Recipe,
    splits: Mapping[str, PairDataset],
    out: str | Path,
    seeds: Sequence[int],
    **arguments: Any,
) -> tuple[EnsembleMatcher, dict[str, Any]]:
    """Trains a run per seed into `out/seed-N`, and evaluates each, their mean ± sd, and the ensemble.

    Args:
        recipe: What `load_recipe` returns.
        splits: As for `train`.
        out: Folder of the runs; gets `ensemble.json` too.
        seeds: Different seeds, at least one.
        **arguments: Further arguments of `train`. The baseline is trained once, with the first
            seed. `resume` keeps the finished seeds and continues with the next one.

    Returns:
        The ensemble, and what `ensemble.json` holds: the `seeds` trained, whether Ctrl-C ended it
        early (`interrupted`: the best of each seed so far is kept), and for each labeled split
        `members` (figures of each seed), `mean`, `sd` (of the sample, absent for one seed) and
        `ensemble`.

    Raises:
        InputError: No seeds, the same one twice, or what `train` refuses.

    Example:

    ```python
    from keras_sentmatch.data import load_pairs
    from keras_sentmatch.training import load_recipe, train_ensemble

    pairs = load_pairs("embedded")
    ensemble, figures = train_ensemble(load_recipe("drcn", "embedded"), pairs, "runs/e", range(8))
    ```
    """
    seeds = list(seeds)
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"seeds={seeds}; expected different seeds, at least one.")
    baseline = arguments.pop("baseline", True)
    check_splits(splits)
    recipe, _ = adapted(recipe, splits)
    results: list[tuple[Matcher, dict[str, Any]]] = []
    finished = read_json(Path(out) / "ensemble.json")
    if finished and not finished.get("interrupted"):
        raise InputError(f"{out} already holds an ensemble that is finished; name another folder.")
    if recipe.training.teacher:
        arguments["teacher_targets"] = compute_teacher_targets(
            recipe.training, splits, arguments.get("progress", True)
        )
    for seed in seeds:
        folder = Path(out) / f"seed-{seed}"
        first = baseline and seed == seeds[0]
        done = finished_metrics(folder) if arguments.get("resume") else None
        if done is None:
            result = train(recipe, splits, folder, seed=seed, baseline=first, **arguments)
            results.append((result.matcher, result.metrics))
        else:
            now = run_identity(recipe.with_training(seed=seed), splits)
            check_identity(folder, done["identity"], now)
            matcher = Matcher.load(folder)
            matcher.model.jit_compile = jit_compile()  # so the figures are the same
            results.append((matcher, done))
        if interrupted := results[-1][1]["interrupted"]:
            break
    ensemble = EnsembleMatcher([matcher for matcher, _ in results])
    report: dict[str, Any] = {"seeds": seeds[: len(results)], "interrupted": interrupted}
    for role in ("validation", "test"):
        if all(role in metrics for _, metrics in results):
            members = [metrics[role] for _, metrics in results]
            report[role] = {**spread(members), "ensemble": ensemble.evaluate(splits[role])}
    write_json(Path(out) / "ensemble.json", report)
    return ensemble, report


def spread(members: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of several runs, their means and, of more than one, standard deviations."""
    names = [n for n in members[0] if all(isinstance(m.get(n), float) for m in members)]
    values = {name: [member[name] for member in members] for name in names}
    means = {name: float(np.mean(v)) for name, v in values.items()}
    spread: dict[str, Any] = {"members": members, "mean": means}
    if len(members) > 1:
        spread["sd"] = {name: float(np.std(v, ddof=1)) for name, v in values.items()}
    return spread
