"""`train`: from a recipe and data to a run folder."""

import errno
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_sentmatch.applications import PairModel
from keras_sentmatch.display.figures import confusion_matrix, learning_curve, precision_recall
from keras_sentmatch.encoders import PairBatches, PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.pairs import batches as length_batches
from keras_sentmatch.inference.run_folder import write_json
from keras_sentmatch.metrics import evaluate_predictions
from keras_sentmatch.training.adapt import adapted, rarest_class
from keras_sentmatch.training.advice import (
    advice,
    class_figures,
    figure_of,
    majority_figures,
    standard_error,
)
from keras_sentmatch.training.augment import made_pairs
from keras_sentmatch.training.baseline import bag_of_words_baseline
from keras_sentmatch.training.callbacks import (
    EpochBar,
    make_callbacks,
    metric_callbacks,
    monitor_of,
    progress_callback,
)
from keras_sentmatch.training.card import model_card
from keras_sentmatch.training.config import f1_label
from keras_sentmatch.training.distillation import (
    TeacherTargets,
    compute_teacher_targets,
    with_labels,
)
from keras_sentmatch.training.folds import (
    FOLDER,
    Folds,
    all_pairs,
    clean_up,
    fold_splits,
    joined,
    together,
)
from keras_sentmatch.training.lock import locked
from keras_sentmatch.training.prepare import (
    Build,
    Encoder,
    EncodingCache,
    FittedEncoder,
    Splits,
    check_model,
    check_splits,
    check_training,
    fit_arguments,
    make_batches,
    make_model,
    warn_of_narrow_features,
)
from keras_sentmatch.training.ranking import check_ranking_loss, compared_pairs
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.resume import (
    WHOLE,
    Checkpoint,
    Identity,
    State,
    best_epochs,
    best_weights,
    check_folder,
    check_identity,
    discard_later_files,
    finished_metrics,
    identity_of,
    keep_for_more_epochs,
    load_weights,
    remove_checkpoints,
)
from keras_sentmatch.training.seeds import set_seed
from keras_sentmatch.training.weights import class_weights, pair_weights
from keras_sentmatch.vectors.built_in import WordTable
from keras_sentmatch.version import __version__

log = logging.getLogger(__name__)


@dataclass
class RunResult:
    """What `train` returns."""

    matcher: Matcher  # the best model found, ready to predict
    metrics: dict[str, Any]  # what `metrics.json` holds
    history: dict[str, list[float]]  # values by name, one per epoch
    folder: Path


