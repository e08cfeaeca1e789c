"""KerasTuner's four oracles, with what a search needs and their public surface has no place for.

All use of KerasTuner's private names is in this file. KerasTuner 1.4.8 draws another seed in the
place of 0, can't be told which configurations are not allowed, writes its state in several files (a
kill between two of them loses trials), gives up a random search of a small space early, and can
neither resume a grid nor keep more than two workers of one busy.

This module imports KerasTuner: import it inside functions.
"""

import contextlib
import functools
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras_tuner
import numpy as np
from keras_tuner import oracles
from keras_tuner.engine.trial import Trial

from keras_sentmatch.applications import Choice, LogUniform, Parameter
from keras_sentmatch.inference.run_folder import read_json, write_json
from keras_sentmatch.tuning.space import Configuration, Space

ATTEMPTS = 3  # at a trial whose worker dies
MAX_DRAWS = 2000  # without a new, allowed configuration, before the space counts as exhausted


def declare(space: Space, found: keras_tuner.HyperParameters) -> keras_tuner.HyperParameters:
    """Adds the parameters of a space: their labels as numbers if all are numbers, else as text."""
    default = space.default()
    for name, parameter in space.parameters.items():
        if isinstance(parameter, LogUniform):
            found.Float(name, parameter.low, parameter.high, sampling="log", default=default[name])
            continue
        with contextlib.ExitStack() as scopes:
            for parent, wanted in parameter.when.items():
                if parent in space.parameters:
                    labels = _one_type(space.parameters[parent], wanted)
                    scopes.enter_context(found.conditional_scope(parent, labels))
            (first,) = _one_type(parameter, [default.get(name, next(iter(parameter.values)))])
            found.Choice(name, _one_type(parameter, parameter.values), default=first)
    return found


def _one_type(parameter: Parameter, labels: Iterable[Any]) -> list[Any]:
    """KerasTuner takes labels of one type only."""
    types = {type(label) for label in parameter.values} if isinstance(parameter, Choice) else set()
    cast = int if types == {int} else float if types <= {int, float} else str
    return [cast(label) for label in labels]


def configuration(space: Space, values: dict[str, Any]) -> Configuration:
    """The configuration of KerasTuner's values, without parameters that don't matter in it."""
    found: Configuration = {}
    for name, parameter in space.parameters.items():
        if name not in values or not space.matters(parameter, found):
            continue
        label = values[name]
        if isinstance(parameter, Choice):
            label = next(each for each in parameter.values if label in _one_type(parameter, [each]))
        found[name] = label
    return found


class SearchOracle(keras_tuner.Oracle):
    """What all four have in common; stands before one of KerasTuner's.

    The file at `path` holds the state, which is read if it exists. None is no limit of trials.
    """

    def __init__(self, space: Space, path: Path, seed: int, trials: int | None, **options: Any):
        self.space = space
        self.path = path
        super().__init__(
            hyperparameters=declare(space, keras_tuner.HyperParameters()),
            allow_new_entries=False,
            tune_new_entries=False,
            seed=seed,
            max_retries_per_trial=ATTEMPTS - 1,
            max_consecutive_failed_trials=10**9,  # `search` decides when to give up
            **options,
        )
        self.max_trials = trials
        self.verbose = 0
        self._max_collisions = MAX_DRAWS
        self._use_seed(seed)
        if path.exists():
            self.reload()

    def _use_seed(self, seed: int) -> None:
        self.seed = self._seed_state = seed

    def ended(self) -> list[Trial]:
        """The trials that completed or failed."""
        return [t for t in self.trials.values() if t.status in ("COMPLETED", "FAILED")]

    def completed(self) -> list[Trial]:
        """The trials that completed, the best first."""
        ranked = self.get_best_trials(len(self.trials))
        return [trial for trial in ranked if trial.status == "COMPLETED"]

    def times_requeued(self, trial: Trial) -> int:
        """How often a trial was handed out again because its worker died."""
        ended = trial.status in ("COMPLETED", "FAILED")
        return max(int(self._run_times[trial.trial_id]) - ended, 0)

    def finish(self, trial_id: str, score: float | None, message: str | None = None) -> Trial:
        """Ends a trial with a score, or with the message of its failure."""
        trial = self.trials[trial_id]
        if score is not None:
            self.update_trial(trial_id, {self.objective.name: score})
        trial.status, trial.message = "FAILED" if score is None else "COMPLETED", message
        self.end_trial(trial)
        return trial

    # For a chief and its workers.

    @property
    def is_waiting(self) -> bool:
        """Whether trials wait to be handed out again."""
        return bool(self._retry_queue)

    def has_trial(self, worker: str, trial_id: str) -> bool:
        """Whether a trial is a worker's, also one that waits to be handed out again."""
        if trial_id in self._retry_queue and worker not in self.ongoing_trials:
            self._retry_queue.remove(trial_id)
            self.ongoing_trials[worker] = self.trials[trial_id]
            self.ongoing_trials[worker].status = "RUNNING"
        ongoing = self.ongoing_trials.get(worker)
        return ongoing is not None and ongoing.trial_id == trial_id

    def lose(self, worker: str) -> Trial | None:
        """Puts the trial of a worker that died into the queue, or fails it after the last attempt."""
        trial = self.ongoing_trials.get(worker)
        if trial is not None:
            times = 1 + self._run_times[trial.trial_id]
            trial.status = "INVALID"
            trial.message = f"its worker died, {times} times so far (killed, or out of memory?)"
            self.end_trial(trial)
        return trial

    def _retry(self, trial: Trial) -> bool:
        with contextlib.redirect_stdout(None):  # KerasTuner prints
            return bool(super()._retry(trial))

    # Configurations that are not allowed count as already tried.

    def is_allowed(self, values: dict[str, Any]) -> bool:
        """Whether the space allows a configuration."""
        return self.space.conflict(configuration(self.space, values)) is None

    def _duplicate(self, values: dict[str, Any]) -> bool:
        return super()._duplicate(values) or not self.is_allowed(values)

    # One file holds the whole state, and is replaced as a whole.

    def save(self) -> None:
        trials = {name: trial.get_state() for name, trial in self.trials.items()}
        write_json(self.path, {"oracle": self.get_state(), "trials": trials})

    def reload(self) -> None:
        state = read_json(self.path)
        self.trials = {name: Trial.from_state(found) for name, found in state["trials"].items()}
        self.set_state(state["oracle"])
        for trial in self.ongoing_trials.values():
            if trial.status == "RUNNING":  # KerasTuner lists ended ones too
                self._retry_queue.append(trial.trial_id)
        self.ongoing_trials.clear()

    def _save_trial(self, trial: Trial) -> None:
        pass  # `save` follows


