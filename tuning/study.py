"""A search while it runs. This module imports KerasTuner: import it inside functions."""

import csv
import io
import logging
import os
import shutil
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
from keras_tuner import Objective
from keras_tuner.engine.trial import Trial

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.run_folder import read_json, replace_file, write_json
from keras_sentmatch.training.ensemble import train_ensemble
from keras_sentmatch.training.prepare import Build
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.resume import finished_metrics
from keras_sentmatch.training.run import train
from keras_sentmatch.tuning.cluster import Chief, ChiefGone, Client
from keras_sentmatch.tuning.oracles import ORACLES, HyperbandOracle, SearchOracle
from keras_sentmatch.tuning.progress import SearchProgress
from keras_sentmatch.tuning.space import Configuration, Space
from keras_sentmatch.tuning.trial_folders import TrialFolders, seeds_from
from keras_sentmatch.tuning.trial_training import TrialTrainer, configuration_errors
from keras_sentmatch.tuning.workers import LocalWorkers, chief_address, role

TRIALS = 20  # where the tuner does not end by itself
GIVE_UP = 3  # failed trials, if none before them completed
log = logging.getLogger(__name__)


@dataclass
class SearchResult:
    """What `search` gives back."""

    folder: Path  # of the search
    space: Space  # what was searched
    best: Recipe  # of the best trial
    configuration: Configuration  # its choices, by the names of the parameters
    score: float  # its validation value
    objective: str  # the name of that value
    trials: list[dict[str, Any]]  # the rows of `trials.csv`
    retrained: dict[str, Any] | None = None  # `metrics.json`, or `ensemble.json` of several seeds
    interrupted: bool = False  # whether Ctrl-C ended it early


