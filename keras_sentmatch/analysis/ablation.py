"""Recipes trained on the same seeds and parts, and whether one is better than the first."""

import io
import logging
import math
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.analysis.comparing import comparison_report, values_of
from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.run_folder import read_json, write_json
from keras_sentmatch.metrics import paired_bootstrap
from keras_sentmatch.safety import replace_file
from keras_sentmatch.training.encoding import EncodingCache
from keras_sentmatch.training.folds import fold_parts
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.resume import run_identity
from keras_sentmatch.training.run import train

log = logging.getLogger(__name__)
# What the smallest difference is computed from: the share of pairs that only one of two matchers has right, and the
# standard deviation of a matcher's accuracy over seeds, both typical of the runs in benchmarks/results.
DISCORDANT, SEED_SD = 0.1, 0.01
POWER = 1.96 + 0.84  # standard errors of a difference that is found four times in five


def smallest_difference(pairs: int, seeds: int) -> float:
    """Return the smallest true difference in accuracy that a comparison finds four times in five.

    It assumes that 10% of the pairs are right in one matcher only, and that accuracy varies by 0.01 over seeds.

    Example:

    >>> round(smallest_difference(pairs=4927, seeds=3), 3)
    0.026
    """
    return POWER * math.sqrt(DISCORDANT / pairs + 2 * SEED_SD**2 / seeds)


def ablate(
    recipes: Mapping[str, Recipe],
    pairs: PairDataset | Mapping[str, PairDataset],
    out: str | Path,
    *,
    seeds: int = 5,
    folds: int = 0,
    progress: bool = True,
) -> dict[str, Any]:
    """Train recipes with the same seeds on the same parts, and compare each with the first one.

    `out` gets a file for each finished training. The same call goes on where another one was stopped,
    also with further recipes or more seeds.

    Args:
        recipes: Two or more recipes by name. The first is what the others are compared with.
        pairs: All pairs, with `folds`; or `"train"`, `"validation"` and `"test"` pairs.
        out: Folder for `right-….npy` of each training, and `compare.json`.
        seeds: Number of seeds.
        folds: Number of folds; each pair is then a test pair once per seed. 0 uses the given parts.
        progress: Whether to show epochs.

    Returns:
        What `comparison_report` returns with the comparisons with the first recipe (`first` is the other
        one), each with its `verdict`: `"better"`, `"worse"` or `"cannot tell at this size"`; and
        `smallest_difference`, `seeds` and `folds`.

    Raises:
        InputError: There is one recipe, two are equal, there are no test pairs, or `out` is of other
            pairs or of another recipe of the same name.

    Example:

    ```python
    from keras_sentmatch.analysis import ablate
    from keras_sentmatch.data import load_pairs
    from keras_sentmatch.training import load_recipe

    recipes = {"DRr-Net": load_recipe("drr_net", "embedded")}
    recipes["one step"] = load_recipe("drr_net", "embedded", overrides=["model.steps=1"])
    found = ablate(recipes, load_pairs("embedded"), "ablations/steps", seeds=3)
    print(found["pairs"][0]["verdict"])
    ```
    """
    if len(recipes) < 2:
        raise InputError(f"There is {len(recipes)} recipe. Give two or more.")
    for (one, first), (two, second) in combinations(recipes.items(), 2):
        if first == second:
            raise InputError(
                f"{one} and {two} are the same recipe, so there is nothing to compare."
            )
    if folds and not isinstance(pairs, PairDataset):
        raise InputError(f"folds={folds} needs all pairs in one PairDataset, not their parts.")
    if not folds and (isinstance(pairs, PairDataset) or "test" not in pairs):
        raise InputError("There are no test pairs. Give parts with a test part, or use folds.")
    parts = list(fold_parts(pairs, folds)) if isinstance(pairs, PairDataset) else [pairs]
    tested = sum(len(part["test"]) for part in parts)
    smallest = smallest_difference(tested, seeds)
    text = "%s test pairs, %d seeds: a difference of %.3f or more can be found"
    log.info(text, f"{tested:,}", seeds, smallest)
    if folds:
        recipes = {name: one.with_training(folds=0) for name, one in recipes.items()}
    out = Path(out)
    _check_same(recipes, parts, out)
    todo = [
        (name, seed, number)
        for seed in range(seeds)
        for number in range(len(parts))
        for name in recipes
    ]
    right = dict(_trained(recipes, parts, out, todo, progress))
    values = {
        name: [
            np.concatenate([right[name, seed, n] for n in range(len(parts))])
            for seed in range(seeds)
        ]
        for name in recipes
    }
    report = comparison_report("accuracy", values)
    base, *others = recipes
    report["pairs"] = [
        {"first": name, "second": base, **paired_bootstrap(values[name], values[base])}
        for name in others
    ]
    for pair in report["pairs"]:
        pair["verdict"] = verdict(pair["low"], pair["high"])
    report |= {"smallest_difference": smallest, "seeds": seeds, "folds": folds}
    write_json(out / "compare.json", report)
    return report


def verdict(low: float, high: float) -> str:
    """Return what an interval of the difference says of the first of two matchers."""
    return "better" if low > 0 else "worse" if high < 0 else "cannot tell at this size"


def _check_same(recipes: Mapping[str, Recipe], parts: list[Any], out: Path) -> None:
    """Note what is compared in `ablation.json`, and refuse a folder of other pairs or recipes."""
    known = read_json(out / "ablation.json")
    now: dict[str, Any] = {
        name: run_identity(recipe.with_training(seed=0), parts[0])
        for name, recipe in recipes.items()
    }
    now["parts"] = len(parts)
    for name in now.keys() & known.keys():
        if known[name] != now[name]:
            raise InputError(
                f"{out} holds another comparison, in which {name!r} was different. Name another folder."
            )
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "ablation.json", known | now)


def _trained(
    recipes: Mapping[str, Recipe],
    parts: list[Any],
    out: Path,
    todo: list[tuple[str, int, int]],
    progress: bool,
) -> Iterator[tuple[tuple[str, int, int], np.ndarray]]:
    """Yield for each training which test pairs it has right."""
    begun, finished = time.perf_counter(), 0
    waiting = [one for one in todo if not _file(out, *one).is_file()]
    caches = [EncodingCache() for _ in parts]
    for name, seed, number in todo:
        file = _file(out, name, seed, number)
        if not file.is_file():
            pace = (time.perf_counter() - begun) / finished if finished else None
            left = len(waiting) - finished
            when = "" if pace is None else f", about {pace * left / 60:.0f} min left"
            log.info("%s, seed %d, part %d of %d%s", name, seed, number + 1, len(parts), when)
            folder = out / "run"
            shutil.rmtree(folder, ignore_errors=True)
            import keras

            keras.backend.clear_session()
            part = parts[number]
            given: Any = {"seed": seed, "progress": progress, "baseline": False}
            result = train(recipes[name], part, folder, encodings=caches[number], **given)
            if result.metrics["interrupted"]:
                raise KeyboardInterrupt
            labeled = result.matcher.relabel(part["test"])
            scores = result.matcher.predict_proba(labeled)
            content = io.BytesIO()
            _, found = values_of(labeled, scores, result.matcher.threshold)
            np.save(content, found.astype("float32"))
            replace_file(file, content.getvalue())
            shutil.rmtree(folder, ignore_errors=True)
            finished += 1
        yield (name, seed, number), np.load(file, allow_pickle=False)


def _file(out: Path, name: str, seed: int, number: int) -> Path:
    plain = re.sub(r"\W+", "-", name).strip("-")
    return out / f"right-{plain}-seed-{seed}-part-{number}.npy"