class RandomOracle(SearchOracle, oracles.RandomSearchOracle):
    """Draws each configuration at random."""


class BayesianOracle(SearchOracle, oracles.BayesianOptimizationOracle):
    """Draws the first configurations at random, then what a Gaussian process finds promising."""

    def _use_seed(self, seed: int) -> None:
        super()._use_seed(seed)
        self._random_state = np.random.RandomState(seed)
        self.gpr = self._make_gpr()

    def populate_space(self, trial_id: str) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a fit of the process did not converge
            found: dict[str, Any] = super().populate_space(trial_id)
        if found["values"] is not None and self._duplicate(found["values"]):
            found = self._random_populate_space()
        return found

    def get_state(self) -> dict[str, Any]:
        drawn: Any = self._random_state.get_state()
        return {**super().get_state(), "random_state": [drawn[0], drawn[1].tolist(), *drawn[2:]]}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._random_state.set_state(tuple(state["random_state"]))


class HyperbandOracle(SearchOracle, oracles.HyperbandOracle):
    """Trains many configurations for a few epochs, and the best of them for more."""

    def planned(self) -> int:
        """The number of trials."""
        return sum(
            self._get_size(bracket, round_)
            for bracket in range(self._get_num_brackets())
            for round_ in range(self._get_num_rounds(bracket))
        )


class GridOracle(SearchOracle, oracles.GridSearchOracle):
    """Tries all configurations."""

    def populate_space(self, trial_id: str) -> dict[str, Any]:
        """Lets the next trial follow at once: KerasTuner waits for the end of the one before."""
        found: dict[str, Any] = super().populate_space(trial_id)
        if found["status"] == "RUNNING":
            self._populate_next.append(trial_id)
        return found

    def _get_next_combination(self, values: dict[str, Any]) -> dict[str, Any] | None:
        found: dict[str, Any] | None = super()._get_next_combination(values)
        while found is not None and not self.is_allowed(found):
            found = super()._get_next_combination(found)
        return found

    def reload(self) -> None:
        """Restores the order of the trials, which KerasTuner forgets, from their values.

        Asking all of them for the next one finds those that were not tried.
        """
        super().reload()
        values = {name: trial.hyperparameters.values for name, trial in self.trials.items()}
        order = functools.cmp_to_key(lambda one, two: int(self._compare(values[one], values[two])))
        self._populate_next = sorted(self.trials, key=order)
        for name in self._populate_next:
            self._ordered_ids.insert(name)


ORACLES: dict[str, type[SearchOracle]] = {
    "bayesian": BayesianOracle,
    "random": RandomOracle,
    "hyperband": HyperbandOracle,
    "grid": GridOracle,
}
