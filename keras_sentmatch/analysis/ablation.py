"""Two recipes trained on the same seeds and parts, and whether one of them is better."""

import io
import logging
import math
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_sentmatch.analysis.comparing import comparison_report, values_of
from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.run_folder import read_json, write_json
from keras_sentmatch.safety import replace_file
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
    first: Recipe,
    second: Recipe,
    pairs: PairDataset | Mapping[str, PairDataset],
    out: str | Path,
    *,
    seeds: int = 5,
    folds: int = 0,
    progress: bool = True,
) -> dict[str, Any]:
    """Train two recipes with the same seeds on the same parts, and compare them pair by pair.

    `out` gets a file for each finished training. The same call goes on where another one was stopped.

    Args:
        first, second: The recipes.
        pairs: All pairs, with `folds`; or `"train"`, `"validation"` and `"test"` pairs.
        out: Folder for `right-….npy` of each training, and `compare.json`.
        seeds: Number of seeds.
        folds: Number of folds; each pair is then a test pair once per seed. 0 uses the given parts.
        progress: Whether to show epochs.

    Returns:
        What `comparison_report` returns, and `verdict` (`"better"`, `"worse"` or `"cannot tell at this size"`, of the
        first recipe), `smallest_difference`, `seeds` and `folds`.

    Raises:
        InputError: The recipes are equal, there are no test pairs, or `out` is of another comparison.

    Example:

    ```python
    from keras_sentmatch.data import load_pairs
    from keras_sentmatch.analysis import ablate
    from keras_sentmatch.training import load_recipe

    pairs = load_pairs("embedded")
    one = load_recipe("drr_net", "embedded", overrides=["model.use_dynamic=false"])
    found = ablate(one, load_recipe("drr_net", "embedded"), pairs, "ablations/rereading", seeds=3)
    print(found["verdict"])
    ```
    """
    if first == second:
        raise InputError("Both recipes are the same, so there is nothing to compare.")
    if folds and not isinstance(pairs, PairDataset):
        raise InputError(f"folds={folds} needs all pairs in one PairDataset, not their parts.")
    if not folds and (isinstance(pairs, PairDataset) or "test" not in pairs):
        raise InputError("There are no test pairs. Give parts with a test part, or use folds.")
    parts = list(fold_parts(pairs, folds)) if isinstance(pairs, PairDataset) else [pairs]
    tested = sum(len(part["test"]) for part in parts)
    smallest = smallest_difference(tested, seeds)
    log.info(
        "%s test pairs, %d seeds: a difference of %.3f or more can be found",
        f"{tested:,}", seeds, smallest,
    )  # fmt: skip
    out = Path(out)
    recipes = [one.with_training(folds=0) if folds else one for one in (first, second)]
    _check_same(recipes, parts, out)
    todo = [
        (seed, number, side)
        for seed in range(seeds)
        for number in range(len(parts))
        for side in (0, 1)
    ]
    right = dict(_trained(recipes, parts, out, todo, progress))
    values = {
        name: [
            np.concatenate([right[seed, n, side] for n in range(len(parts))])
            for seed in range(seeds)
        ]
        for side, name in enumerate(("first", "second"))
    }
    report = comparison_report("accuracy", values)
    (pair,) = report["pairs"]
    report["verdict"] = verdict(pair["low"], pair["high"])
    report |= {"smallest_difference": smallest, "seeds": seeds, "folds": folds}
    write_json(out / "compare.json", report)
    return report


def verdict(low: float, high: float) -> str:
    """Return what an interval of the difference says of the first of two matchers."""
    return "better" if low > 0 else "worse" if high < 0 else "cannot tell at this size"


def _check_same(recipes: list[Recipe], parts: list[Any], out: Path) -> None:
    """Keep what is compared in `ablation.json`, and refuse a folder of another comparison."""
    names = [run_identity(recipe.with_training(seed=0), parts[0]) for recipe in recipes]
    identity = {"recipes": names, "parts": len(parts)}
    known = read_json(out / "ablation.json")
    if known and known != identity:
        raise InputError(f"{out} holds another comparison. Name another folder.")
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "ablation.json", identity)


def _trained(
    recipes: list[Recipe],
    parts: list[Any],
    out: Path,
    todo: list[tuple[int, int, int]],
    progress: bool,
) -> Iterator[tuple[tuple[int, int, int], np.ndarray]]:
    """Yield for each training which test pairs it has right."""
    begun, finished = time.perf_counter(), 0
    waiting = [one for one in todo if not _file(out, *one).is_file()]
    for seed, number, side in todo:
        file = _file(out, seed, number, side)
        if not file.is_file():
            left = (time.perf_counter() - begun) / finished if finished else None
            when = (
                ""
                if left is None
                else f", about {left * (len(waiting) - finished) / 60:.0f} min left"
            )
            which = ("first", "second")[side]
            log.info(
                "%s recipe, seed %d, part %d of %d%s", which, seed, number + 1, len(parts), when
            )
            folder = out / "run"
            shutil.rmtree(folder, ignore_errors=True)
            keras.backend.clear_session()
            part = parts[number]
            result = train(
                recipes[side], part, folder, seed=seed, progress=progress, baseline=False
            )
            if result.metrics["interrupted"]:
                raise KeyboardInterrupt
            labeled = result.matcher.relabel(part["test"])
            scores = result.matcher.predict_proba(labeled)
            content = io.BytesIO()
            np.save(
                content, values_of(labeled, scores, result.matcher.threshold)[1].astype("float32")
            )
            replace_file(file, content.getvalue())
            shutil.rmtree(folder, ignore_errors=True)
            finished += 1
        yield (seed, number, side), np.load(file, allow_pickle=False)


def _file(out: Path, seed: int, number: int, side: int) -> Path:
    return out / f"right-{('first', 'second')[side]}-seed-{seed}-part-{number}.npy"
