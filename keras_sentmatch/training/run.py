"""`train`: from a recipe and data to a run folder."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_sentmatch import __version__
from keras_sentmatch.data import PairBatches, PairDataset
from keras_sentmatch.display.figures import confusion_matrix, learning_curve
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.run_folder import load_weights
from keras_sentmatch.training.baseline import bag_of_words_baseline
from keras_sentmatch.training.callbacks import (
    EpochBar,
    LearningRateLog,
    TaskMetrics,
    make_callbacks,
    monitor_of,
    progress_callback,
)
from keras_sentmatch.training.card import model_card
from keras_sentmatch.training.config import TrainingConfig
from keras_sentmatch.training.devices import data_parallel
from keras_sentmatch.training.distillation import TeacherTargets, compute_teacher_targets
from keras_sentmatch.training.prepare import (
    Build,
    Encoder,
    EncodingCache,
    check_splits,
    make_model,
)
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.resume import (
    Checkpoint,
    State,
    begin,
    best_epochs,
    best_weights,
    clear,
    identity_of,
    prepare,
)
from keras_sentmatch.training.seeds import set_seed


@dataclass
class RunResult:
    """What `train` gives back.

    Attributes:
        matcher: The best model found, ready to predict.
        metrics: What `metrics.json` holds.
        history: Values by name, one an epoch.
        folder: The run folder.
    """

    matcher: Matcher
    metrics: dict[str, Any]
    history: dict[str, list[float]]
    folder: Path


def train(
    recipe: Recipe,
    splits: Mapping[str, PairDataset],
    out: str | Path,
    *,
    seed: int | None = None,
    resume: bool = False,
    progress: bool = True,
    baseline: bool = True,
    build: Build | None = None,
    unlabeled: PairDataset | None = None,
    teacher_targets: TeacherTargets | None = None,
    info: Mapping[str, Any] | None = None,
    encodings: EncodingCache | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> RunResult:
    """Trains a matcher and writes its run folder.

    Fits the encoder on the training pairs (words of the other splits join where they have a
    pretrained vector), or takes that of a pretrained encoder, if the recipe's `[model]` has a
    `backbone`. Lets the teachers answer, if the recipe has any. Trains with `fit`, keeps the epoch
    with the best monitored validation value, measures it on validation and test pairs, and writes
    model, encoder, `metrics.json`, `recipe.toml`, `history.csv`, plots and a card. Ctrl-C ends
    training early: the best epoch so far is kept in the same way.

    Each epoch ends with a checkpoint. A run that was killed, or ended by Ctrl-C, goes on from it with
    `resume`, and ends as it would have without.

    Args:
        recipe: What `load_recipe` gives.
        splits: `"train"` and `"validation"` pairs, and `"test"` ones if there are any.
        out: Run folder to write; must not hold a finished run.
        seed: Seed instead of the recipe's.
        resume: Whether to go on with the unfinished run in `out`, begun with the same arguments. Where
            there is none yet, training begins.
        progress: Whether to show epochs and notes on standard error.
        baseline: Whether to train the bag-of-words baseline too.
        build: Builds the model, as `keras_sentmatch.applications.build_model` does (the default):
            called with the recipe's name, `vocabulary_size`, `num_classes`, `embedding_dim`,
            what the encoder's features need (`char_vocabulary_size`, `max_word_length`, `pos_tags`,
            `antonym`) and the recipe's `[model]`. With a `backbone` there, with `num_classes` and
            `[model]` alone. Its inputs are named as the encoder's arrays.
        unlabeled: Further pairs, which the teachers answer and the model learns from.
        teacher_targets: What `compute_teacher_targets` gave for this recipe and these pairs, to take it once only.
        info: Facts to keep with the matcher.
        encodings: Keeps the encoder and the encoded pairs, for further runs on the same pairs.
        callbacks: Further callbacks for `fit`; they see all figures of an epoch.

    Returns:
        A `RunResult`.

    Raises:
        InputError: Splits missing, unlabeled or with different labels; a folder that holds a run,
            or with `resume` the beginning of another one; a recipe that does not fit.
        KeyboardInterrupt: Ctrl-C before the first epoch ended: there is nothing to keep.

    Example:

    ```python
    from keras_sentmatch.data import load_pairs
    from keras_sentmatch.training import load_recipe, train

    result = train(load_recipe("drcn", "embedded"), load_pairs("embedded"), "runs/first")
    result.metrics["test"]["accuracy"]
    ```
    """
    start = time.perf_counter()
    check_splits(splits)
    folder = Path(out)
    if seed is not None:
        recipe = recipe.with_training(seed=seed)
    settings = recipe.training
    identity = run_identity(recipe, splits, unlabeled, teacher_targets)
    state = begin(folder, identity, resume)
    if resume:
        done = 0 if state is None else state.epochs
        _say(
            progress,
            f"Going on after epoch {done}"
            if done
            else f"Nothing to resume in {folder}: training begins",
        )
    if settings.teacher and teacher_targets is None:
        _say(progress, f"{', '.join(settings.teacher)}: answering, to be learnt from")
        teacher_targets = compute_teacher_targets(settings, splits, unlabeled, progress)
    elif unlabeled is not None and not settings.teacher:
        raise InputError(
            "Unlabeled pairs need a teacher: name one by training.teacher (--teacher)."
        )
    taught = {
        **splits,
        "train": splits["train"] if teacher_targets is None else teacher_targets.pairs,
    }
    encodings = encodings or EncodingCache()
    encoder, vectors, coverage = encodings.fit(recipe, taught, progress)
    # After the encoder: extracting vectors makes a network, which draws numbers; vectors kept from before draw none.
    set_seed(settings.seed)
    if vectors is not None:
        recipe = replace(recipe, vectors=replace(recipe.vectors, dim=vectors.dim))

    def new_model() -> keras.Model:
        return make_model(recipe, taught["train"], encoder, vectors, build)

    with data_parallel(settings.devices):
        model = new_model()
        targets = {} if teacher_targets is None else teacher_targets.targets
        batches = make_batches(taught, targets, encoder, model, settings, encodings)
        encoding = str(encoder.report)
        notes = (f"{splits['train']!r}, {encoder.vocabulary_size} words", encoding, coverage)
        _say(progress, *notes)

        folder.mkdir(parents=True, exist_ok=True)
        earlier = 0.0 if state is None else state.seconds
        fit_start = time.perf_counter()
        history, interrupted = _fit(
            model, splits, batches, settings, folder, identity, state, progress, callbacks
        )
        fit_seconds = time.perf_counter() - fit_start
    if settings.devices > 1:
        model = new_model()  # that answers on one
    best = _restore_best(model, history, splits["train"].task, settings, folder, progress)

    facts = {"model": recipe.name, "data": splits["train"].name, "seed": settings.seed}
    train_pairs = splits["train"]
    matcher = Matcher(
        model,
        encoder,
        train_pairs.label_names,
        task=train_pairs.task,
        info={**facts, **(info or {})},
        vector_extractor=None if vectors is None else vectors.extractor,
    )
    matcher.save(folder)
    if interrupted:
        _say(
            progress,
            f"Stopped by Ctrl-C: epoch {best}, the best so far, is kept in {folder}; --resume goes on",
        )

    labeled = {
        role: splits[role]
        for role in ("validation", "test")
        if role in splits and splits[role].labels is not None
    }
    metrics: dict[str, Any] = {
        **facts,
        "backend": keras.config.backend(),
        "task": train_pairs.task,
        "rows": {role: len(dataset) for role, dataset in splits.items()},
        "parameters": model.count_params(),
        "parameters_without_word_embeddings": _without_word_embeddings(model, encoder),
        "encoding": encoding,
        "vectors": None
        if vectors is None
        else {"source": vectors.source, "dim": vectors.dim, "coverage": coverage},
        "teacher": None if teacher_targets is None else teacher_targets.facts,
        "monitor": monitor_of(train_pairs.task, settings.monitor)[0],
        "epochs": len(history["loss"]),
        "best_epoch": best,
        "interrupted": interrupted,
        "identity": identity,
        **{role: matcher.evaluate(dataset) for role, dataset in labeled.items()},
    }
    if baseline and not interrupted:
        metrics["baseline"] = bag_of_words_baseline(
            train_pairs, splits["validation"], labeled.get("test"), seed=settings.seed
        )
    metrics["fit_seconds"] = round(earlier + fit_seconds, 1)
    metrics["seconds"] = round(earlier + time.perf_counter() - start, 1)
    metrics["versions"] = {"keras_sentmatch": __version__, "keras": keras.__version__}
    _write(folder, metrics, recipe, matcher, labeled)
    if not interrupted:
        clear(folder)
    return RunResult(matcher, metrics, history, folder)


def run_identity(
    recipe: Recipe,
    splits: Mapping[str, PairDataset],
    unlabeled: PairDataset | None = None,
    teacher_targets: TeacherTargets | None = None,
) -> dict[str, Any]:
    """What `train` was asked for, by which an unfinished run is known again."""
    more = unlabeled if teacher_targets is None else teacher_targets.pairs
    data = {**splits, **({} if more is None else {"taught": more})}
    return identity_of(recipe, data, keras.config.backend())


def _say(progress: bool, *lines: str) -> None:
    if progress:
        print(*lines, sep="\n", file=sys.stderr, flush=True)


def make_batches(
    splits: Mapping[str, PairDataset],
    targets: Mapping[str, np.ndarray],
    encoder: Encoder,
    model: keras.Model,
    settings: TrainingConfig,
    encodings: EncodingCache,
) -> dict[str, PairBatches]:
    """The batches of training and validation pairs, as `fit` takes them."""
    # A compiled step is compiled anew for every length; otherwise each length may have its own bucket.
    compiled = keras.config.backend() == "jax" or settings.jit_compile is True
    return {
        role: PairBatches(
            splits[role],
            encoder,
            batch_size=settings.batch_size,
            shuffle=role == "train",
            seed=settings.seed,
            bucket_lengths=5 if compiled else encoder.max_length,
            features=list(model.input),
            targets=targets.get(role),
            multiple_of=settings.devices if role == "train" else 1,
            encoded=encodings.encoded(splits[role], encoder),
        )
        for role in ("train", "validation")
    }


def fit_arguments(
    batches: Mapping[str, PairBatches], done: int = 0, devices: int = 1
) -> dict[str, Any]:
    """What `fit` learns from and is judged by, from an epoch on."""
    # The keras.utils.PyDataset feed needs no TensorFlow.
    feed = "tf_data" if keras.config.backend() == "tensorflow" else "pydataset"
    return {
        "x": getattr(batches["train"], feed)(done),
        "validation_data": getattr(batches["validation"], feed)() if devices == 1 else None,
        "shuffle": False,
    }


def metric_callbacks(
    splits: Mapping[str, PairDataset],
    batches: Mapping[str, PairBatches],
    settings: TrainingConfig,
) -> list[keras.callbacks.Callback]:
    """Those that put the figures in an epoch's logs which `fit` does not."""
    task, devices = splits["train"].task, settings.devices
    monitor, _ = monitor_of(task, settings.monitor)
    by_keras = monitor in ("val_accuracy", "val_macro_f1", "val_loss") and task != "ranking"
    found: list[keras.callbacks.Callback] = []
    if devices > 1 or not by_keras:
        found.append(TaskMetrics(splits["validation"], batches["validation"], devices))
    if settings.schedule != "constant":
        found.append(LearningRateLog())
    return found