def train(
    recipe: Recipe,
    splits: Splits,
    out: str | Path,
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
    """Trains a matcher, keeps its best epoch, and writes its run folder.

    The encoder is fitted on the training pairs; words of the other splits join if they have a
    pretrained vector. Each epoch ends with a checkpoint. A run that was killed, or ended by Ctrl-C,
    continues from it with `resume`, and ends as it would have without the interruption.

    Args:
        recipe: What `load_recipe` returns.
        splits: `"train"` and `"validation"` pairs, and optionally `"test"` pairs.
        out: Run folder to write; must not hold a finished run.
        seed: Seed instead of the recipe's.
        resume: Whether to continue the unfinished run in `out`, started with the same arguments. If
            there is none, training starts from the beginning.
        progress: Whether to show epochs on standard error.
        baseline: Whether to train the bag-of-words baseline too.
        build: Builds the model; `keras_sentmatch.applications.build_model` by default. Called with
            the recipe's name, the arguments that follow from the data (`vocabulary_size`,
            `num_classes`, …) and the recipe's `[model]`. Its inputs are named as the encoder's
            arrays.
        teacher_targets: The result of `compute_teacher_targets` for this recipe and these pairs,
            so that several runs can share it.
        info: Facts to keep with the matcher.
        encodings: Cache of the encoder and the encoded pairs, for further runs on the same pairs.
        callbacks: Further callbacks for `fit`; they see all metrics of an epoch.

    Returns:
        A `RunResult`.

    Raises:
        InputError: Splits that are missing, unlabeled or differ in their labels; a folder that holds
            a run, or with `resume` another unfinished one; a recipe that does not fit the data.
        KeyboardInterrupt: Ctrl-C before the end of the first epoch: there is nothing to keep.

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
    training = recipe.training
    if build is None:
        check_model(recipe)
    check_training(training, splits)
    check_ranking_loss(recipe, splits["train"])
    recipe, notes = adapted(recipe, splits)
    for note in notes:
        log.info(note)
    training = recipe.training
    identity = run_identity(recipe, splits)
    with locked(folder), _full_disk_explained(folder):
        state = check_folder(folder, identity, resume)
        if resume:
            log.info(
                f"Resuming after epoch {state.epochs}"
                if state is not None
                else f"Nothing to resume in {folder}: starting from the beginning"
            )
        if training.teacher and teacher_targets is None:
            log.info(f"Computing the answers of the teacher: {', '.join(training.teacher)}")
            teacher_targets = compute_teacher_targets(training, splits, progress)
        folds = None
        if training.folds:
            options = {"progress": progress, "baseline": baseline, "build": build}
            folds = _train_folds(recipe, splits, folder, resume, options)
        given = splits
        if folds is not None:
            splits = {**splits, "train": all_pairs(splits)}
        run = _Run(
            recipe, splits, folder, identity, state, teacher_targets, build, folds, given, start
        )
        run.fit_encoder(encodings or EncodingCache(), progress)
        run.prepare()
        run.fit(callbacks, progress)
        run.restore_best()
        run.save(info or {})
        run.evaluate(baseline)
        run.write()
    return RunResult(run.matcher, run.metrics, run.history, folder)


def _train_folds(
    recipe: Recipe, splits: Splits, folder: Path, resume: bool, options: dict[str, Any]
) -> Folds:
    """Trains on all pairs but those of one fold at a time, and keeps the figures of each."""
    count, seed = recipe.training.folds, recipe.training.seed
    recipe, folders, found = recipe.with_training(folds=0), [], []
    if (folder / FOLDER).exists() and not resume:
        raise InputError(
            f"{folder} already holds a run, which is not finished (in its {FOLDER}): continue it "
            "with --resume (resume=True), name another folder, or delete this one."
        )
    pairs = all_pairs(splits)
    for number, parts in enumerate(fold_splits(pairs, int(count), seed), 1):
        out = folder / FOLDER / str(number)
        metrics = finished_metrics(out)
        if metrics is None:
            log.info(f"Fold {number} of {count}")
            metrics = train(recipe, parts, out, resume=out.exists(), **options).metrics
            if metrics["interrupted"]:
                log.warning(f"Stopped by Ctrl-C in fold {number}; --resume continues the training")
                raise KeyboardInterrupt
            clean_up(out)
        else:
            check_identity(out, metrics["identity"], run_identity(recipe, parts))
        folders.append(out)
        found.append(metrics)
    mode = monitor_of(pairs.task, recipe.training.monitor)[1]
    folds = together(folders, found, mode)
    log.info(f"{count} folds: {folds.epochs} epochs are best; training on all {len(pairs):,} pairs")
    return folds


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


@dataclass
class _Run:
    """One run of `train`; its methods are the steps, in order."""

    recipe: Recipe
    splits: Splits
    folder: Path
    identity: Identity
    state: State | None
    teacher: TeacherTargets | None
    build: Build | None
    folds: Folds | None
    given: Splits  # as they came: folds join training and validation pairs
    start: float

    encodings: EncodingCache = field(init=False)
    fitted: FittedEncoder = field(init=False)
    sentences: str = field(init=False)
    batches: dict[str, PairBatches] = field(init=False)
    model: keras.Model = field(init=False)
    matcher: Matcher = field(init=False)
    history: dict[str, list[float]] = field(init=False)
    outputs: dict[str, np.ndarray] = field(init=False)  # answers to the labeled pairs
    metrics: dict[str, Any] = field(init=False)
    interrupted: bool = False
    by_class: np.ndarray | None = None  # weights
    best_epoch: int = 0
    share: float | None = None  # of a hybrid's network
    strength: float | None = None  # of a linear part
    fit_seconds: float = 0.0

    def __post_init__(self) -> None:
        train = self.splits["train"]
        self.facts = {
            "model": self.recipe.name,
            "data": train.name,
            "seed": self.recipe.training.seed,
        }
        training = self.recipe.training
        more, self.made = made_pairs(train, training)
        self.pairs = dict(self.splits)
        self.targets = {} if self.teacher is None else dict(self.teacher.targets)
        if more is not None:
            listed = ", ".join(f"{count:,} by {name}" for name, count in self.made.items())
            log.info(f"made {len(more):,} further training pairs: {listed}")
            self.pairs["train"] = joined(self.pairs["train"], more)
            if self.targets:
                self.targets["train"] = with_labels(self.targets["train"], more)
        self.pairs["train"] = compared_pairs(self.pairs["train"], training)
        self.by_class = class_weights(self.pairs["train"], training.class_weight)
        if self.by_class is not None:
            shown = zip(train.label_names or (), self.by_class)
            log.info(f"class weights: {', '.join(f'{name} {w:.3g}' for name, w in shown)}")
        self.task = train.task
        self.monitor, self.mode = monitor_of(self.task, self.recipe.training.monitor)
        self.labeled = {
            role: self.splits[role]
            for role in ("validation", "test")
            if role in self.splits and self.splits[role].labels is not None
        }
        self.epochs = self.recipe.training.epochs
        if self.folds is not None:  # the validation pairs are learned from
            self.epochs = self.folds.epochs
            del self.labeled["validation"]

    def fit_encoder(self, encodings: EncodingCache, progress: bool) -> None:
        """Fits the encoder and loads the word vectors."""
        self.encodings = encodings
        self.fitted = encodings.fit(self.recipe, self.pairs, progress)
        vectors = self.fitted.vectors
        if vectors is not None:
            config = replace(self.recipe.vectors, dim=vectors.dim)
            self.recipe = replace(self.recipe, vectors=config)
        # After the encoder: extracting vectors draws random numbers, unless they are cached.
        set_seed(self.recipe.training.seed)

    def prepare(self) -> None:
        """Makes the model and its batches."""
        encoder, _, coverage = self.fitted
        self.model = self.new_model()
        self.batches = make_batches(
            self.pairs,
            self.targets,
            encoder,
            self.model,
            self.recipe.training,
            self.encodings,
            pair_weights(self.pairs["train"], self.by_class),
        )
        warn_of_narrow_features(self.model, self.batches["train"].bucket_lengths[-1])
        self.sentences = str(encoder.report)
        words = f"{self.splits['train']!r}, {encoder.vocabulary_size} words"
        for note in (words, self.sentences, coverage):
            log.info(note)
        if isinstance(self.model, PairModel) and isinstance(encoder, PairEncoder):
            words, given = encoder.vocabulary.words, self._chosen_by_folds()
            found = self.model.before_fit(words, self.arrays, given)
            self.strength = found.get("linear_strength")

    @property
    def solved(self) -> bool:
        """Whether the weights are found without training."""
        return isinstance(self.model, PairModel) and self.model.fit_trains == "nothing"

    def _chosen_by_folds(self) -> dict[str, float]:
        folds = self.folds
        found = (
            {}
            if folds is None
            else {"linear_strength": folds.strength, "network_share": folds.share}
        )
        return {name: value for name, value in found.items() if value is not None}

    def arrays(
        self, role: str
    ) -> tuple[list[dict[str, np.ndarray]], np.ndarray, np.ndarray | None]:
        """The model's inputs in batches of like length; in the same order labels and weights.

        Of the validation pairs only their classes are weighed.
        """
        pairs = self.pairs[role] if role == "train" else self.given[role]
        encoded = self.encodings.encoded(pairs, self.fitted.encoder)
        lengths, most = encoded.lengths.max(axis=1), self.fitted.encoder.max_length
        batches, order = [], []
        for rows, _, length in length_batches(lengths, 256, most):
            arrays = encoded.arrays(rows, length)
            batches.append({name: arrays[name] for name in self.model.input})
            order.append(rows)
        labels, rows = np.asarray(pairs.labels), np.concatenate(order)
        weights = None if self.by_class is None else self.by_class[labels]
        if role == "train":
            weights = pair_weights(pairs, self.by_class)
        return batches, labels[rows], None if weights is None else weights[rows]

    def new_model(self) -> keras.Model:
        encoder, vectors, _ = self.fitted
        return make_model(self.recipe, self.pairs["train"], encoder, vectors, self.build)

    def fit(self, more: Sequence[keras.callbacks.Callback], progress: bool) -> None:
        """Trains until the last epoch, early stopping or Ctrl-C, from the checkpoint if there is one."""
        training, state, history = self.recipe.training, self.state, keras.callbacks.History()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.history = history.history
        if self.solved:
            return
        discard_later_files(self.folder, state)
        metrics = metric_callbacks(self.splits, self.batches, training)
        callbacks = make_callbacks(
            self.folder,
            self.monitor,
            self.mode,
            training,
            metrics,
            resumed=state is not None,
            to_the_end=self.folds is not None,
        )
        bar = progress_callback(self.monitor, self.mode) if progress else None
        callbacks += [*more, *([] if bar is None else [bar])]
        done = 0
        if state is not None:
            state.restore(self.model)
            history.history = state.history
            done = self.epochs if state.stopped else state.epochs
        start = time.perf_counter()
        try:
            if done < self.epochs:
                if keras.config.backend() == "jax":
                    shapes = [*self.batches["train"].shapes(), *self.batches["validation"].shapes()]
                    log.info(
                        f"compiling {len(shapes)} programs, one for each shape of a batch: the first "
                        "epoch takes longer …"
                    )
                checkpoint = Checkpoint(self.folder, self.identity, history, callbacks, state)
                self.model.fit(
                    **fit_arguments(self.batches, done),
                    initial_epoch=done,
                    epochs=self.epochs,
                    callbacks=[*callbacks, history, checkpoint],
                    verbose=0,
                )
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            if isinstance(bar, EpochBar):
                bar.close()
        self.history = history.history
        self.fit_seconds = time.perf_counter() - start

    def restore_best(self) -> None:
        """Loads the weights of the best epoch."""
        if self.solved:
            return
        if not self.history.get(self.monitor):
            log.warning("Stopped before the end of the first epoch: there is nothing to keep.")
            raise KeyboardInterrupt
        finite = np.isfinite(self.history["loss"])
        if not finite.all():
            log.warning(
                f"The loss became NaN in epoch {np.argmin(finite) + 1}: lower training.learning_rate."
            )
        done = len(self.history["loss"])
        self.best_epoch = max(epoch for epoch in best_epochs(self.folder) if epoch <= done)
        # On JAX a step that is interrupted takes the model's own arrays with it.
        if self.interrupted and keras.config.backend() == "jax":
            self.model = self.new_model()
        load_weights(self.model, best_weights(self.folder, self.best_epoch))
        if isinstance(self.model, PairModel):
            found = self.model.after_fit(self.arrays, self._chosen_by_folds())
            self.share = found.get("network_share")

    def save(self, info: Mapping[str, Any]) -> None:
        """Writes the matcher."""
        encoder, vectors, _ = self.fitted
        train = self.splits["train"]
        source = None if vectors is None else vectors.extractor
        self.matcher = Matcher(
            self.model,
            encoder,
            train.label_names,
            task=self.task,
            info={**self.facts, **info},
            word_table=source if isinstance(source, WordTable) else None,
        )
        self.matcher.save(self.folder)
        if self.interrupted:
            log.info(
                f"Stopped by Ctrl-C: the best epoch so far, {self.best_epoch}, is kept in "
                f"{self.folder}; --resume continues the training"
            )

    def evaluate(self, baseline: bool) -> None:
        """Collects what `metrics.json` holds."""
        encoder, vectors, coverage = self.fitted
        outputs = {role: self.matcher.predict_proba(data) for role, data in self.labeled.items()}
        self.outputs = outputs
        first = self.recipe.training.first_run
        self.metrics = {
            **self.facts,
            "backend": keras.config.backend(),
            "task": self.task,
            "rows": {role: len(dataset) for role, dataset in self.splits.items()},
            "parameters": self.model.count_params(),
            "parameters_without_word_embeddings": _without_word_embeddings(self.model, encoder),
            "encoding": self.sentences,
            "vectors": None
            if vectors is None
            else {"source": vectors.source, "dim": vectors.dim, "coverage": coverage},
            "init": None if first is None else Path(first).name,
            "teacher": None if self.teacher is None else self.teacher.facts,
            "made_pairs": self.made,
            "monitor": self.monitor,
            "epochs": len(self.history.get("loss", ())),
            "best_epoch": self.best_epoch,
            "interrupted": self.interrupted,
            "identity": self.identity,
            **{
                role: evaluate_predictions(data, outputs[role], f1_of=f1_label(self.monitor))
                for role, data in self.labeled.items()
            },
            **self._more_figures(),
        }
        if baseline and not self.interrupted:
            self.metrics["baseline"] = bag_of_words_baseline(
                self.given["train"],
                self.given["validation"],
                self.labeled.get("test"),
                class_weight=self.recipe.training.class_weight,
                f1_of=f1_label(self.monitor),
            )
        if self.folds is not None:
            theirs = self.metrics.get("baseline", {}) | self.folds.figures.get("baseline", {})
            self.metrics |= self.folds.figures | ({"baseline": theirs} if theirs else {})
        report = encoder.report
        unknown = report.unknown / max(report.tokens, 1)
        epochs = self.recipe.training.epochs
        self.metrics["notes"] = advice(self.metrics, epochs, unknown)
        earlier = 0.0 if self.state is None else self.state.seconds
        self.metrics["fit_seconds"] = round(earlier + self.fit_seconds, 1)
        self.metrics["seconds"] = round(earlier + time.perf_counter() - self.start, 1)
        self.metrics["versions"] = {"keras_sentmatch": __version__, "keras": keras.__version__}

    def _more_figures(self) -> dict[str, Any]:
        """What the validation figure is worth, and each class where one is rare."""
        train, validation = self.splits["train"], self.splits["validation"]
        epochs = len(self.history.get("loss", ()))
        found: dict[str, Any] = {
            "folds": self.recipe.training.folds,
            "linear_strength": self.strength,
            "network_share": self.share if self.folds is None else self.folds.share,
            "rising": 1 < self.best_epoch == epochs == self.recipe.training.epochs,
            "word_level": isinstance(self.fitted.encoder, PairEncoder),
        }
        if self.folds is None:
            name, label = figure_of(self.monitor, self.task), f1_label(self.monitor)
            outputs = self.outputs["validation"]
            found["standard_error"] = standard_error(validation, outputs, name, label)
            found["majority"] = majority_figures(train, validation, label)
        if self.task == "classification":
            found["rare"] = bool(rarest_class(train))
            found["classes"] = {
                role: class_figures(data, self.outputs[role]) for role, data in self.labeled.items()
            }
        return found

    def write(self) -> None:
        """Writes the rest of the run folder; the checkpoints of a finished run go last."""
        folder, label_names = self.folder, self.matcher.label_names
        training = self.recipe.training
        write_json(folder / "metrics.json", self.metrics)
        (folder / "recipe.toml").write_text(self.recipe.to_toml(), encoding="utf-8")
        card = model_card(self.metrics, self.recipe, label_names)
        (folder / "README.md").write_text(card, encoding="utf-8")
        if self.history:
            learning_curve(folder / "history.csv", folder / "learning_curve.png")
        shown = next((role for role in ("test", "validation") if role in self.labeled), None)
        if shown is not None and label_names is not None:
            png, pairs = folder / "confusion_matrix.png", self.labeled[shown]
            predicted = self.outputs[shown].argmax(-1)
            labels = np.asarray(pairs.labels)
            confusion_matrix(labels, predicted, label_names, png)
            if self.metrics.get("rare"):
                precision_recall(
                    labels, self.outputs[shown], label_names, folder / "precision_recall.png"
                )
        if not self.interrupted:
            if self.metrics["rising"] and not self.folds and training.schedule not in WHOLE:
                keep_for_more_epochs(folder)
            remove_checkpoints(folder)


def run_identity(recipe: Recipe, splits: Splits) -> Identity:
    """What `train` was asked for; an unfinished run continues only if this is the same."""
    return identity_of(recipe, splits, keras.config.backend())


def _without_word_embeddings(model: keras.Model, encoder: Encoder) -> int:
    """As the papers count: tables with a row for each word are left out."""
    if hasattr(model, "count_params_without_word_embeddings"):
        return int(model.count_params_without_word_embeddings())
    tables = [layer for layer in model.layers if isinstance(layer, keras.layers.Embedding)]
    words = encoder.vocabulary_size
    return int(model.count_params() - sum(t.count_params() for t in tables if t.input_dim == words))
