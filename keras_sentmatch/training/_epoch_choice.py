"""Choose the number of epochs of a run by folds of its pairs."""

import logging
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from rich.console import Console

from keras_sentmatch.data.splits import part_numbers
from keras_sentmatch.encoders.batches import least_padding
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.run_folder import read_json, write_json
from keras_sentmatch.metrics import evaluate_predictions
from keras_sentmatch.safety import COPY, check_types, read_arrays
from keras_sentmatch.training import resume
from keras_sentmatch.training._model import Build, SharedModel
from keras_sentmatch.training._steps import Folds, Run, bucket_counts
from keras_sentmatch.training.adapt import why_no_folds
from keras_sentmatch.training.baseline import bag_of_words_baseline
from keras_sentmatch.training.callbacks import EpochLines, patience_of
from keras_sentmatch.training.config import f1_label
from keras_sentmatch.training.distillation import compute_teacher_targets
from keras_sentmatch.training.encoding import EncodingCache
from keras_sentmatch.training.folds import quieter
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.training_data import Splits, TrainingData, prepare_data

FOLDER = "folds"  # in the run folder: a folder per fold
CHOSEN = "chosen.json"  # in that folder, as soon as all folds are finished
SCORES = "scores.npz"  # scores of the pairs that a fold did not learn from
ROLES = ("train", "validation")
RISES = 3  # times in a row that the mean of the folds becomes worse before they stop
MEANS: dict[str, Any] = {"linear_strength": np.median, "network_share": np.mean}
log = logging.getLogger(__name__)


def choose_epochs(
    recipe: Recipe,
    data: TrainingData,
    folder: Path,
    identity: resume.Identity,
    shared: SharedModel,
    encodings: EncodingCache,
    *,
    resumes: bool,
    progress: bool,
    baseline: bool,
    build: Build | None,
) -> Folds:
    """Train on all pairs but those of one fold at a time, and choose the number of epochs.

    The folds share a model and train in turn, an epoch each. They stop when their mean validation
    metric has not improved for half the recipe's patience, or has become worse three times in a row:
    a mean is less noisy than one fold.
    """
    count, seed, pairs = int(recipe.training.folds), recipe.training.seed, data.labeled
    home = folder / FOLDER
    if home.exists() and not resumes:
        raise InputError(
            f"{folder} holds an unfinished run (in its folder {FOLDER!r}). Continue it with --resume "
            "(resume=True), name another folder, or delete this one."
        )
    if why := why_no_folds(pairs, count, seed):
        raise InputError(f"training.folds is {count}, but {why}. Set it to 0, or give more pairs.")
    part = part_numbers(pairs, [1 / count] * count, seed=seed)
    folders = [home / str(number) for number in range(1, count + 1)]
    if not (home / CHOSEN).exists():
        log.info(f"Training {count} models, one without each fold, and then one on all pairs")
        encoder, *_ = encodings.fit(recipe, data.splits, progress)
        parts = [
            {role: pairs.select((part == n) == (role != "train"), split=role) for role in ROLES}
            for n in range(count)
        ]
        options = build, encodings, shared
        try:
            with quieter(logging.ERROR), warnings.catch_warnings():
                # The model that learns from all pairs repeats these messages and warnings.
                warnings.simplefilter("ignore")
                runs = [
                    _fold(recipe.with_training(folds=0), splits, one, *options)
                    for splits, one in zip(parts, folders)
                ]
                if not recipe.training.augment:  # which may make longer sentences
                    lengths = np.maximum(encodings.encoded(pairs, encoder).lengths.max(1), 1)
                    shared.bucket_lengths = {
                        role: least_padding(lengths, number)
                        for role, number in bucket_counts(recipe.training, encoder).items()
                    }
                epochs = _train_in_turn(runs, progress)
                facts = [_finish(run, epochs, baseline) for run in runs]
        except KeyboardInterrupt:
            log.warning("Stopped by Ctrl-C in the folds; --resume continues")
            raise
        write_json(home / CHOSEN, {"identity": identity, "epochs": epochs, "folds": facts})
        encodings.forget_pairs()
    for one in folders:
        resume.finish_folder(one)
    found = _read(home / CHOSEN, count)
    resume.check_identity(folder, found["identity"], identity)
    epochs, facts = found["epochs"], found["folds"]
    outputs = [read_arrays(one / SCORES)["scores"] for one in folders]
    scores = np.empty((len(pairs), *outputs[0].shape[1:]), "float32")
    for number, own in enumerate(outputs):
        scores[part == number] = own
    best = f"{epochs} epoch{'s' * (epochs != 1)}"
    log.info(f"{count} folds: best after {best}; training on all {len(pairs):,} pairs")
    bags = [one["baseline"] for one in facts if "baseline" in one]
    chosen = {
        name: float(mean_of([one[name] for one in facts]))
        for name, mean_of in MEANS.items()
        if all(name in one for one in facts)
    }
    return Folds(epochs, pairs, scores, part, _mean(bags) if bags else None, chosen)