def _fit(
    model: keras.Model,
    splits: Mapping[str, PairDataset],
    batches: Mapping[str, PairBatches],
    settings: TrainingConfig,
    folder: Path,
    identity: dict[str, Any],
    state: State | None,
    progress: bool,
    more: Sequence[keras.callbacks.Callback],
) -> tuple[dict[str, list[float]], bool]:
    """Values by epoch, and whether Ctrl-C ended it."""
    prepare(folder, state)
    task = splits["train"].task
    monitor, mode = monitor_of(task, settings.monitor)
    devices = settings.devices
    if left_out := len(splits["train"]) % devices:
        _say(
            progress,
            f"{left_out} pairs are left out of each epoch, others each time: {devices} devices",
        )
    callbacks = make_callbacks(
        folder,
        monitor=monitor,
        mode=mode,
        patience=settings.patience,
        plateau_factor=settings.plateau_factor,
        first=metric_callbacks(splits, batches, settings),
        resumed=state is not None,
    )
    callbacks += more
    bar = progress_callback(monitor, mode) if progress else None
    if bar is not None:
        callbacks.append(bar)
    history = keras.callbacks.History()
    done = 0
    if state is not None:
        state.restore(model)
        history.history = state.history
        done = settings.epochs if state.stopped else state.epochs
    if done == settings.epochs:
        return history.history, False
    checkpoint = Checkpoint(folder, identity, history, callbacks, state)
    try:
        model.fit(
            **fit_arguments(batches, done, devices),
            initial_epoch=done,
            epochs=settings.epochs,
            callbacks=[*callbacks, history, checkpoint],
            verbose=0,
        )
        return history.history, False
    except KeyboardInterrupt:
        return history.history, True
    finally:
        if isinstance(bar, EpochBar):
            bar.close()


