"""KerasTuner's oracles and tuner, as `search` uses them.

KerasTuner 1.4.8 cannot be told which configurations are excluded, replaces a seed of 0 by a random
one, writes its state into several files one after the other, and cannot resume a grid. This file
holds what works around that, and all uses of KerasTuner's private names. It imports KerasTuner, so
import it inside functions.
"""

import contextlib
import itertools
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import keras_tuner
import numpy as np
from keras_tuner import oracles
from keras_tuner.engine.base_tuner import BaseTuner
from keras_tuner.engine.trial import Trial
from keras_tuner.src import config

from keras_sentmatch.applications.hyperparameters import LogUniform
from keras_sentmatch.inference.run_folder import read_json, write_json
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.tuning._space import Configuration, SearchSpace

MAX_DRAWS = 2000  # without a new, allowed configuration, before the space counts as exhausted
GIVE_UP = 3  # trials that fail before any completes


def declare(space: SearchSpace) -> keras_tuner.HyperParameters:
    """Return KerasTuner's form of a space. Labels become text: it accepts only one type."""
    found, default = keras_tuner.HyperParameters(), space.default()
    for name, parameter in space.parameters.items():
        if isinstance(parameter, LogUniform):
            found.Float(name, parameter.low, parameter.high, sampling="log", default=default[name])
            continue
        with contextlib.ExitStack() as scopes:
            for parent, wanted in parameter.when.items():
                if parent in space.parameters:
                    labels = [str(label) for label in wanted]
                    scopes.enter_context(found.conditional_scope(parent, labels))
            labels = [str(label) for label in parameter.values]
            found.Choice(name, labels, default=str(default.get(name, labels[0])))
    return found


def configuration(space: SearchSpace, values: dict[str, Any]) -> Configuration:
    """Return the configuration that KerasTuner's values stand for."""
    found: Configuration = {}
    for name, parameter in space.parameters.items():
        if name not in values or not space.matters(parameter, found):
            continue
        found[name] = values[name]
        if not isinstance(parameter, LogUniform):
            found[name] = next(v for v in parameter.values if str(v) == values[name])
    return found


def recipe_of(space: SearchSpace, trial: Trial) -> Recipe:
    """Return the recipe of a trial. Hyperband chooses the number of epochs."""
    values = trial.hyperparameters.values
    recipe = space.recipe(configuration(space, values))
    return recipe.with_training(epochs=values.get("tuner/epochs", recipe.training.epochs))


class SearchOracle(keras_tuner.Oracle):
    """The common part of all oracles; stands before one of KerasTuner's among the base classes.

    Configurations that the space excludes count as already tried. The whole state is in one file at
    `path`, which is replaced after each change. `on_end` is called after each trial.
    """

    def __init__(
        self,
        space: SearchSpace,
        path: Path,
        seed: int,
        trials: int | None,
        on_end: Callable[[], None],
        **options: Any,
    ) -> None:
        self.space, self.path, self.on_end = space, path, on_end
        super().__init__(
            hyperparameters=declare(space),
            allow_new_entries=False,
            tune_new_entries=False,
            seed=seed % (2**32 - 10**6) + 1,  # KerasTuner takes 0 for no seed
            max_consecutive_failed_trials=10**9,  # the tuner decides when to give up
            **options,
        )
        self.max_trials = trials
        self.verbose = 0
        self._max_collisions = MAX_DRAWS

    def end_trial(self, trial: Trial) -> None:
        super().end_trial(trial)
        self.on_end()

    def _duplicate(self, values: dict[str, Any]) -> bool:
        return (
            super()._duplicate(values)
            or self.space.conflict(configuration(self.space, values)) is not None
        )

    def save(self) -> None:
        trials = {name: trial.get_state() for name, trial in self.trials.items()}
        write_json(self.path, {"oracle": self.get_state(), "trials": trials})

    def _save_trial(self, trial: Trial) -> None:
        pass  # `save` follows

    def reload(self) -> None:
        """Continue from the file, and hand out the unfinished trials again."""
        state = read_json(self.path)
        if not state:
            return
        self.trials = {name: Trial.from_state(found) for name, found in state["trials"].items()}
        self.set_state(state["oracle"])
        self.ongoing_trials: dict[str, Trial] = {}
        self._retry_queue = [n for n, t in self.trials.items() if t.status == "RUNNING"][::-1]


class RandomOracle(SearchOracle, oracles.RandomSearchOracle):
    """Draws configurations at random."""


