"""`search`: many runs of one recipe with KerasTuner, and the best of them."""

import csv
import gc
import importlib.util
import io
import os
import shutil
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.run_folder import read_json, write_json
from keras_sentmatch.metrics import evaluate_predictions
from keras_sentmatch.training.callbacks import monitor_of
from keras_sentmatch.training.config import MONITORS
from keras_sentmatch.training.distillation import TeacherTargets, compute_teacher_targets
from keras_sentmatch.training.ensemble import train_ensemble
from keras_sentmatch.training.prepare import Build, EncodingCache, check_splits
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.resume import difference, finished_metrics, latest
from keras_sentmatch.training.run import run_identity, train
from keras_sentmatch.tuning.progress import SearchProgress
from keras_sentmatch.tuning.report import write_report
from keras_sentmatch.tuning.space import Space, Written
from keras_sentmatch.tuning.spaces import narrowed_space
from keras_sentmatch.tuning.speed import note_speed
from keras_sentmatch.tuning.trial_runs import facts_of, run_folders, score_of, seeds_from
from keras_sentmatch.tuning.workers import LocalWorkers, role

TUNERS = ("bayesian", "random", "hyperband", "grid")
TRIALS = 20  # where the tuner does not end by itself
GIVE_UP = 3  # failed trials, if none before them finished
SMALL = {"error.txt", "history.csv", "metrics.json", "recipe.toml"}  # kept of every trial


