"""`search`: many runs of one recipe with KerasTuner, and the best of them.

KerasTuner is optional, so what needs it is imported when it is known to be there.
"""

import importlib.util
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.run_folder import read_json, write_json
from keras_sentmatch.metrics import evaluate_predictions
from keras_sentmatch.training.adapt import adapted
from keras_sentmatch.training.callbacks import monitor_of
from keras_sentmatch.training.config import MONITORS
from keras_sentmatch.training.lock import locked
from keras_sentmatch.training.prepare import Build, check_splits
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.resume import difference
from keras_sentmatch.training.run import run_identity
from keras_sentmatch.tuning.report import write_report
from keras_sentmatch.tuning.space import Space
from keras_sentmatch.tuning.spaces import narrowed_space
from keras_sentmatch.tuning.workers import LocalWorkers, role

if TYPE_CHECKING:
    from keras_sentmatch.tuning.study import SearchResult

TUNERS = ("bayesian", "random", "hyperband", "grid")


def search(
    recipe: Recipe,
    splits: Mapping[str, PairDataset],
    out: str | Path,
    *,
    space: Space | Mapping[str, Any] | Iterable[str] | None = None,
    fix: Mapping[str, Any] | None = None,
    tuner: str = "bayesian",
    trials: int | None = None,
    objective: str = "auto",
    seed: int | None = None,
    seeds: int = 1,
    keep: int = 1,
    retrain: int = 1,
    resume: bool = False,
    workers: int = 0,
    progress: bool = True,
    report: bool = True,
    build: Build | None = None,
    info: Mapping[str, Any] | None = None,
) -> "SearchResult":
    """Searches for the best configuration of a recipe, and retrains it.

    Each trial trains a recipe with `train`. Its score is the best epoch's value on the validation
    pairs; it never sees the labels of test pairs. The best recipe is retrained with seeds that no
    trial had, and evaluated on the test pairs. A trial whose configuration fails (no memory, NaN) is
    recorded and skipped. Any other error ends the search, which can be resumed once it is fixed.

    With KerasTuner's environment variables (KERASTUNER_TUNER_ID, KERASTUNER_ORACLE_IP and
    KERASTUNER_ORACLE_PORT) this process is the chief of a search on several machines, or one of its
    workers, called with the same arguments. Both return the same result, except for `retrained`.

    Args:
        recipe: What `load_recipe` returns: the default configuration, and all that is not searched.
            `training.epochs` is the maximum for a trial of Hyperband.
        splits: As for `train`.
        out: Folder of the search.
        space: What to search: names, or a mapping from names to values (see `Space.narrowed`), or
            your own `Space`. Default: everything that `space_of(recipe)` has.
        fix: Values by name, for parameters that are not to be searched.
        tuner: `"bayesian"`, `"random"`, `"hyperband"` or `"grid"`.
        trials: The maximum number of trials. Default: 20 for `"bayesian"` and `"random"`; the other
            two end by themselves.
        objective: A metric of the validation pairs, such as `"accuracy"`, `"f1"`, `"map"` or `"loss"`,
            which also chooses each trial's epoch. Default: the recipe's `training.monitor`.
        seed: Of the search and of all trials, instead of the recipe's.
        seeds: The number of seeds of each trial, from `seed` on. The score is their mean; a trial
            fails if one of them does.
        keep: The number of best trials whose models are kept.
        retrain: The number of further seeds to retrain the best recipe with; 0 for none.
        resume: Whether to continue the search in `out`, with the same arguments; `trials` may be more.
        workers: The number of processes on this machine that train trials; 0 trains them in this one.
            Call it under `if __name__ == "__main__":` in a script.
        progress: Whether to show progress bars.
        report: Whether to write the report in the end (`write_report`).
        build: As for `train`.
        info: Facts to keep with the matchers.

    Returns:
        A `SearchResult`.

    Raises:
        InputError: KerasTuner is missing; there is nothing to search; the folder holds another
            search, or one runs in it; the default or largest configuration can't be trained; no trial completed; workers
            can't start; a worker's arguments differ from its chief's, or it finds none.
        KeyboardInterrupt: Ctrl-C before a trial completed.

    Example:

    ```python
    from keras_sentmatch.data import load_pairs
    from keras_sentmatch.training import load_recipe
    from keras_sentmatch.tuning import search

    recipe = load_recipe("drr_net", "embedded", overrides=["training.epochs=2"])
    found = search(
        recipe, load_pairs("embedded"), "searches/steps", space={"T": [2, 4, 6]}, tuner="grid"
    )
    found.best.model["steps"]
    ```
    """
    _check_arguments(tuner, trials, seeds, keep, retrain, workers)
    check_splits(splits)
    recipe, _ = adapted(recipe, splits, searching=True)
    here = role()
    if here == "worker" and workers:
        raise InputError(
            f"workers is {workers}, but this process is a worker: KERASTUNER_TUNER_ID is "
            f"{os.environ['KERASTUNER_TUNER_ID']!r}. Unset it, or leave out --workers (workers=…)."
        )
    arguments = {
        "recipe": recipe,
        "splits": splits,
        "out": out,
        "space": space,
        "fix": fix,
        "tuner": tuner,
        "trials": trials,
        "objective": objective,
        "seed": seed,
        "seeds": seeds,
        "keep": keep,
        "build": build,
        "info": info,
    }
    from keras_sentmatch.tuning.study import Plan, Study

    if seed is not None:
        recipe = recipe.with_training(seed=seed)
    monitor, direction = _objective(objective, recipe, splits)
    recipe = recipe.with_training(monitor=monitor)
    searched = narrowed_space(recipe, space, fix)
    folder = Path(out)
    identity = {"tuner": tuner, **run_identity(searched.base, splits)}
    del identity["backend"]  # trials may come from several
    identity |= {"space": searched.description(), "seeds": seeds}
    plan = Plan(folder, searched, tuner, trials, monitor, direction, seeds, keep)
    if here == "worker":
        return Study(plan, splits, progress, build, info).work(identity)
    with locked(folder):
        _begin(folder, identity, searched, resume)
        study = Study(plan, splits, progress, build, info)
        local = LocalWorkers(workers, search, arguments, folder)
        interrupted = study.lead(identity, local) if workers or here else study.run()
        result = replace(study.result(), interrupted=interrupted)
        if retrain and not interrupted:
            result.retrained, result.interrupted = study.retrain(result.best, retrain)
        if report:
            write_report(folder)
    return result