def _restore_best(
    model: keras.Model,
    history: Mapping[str, list[float]],
    task: str,
    settings: TrainingConfig,
    folder: Path,
    progress: bool,
) -> int:
    """Loads the weights of the best epoch, and says which it was (from 1)."""
    monitor, mode = monitor_of(task, settings.monitor)
    if not history.get(monitor):
        _say(progress, "Stopped before the first epoch ended: there is nothing to keep.")
        raise KeyboardInterrupt
    if not np.isfinite(history["loss"]).all():
        first = int(np.argmin(np.isfinite(history["loss"]))) + 1
        _say(progress, f"The loss became NaN in epoch {first}: lower training.learning_rate.")
    values = history[monitor]
    best = 1 + int(np.nanargmax(values) if mode == "max" else np.nanargmin(values))
    if not best_weights(folder, best).exists():  # Keras compares in float32, and none beats a NaN
        best = max(best_epochs(folder))
    load_weights(model, best_weights(folder, best))
    return best


def _without_word_embeddings(model: keras.Model, encoder: Encoder) -> int:
    """As the papers count: tables with a row for each word are left out."""
    if hasattr(model, "count_params_without_word_embeddings"):
        return model.count_params_without_word_embeddings()
    tables = [layer for layer in model.layers if isinstance(layer, keras.layers.Embedding)]
    words = encoder.vocabulary_size
    return model.count_params() - sum(t.count_params() for t in tables if t.input_dim == words)


def _write(
    folder: Path,
    metrics: dict[str, Any],
    recipe: Recipe,
    matcher: Matcher,
    labeled: Mapping[str, PairDataset],
) -> None:
    text = json.dumps(metrics, indent=2, ensure_ascii=False)
    (folder / "metrics.json").write_text(text + "\n", encoding="utf-8")
    (folder / "recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
    card = model_card(metrics, recipe, matcher.label_names)
    (folder / "README.md").write_text(card, encoding="utf-8")
    learning_curve(folder / "history.csv", folder / "learning_curve.png")
    shown = labeled.get("test", labeled["validation"])
    if shown.label_names is not None and shown.labels is not None:
        predicted = matcher.predict_proba(shown).argmax(-1)
        png = folder / "confusion_matrix.png"
        confusion_matrix(shown.labels, predicted, shown.label_names, png)
