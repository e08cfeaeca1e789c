"""`search`: many runs of one recipe with KerasTuner, and the best of them."""

import copy
import csv
import gc
import importlib.util
import io
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics import evaluate_predictions
from keras_sentmatch.run_folder import read_json, write_json
from keras_sentmatch.training.callbacks import monitor_of
from keras_sentmatch.training.distillation import Lessons, take_lessons
from keras_sentmatch.training.ensemble import train_ensemble
from keras_sentmatch.training.prepare import Build, Encodings, check_splits, make_model
from keras_sentmatch.training.recipe import MONITORS, Recipe
from keras_sentmatch.training.resume import difference, finished_metrics, latest
from keras_sentmatch.training.run import make_batches, run_identity, train, with_seed
from keras_sentmatch.training.seeds import set_seed
from keras_sentmatch.tuning.progress import SearchProgress
from keras_sentmatch.tuning.report import write_report
from keras_sentmatch.tuning.space import Space, Written
from keras_sentmatch.tuning.spaces import space_of
from keras_sentmatch.tuning.speed import note_speed
from keras_sentmatch.tuning.trial_runs import facts_of, run_folders, score_of, seeds_from

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
        progress: Whether to show it on standard error.
        report: Whether to write the report when it ends (`write_report`).
        build: As for `train`.
        info: Facts to keep with the matchers.

    Returns:
        A `SearchResult`.

    Raises:
        InputError: KerasTuner is missing; a folder that holds another search; a space with nothing in it; a default or
            largest configuration that can't be trained; no trial that finished, with the first cause.
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
    _check_arguments(tuner, trials, seeds, keep, retrain)
    check_splits(splits)
    if seed is not None:
        recipe = with_seed(recipe, seed)
    monitor, direction = _objective(objective, recipe, splits)
    recipe = replace(recipe, training={**recipe.training, "monitor": monitor})
    searched = _space(recipe, space, fix)
    folder = Path(out)
    _begin(folder, _identity(searched, tuner, splits, seeds), searched, resume)
    lessons = None
    if recipe.training["teacher"]:
        lessons = take_lessons(recipe.training, splits, None, progress)
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
        lessons,
        info,
        seeds_from(recipe.training["seed"], seeds),
    )
    interrupted = study.run()
    result = study.result(interrupted)
    if retrain and not interrupted:
        result.retrained, result.interrupted = study.retrain(result.best, retrain)
    if report:
        write_report(folder)
    return result


def _check_arguments(tuner: str, trials: int | None, seeds: int, keep: int, retrain: int) -> None:
    if tuner not in TUNERS:
        raise InputError(f"There is no tuner {tuner!r}; there is {', '.join(TUNERS)}.")
    numbers = (
        ("trials", trials, 1),
        ("seeds", seeds, 1),
        ("keep", keep, 1),
        ("retrain", retrain, 0),
    )
    for name, number, least in numbers:
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
    wanted = recipe.training["monitor"] if objective == "auto" else f"val_{objective}"
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


