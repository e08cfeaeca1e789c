"""Training one trial of a search."""

import gc
import logging
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.training.distillation import compute_teacher_targets
from keras_sentmatch.training.prepare import Build, EncodingCache
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.resume import difference, finished_metrics, latest
from keras_sentmatch.training.run import run_identity, train
from keras_sentmatch.tuning.hypermodel import PairHyperModel
from keras_sentmatch.tuning.progress import SearchProgress
from keras_sentmatch.tuning.space import Space
from keras_sentmatch.tuning.speed import note_speed
from keras_sentmatch.tuning.trial_folders import TrialFolders, score_of

log = logging.getLogger(__name__)


def configuration_errors() -> tuple[type[BaseException], ...]:
    """The errors of a configuration that is too large, diverged or contradicts itself.

    All others are bugs, or the machine's, and end the search.
    """
    found = (ValueError, ArithmeticError, MemoryError, RuntimeError)
    if keras.config.backend() != "tensorflow":
        return found
    import tensorflow as tf

    return *found, tf.errors.OpError


class TrialTrainer:
    """Trains the trials of a search. Encoders read the test pairs; no trial sees their labels."""

    def __init__(
        self,
        space: Space,
        splits: Mapping[str, PairDataset],
        folders: TrialFolders,
        progress: SearchProgress,
        build: Build | None,
        info: Mapping[str, Any] | None,
    ) -> None:
        self.space, self.folders, self.progress = space, folders, progress
        self.splits, training = {**splits}, space.base.training
        if "test" in splits:
            self.splits["test"] = _unlabeled(splits["test"])
        teacher = (
            compute_teacher_targets(training, splits, progress=progress.shown)
            if training.teacher
            else None
        )
        self.callbacks: list[keras.callbacks.Callback] = []
        shared: dict[str, Any] = {
            "build": build,
            "teacher_targets": teacher,
            "encodings": EncodingCache(),
        }
        self.options: dict[str, Any] = {**shared, "info": info}
        self.hypermodel = PairHyperModel(
            space.base, self.splits, space, progress=progress.shown, **shared
        )

    def dry_run(self) -> None:
        """Trains the default and the largest configuration on their longest batch, or says why not."""
        default, largest = self.space.default(), self.space.largest()
        for name, chosen in {"default": default, "largest": largest}.items():
            if name == "largest" and chosen == default:
                continue
            shown = self.space.format(chosen)
            start = time.perf_counter()
            try:
                parameters = self._one_step(self.space.recipe(chosen))
            except NotImplementedError:  # a RuntimeError, but a bug
                raise
            except configuration_errors() as error:
                raise InputError(
                    f"The {name} configuration ({shown}) can't be trained: "
                    f"{type(error).__name__}: {error}"
                ) from error
            log.info(
                f"{name} configuration: {shown}; {parameters:,} parameters, built and trained on a "
                f"batch in {time.perf_counter() - start:.1f} s"
            )

    def _one_step(self, recipe: Recipe) -> int:
        model = self.hypermodel.model(recipe)
        batches = self.hypermodel.batches(recipe, model)["train"]
        batch: Any = max(batches.numpy(0), key=_size)
        model.train_on_batch(*batch)
        parameters = int(model.count_params())
        del model
        free_memory()
        return parameters

    def train(self, trial: Any) -> float:
        """Trains a trial with each seed and returns the mean of its scores."""
        recipe = self.hypermodel.recipe(trial.hyperparameters)
        scores = []
        for seed, folder in zip(self.folders.seeds, self.folders.runs(trial.trial_id)):
            several = len(self.folders.seeds) > 1
            name = f"{trial.trial_id}, seed {seed}" if several else trial.trial_id
            scores.append(self._train_once(recipe.with_training(seed=seed), folder, name))
        return float(np.mean(scores))

    def _train_once(self, recipe: Recipe, folder: Path, name: str) -> float:
        shown = self.progress.begin(name, recipe.training.epochs)
        identity = run_identity(recipe, self.splits)
        if folder.exists() and not _can_resume(folder, identity):
            shutil.rmtree(folder)
        metrics = finished_metrics(folder)  # it finished, but the search died before it heard of it
        matcher = None
        if metrics is None:
            result = train(
                recipe,
                self.splits,
                folder,
                resume=True,
                progress=False,
                baseline=False,
                callbacks=[shown, *self.callbacks],
                **self.options,
            )
            metrics, matcher = result.metrics, result.matcher
            del result
        if not metrics["interrupted"]:
            note_speed(folder, matcher, self.splits["validation"])
        del matcher
        free_memory()
        if metrics["interrupted"]:
            raise KeyboardInterrupt
        score = score_of(folder, metrics, self.folders.monitor)
        if not np.isfinite(score):
            raise InputError(f"{self.folders.monitor} is {score}: the model diverged.")
        return score


def free_memory() -> None:
    """Frees the memory of the last model: JAX keeps every program that it compiled."""
    gc.collect()
    if keras.config.backend() == "jax":
        import jax

        jax.clear_caches()  # type: ignore[no-untyped-call]  # of JAX


def _unlabeled(pairs: PairDataset) -> PairDataset:
    return PairDataset(
        pairs.sentence1, pairs.sentence2, name=pairs.name, split=pairs.split, columns=pairs.columns
    )


def _can_resume(folder: Path, identity: Mapping[str, Any]) -> bool:
    """Whether a folder holds a run of just this, finished or not; not so one of another backend."""
    try:
        state, metrics = latest(folder), finished_metrics(folder) or {}
    except InputError:
        return False  # damaged
    then = metrics.get("identity") if state is None else state.identity
    return then is not None and not difference(then, identity)


def _size(batch: Any) -> int:
    return int(next(iter(batch[0].values())).size)