@dataclass
class Plan:
    """What is searched, and how."""

    folder: Path  # of the search
    space: Space
    tuner: str  # one of `TUNERS`
    trials: int | None  # at most, if there is a maximum
    monitor: str  # the objective
    direction: str  # `"max"` or `"min"`
    seeds: int  # of each trial
    keep: int  # trials whose models are kept

    def oracle(self) -> SearchOracle:
        """Draws the trials."""
        settings, trials = self.space.base.training, self.trials
        options: dict[str, int] = {}
        if trials is None and self.tuner in ("bayesian", "random"):
            trials = TRIALS
        if self.tuner == "hyperband":
            options["max_epochs"] = settings.epochs
        if self.tuner == "bayesian":
            # KerasTuner draws three for each parameter: often more than there are trials.
            first = min(3 * len(self.space.parameters), (trials or TRIALS) // 3)
            options["num_initial_points"] = max(3, first)
        return ORACLES[self.tuner](
            self.space,
            self.folder / "oracle.json",
            settings.seed,
            trials,
            objective=Objective(self.monitor, self.direction),
            **options,
        )

    def expected_trials(self, oracle: SearchOracle) -> int | None:
        """How many trials there will be, if that is known."""
        if isinstance(oracle, HyperbandOracle):
            return min(oracle.max_trials or oracle.planned(), oracle.planned())
        if self.space.size() < (oracle.max_trials or float("inf")):
            return int(self.space.size())
        return oracle.max_trials


class Study:
    """A search that runs."""

    def __init__(
        self,
        plan: Plan,
        splits: Mapping[str, PairDataset],
        progress: bool,
        build: Build | None,
        info: Mapping[str, Any] | None,
    ) -> None:
        self.folder, self.space = plan.folder, plan.space
        self.monitor, self.keep = plan.monitor, plan.keep
        self.splits = splits
        self.oracle = plan.oracle()
        self.bars = SearchProgress(progress, plan.monitor, plan.expected_trials(self.oracle))
        seeds = seeds_from(plan.space.base.training.seed, plan.seeds)
        self.folders = TrialFolders(plan.folder / "trials", seeds, plan.monitor)
        self.trainer = TrialTrainer(plan.space, splits, self.folders, self.bars, build, info)

    # The three ways to search: alone, as a chief, and as a worker.

    def run(self) -> bool:
        """Trains the trials in this process; whether Ctrl-C ended it."""

        def search() -> None:
            self._dry_run()
            # With one worker no oracle waits: a trial runs, or the search is over.
            while (trial := self.oracle.create_trial("here")).status == "RUNNING":
                score, message = self._train(trial)
                self._ended(self.oracle.finish(trial.trial_id, score, message))

        return self._interrupted(search)

    def lead(self, identity: Mapping[str, Any], local: LocalWorkers) -> bool:
        """Hands the trials to workers, some of them on this machine; whether Ctrl-C ended it."""
        chief = Chief(self.oracle, identity, self._received, self._lost, self._outcome)
        many = bool(role())
        host, port = chief_address() if many else ("127.0.0.1", 0)  # any free port

        def search() -> None:
            with chief.serving(host, port) as found:
                log.info(f"chief at {host}:{found}")
                local.start("127.0.0.1" if host == "0.0.0.0" else host, found)
                self._dry_run()  # workers start meanwhile
                chief.run(lambda: local.watch(chief.workers, chief.joined), others=many)

        try:
            return self._interrupted(search)
        finally:
            local.stop()

    def work(self, identity: Mapping[str, Any]) -> SearchResult:
        """Trains the trials that a chief hands to this process."""
        self.oracle.trials.clear()  # only this worker's own
        client = Client(chief_address(), os.environ["KERASTUNER_TUNER_ID"], identity)
        check = keras.callbacks.LambdaCallback(
            on_train_batch_begin=lambda batch, logs=None: client.check()
        )
        self.trainer.callbacks = [check]
        with self.bars:
            try:
                trial, outcome = client.next_trial()
                while trial is not None:
                    score, message = self._train(trial)
                    files = self.folders.read_small_files(trial.trial_id)
                    client.end_trial(score, message, files)
                    trial.score, trial.message = score, message
                    trial.status = "FAILED" if score is None else "COMPLETED"
                    self.oracle.trials[trial.trial_id] = trial
                    self._clean_up(trial)
                    trial, outcome = client.next_trial()
            except ChiefGone as gone:
                raise gone.args[0] from None
            except Exception as error:
                client.report_bug(error, traceback.format_exc())
                raise
            finally:
                client.close()
        if "error" in outcome:
            raise InputError(outcome["error"])
        return self._result_of(Trial.from_state(outcome["best"]), outcome["trials"])

    def _interrupted(self, search: Callable[[], None]) -> bool:
        """Searches, and writes what was found however it ends; whether Ctrl-C ended it."""
        if ended := self.oracle.ended():
            log.info(f"Resuming after {len(ended)} trials")
        with self.bars:
            try:
                search()
            except KeyboardInterrupt:
                if not self.oracle.completed():
                    raise
                log.info("Stopped by Ctrl-C; --resume continues")
                return True
            finally:
                self._write()
        return False

    def _dry_run(self) -> None:
        if not self.oracle.completed():
            self.trainer.dry_run()

    def _train(self, trial: Trial) -> tuple[float | None, str | None]:
        """Trains a trial: its score, or why it failed."""
        try:
            return self.trainer.train(trial), None
        except NotImplementedError:  # a RuntimeError, but a bug
            raise
        except configuration_errors() as error:
            self.folders.write_error(trial.trial_id, traceback.format_exc())
            return None, f"{type(error).__name__}: {error}"

    # What happens after a trial.

    def _ended(self, trial: Trial) -> None:
        self._write()
        self._clean_up(trial)
        if not self.oracle.completed() and len(self.oracle.ended()) >= GIVE_UP:
            raise self._nothing_completed()

    def _clean_up(self, trial: Trial) -> None:
        """Deletes the models that are no longer among the best, and logs the trial."""
        ranked = self.oracle.completed()
        for other in [*ranked[self.keep :], *([trial] if trial.status == "FAILED" else [])]:
            self.folders.delete_models(other.trial_id)
        best = f"best {ranked[0].score:.4f} (trial {ranked[0].trial_id})" if ranked else ""
        chosen = self.space.format(self._configuration(trial))
        self.bars.end(self._row(trial), chosen, len(self.oracle.ended()), best)

    def _received(self, trial: Trial, files: Mapping[str, str]) -> None:
        """A worker ended a trial; its folder may be on another machine."""
        self.folders.write_small_files(trial.trial_id, files)
        self._ended(trial)

    def _lost(self, worker: str, trial: Trial) -> None:
        if trial is None:
            log.info(f"{worker} left")
            return
        failed = trial.status == "FAILED"
        log.info(
            f"{worker} died in trial {trial.trial_id}{'' if failed else ', which will run again'}"
        )
        self._write()
        if failed:
            self.folders.write_error(trial.trial_id, trial.message)
            self._ended(trial)

    # What comes of the search.

    def _outcome(self) -> dict[str, Any]:
        ranked = self.oracle.completed()
        if not ranked:
            return {"error": str(self._nothing_completed())}
        return {"best": ranked[0].get_state(), "trials": self._rows()}

    def _nothing_completed(self) -> InputError:
        ended = self.oracle.ended()
        if not ended:
            return InputError("No trial ran: the space allows no configuration.")
        first = ended[0]
        return InputError(
            f"None of {len(ended)} trials completed. The first, {self.space.format(self._configuration(first))}: "
            f"{first.message} (details: {self.folders.path(first.trial_id) / 'error.txt'})"
        )

    def _configuration(self, trial: Trial) -> Configuration:
        return self.trainer.hypermodel.configuration(trial.hyperparameters)

    def _rows(self) -> list[dict[str, Any]]:
        return [self._row(trial) for trial in self.oracle.trials.values()]

    def _row(self, trial: Trial) -> dict[str, Any]:
        """What a trial chose, what it scored, and what it cost."""
        completed = trial.status == "COMPLETED"
        chosen = self._configuration(trial)
        return {
            "trial": trial.trial_id,
            "status": "requeued" if trial.status == "INVALID" else trial.status.lower(),
            "score": trial.score if completed else None,
            **self.folders.facts(trial.trial_id, completed),
            "requeued": self.oracle.times_requeued(trial),
            **{name: chosen.get(name) for name in self.space.parameters},
            "error": " ".join((trial.message or "").split()),
        }

    def _write(self) -> None:
        """Writes `trials.csv` and `best_recipe.toml`."""
        if rows := self._rows():
            text = io.StringIO(newline="")
            writer = csv.DictWriter(text, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
            replace_file(self.folder / "trials.csv", text.getvalue())
        if ranked := self.oracle.completed():
            best = self.trainer.hypermodel.recipe(ranked[0].hyperparameters)
            replace_file(self.folder / "best_recipe.toml", best.to_toml())

    def result(self) -> SearchResult:
        """The best trial; an error if none completed."""
        ranked = self.oracle.completed()
        if not ranked:
            raise self._nothing_completed()
        return self._result_of(ranked[0], self._rows())

    def _result_of(self, best: Trial, rows: list[dict[str, Any]]) -> SearchResult:
        recipe, chosen = (
            self.trainer.hypermodel.recipe(best.hyperparameters),
            self._configuration(best),
        )
        return SearchResult(self.folder, self.space, recipe, chosen, best.score, self.monitor, rows)

    def retrain(self, recipe: Recipe, count: int) -> tuple[dict[str, Any], bool]:
        """Trains the best recipe with seeds that no trial had; its figures, and whether Ctrl-C came."""
        out = self.folder / "best"
        seeds = seeds_from(recipe.training.seed + len(self.folders.seeds), count)
        wanted = {"recipe": recipe.to_toml(), "seeds": seeds, "backend": keras.config.backend()}
        if read_json(self.folder / "retrain.json") != wanted:
            shutil.rmtree(out, ignore_errors=True)  # of an earlier best
            write_json(self.folder / "retrain.json", wanted)
        listed = ", ".join(map(str, seeds))
        log.info(f"Training {self.folder / 'best_recipe.toml'} with seed {listed}")
        options = {"resume": True, "progress": self.bars.shown, **self.trainer.options}
        if count == 1:
            metrics = finished_metrics(out)
            if metrics is None:
                metrics = train(recipe, self.splits, out, seed=seeds[0], **options).metrics
            return metrics, metrics["interrupted"]
        report = read_json(out / "ensemble.json")
        if not report or report["interrupted"]:
            report = train_ensemble(recipe, self.splits, out, seeds, **options)[1]
        return report, report["interrupted"]