def _space(recipe: Recipe, space: Any, fix: Mapping[str, Any] | None) -> Space:
    found = space if isinstance(space, Space) else space_of(recipe)
    if isinstance(space, Space):
        found = copy.copy(space)
        found.base = recipe  # with the seed and the objective of the search
    found = found.fixed(fix) if fix else found
    if space is not None and not isinstance(space, Space):
        found = found.narrowed(space)
    if not found.parameters:
        raise InputError("There is nothing left to search: every parameter is fixed.")
    return found


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
    lessons: Lessons | None
    info: Mapping[str, Any] | None
    seeds: list[int]

    def __post_init__(self) -> None:
        self.encodings = Encodings()
        self.oracle = self._oracle()
        # Encoders read the words of the test pairs, as in `train`; nothing of a trial sees their labels.
        self.seen = {role: data for role, data in self.splits.items() if role != "test"}
        if "test" in self.splits:
            self.seen["test"] = _unlabelled(self.splits["test"])
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
            options["max_epochs"] = settings["epochs"]
        if (
            self.tuner == "bayesian"
        ):  # KerasTuner draws three a parameter: often more than there are trials
            options["num_initial_points"] = max(
                3, min(3 * len(self.space.parameters), (trials or TRIALS) // 3)
            )
        return ORACLES[self.tuner](
            self.space,
            self.folder / "oracle.json",
            settings["seed"],
            trials,
            objective=Objective(self.monitor, self.direction),
            **options,
        )

    def run(self) -> bool:
        """Runs the trials; whether Ctrl-C ended it."""
        from keras_sentmatch.tuning.engine import Loop

        done = self._done()
        if done:
            self.display.say(f"Going on after {len(done)} trials")
        with self.display:
            if not self._completed():
                self._dry_run()
            loop = Loop(self.oracle, self.folder, self._train, self._ended)
            try:
                loop.search()
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
        from keras_sentmatch.tuning.engine import configuration

        return configuration(self.space, trial.hyperparameters.values)

    def _recipe(self, trial: Any) -> Recipe:
        recipe = self.space.recipe(self._configuration(trial))
        epochs = trial.hyperparameters.values.get("tuner/epochs", recipe.training["epochs"])
        return replace(recipe, training={**recipe.training, "epochs": epochs})

    def _dry_run(self) -> None:
        """Builds the default and the largest configuration, and trains each on its longest batch."""
        from keras_sentmatch.tuning.engine import faults

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
        taught = {**self.seen, **({} if self.lessons is None else {"train": self.lessons.pairs})}
        targets = {} if self.lessons is None else self.lessons.targets
        encoder, vectors, _ = self.encodings.fit(recipe, taught, progress=self.progress)
        set_seed(recipe.training["seed"])
        settings = {**recipe.training, "devices": 1}
        model = make_model(recipe, taught["train"], encoder, vectors, self.build)
        batches = make_batches(taught, targets, encoder, model, settings, self.encodings)["train"]
        model.train_on_batch(*max(batches.numpy(0), key=_size))
        parameters = model.count_params()
        del model
        _free()
        return parameters

    def _train(self, trial: Any) -> float:
        """Trains a trial with each seed and gives the mean of its scores."""
        recipe = self._recipe(trial)
        folders = run_folders(self.folder / "trials" / trial.trial_id, self.seeds)
        scores = []
        for seed, folder in zip(self.seeds, folders):
            name = trial.trial_id if len(self.seeds) == 1 else f"{trial.trial_id}, seed {seed}"
            scores.append(self._train_once(with_seed(recipe, seed), folder, name))
        return float(np.mean(scores))

    def _train_once(self, recipe: Recipe, folder: Path, name: str) -> float:
        shown = self.display.begin(name, recipe.training["epochs"])
        identity = run_identity(recipe, self.seen, lessons=self.lessons)
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
                lessons=self.lessons,
                info=self.info,
                encodings=self.encodings,
                callbacks=[shown],
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

    def _ended(self, trial: Any) -> None:
        folder, ranked = self.folder / "trials" / trial.trial_id, self._completed()
        if trial.status == "FAILED":
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "error.txt").write_text(trial.trace, encoding="utf-8")
        self._write()
        for other in [*ranked[self.keep :], *([trial] if trial.status == "FAILED" else [])]:
            for run in run_folders(self.folder / "trials" / other.trial_id, self.seeds):
                _shrink(run)
        row = next(row for row in self.rows() if row["trial"] == trial.trial_id)
        best = f"best {ranked[0].score:.4f} (trial {ranked[0].trial_id})" if ranked else ""
        self.display.end(row, self._configuration(trial), len(self._done()), best)
        if not ranked and len(self._done()) >= GIVE_UP:
            raise self._nothing()

    def _nothing(self) -> InputError:
        done = self._done()
        return InputError(
            f"None of {len(done)} trials finished. The first, {self.display.written(self._configuration(done[0]))}: "
            f"{done[0].message} (all of it in {self.folder / 'trials' / done[0].trial_id / 'error.txt'})"
        )

    def rows(self) -> list[dict[str, Any]]:
        """A row a trial: what it chose, what it scored, and what it cost."""
        rows = []
        for name, trial in self.oracle.trials.items():
            over = trial.status == "COMPLETED"
            rows.append(
                {
                    "trial": name,
                    "status": trial.status.lower(),
                    "score": trial.score if over else None,
                    **facts_of(self.folder / "trials" / name, self.seeds, self.monitor, over),
                    **{n: self._configuration(trial).get(n) for n in self.space.parameters},
                    "error": " ".join((trial.message or "").split()),
                }
            )
        return rows

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
            if self._done():
                raise self._nothing()
            raise InputError("No trial ran: no configuration of the space is allowed.")
        best = ranked[0]
        return SearchResult(
            self.folder,
            self.space,
            self._recipe(best),
            self._configuration(best),
            best.score,
            self.monitor,
            self.rows(),
            interrupted=interrupted,
        )

    def retrain(self, recipe: Recipe, count: int) -> tuple[dict[str, Any], bool]:
        """Trains the best recipe with seeds that no trial had; its figures, and whether Ctrl-C ended it."""
        out, tried = self.folder / "best", len(self.seeds)
        seeds = seeds_from(recipe.training["seed"] + tried, count)
        wanted = {"recipe": recipe.to_toml(), "seeds": seeds, "backend": keras.config.backend()}
        if read_json(self.folder / "retrain.json") != wanted:
            shutil.rmtree(out, ignore_errors=True)  # of an earlier best
            write_json(self.folder / "retrain.json", wanted)
        self.display.say(f"Training {self.folder / 'best_recipe.toml'} with {_counted(seeds)}")
        further: dict[str, Any] = {
            "resume": True,
            "progress": self.progress,
            "build": self.build,
            "lessons": self.lessons,
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


def _size(batch: Any) -> int:
    inputs, _ = batch
    return next(iter(inputs.values())).size


def _counted(seeds: list[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"the seeds {', '.join(map(str, seeds))}"


def _unlabelled(pairs: PairDataset) -> PairDataset:
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
    for path in folder.iterdir() if folder.exists() else ():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in SMALL:
            path.unlink()


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
