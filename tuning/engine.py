"""KerasTuner's oracles and its loop, with what they lack: seed 0, a state that is whole whenever the process dies, a grid
that goes on and keeps many workers busy, configurations that are not allowed, and errors that are not swallowed.

This module imports KerasTuner: import it inside functions.
"""

import contextlib
import functools
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import keras
import keras_tuner
import numpy as np
from keras_tuner import oracles
from keras_tuner.engine import base_tuner
from keras_tuner.engine import trial as trial_module

from keras_sentmatch.applications.search_space import Choice, LogUniform, Parameter
from keras_sentmatch.inference.run_folder import read_json, write_json
from keras_sentmatch.tuning.space import Space, Written

TRIES = 3  # of a trial whose worker dies
MOST_DRAWS = 2000  # of a configuration that is new and allowed, before the space counts as used up


def declare(space: Space, found: keras_tuner.HyperParameters) -> keras_tuner.HyperParameters:
    """Puts the space in, as KerasTuner has it: what is written, as numbers where all of it are numbers, else as text."""
    default = space.default()
    for name, parameter in space.parameters.items():
        if isinstance(parameter, LogUniform):
            found.Float(name, parameter.low, parameter.high, sampling="log", default=default[name])
            continue
        with contextlib.ExitStack() as scopes:
            for parent, wanted in parameter.when.items():
                if parent in space.parameters:
                    told = _told(space.parameters[parent], wanted)
                    scopes.enter_context(found.conditional_scope(parent, told))
            here = default.get(name, next(iter(parameter.values)))
            (first,) = _told(parameter, [here])
            found.Choice(name, _told(parameter, parameter.values), default=first)
    return found


def _told(parameter: Parameter, written: Iterable[Any]) -> list[Any]:
    """As KerasTuner is told: all of a kind."""
    kinds = (
        {type(value) for value in parameter.values} if isinstance(parameter, Choice) else {float}
    )
    kind = int if kinds == {int} else float if kinds <= {int, float} else str
    return [kind(value) for value in written]


def configuration(space: Space, values: dict[str, Any]) -> Written:
    """What KerasTuner holds of a trial as a configuration of the space.

    A trial that came over the net has values in any order, and some that don't matter in it.
    """
    found: Written = {}
    for name, parameter in space.parameters.items():
        if name not in values or not space.matters(parameter, found):
            continue
        told = values[name]
        if isinstance(parameter, Choice):
            told = next(w for w in parameter.values if told in _told(parameter, [w]))
        found[name] = told
    return found


class _Oracle(keras_tuner.Oracle):
    """What all four have in common; stands before one of KerasTuner's."""

    def __init__(self, space: Space, path: Path, seed: int, trials: int | None, **options: Any):
        self.space = space
        self.path = path
        super().__init__(
            hyperparameters=declare(space, keras_tuner.HyperParameters()),
            allow_new_entries=False,
            tune_new_entries=False,
            seed=seed,
            max_retries_per_trial=TRIES - 1,
            max_consecutive_failed_trials=10**9,  # `search` decides when to give up
            **options,
        )
        self.max_trials = trials
        self.verbose = 0
        self._max_collisions = MOST_DRAWS
        self._use_seed(seed)
        if path.exists():
            self.reload()

    def _use_seed(self, seed: int) -> None:
        self.seed = self._seed_state = seed  # KerasTuner draws another in the place of 0

    def allowed(self, values: dict[str, Any]) -> bool:
        """Whether a configuration is one to try."""
        return self.space.complaint(configuration(self.space, values)) is None

    def _duplicate(self, values: dict[str, Any]) -> bool:
        return super()._duplicate(values) or not self.allowed(values)

    def _retry(self, trial: Any) -> bool:
        with contextlib.redirect_stdout(None):  # KerasTuner prints
            return super()._retry(trial)

    # One file holds it all, and takes the place of the one before as a whole.

    def save(self) -> None:
        trials = {name: trial.get_state() for name, trial in self.trials.items()}
        write_json(self.path, {"oracle": self.get_state(), "trials": trials})

    def reload(self) -> None:
        state = read_json(self.path)
        self.trials = {
            name: trial_module.Trial.from_state(found) for name, found in state["trials"].items()
        }
        self.set_state(state["oracle"])
        begun: dict[str, Any] = self.ongoing_trials
        for trial in begun.values():  # KerasTuner saves a trial that has ended as one that goes on
            if trial.status == trial_module.TrialStatus.RUNNING:
                self._retry_queue.append(trial.trial_id)
        begun.clear()

    def _save_trial(self, trial: Any) -> None:
        pass  # `save` follows


class RandomOracle(_Oracle, oracles.RandomSearchOracle):
    """Draws each configuration at random."""