class BayesianOracle(SearchOracle, oracles.BayesianOptimizationOracle):
    """Draws the first configurations at random, then what a Gaussian process finds promising."""

    def populate_space(self, trial_id: str) -> dict[str, Any]:
        # KerasTuner does not save this state: without a fixed one, a resumed search would differ.
        self._random_state = np.random.RandomState(self.seed + len(self.trials))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about fits of the process that did not converge
            found: dict[str, Any] = super().populate_space(trial_id)
        if found["values"] is not None and self._duplicate(found["values"]):
            return dict(self._random_populate_space())
        return found


class HyperbandOracle(SearchOracle, oracles.HyperbandOracle):
    """Trains many configurations for a few epochs, and the best of them for more."""


class GridOracle(SearchOracle):
    """Tries all configurations. KerasTuner's own grid cannot be resumed."""

    _rest: Any = None

    def populate_space(self, trial_id: str) -> dict[str, Any]:
        if self._rest is None:
            self._rest = itertools.islice(self.space.grid(), len(self.trials), None)
        chosen = next(self._rest, None)
        if chosen is None:
            return {"status": "STOPPED", "values": None}
        ranges = {n for n, p in self.space.parameters.items() if isinstance(p, LogUniform)}
        return {
            "status": "RUNNING",
            "values": {n: v if n in ranges else str(v) for n, v in chosen.items()},
        }


ORACLES: dict[str, type[SearchOracle]] = {
    "bayesian": BayesianOracle,
    "random": RandomOracle,
    "hyperband": HyperbandOracle,
    "grid": GridOracle,
}


def make_oracle(
    tuner: str,
    space: SearchSpace,
    path: Path,
    limit: int | None,
    monitor: str,
    direction: str,
    on_end: Callable[[], None],
) -> SearchOracle:
    """Return the oracle of a tuner, with the seed and the epochs of the space's recipe."""
    options: dict[str, Any] = {"objective": keras_tuner.Objective(monitor, direction)}
    if tuner == "hyperband":
        options["max_epochs"] = space.base.training.epochs
    if tuner == "bayesian":
        # KerasTuner draws three per parameter at random: often more than there are trials.
        most = (limit or 0) // 3
        options["num_initial_points"] = max(3, min(3 * len(space.parameters), most))
    return ORACLES[tuner](space, path, space.base.training.seed, limit, on_end, **options)


class TrialTuner(BaseTuner):
    """Runs trials by a function. An error of the configuration fails the trial; others end the search.

    In a worker of a chief (`is_worker`), KerasTuner replaces the oracle by a client of the chief.
    """

    def __init__(
        self, oracle: SearchOracle, folder: Path, train: Callable[[Trial], float], is_worker: bool
    ) -> None:
        self.train, self.is_worker = train, is_worker
        self.statuses: list[str] = []
        super().__init__(oracle, directory=str(folder.parent), project_name=folder.name)

    def search(self) -> None:
        # KerasTuner would print a traceback for each failed trial; `error.txt` has it.
        before, config.DEBUG = config.DEBUG, False
        try:
            super().search()
        finally:
            config.DEBUG = before

    def run_trial(self, trial: Trial) -> float:
        try:
            return self.train(trial)
        except NotImplementedError as error:  # a RuntimeError, but a bug
            raise keras_tuner.errors.FatalError from error
        except configuration_errors() as error:
            if isinstance(error.__cause__, OSError):  # a full disk is no fault of the trial
                raise keras_tuner.errors.FatalError from error
            text = " ".join(f"{type(error).__name__}: {error}".split())
            path = Path(self.get_trial_dir(trial.trial_id)) / "error.txt"
            path.write_text(f"{text}\n\n{traceback.format_exc()}", encoding="utf-8")
            raise keras_tuner.errors.FailedTrialError(text) from error
        except Exception as error:
            raise keras_tuner.errors.FatalError from error

    def on_trial_end(self, trial: Trial) -> None:
        super().on_trial_end(trial)
        self.statuses.append(trial.status)
        if self.statuses == ["FAILED"] * GIVE_UP:
            raise keras_tuner.errors.FatalError  # `search` tells why

    def save(self) -> None:
        if not self.is_worker:
            self.oracle.save()


def configuration_errors() -> tuple[type[BaseException], ...]:
    """Return the errors of a configuration that is too large, diverges or contradicts itself.

    All others are bugs, or the machine's, and end the search.
    """
    found = (ValueError, ArithmeticError, MemoryError, RuntimeError)
    if keras.config.backend() != "tensorflow":
        return found
    import tensorflow as tf

    return *found, tf.errors.OpError