def _check_arguments(
    tuner: str, trials: int | None, seeds: int, keep: int, retrain: int, workers: int
) -> None:
    if tuner not in TUNERS:
        raise InputError(f"There is no tuner {tuner!r}; there is {', '.join(TUNERS)}.")
    bounds = {
        "trials": trials,
        "seeds": seeds,
        "keep": keep,
        "retrain": retrain,
        "workers": workers,
    }
    for name, number in bounds.items():
        least = 0 if name in ("retrain", "workers") else 1
        if number is not None and number < least:
            raise InputError(f"{name} is {number}; at least {least} is needed.")
    needed = {"keras_tuner": "keras-tuner"}
    if tuner == "bayesian":
        needed |= {"sklearn": "scikit-learn", "scipy": "scipy"}
    missing = [name for module, name in needed.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise InputError(
            f"{', '.join(missing)} not installed, which the tuner {tuner!r} needs: "
            'pip install "keras-sentmatch[tuner]".'
        )


def _objective(
    objective: str, recipe: Recipe, splits: Mapping[str, PairDataset]
) -> tuple[str, str]:
    """The monitored value and its direction; a value that these pairs don't have is refused now."""
    validation = splits["validation"]
    wanted = recipe.training.monitor if objective == "auto" else f"val_{objective}"
    monitor, direction = monitor_of(validation.task, wanted)
    shape = (len(validation), 1 if validation.task == "regression" else validation.num_classes)
    guesses = np.random.default_rng(0).dirichlet(np.ones(max(shape[1], 2)), shape[0])
    figures = evaluate_predictions(validation, guesses[:, : shape[1]])
    known = [name for name in MONITORS if name == "loss" or name in figures]
    if monitor.removeprefix("val_") not in known:
        raise InputError(
            f"The objective {monitor.removeprefix('val_')!r} does not exist for {validation.task} with "
            f"{validation.num_classes or 'no'} classes; there is {', '.join(known)}."
        )
    return monitor, direction


def _begin(folder: Path, identity: Mapping[str, Any], space: Space, resume: bool) -> None:
    """Notes in the folder what is searched, or refuses to resume another search."""
    then = read_json(folder / "search.json")
    then.pop("names", None)
    if then and not resume:
        raise InputError(
            f"{folder} already holds a search: continue it with --resume (resume=True), name another "
            "folder, or delete this one."
        )
    if then and (differing := difference(then, identity)):
        raise InputError(
            f"{folder} holds another search: {'; '.join(differing)}. Give the same command as then "
            "and --resume, or name another folder."
        )
    if not then:
        names = {name: space.short(name) for name in space.parameters}  # for the report
        write_json(folder / "search.json", {**identity, "names": names})