@dataclass
class SearchResult:
    """What `search` gives back.

    Attributes:
        folder: Of the search.
        space: What was searched.
        best: The recipe of the best trial.
        configuration: What that chose, as written, by the names of the parameters.
        score: Its validation value.
        objective: The name of that value.
        trials: The rows of `trials.csv`.
        retrained: `metrics.json` of the best recipe trained anew with one seed, or `ensemble.json` with several; None where
            it was not.
        interrupted: Whether Ctrl-C ended it early.
    """

    folder: Path
    space: Space
    best: Recipe
    configuration: Written
    score: float
    objective: str
    trials: list[dict[str, Any]]
    retrained: dict[str, Any] | None = None
    interrupted: bool = False


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
) -> SearchResult:
    """Looks for the best configuration of a recipe, and trains it anew.

    A trial is a recipe, which `train` trains: on the training pairs, judged by the best epoch's value on the validation
    pairs. It never sees the labels of test pairs. Trials have the seed of the recipe, or that and the ones after it; the
    best one is trained anew with seeds that no trial had, and measured on the test pairs.

    Before the first trial the recipe's own configuration and the largest one are built and trained on a batch. A trial whose
    configuration fails (no memory, NaN) is noted and left; any other error ends the search, which can go on when it is
    mended.

    Where KerasTuner's environment variables are set (KERASTUNER_TUNER_ID, KERASTUNER_ORACLE_IP, KERASTUNER_ORACLE_PORT),
    this process is the chief of a search on many machines, or one of its workers, called with the same arguments. The
    chief trains no trial, and a worker writes nothing but its trials' folders; both return the same, but for `retrained`.

    Args:
        recipe: What `load_recipe` gives: the default configuration, and all that is not searched. `training.epochs` is
            the most that a trial of Hyperband gets; it trains each round's survivors from the beginning.
        splits: As `train` takes them.
        out: Folder of the search: `trials.csv`, `best_recipe.toml`, `best/` (the run of that recipe, or runs), `trials/`
            (a run folder each, or one a seed), `report.md` and its pictures, and the files to go on from.
        space: What to search: names, or a mapping from names to values (see `Space.narrowed`). Default: everything that
            `space_of(recipe)` has. Or a `Space` of one's own.
        fix: Values by name, for parameters that are not to be searched.
        tuner: `"bayesian"`, `"random"`, `"hyperband"` or `"grid"`.
        trials: Most trials. By default 20, but no limit to the grid and to Hyperband, which end by themselves.
        objective: `"accuracy"`, `"f1"`, `"map"`, `"loss"` and so on, of the validation pairs; it also chooses each trial's
            epoch. Default: the recipe's `training.monitor`.
        seed: Of the search and of all trials, instead of the recipe's.
        seeds: With how many seeds to train each configuration; its score is their mean. One that fails with any of them
            has failed.
        keep: Of how many of the best trials to keep the models.
        retrain: With how many further seeds to train the best recipe anew; 0 does not.
        resume: Whether to go on with the search in `out`, begun with the same arguments; `trials` may be more.
        workers: How many processes on this machine train trials, side by side; 0 trains them in this one. A script that asks
            for some does so under `if __name__ == "__main__":`.
        progress: Whether to show it on standard error.
        report: Whether to write the report when it ends (`write_report`).
        build: As for `train`.
        info: Facts to keep with the matchers.

    Returns:
        A `SearchResult`.

    Raises:
        InputError: KerasTuner is missing; a folder that holds another search; a space with nothing in it; a default or
            largest configuration that can't be trained; no trial that finished, with the first cause; workers that can't
            start; a worker that is called with other arguments than its chief, or finds none for ten minutes.
        KeyboardInterrupt: Ctrl-C before a trial ended.

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
    here = role()
    if here == "worker" and workers:
        raise InputError(
            f"workers is {workers}, but this process is a worker: KERASTUNER_TUNER_ID is "
            f"{os.environ['KERASTUNER_TUNER_ID']!r}. Unset it, or leave out --workers (workers=…)."
        )
    asked = {
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
    check_splits(splits)
    if seed is not None:
        recipe = recipe.with_training(seed=seed)
    monitor, direction = _objective(objective, recipe, splits)
    recipe = recipe.with_training(monitor=monitor)
    searched = narrowed_space(recipe, space, fix)
    folder = Path(out)
    identity = _identity(searched, tuner, splits, seeds)
    if here != "worker":
        _begin(folder, identity, searched, resume)
    teacher_targets = None
    if recipe.training.teacher:
        teacher_targets = compute_teacher_targets(recipe.training, splits, None, progress)
    study = _Study(
        folder,
        searched,
        splits,
        tuner,
        trials,
        monitor,
        direction,
        keep,
        progress,
        build,
        teacher_targets,
        info,
        seeds_from(recipe.training.seed, seeds),
    )
    if here == "worker":
        return study.work(identity)
    local = LocalWorkers(workers, asked, folder)
    interrupted = study.lead(identity, local) if workers or here else study.run()
    result = study.result(interrupted)
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
    bounds = (
        ("trials", trials, 1),
        ("seeds", seeds, 1),
        ("keep", keep, 1),
        ("retrain", retrain, 0),
        ("workers", workers, 0),
    )
    for name, number, least in bounds:
        if number is not None and number < least:
            raise InputError(f"{name} is {number}; at least {least} is needed.")
    needed = {"keras_tuner": "keras-tuner"}
    if tuner == "bayesian":
        needed |= {"sklearn": "scikit-learn", "scipy": "scipy"}
    missing = [name for module, name in needed.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise InputError(
            f'{", ".join(missing)} not installed, which the tuner {tuner!r} needs: pip install "keras-sentmatch[tuner]".'
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


def _identity(
    space: Space, tuner: str, splits: Mapping[str, PairDataset], seeds: int
) -> dict[str, Any]:
    """By what a search is known again."""
    identity = {"tuner": tuner, **run_identity(space.base, splits), "space": space.description()}
    del identity["backend"]  # trials may come from several
    return {**identity, "seeds": seeds}


def _begin(folder: Path, identity: Mapping[str, Any], space: Space, resume: bool) -> None:
    then = read_json(folder / "search.json")
    if then:
        then = {"seeds": 1, **then}
        then.pop("names", None)
    if then and not resume:
        raise InputError(
            f"{folder} already holds a search: go on with --resume (resume=True), name another folder, or delete this one."
        )
    if then and (differing := difference(then, identity)):
        raise InputError(
            f"{folder} holds another search: {'; '.join(differing)}. Give the same command as then and --resume, or "
            "name another folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    if not then:
        names = {name: space.short(name) for name in space.parameters}  # for the report
        write_json(folder / "search.json", {**identity, "names": names})


@dataclass
class _Study:
    """A search that runs."""

    folder: Path
    space: Space
    splits: Mapping[str, PairDataset]
    tuner: str
    trials: int | None
    monitor: str
    direction: str
    keep: int
    progress: bool
    build: Build | None
    teacher_targets: TeacherTargets | None
    info: Mapping[str, Any] | None
    seeds: list[int]
    callbacks: list[keras.callbacks.Callback] = field(default_factory=list)  # of each trial

    def __post_init__(self) -> None:
        from keras_sentmatch.tuning.hypermodel import PairHyperModel

        self.encodings = EncodingCache()
        self.oracle = self._oracle()
        # Encoders read the words of the test pairs, as in `train`; nothing of a trial sees their labels.
        self.seen = {role: data for role, data in self.splits.items() if role != "test"}
        if "test" in self.splits:
            self.seen["test"] = _unlabeled(self.splits["test"])
        self.hypermodel = PairHyperModel(
            self.space.base,
            self.seen,
            self.space,
            build=self.build,
            teacher_targets=self.teacher_targets,
            encodings=self.encodings,
            progress=self.progress,
        )
        total = self.oracle.max_trials
        if self.tuner == "hyperband":
            total = min(total or self.oracle.planned(), self.oracle.planned())
        elif self.space.size() < (total or float("inf")):
            total = int(self.space.size())
        self.display = SearchProgress(self.progress, self.space, self.monitor, total)

    def _oracle(self) -> Any:
        from keras_tuner import Objective

        from keras_sentmatch.tuning.engine import ORACLES

        settings, trials = self.space.base.training, self.trials
        options: dict[str, int] = {}
        if trials is None and self.tuner in ("bayesian", "random"):
            trials = TRIALS
        if self.tuner == "hyperband":
            options["max_epochs"] = settings.epochs
        if (
            self.tuner == "bayesian"
        ):  # KerasTuner draws three a parameter: often more than there are trials
            options["num_initial_points"] = max(
                3, min(3 * len(self.space.parameters), (trials or TRIALS) // 3)
            )
        return ORACLES[self.tuner](
            self.space,
            self.folder / "oracle.json",
            settings.seed,
            trials,
            objective=Objective(self.monitor, self.direction),
            **options,
        )

    def run(self) -> bool:
        """Trains the trials in this process; whether Ctrl-C ended it."""
        from keras_sentmatch.tuning.engine import Loop

        def search() -> None:
            self._dry_run()
            Loop(self.oracle, self.folder, self._train, self._failed, self._ended).search()

        return self._interrupted(search)

    def lead(self, identity: Mapping[str, Any], local: LocalWorkers) -> bool:
        """Gives the trials to workers; whether Ctrl-C ended it.

        Args:
            identity: Of the search.
            local: Workers to start on this machine.
        """
        from keras_sentmatch.tuning.chief import Chief

        chief = Chief(self.oracle, identity, self._received, self._lost, self._outcome)
        many = bool(role())
        host, port = "127.0.0.1", "0"  # any that is free
        if many:
            host, port = (os.environ[f"KERASTUNER_ORACLE_{part}"] for part in ("IP", "PORT"))

        def search() -> None:
            with chief.serving(f"{host}:{port}") as found:
                self.display.say(f"chief at {host}:{found}")
                local.start("127.0.0.1" if host == "0.0.0.0" else host, found)
                self._dry_run()  # workers start meanwhile
                chief.run(lambda: local.look(chief.workers, chief.joined), others=many)

        try:
            return self._interrupted(search)
        finally:
            local.stop()

    def work(self, identity: Mapping[str, Any]) -> SearchResult:
        """Trains the trials that a chief gives to this process.

        Args:
            identity: Of the search.
        """
        from keras_tuner.engine.trial import Trial

        from keras_sentmatch.tuning.chief import Client, Gone
        from keras_sentmatch.tuning.engine import Loop

        def ended(trial: Any) -> None:
            if trial.status == "COMPLETED":
                trial.score = client.score
            self.oracle.trials[trial.trial_id] = trial
            self._leave(trial)

        self.oracle.trials.clear()  # only this worker's own
        loop = Loop(self.oracle, self.folder, self._train, self._failed, ended)
        loop.oracle = client = Client(self.oracle, identity, self._small_files)
        self.callbacks = [_Checked(client.check)]
        with self.display:
            try:
                loop.search()
            except Gone as gone:
                raise gone.args[0] from None
            except Exception as error:
                client.report(error, traceback.format_exc())
                raise
            finally:
                client.close()
        if "error" in client.outcome:
            raise InputError(client.outcome["error"])
        best = Trial.from_state(client.outcome["best"])
        return self._found(best, client.outcome["trials"])

    def _interrupted(self, search: Callable[[], None]) -> bool:
        """Searches, and writes what was found however it ends; whether Ctrl-C ended it."""
        if done := self._done():
            self.display.say(f"Going on after {len(done)} trials")
        with self.display:
            try:
                search()
            except KeyboardInterrupt:
                if not self._completed():
                    raise
                self.display.say("Stopped by Ctrl-C: --resume goes on")
                return True
            finally:
                self._write()
        return False

    def _done(self) -> list[Any]:
        return [
            trial
            for trial in self.oracle.trials.values()
            if trial.status in ("COMPLETED", "FAILED")
        ]

    def _completed(self) -> list[Any]:
        """The trials that finished, the best first."""
        found = [trial for trial in self.oracle.trials.values() if trial.status == "COMPLETED"]
        return sorted(found, key=lambda t: t.score, reverse=self.direction == "max")

    def _configuration(self, trial: Any) -> Written:
        return self.hypermodel.configuration(trial.hyperparameters)

    def _recipe(self, trial: Any) -> Recipe:
        return self.hypermodel.recipe(trial.hyperparameters)

    def _folder(self, trial_id: str) -> Path:
        return self.folder / "trials" / trial_id

    def _runs(self, trial_id: str) -> list[Path]:
        return run_folders(self._folder(trial_id), self.seeds)

    def _dry_run(self) -> None:
        """Builds the default and the largest configuration, and trains each on its longest batch; once a search."""
        from keras_sentmatch.tuning.engine import faults

        if self._completed():
            return
        default, largest = self.space.default(), self.space.largest()
        for name, written in {"default": default, "largest": largest}.items():
            if name == "largest" and written == default:
                continue
            start = time.perf_counter()
            try:
                parameters = self._one_step(self.space.recipe(written))
            except NotImplementedError:
                raise
            except faults() as error:
                raise InputError(
                    f"The {name} configuration ({self.display.written(written)}) can't be trained: "
                    f"{type(error).__name__}: {error}"
                ) from error
            seconds = time.perf_counter() - start
            self.display.say(
                f"{name} configuration: {self.display.written(written)}; {parameters:,} parameters, built and trained "
                f"on a batch in {seconds:.1f} s"
            )

    def _one_step(self, recipe: Recipe) -> int:
        model = self.hypermodel.model(recipe)
        batches = self.hypermodel.batches(recipe, model)["train"]
        model.train_on_batch(*max(batches.numpy(0), key=_size))
        parameters = model.count_params()
        del model
        _free()
        return parameters

    def _train(self, trial: Any) -> float:
        """Trains a trial with each seed and gives the mean of its scores."""
        recipe = self._recipe(trial)
        folders = self._runs(trial.trial_id)
        scores = []
        for seed, folder in zip(self.seeds, folders):
            name = trial.trial_id if len(self.seeds) == 1 else f"{trial.trial_id}, seed {seed}"
            scores.append(self._train_once(recipe.with_training(seed=seed), folder, name))
        return float(np.mean(scores))

    def _train_once(self, recipe: Recipe, folder: Path, name: str) -> float:
        shown = self.display.begin(name, recipe.training.epochs)
        identity = run_identity(recipe, self.seen, teacher_targets=self.teacher_targets)
        if folder.exists() and not _goes_on(folder, identity):
            shutil.rmtree(folder)
        metrics = finished_metrics(folder)  # it ended, but the search died before it was told
        matcher = None
        if metrics is None:
            result = train(
                recipe,
                self.seen,
                folder,
                resume=True,
                progress=False,
                baseline=False,
                build=self.build,
                teacher_targets=self.teacher_targets,
                info=self.info,
                encodings=self.encodings,
                callbacks=[shown, *self.callbacks],
            )
            metrics, matcher = result.metrics, result.matcher
            del result
        if not metrics["interrupted"]:
            note_speed(folder, matcher, self.seen["validation"])
        del matcher
        _free()
        if metrics["interrupted"]:
            raise KeyboardInterrupt
        score = score_of(folder, metrics, self.monitor)
        if not np.isfinite(score):
            raise InputError(f"{self.monitor} is {score}: the model diverged.")
        return score

    def _failed(self, trial: Any, trace: str) -> None:
        folder = self._folder(trial.trial_id)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "error.txt").write_text(trace, encoding="utf-8")

    def _ended(self, trial: Any) -> None:
        self._write()
        self._leave(trial)
        if not self._completed() and len(self._done()) >= GIVE_UP:
            raise self._nothing()

    def _leave(self, trial: Any) -> None:
        """Deletes the models that are no longer among the best, and shows what came of the trial."""
        ranked = self._completed()
        for other in [*ranked[self.keep :], *([trial] if trial.status == "FAILED" else [])]:
            for run in self._runs(other.trial_id):
                _shrink(run)
        best = f"best {ranked[0].score:.4f} (trial {ranked[0].trial_id})" if ranked else ""
        self.display.end(self._row(trial), self._configuration(trial), len(self._done()), best)

    # What the chief has from workers, and they from it.

    def _small_paths(self) -> list[str]:
        """Of the small files of a trial, from its folder on."""
        runs = run_folders(Path(), self.seeds)
        return sorted({(folder / name).as_posix() for folder in [Path(), *runs] for name in SMALL})

    def _small_files(self, trial_id: str) -> dict[str, str]:
        paths = {name: self._folder(trial_id) / name for name in self._small_paths()}
        return {name: path.read_text("utf-8") for name, path in paths.items() if path.is_file()}

    def _received(self, trial: Any, files: Mapping[str, str]) -> None:
        """A worker ended a trial; its folder may lie on another machine."""
        folder = self._folder(trial.trial_id)
        for run in (folder, *self._runs(trial.trial_id)):
            run.mkdir(parents=True, exist_ok=True)
        here = self._small_files(trial.trial_id)
        for name in files.keys() & self._small_paths():
            if here.get(name) != files[name]:
                _replace(folder / name, files[name])
        self._ended(trial)

    def _lost(self, worker: str, trial: Any) -> None:
        if trial is None:
            self.display.say(f"{worker} left")
            return
        said = "" if trial.status == "FAILED" else ": it is given out again"
        self.display.say(f"{worker} died in trial {trial.trial_id}{said}")
        self._write()
        if trial.status == "FAILED":
            self._failed(trial, trial.message)
            self._ended(trial)

    def _outcome(self) -> dict[str, Any]:
        ranked = self._completed()
        if not ranked:
            return {"error": str(self._nothing())}
        return {"best": ranked[0].get_state(), "trials": self.rows()}

    def _nothing(self) -> InputError:
        done = self._done()
        if not done:
            return InputError("No trial ran: no configuration of the space is allowed.")
        return InputError(
            f"None of {len(done)} trials finished. The first, {self.display.written(self._configuration(done[0]))}: "
            f"{done[0].message} (all of it in {self._folder(done[0].trial_id) / 'error.txt'})"
        )

    def rows(self) -> list[dict[str, Any]]:
        """A row a trial: what it chose, what it scored, and what it cost."""
        return [self._row(trial) for trial in self.oracle.trials.values()]

    def _row(self, trial: Any) -> dict[str, Any]:
        over, runs = trial.status == "COMPLETED", self.oracle._run_times[trial.trial_id]
        chosen = self._configuration(trial)
        return {
            "trial": trial.trial_id,
            "status": "requeued" if trial.status == "INVALID" else trial.status.lower(),
            "score": trial.score if over else None,
            **facts_of(self._folder(trial.trial_id), self.seeds, self.monitor, over),
            "requeued": max(runs - (trial.status in ("COMPLETED", "FAILED")), 0),
            **{name: chosen.get(name) for name in self.space.parameters},
            "error": " ".join((trial.message or "").split()),
        }

    def _write(self) -> None:
        """Writes `trials.csv` and `best_recipe.toml`, each beside itself first."""
        rows = self.rows()
        if rows:
            text = io.StringIO(newline="")
            writer = csv.DictWriter(text, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
            _replace(self.folder / "trials.csv", text.getvalue())
        if ranked := self._completed():
            _replace(self.folder / "best_recipe.toml", self._recipe(ranked[0]).to_toml())

    def result(self, interrupted: bool) -> SearchResult:
        """The best trial, or the error of the first."""
        ranked = self._completed()
        if not ranked:
            raise self._nothing()
        return replace(self._found(ranked[0], self.rows()), interrupted=interrupted)

    def _found(self, best: Any, rows: list[dict[str, Any]]) -> SearchResult:
        return SearchResult(
            self.folder,
            self.space,
            self._recipe(best),
            self._configuration(best),
            best.score,
            self.monitor,
            rows,
        )

    def retrain(self, recipe: Recipe, count: int) -> tuple[dict[str, Any], bool]:
        """Trains the best recipe with seeds that no trial had; its figures, and whether Ctrl-C ended it."""
        out, tried = self.folder / "best", len(self.seeds)
        seeds = seeds_from(recipe.training.seed + tried, count)
        wanted = {"recipe": recipe.to_toml(), "seeds": seeds, "backend": keras.config.backend()}
        if read_json(self.folder / "retrain.json") != wanted:
            shutil.rmtree(out, ignore_errors=True)  # of an earlier best
            write_json(self.folder / "retrain.json", wanted)
        self.display.say(f"Training {self.folder / 'best_recipe.toml'} with {_counted(seeds)}")
        further: dict[str, Any] = {
            "resume": True,
            "progress": self.progress,
            "build": self.build,
            "teacher_targets": self.teacher_targets,
            "info": self.info,
            "encodings": self.encodings,
        }
        if count == 1:
            metrics = finished_metrics(out)
            if metrics is None:
                metrics = train(recipe, self.splits, out, seed=seeds[0], **further).metrics
            return metrics, metrics["interrupted"]
        report = read_json(out / "ensemble.json")
        if not report or report["interrupted"]:
            report = train_ensemble(recipe, self.splits, out, seeds, **further)[1]
        return report, report["interrupted"]


class _Checked(keras.callbacks.Callback):
    """Calls a function before each batch, which may raise."""

    def __init__(self, check: Callable[[], None]) -> None:
        super().__init__()
        self.check = check

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.check()


def _size(batch: Any) -> int:
    inputs, _ = batch
    return next(iter(inputs.values())).size


def _counted(seeds: list[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"the seeds {', '.join(map(str, seeds))}"


def _unlabeled(pairs: PairDataset) -> PairDataset:
    return PairDataset(
        pairs.sentence1, pairs.sentence2, name=pairs.name, split=pairs.split, columns=pairs.columns
    )


def _goes_on(folder: Path, identity: Mapping[str, Any]) -> bool:
    """Whether a folder holds a run of just this, finished or not; not so one begun on another backend."""
    try:
        state, metrics = latest(folder), finished_metrics(folder) or {}
    except InputError:
        return False  # damaged
    then = metrics.get("identity") if state is None else state.identity
    return then is not None and not difference(then, identity)


def _shrink(folder: Path) -> None:
    """Deletes all of a run folder but the small files; there is none of a seed that was not trained."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)  # chief and worker may share the folder
        elif path.name not in SMALL:
            path.unlink(missing_ok=True)


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(text, encoding="utf-8", newline="")
    os.replace(temporary, path)


def _free() -> None:
    """Gives back the memory of the last model: JAX keeps every program it compiled."""
    gc.collect()
    if keras.config.backend() == "jax":
        import jax

        jax.clear_caches()