def _read(path: Path, count: int) -> dict[str, Any]:
    found = read_json(path)
    check_types(found, {"identity": dict, "epochs": int, "folds": [dict]}, path)
    if found.keys() != {"identity", "epochs", "folds"} or len(found["folds"]) != count:
        raise InputError(f"{path} is damaged: it does not describe {count} folds. {COPY}.")
    return found


def _mean(bags: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean metrics of the baselines of all folds, as those of the validation pairs."""
    names = [n for n in bags[0] if all(isinstance(one.get(n), float) for one in bags)]
    mean = {name: float(np.mean([one[name] for one in bags])) for name in names}
    rows = sum(one["rows"] for one in bags)
    return {"validation": {**mean, "rows": rows, "primary": bags[0]["primary"]}}


def _fold(
    recipe: Recipe,
    splits: Splits,
    folder: Path,
    build: Build | None,
    encodings: EncodingCache,
    shared: SharedModel,
) -> Run:
    identity = resume.run_identity(recipe, splits)
    state = resume.check_folder(folder, identity, resume=True)
    training = recipe.training
    targets = compute_teacher_targets(training, splits, False) if training.teacher else None
    data = prepare_data(recipe, splits, targets)
    return Run(recipe, data, folder, identity, state, None, build, encodings, shared, is_fold=True)


def _train_in_turn(runs: Sequence[Run], progress: bool) -> int:
    """Train the folds, an epoch each in turn, until none is better; return the best number."""
    settings, mode = runs[0].recipe.training, runs[0].mode
    lines = _Lines(runs) if progress else None
    for epoch in range(1, runs[0].epochs + 1):
        todo = [run.state is None or run.state.epochs < epoch for run in runs]
        if lines is not None and any(todo):
            lines.begin(epoch)
        for run, is_due in zip(runs, todo):
            if epoch == 1:
                run.fit_encoder(progress)
                run.build_model()
            if is_due:
                run.fit_epoch(epoch, [] if lines is None else [lines])
        mean = np.mean([run.history[run.monitor][:epoch] for run in runs], axis=0)
        errors = -mean if mode == "max" else mean
        best = 1 + int(np.nanargmin(errors))
        if lines is not None and any(todo):
            lines.end(epoch)
        for run in runs:
            resume.keep_only(run.folder, best, since=epoch)
        patience = math.ceil(patience_of(settings, len(runs[0].batches["train"])) / 2)
        if epoch - best >= patience or _keeps_rising(errors):
            break
    return best


def _keeps_rising(errors: np.ndarray) -> bool:
    """Return whether each of the last epochs was worse than the one before it."""
    return len(errors) > RISES and bool(np.all(np.diff(errors[-RISES - 1 :]) > 0))


def _finish(run: Run, epoch: int, baseline: bool) -> dict[str, Any]:
    """Write the scores of a fold at an epoch, and return what was chosen on it."""
    run.keep_epoch(epoch)
    scores, given = run.validation_scores(), run.data.given
    resume.write_arrays(run.folder / SCORES, {"scores": scores})
    options: dict[str, Any] = {"f1_of": f1_label(run.monitor)}
    metrics = evaluate_predictions(given["validation"], scores, **options)
    found: dict[str, Any] = {"rows": run.data.rows, "validation": metrics, **run.chosen}
    if baseline:
        options["class_weight"] = run.recipe.training.class_weight
        bag = bag_of_words_baseline(given["train"], given["validation"], **options)
        found["baseline"] = bag["validation"]
    return found


class _Lines(keras.callbacks.Callback):
    """Show the folds as one training: a line per epoch with their mean values."""

    async_safe = True  # as `EpochLines`

    def __init__(self, runs: Sequence[Run]):
        super().__init__()
        first, rows = runs[0], [len(run.data.train) for run in runs]
        size = first.recipe.training.batch_size
        every = sum(rows) // (len(runs) - 1)  # each pair trains all folds but one
        self.runs, self.step = runs, 0
        self.lines = EpochLines(Console(stderr=True), first.monitor, first.mode)
        self.lines.later_steps = math.ceil(every / size)
        steps = sum(math.ceil(n / size) for n in rows)
        self.lines.set_params({"epochs": first.epochs, "steps": steps})

    def begin(self, epoch: int) -> None:
        self.step = 0
        self.lines.on_epoch_begin(epoch - 1)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.lines.on_train_batch_end(self.step, logs)
        self.step += 1

    def end(self, epoch: int) -> None:
        histories = [run.history for run in self.runs]
        names = [name for name in histories[0] if all(name in one for one in histories)]
        logs = {n: float(np.mean([one[n][epoch - 1] for one in histories])) for n in names}
        self.lines.on_epoch_end(epoch - 1, logs)