class BayesianOracle(_Oracle, oracles.BayesianOptimizationOracle):
    """Draws the first ones at random, then those that a Gaussian process promises most of."""

    def _use_seed(self, seed: int) -> None:
        super()._use_seed(seed)
        self._random_state = np.random.RandomState(seed)
        self.gpr = self._make_gpr()

    def populate_space(self, trial_id: str) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a fit of the process did not converge
            found = super().populate_space(trial_id)
        if found["values"] is None or not self._duplicate(found["values"]):
            return found
        return self._random_populate_space()  # tried before, or not allowed

    def get_state(self) -> dict[str, Any]:
        drawn: Any = self._random_state.get_state()
        return {**super().get_state(), "random_state": [drawn[0], drawn[1].tolist(), *drawn[2:]]}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._random_state.set_state(tuple(state["random_state"]))


class HyperbandOracle(_Oracle, oracles.HyperbandOracle):
    """Tries many for few epochs, and the best of them for more."""

    def planned(self) -> int:
        """How many trials there will be."""
        return sum(
            self._get_size(bracket, round_)
            for bracket in range(self._get_num_brackets())
            for round_ in range(self._get_num_rounds(bracket))
        )


class GridOracle(_Oracle, oracles.GridSearchOracle):
    """Tries all."""

    def populate_space(self, trial_id: str) -> dict[str, Any]:
        """KerasTuner finds the next of a trial when that has ended, so that only one or two workers have something to do."""
        found = super().populate_space(trial_id)
        if found["status"] == trial_module.TrialStatus.RUNNING:
            self._populate_next.append(trial_id)
        return found

    def _get_next_combination(self, values: dict[str, Any]) -> dict[str, Any] | None:
        found = super()._get_next_combination(values)
        while found is not None and not self.allowed(found):
            found = super()._get_next_combination(found)
        return found

    def reload(self) -> None:
        """KerasTuner forgets the order of the trials, and which of them may have a next one: the first is that of their
        values, and asking all of them for their next finds the ones that have not been tried."""
        super().reload()
        ids = sorted(self.trials, key=functools.cmp_to_key(self._compare_trials))
        for name in ids:
            self._ordered_ids.insert(name)
        self._populate_next = ids

    def _compare_trials(self, one: str, two: str) -> int:
        return self._compare(*(self.trials[name].hyperparameters.values for name in (one, two)))


ORACLES = {
    "bayesian": BayesianOracle,
    "random": RandomOracle,
    "hyperband": HyperbandOracle,
    "grid": GridOracle,
}


def faults() -> tuple[type[BaseException], ...]:
    """The errors that a configuration can be at fault for: too large, diverged, or excluding itself.

    All others are bugs, or the machine's, and end the search.
    """
    found: tuple[type[BaseException], ...] = (
        ValueError,
        ArithmeticError,
        MemoryError,
        RuntimeError,
    )
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        found += (tf.errors.OpError,)
    return found


class Loop(base_tuner.BaseTuner):
    """KerasTuner's loop: asks the oracle for a trial, runs it, reports, and again.

    Args:
        oracle: One of `ORACLES`.
        folder: Of the search.
        run: Trains a trial and gives its score.
        failed: Called with a trial that failed, before the oracle hears of it.
        ended: Called after each trial.
    """

    def __init__(
        self,
        oracle: Any,
        folder: Path,
        run: Callable[[Any], float],
        failed: Callable[[Any, str], None],
        ended: Callable[[Any], None],
    ) -> None:
        self._run, self._failed, self._ended = run, failed, ended
        self._waits = False
        super().__init__(oracle, directory=str(folder.parent), project_name=folder.name)

    def run_trial(self, trial: Any) -> dict[str, float]:
        return {self.oracle.objective.name: self._run(trial)}

    def _try_run_and_update_trial(self, trial: Any) -> None:
        """KerasTuner's takes every error for the configuration's fault."""
        try:
            self._run_and_update_trial(trial)
            trial.status = trial_module.TrialStatus.COMPLETED
        except NotImplementedError:  # a RuntimeError, but a bug
            raise
        except faults() as error:
            trial.status = trial_module.TrialStatus.FAILED
            trial.message = f"{type(error).__name__}: {error}"
            self._failed(trial, traceback.format_exc())

    def pre_create_trial(self) -> None:
        if self._waits:  # the oracle said to ask again; KerasTuner does so at once
            time.sleep(0.5)
        self._waits = True

    def on_trial_begin(self, trial: Any) -> None:
        self._waits = False

    def on_trial_end(self, trial: Any) -> None:
        self.oracle.end_trial(trial)
        self._ended(trial)

    def save(self) -> None:
        pass  # there is nothing but the oracle's state, and the oracle saves that
