"""`search`: many trials of one recipe, drawn by KerasTuner, and the best of them."""

import copy
import csv
import gc
import importlib.util
import logging
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.run_folder import read_json, write_json
from keras_sentmatch.safety import replace_file
from keras_sentmatch.training import train_ensemble
from keras_sentmatch.training.adapt import adapted
from keras_sentmatch.training.callbacks import monitor_of
from keras_sentmatch.training.checks import check_recipe
from keras_sentmatch.training.distillation import compute_teacher_targets
from keras_sentmatch.training.encoding import EncodingCache
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.resume import check_identity, finished_metrics, locked, run_identity
from keras_sentmatch.training.run import train
from keras_sentmatch.tuning._space import Configuration, SearchSpace
from keras_sentmatch.tuning._trials import Row, Trials, write_report

if TYPE_CHECKING:
    from keras_tuner.engine.trial import Trial

TUNERS = ("bayesian", "random", "hyperband", "grid")
TRIALS = 20  # for tuners that do not end by themselves
FACTS = ("best_epoch", "epochs", "parameters", "seconds")  # columns of `trials.csv`
SMALL_FILES = ("history.csv", "metrics.json", "recipe.toml")  # kept of every trial
PROCESS = ("KERASTUNER_TUNER_ID", "KERASTUNER_ORACLE_IP", "KERASTUNER_ORACLE_PORT")
log = logging.getLogger(__name__)


@dataclass
class SearchResult:
    """The result of `search`."""

    folder: Path
    space: SearchSpace  # that was searched
    best: Recipe  # of the best trial
    configuration: Configuration  # the choices of the best trial, by parameter name
    score: float  # of the best trial on the validation pairs
    objective: str  # name of the score
    trials: list[Row]  # of `trials.csv`
    # `metrics.json` of the best recipe retrained; with several seeds `ensemble.json`
    retrained: dict[str, Any] | None = None
    interrupted: bool = False  # by Ctrl-C


