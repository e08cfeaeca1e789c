"""`train`: from a recipe and pairs to a run folder."""

import errno
import logging
import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.onnx_export import keep_model_if_possible
from keras_sentmatch.training._epoch_choice import choose_epochs
from keras_sentmatch.training._model import Build, SharedModel
from keras_sentmatch.training._steps import Run
from keras_sentmatch.training.adapt import adapted
from keras_sentmatch.training.checks import check_recipe
from keras_sentmatch.training.distillation import TeacherTargets, compute_teacher_targets
from keras_sentmatch.training.encoding import EncodingCache
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.results import measure
from keras_sentmatch.training.resume import check_folder, finish_folder, locked, run_identity
from keras_sentmatch.training.training_data import Splits, joined_splits, prepare_data

log = logging.getLogger(__name__)


@dataclass
class RunResult:
    """The result of `train`."""

    matcher: Matcher  # with the weights of the best epoch
    metrics: dict[str, Any]  # the content of `metrics.json`
    history: dict[str, list[float]]  # values by name, one per epoch
    folder: Path | None  # None if it was not kept
    predictions: dict[str, np.ndarray]  # of the "validation" and "test" pairs, see `predict_proba`


def train(
    recipe: Recipe,
    splits: Splits,
    out: str | Path | None,
    *,
    seed: int | None = None,
    resume: bool = False,
    progress: bool = True,
    baseline: bool = True,
    build: Build | None = None,
    teacher_targets: TeacherTargets | None = None,
    info: Mapping[str, Any] | None = None,
    encodings: EncodingCache | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> RunResult:
    """Train a matcher, keep its best epoch, and write its run folder.

    The encoder is fitted on the training pairs; words of the other splits join if they have a
    pretrained vector. Each epoch ends with a checkpoint. A run that was killed, or ended by Ctrl-C,
    continues from it with `resume`, and gives the same result as without the interruption.

    Args:
        recipe: The recipe, as `load_recipe` returns it.
        splits: `"train"` and `"validation"` pairs, and optionally `"test"` pairs.
        out: Run folder to write. It must not hold a finished run. `None` keeps no folder, which is
            faster: without its pictures and its ONNX model.
        seed: Random seed, instead of the recipe's.
        resume: Whether to continue the unfinished run in `out`, which was started with the same
            arguments. If there is none, training starts from the beginning.
        progress: Whether to show epochs on standard error.
        baseline: Whether to train the bag-of-words baseline too.
        build: Function that builds the model; defaults to
            `keras_sentmatch.applications.build_model`. It is called with the recipe's name, the
            arguments that follow from the data (`vocabulary_size`, `num_classes`, …) and the
            recipe's `[model]`. Its inputs must be named like the encoder's arrays.
        teacher_targets: Targets that `compute_teacher_targets` returned for this recipe and these
            pairs, so that several runs can share them.
        info: Facts to store with the matcher.
        encodings: Cache of the encoder and the encoded pairs, for further runs on the same pairs.
        callbacks: Further callbacks for `fit`. They see all metrics of an epoch.

    Returns:
        A `RunResult`.

    Raises:
        InputError: Splits are missing, unlabeled or differ in their labels; `out` holds a run, or
            with `resume` another one or none; or the recipe does not fit the data.
        KeyboardInterrupt: Ctrl-C before the end of the first epoch, when there is nothing to keep.

    Example:

    ```python
    from keras_sentmatch.data import load_pairs
    from keras_sentmatch.training import load_recipe, train

    result = train(load_recipe("drcn", "embedded"), load_pairs("embedded"), "runs/first")
    result.metrics["test"]["accuracy"]
    ```
    """
    start = time.perf_counter()
    if resume and out is None:
        raise InputError("There is nothing to resume without a run folder. Pass its path as `out`.")
    if seed is not None:
        recipe = recipe.with_training(seed=seed)
    check_recipe(recipe, splits, own_model=build is not None)
    recipe, notes = adapted(recipe, splits)
    for note in notes:
        log.info(note)
    identity = run_identity(recipe, splits)
    home: AbstractContextManager[Any] = nullcontext(out)
    if out is None:
        home = tempfile.TemporaryDirectory()
    with home as place, locked(folder := Path(place)), _full_disk_explained(folder):
        state = check_folder(folder, identity, resume)
        if resume:
            start_of = f"Nothing to resume: starting in {folder}"
            log.info(f"Continuing after epoch {state.epochs} in {folder}" if state else start_of)
        if recipe.training.teacher and teacher_targets is None:
            log.info(
                f"Computing the predictions of the teacher: {', '.join(recipe.training.teacher)}"
            )
            teacher_targets = compute_teacher_targets(recipe.training, splits, progress)
        pairs = joined_splits(splits) if recipe.training.folds else None
        data = prepare_data(recipe, splits, teacher_targets, all_pairs=pairs)
        encodings = encodings or EncodingCache()
        folds = shared = None
        if recipe.training.folds:
            shared = SharedModel(math.ceil(len(data.train) / recipe.training.batch_size))
            folds = choose_epochs(
                recipe,
                data,
                folder,
                identity,
                shared,
                encodings,
                resumes=resume,
                progress=progress,
                baseline=baseline,
                build=build,
            )
        run = Run(recipe, data, folder, identity, state, folds, build, encodings, shared)
        run.fit_encoder(progress)
        run.build_model()
        run.fit(callbacks, progress)
        run.keep_best_epoch()
        matcher = run.save(info or {})
        is_finished = not run.interrupted and out is not None
        if is_finished:
            keep_model_if_possible(matcher, folder)
        metrics, predictions = measure(run, matcher, baseline, start, pictures=out is not None)
        if is_finished:
            finish_folder(folder)
    kept = None if out is None else folder
    return RunResult(matcher, metrics, run.history, kept, predictions)


@contextmanager
def _full_disk_explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise InputError(
            f"Cannot write into {folder}: {error.strerror}. Free some space, then continue with "
            "--resume (resume=True)."
        ) from error
