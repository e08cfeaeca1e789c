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

from keras_sentmatch.analysis.comparing import comparison_report, is_ranked, values_of
from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.run_folder import read_json, write_json
from keras_sentmatch.metrics import paired_bootstrap
from keras_sentmatch.safety import replace_file
from keras_sentmatch.training.encoding import EncodingCache
from keras_sentmatch.training.folds import fold_parts
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.resume import locked, run_identity
from keras_sentmatch.training.run import train

log = logging.getLogger(__name__)
# The smallest difference is computed from the share of pairs that only one of two matchers predicts correctly, and from
# the standard deviation of accuracy over seeds. Both values are typical of the runs in benchmarks/results.
DISCORDANT, SEED_SD = 0.1, 0.01
POWER = 1.96 + 0.84  # a difference of this number of standard errors is found four times in five
RUN = "run"  # the subfolder of the current training
PARTS = "parts"  # the key of the number of parts in ablation.json


def smallest_difference(pairs: int, seeds: int) -> float:
    """Return the smallest true difference in accuracy that a comparison finds four times in five.

    `pairs` is the number of test pairs; for a ranking, whose MAP is compared, the number of questions.
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
        InputError: There is one recipe, two are equal but for their seeds, there are no test pairs with
            labels, or `out` is of other pairs or of another recipe of the same name.

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
    if seeds < 1:
        raise InputError(f"seeds={seeds} is too small. Expected at least 1.")
    if PARTS in recipes:
        raise InputError(f"A recipe cannot be called {PARTS!r}. Rename it.")
    if folds and not isinstance(pairs, PairDataset):
        raise InputError(f"folds={folds} needs all pairs in one PairDataset, not their parts.")
    if not folds and (isinstance(pairs, PairDataset) or "test" not in pairs):
        raise InputError("There are no test pairs. Give parts with a test part, or use folds.")
    parts = list(fold_parts(pairs, folds)) if isinstance(pairs, PairDataset) else [pairs]
    counts = [_count(part["test"]) for part in parts]
    metric, units = ("map", "questions") if is_ranked(parts[0]["test"]) else ("accuracy", "pairs")
    smallest = smallest_difference(sum(counts), seeds)
    text = "%s test %s, %d seeds: a difference of %.3f or more can be found"
    log.info(text, f"{sum(counts):,}", units, seeds, smallest)
    if folds:
        recipes = {name: one.with_training(folds=0) for name, one in recipes.items()}
    out = Path(out)
    todo = [
        (name, seed, number)
        for seed in range(seeds)
        for number in range(len(parts))
        for name in recipes
    ]
    with locked(out):
        _check_same(recipes, parts, out)
        right = dict(_trained(recipes, parts, counts, out, todo, progress))
    values = {
        name: [
            np.concatenate([right[name, seed, n] for n in range(len(parts))])
            for seed in range(seeds)
        ]
        for name in recipes
    }
    report = comparison_report(metric, values)
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


def _count(test: PairDataset) -> int:
    """Return the number of test pairs, or of questions with a right answer; refuse others."""
    if test.labels is None or not len(test) or test.task == "regression":
        found = "no pairs" if not len(test) else "no labels" if test.labels is None else "scores"
        raise InputError(
            f"The test pairs have {found}. Recipes are compared by the labels that they predict."
        )
    if not is_ranked(test):
        return len(test)
    right = np.asarray(test.labels) > 0
    if not right.any():
        raise InputError("None of the test questions has a right answer.")
    return len({group for group, label in zip(test.groups or (), right) if label})


def _check_same(recipes: Mapping[str, Recipe], parts: list[Any], out: Path) -> None:
    """Note what is compared in `ablation.json`, and refuse a folder of other pairs or recipes."""
    known = read_json(out / "ablation.json")
    now: dict[str, Any] = {
        name: run_identity(recipe.with_training(seed=0), parts[0])
        for name, recipe in recipes.items()
    }
    for one, two in combinations(now, 2):
        if now[one] == now[two]:
            raise InputError(
                f"{one} and {two} are the same recipe (but for the seed), so there is nothing to compare."
            )
    now[PARTS] = len(parts)
    for one, two in combinations({**known, **now}, 2):
        if _plain(one).casefold() == _plain(two).casefold():
            raise InputError(
                f"The recipes {one!r} and {two!r} would have the same files. Rename one of them."
            )
    for name in now.keys() & known.keys():
        if known[name] != now[name]:
            raise InputError(
                f"{out} holds another comparison, in which {name!r} was different. Name another folder."
            )
    if not known and ((out / RUN).exists() or any(out.glob("right-*.npy"))):
        raise InputError(f"{out} holds files of something else. Name another folder.")
    write_json(out / "ablation.json", known | now)


def _trained(
    recipes: Mapping[str, Recipe],
    parts: list[Any],
    counts: list[int],
    out: Path,
    todo: list[tuple[str, int, int]],
    progress: bool,
) -> Iterator[tuple[tuple[str, int, int], np.ndarray]]:
    """Yield for each training which test pairs it has right."""
    import keras

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
            folder = out / RUN
            shutil.rmtree(folder, ignore_errors=True)
            keras.backend.clear_session()
            part = parts[number]
            given: Any = {"seed": seed, "progress": progress, "baseline": False}
            result = train(recipes[name], part, folder, encodings=caches[number], **given)
            if result.metrics["interrupted"]:
                raise KeyboardInterrupt
            labeled = result.matcher.relabel(part["test"])
            content = io.BytesIO()
            _, found = values_of(labeled, result.predictions["test"], result.matcher.threshold)
            np.save(content, found.astype("float32"))
            replace_file(file, content.getvalue())
            shutil.rmtree(folder, ignore_errors=True)
            finished += 1
        yield (name, seed, number), _read(file, counts[number])


def _read(file: Path, count: int) -> np.ndarray:
    """Read the values of a finished training; refuse a damaged file."""
    try:
        found = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        found = None
    if found is None or found.shape != (count,) or found.dtype != np.float32:
        raise InputError(f"{file} is damaged. Delete it, and call again to train its recipe again.")
    return np.asarray(found)


def _plain(name: str) -> str:
    return re.sub(r"\W+", "-", name).strip("-")


def _file(out: Path, name: str, seed: int, number: int) -> Path:
    return out / f"right-{_plain(name)}-seed-{seed}-part-{number}.npy"