def search(
    recipe: Recipe,
    splits: Mapping[str, PairDataset],
    out: str | Path,
    *,
    space: SearchSpace | Mapping[str, Any] | Iterable[str] | None = None,
    tuner: str = "bayesian",
    trials: int | None = None,
    retrain: int = 1,
    resume: bool = False,
    progress: bool = True,
    **arguments: Any,
) -> SearchResult:
    """Search for the best configuration of a recipe with KerasTuner, and retrain it.

    A trial trains one recipe with `train`. Its score is the recipe's monitored metric on the
    validation pairs, in the best epoch; no trial sees the labels of test pairs. The best recipe is
    then retrained with seeds that no trial had, and evaluated on the test pairs. A trial whose
    configuration fails (out of memory, NaN) is recorded and skipped. Any other error ends the
    search, which `resume` continues.

    With KerasTuner's environment variables `KERASTUNER_TUNER_ID`, `KERASTUNER_ORACLE_IP` and
    `KERASTUNER_ORACLE_PORT`, this process is the chief of a search in several processes, or one of
    its workers. All processes get the same arguments and share `out`. Only the chief retrains.

    Args:
        recipe: The default configuration, and all settings that are not searched. Its
            `training.monitor` is the objective; `training.seed` is the seed of the search and its
            trials; `training.epochs` is the maximum for a trial of Hyperband.
        splits: As for `train`.
        out: Folder of the search.
        space: Parameters to search: names, a mapping from names to values (see
            `SearchSpace.narrowed`), or a `SearchSpace`. Defaults to the space that the model
            declares.
        tuner: `"bayesian"`, `"random"`, `"hyperband"` or `"grid"`.
        trials: Maximum number of trials. Defaults to 20 for `"bayesian"` and `"random"`; the other
            two end by themselves.
        retrain: Number of further seeds to retrain the best recipe with. 0 skips this.
        resume: Whether to continue the search in `out`, started with the same arguments. `trials`
            may be higher than before.
        progress: Whether to show progress bars.
        **arguments: Further arguments of `train`, such as `build` and `info`.

    Returns:
        A `SearchResult`. A worker returns the state at its end.

    Raises:
        InputError: KerasTuner is missing, there is nothing to search, the folder holds another
            search or is in use, no trial completed, or a worker's arguments differ from its chief's.
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
    _check_arguments(tuner, trials=trials, retrain=retrain)
    process = _process()
    check_recipe(recipe, splits, own_model=arguments.get("build") is not None)
    if recipe.training.folds not in (0, "auto"):
        raise InputError(
            f"training.folds is {recipe.training.folds}, but a search compares configurations on "
            "the validation pairs. Leave it out."
        )
    recipe, _ = adapted(recipe, splits, searching=True)
    monitor, direction = monitor_of(splits["validation"].task, recipe.training.monitor)
    recipe = recipe.with_training(monitor=monitor)
    searched = _searched_space(recipe, space)
    identity = {"tuner": tuner, **run_identity(searched.base, splits)}
    identity |= {"space": searched.description()}
    study = _Study(searched, splits, Path(out), tuner, monitor, direction, progress, arguments)
    limit = TRIALS if trials is None and tuner in ("bayesian", "random") else trials
    if process == "worker":
        study.run(limit, process, identity)
        return study.result()
    with locked(study.folder):
        then = read_json(study.folder / "search.json")
        if then and not resume:
            raise InputError(
                f"{study.folder} already holds a search. Continue it with --resume (resume=True), "
                "name another folder, or delete this one."
            )
        if then:
            check_identity(study.folder, then, identity, "search")
        write_json(study.folder / "search.json", identity)
        interrupted = study.run(limit, process, identity)
        result = study.result()
        result.interrupted = interrupted
        if retrain and not interrupted:
            try:
                result.retrained, result.interrupted = study.retrain(result.best, retrain)
            except KeyboardInterrupt:  # before there was anything to keep
                log.info("Stopped by Ctrl-C; --resume continues with the retraining")
                result.interrupted = True
        write_report(study.trials())
    return result


def _check_arguments(tuner: str, **numbers: int | None) -> None:
    if tuner not in TUNERS:
        raise InputError(f"tuner is {tuner!r}. Expected one of {', '.join(TUNERS)}.")
    for name, number in numbers.items():
        least = 0 if name == "retrain" else 1
        if number is not None and number < least:
            raise InputError(f"{name} is {number}. Expected at least {least}.")
    needed = ["keras_tuner", *["sklearn", "scipy"] * (tuner == "bayesian")]
    if missing := [name for name in needed if importlib.util.find_spec(name) is None]:
        raise InputError(
            f"The tuner {tuner!r} needs {', '.join(missing)}, which is not installed. "
            'Run pip install "keras-sentmatch[tuner]".'
        )


def _process() -> str:
    """Return this process's part in KerasTuner's distribution: "chief", "worker", or ""."""
    if "KERASTUNER_ORACLE_IP" not in os.environ:
        return ""
    if missing := [name for name in PROCESS if not os.environ.get(name)]:
        raise InputError(
            f"KERASTUNER_ORACLE_IP is set, but {', '.join(missing)} is not. A search in several "
            "processes needs all three variables; unset them to search in one process."
        )
    return "chief" if "chief" in os.environ["KERASTUNER_TUNER_ID"] else "worker"


def _searched_space(recipe: Recipe, space: Any) -> SearchSpace:
    if isinstance(space, SearchSpace):
        found = copy.copy(space)
        found.base = recipe  # with the objective of the search
    else:
        found = SearchSpace(recipe)
        found = found if space is None else found.narrowed(space)
    if not found.parameters:
        raise InputError("The search space is empty. Name at least one parameter to search.")
    return found


@dataclass
class _Study:
    """A search in progress."""

    space: SearchSpace
    splits: Mapping[str, PairDataset]
    folder: Path
    tuner: str
    monitor: str
    direction: str
    progress: bool
    arguments: dict[str, Any]

    def __post_init__(self) -> None:
        self.seed = self.space.base.training.seed
        # Encoders read the test pairs, but no trial sees their labels.
        self.unlabeled = dict(self.splits)
        if "test" in self.splits:
            self.unlabeled["test"] = _without_labels(self.splits["test"])
        self.encodings = EncodingCache()
        self.oracle: Any = None
        self.teacher_targets: Any = None

    def run(self, limit: int | None, process: str, identity: Mapping[str, Any]) -> bool:
        """Run trials, or hand them out as the chief. Returns whether Ctrl-C ended the search."""
        from keras_tuner.errors import FatalError

        from keras_sentmatch.tuning._tuner import TrialTuner, make_oracle

        state, direction = self.folder / "oracle.json", self.direction
        self.oracle = oracle = make_oracle(
            self.tuner, self.space, state, limit, self.monitor, direction, self.trial_ended
        )
        if process != "worker":
            oracle.reload()
        runner = TrialTuner(oracle, self.folder, self.train, process == "worker")
        address = ":".join(os.environ[name] for name in PROCESS[1:]) if process else ""
        if process == "worker":
            log.info(f"Waiting for the chief at {address}")
            runner.oracle.get_space()  # returns when the chief is there
            then = read_json(self.folder / "search.json")
            check_identity(self.folder, then, identity, "search")
        elif process == "chief":
            log.info(f"Chief at {address}; start the workers")
        if oracle.end_order:
            log.info(f"Resuming after {len(oracle.end_order)} trials")
            if process != "worker":  # the search may have been killed while a trial ended
                self.tidy()
                oracle.save()
        try:
            runner.search()
        except FatalError as error:
            if error.__cause__ is not None:
                raise error.__cause__ from None
        except KeyboardInterrupt:
            if process == "worker" or not self.trials().completed:
                raise
            log.info("Stopped by Ctrl-C; --resume continues the search")
            return True
        if process == "worker":
            oracle.reload()  # the chief's state
        return False

    def train(self, trial: "Trial") -> float:
        """Train a trial and return its score."""
        recipe, run = self._recipe(trial), self._run(trial.trial_id)
        if recipe.training.teacher and self.teacher_targets is None:
            self.teacher_targets = compute_teacher_targets(
                recipe.training, self.splits, progress=self.progress
            )
        metrics = finished_metrics(run)
        if metrics is None:
            try:
                metrics = train(
                    recipe,
                    self.unlabeled,
                    run,
                    resume=run.exists(),
                    progress=self.progress,
                    baseline=False,
                    teacher_targets=self.teacher_targets,
                    encodings=self.encodings,
                    **self.arguments,
                ).metrics
            finally:
                free_memory()
        if metrics["interrupted"]:
            raise KeyboardInterrupt
        name = self.monitor.removeprefix("val_")
        score = metrics["validation"].get(name)
        if score is None:  # the loss
            with open(run / "history.csv", newline="", encoding="utf-8") as file:
                row = list(csv.DictReader(file))[metrics["best_epoch"] - 1]
            score = float(row[self.monitor])
        if not np.isfinite(score):
            raise InputError(f"{self.monitor} is {score}: the model diverged.")
        return float(score)

    def _run(self, trial_id: str) -> Path:
        """Return the run folder of a trial, in the folder that KerasTuner gives the trial."""
        return self.folder / f"trial_{trial_id}" / f"seed-{self.seed}"

    def trial_ended(self) -> None:
        """Say what came out of the last trial, and tidy up."""
        trials = self.tidy()
        last = next(row for row in trials.rows if row["trial"] == self.oracle.end_order[-1])
        failed = last["score"] is None
        outcome = last["error"] if failed else f"{self.monitor} {last['score']:.4f}"
        log.info(f"trial {last['trial']}  {self.space.format(trials.chosen(last))}  {outcome}")

    def tidy(self) -> Trials:
        """Write the table and the best recipe, and keep only the best model."""
        trials = self.trials()
        trials.write()
        best = trials.completed[0]["trial"] if trials.completed else None
        for row in trials.rows:
            run = self._run(row["trial"])
            if row["status"] == "running" or row["trial"] == best or not run.is_dir():
                continue
            for path in run.iterdir():
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                elif path.name not in SMALL_FILES:
                    path.unlink(missing_ok=True)
        if best is not None:
            recipe = self._recipe(self.oracle.trials[best])
            replace_file(self.folder / "best_recipe.toml", recipe.to_toml())
        return trials

    def _recipe(self, trial: "Trial") -> Recipe:
        from keras_sentmatch.tuning._tuner import recipe_of

        return recipe_of(self.space, trial)

    def _row(self, trial: "Trial") -> Row:
        from keras_sentmatch.tuning._tuner import configuration

        completed, run = trial.status == "COMPLETED", self._run(trial.trial_id)
        chosen = configuration(self.space, trial.hyperparameters.values)
        metrics, error = read_json(run / "metrics.json"), run.parent / "error.txt"
        failed = not completed and error.is_file()
        return {
            "trial": trial.trial_id,
            "status": trial.status.lower(),
            "score": trial.score if completed else None,
            **{name: metrics.get(name) for name in FACTS},
            **{name: chosen.get(name) for name in self.space.parameters},
            "error": error.read_text("utf-8").partition("\n")[0] if failed else "",
        }

    def trials(self) -> Trials:
        """Return the trials so far."""
        return Trials(
            self.folder,
            self.space.base.name,
            self.tuner,
            self.monitor,
            self.space.description(),
            {name: self.space.short(name) for name in self.space.parameters},
            [self._row(trial) for trial in self.oracle.trials.values()],
        )

    def result(self) -> SearchResult:
        """Return the best trial; raises an error if none completed."""
        trials = self.trials()
        if not trials.completed:
            raise _nothing_completed(trials, self.space)
        best = trials.completed[0]
        return SearchResult(
            self.folder,
            self.space,
            self._recipe(self.oracle.trials[best["trial"]]),
            trials.chosen(best),
            best["score"],
            self.monitor,
            trials.rows,
        )

    def retrain(self, recipe: Recipe, count: int) -> tuple[dict[str, Any], bool]:
        """Train the best recipe with new seeds. Returns the metrics, and whether Ctrl-C came."""
        out = self.folder / "best"
        seeds = [seed % 2**32 for seed in range(self.seed + 1, self.seed + 1 + count)]
        wanted = {"recipe": recipe.to_toml(), "seeds": seeds}
        if read_json(self.folder / "retrain.json") != wanted:
            shutil.rmtree(out, ignore_errors=True)  # of an earlier best trial
            write_json(self.folder / "retrain.json", wanted)
        log.info(f"Retraining the best recipe with seed {', '.join(map(str, seeds))}")
        options = {
            "resume": out.exists(),
            "progress": self.progress,
            "teacher_targets": self.teacher_targets,
            "encodings": self.encodings,
            **self.arguments,
        }
        if count == 1:
            metrics = finished_metrics(out)
            if metrics is None:
                metrics = train(recipe, self.splits, out, seed=seeds[0], **options).metrics
            return metrics, metrics["interrupted"]
        report = read_json(out / "ensemble.json")
        if not report or report["interrupted"]:
            report = train_ensemble(recipe, self.splits, out, seeds, **options)[1]
        return report, report["interrupted"]


def _nothing_completed(trials: Trials, space: SearchSpace) -> InputError:
    failed = [row for row in trials.rows if row["status"] == "failed"]
    if not failed:
        return InputError("No trial has run: the search space allows no configuration.")
    first = failed[0]
    where = trials.folder / f"trial_{first['trial']}" / "error.txt"
    return InputError(
        f"None of {len(failed)} trials completed. The first, {space.format(trials.chosen(first))}, "
        f"failed with {first['error']} (details: {where})."
    )


def _without_labels(pairs: PairDataset) -> PairDataset:
    return PairDataset(
        pairs.sentence1, pairs.sentence2, name=pairs.name, split=pairs.split, columns=pairs.columns
    )


def free_memory() -> None:
    """Free the memory of the last model. JAX keeps every program that it compiled."""
    gc.collect()
    if keras.config.backend() == "jax":
        import jax

        jax.clear_caches()  # type: ignore[no-untyped-call]  # of JAX
