"""Trials that take no time: what a search does around them can be tested alone, on any backend."""

import csv
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from keras_sentmatch.applications.hyperparameters import Choice, LogUniform
from keras_sentmatch.inference.run_folder import write_json
from keras_sentmatch.training import Recipe
from keras_sentmatch.training.resume import run_identity
from keras_sentmatch.tuning import SearchSpace, search
from tests.toys.training import tiny_splits

SPLITS = tiny_splits()
RECIPE = Recipe.from_tables("tiny", model={"steps": 2}, training={"epochs": 9, "batch_size": 25})


def space_of_fakes(fine: bool) -> SearchSpace:
    """A choice, one that depends on it, and a rule; if `fine` a range as well."""
    parameters = [
        Choice("training.batch_size", (10, 25, 50), aliases=["B"]),
        Choice("model.steps", (1, 2, 3, 4), aliases=["T"]),
        Choice("model.kind", {"none": None, "soft": "soft", "hard": "hard"}, aliases=["k"]),
        Choice("model.size", (4.0, 2.0), when={"model.kind": ["soft", "hard"]}),
        LogUniform("training.learning_rate"),
    ]
    rules = [lambda recipe: "too much" if recipe.model["steps"] * value_of(recipe) > 60 else None]
    return SearchSpace(RECIPE, parameters if fine else parameters[:-1], rules, {"model.size": 2.0})


def value_of(recipe: Recipe) -> int:
    return {None: 1, "soft": 10, "hard": 20}[recipe.model.get("kind")]


def score_of(recipe: Recipe) -> float:
    """Best at T = 3, a kind, and small batches."""
    steps, size = recipe.model["steps"], recipe.model.get("size", 1.0)
    rate = recipe.training.learning_rate
    score = 0.5 - 0.05 * abs(steps - 3) + 0.01 * value_of(recipe) * size / 4 - abs(rate - 2e-3)
    return score - recipe.training.batch_size / 1000 + recipe.training.epochs / 1000


class FakeTrain:
    """Stands for `train`: writes the small files of a run folder, and notes in `log` which it trained.

    Args:
        log: A file that gets a line a training.
        fail: Numbers of trainings, from 0, that raise `error`.
        kill: The number of the training in which the process kills itself, if any.
        late: Whether it does so when the run is written, but before the search is told.
    """

    def __init__(self, log: Path, fail=(), error=None, kill=None, late=False) -> None:
        self.log, self.fail, self.error, self.kill, self.late = log, fail, error, kill, late

    def __call__(self, recipe, splits, out, *, seed=None, **more):
        done, out = len(trained(self.log)), Path(out)
        name = f"{out.parent.name}/{out.name}".removeprefix("trial_").removesuffix("/seed-0")
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(f"{'best' if out.name == 'best' else name}\n")
        if done in self.fail:
            raise self.error
        if done == self.kill and not self.late:
            os.kill(os.getpid(), signal.SIGKILL)
        recipe = recipe if seed is None else recipe.with_training(seed=seed)
        score = score_of(recipe) + recipe.training.seed / 10_000
        out.mkdir(parents=True)
        with open(out / "history.csv", "w", newline="") as file:
            csv.writer(file).writerows([["epoch", "val_accuracy"], [0, score]])
        metrics = {
            "validation": {"accuracy": score},
            "interrupted": False,
            "best_epoch": 1,
            "epochs": recipe.training.epochs,
            "seconds": 1.0,
            "parameters": 1000 * recipe.model["steps"],
            "identity": run_identity(recipe, splits),
        }
        write_json(out / "metrics.json", metrics)
        (out / "matcher.json").write_text("{}")
        (out / "model.keras").write_text("large")
        if done == self.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        return SimpleNamespace(metrics=metrics, matcher=None)


def trained(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


def fake_search(out, train, *, fine=False, recipe=RECIPE, **more):
    """Call `search` with the fake in place of `train`, without a report."""
    with pytest.MonkeyPatch.context() as patch:
        without_cost(patch, train)
        patch.setattr("keras_sentmatch.tuning._search.write_report", lambda trials: None)
        more = {"tuner": "grid", "retrain": 0, "progress": False, **more}
        more.setdefault("space", space_of_fakes(fine))
        return search(recipe, SPLITS, out, **more)


def without_cost(patch, train) -> None:
    """Put the fake in place of `train`, and leave out what takes time around it."""
    patch.setattr("keras_sentmatch.tuning._search.train", train)
    patch.setattr("keras_sentmatch.tuning._search.free_memory", lambda: None)
