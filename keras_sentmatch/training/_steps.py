"""The steps of `train`."""

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
from rich.console import Console

from keras_sentmatch.applications import PairModel
from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.dataset import numbered
from keras_sentmatch.encoders import PairBatches, PairEncoder
from keras_sentmatch.encoders.batches import prediction_batches
from keras_sentmatch.inference.learned import LearnedPairs, pair_keys, plain_keys
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.run_folder import members_of
from keras_sentmatch.ops.sequence import equal_lengths
from keras_sentmatch.training import resume
from keras_sentmatch.training._model import Build, SharedModel, make_model
from keras_sentmatch.training.callbacks import (
    EpochLines,
    TaskMetrics,
    make_callbacks,
    monitor_of,
)
from keras_sentmatch.training.config import TrainingConfig
from keras_sentmatch.training.encoding import Encoder, EncodingCache, FittedEncoder
from keras_sentmatch.training.optimizers import set_steps
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.training_data import TrainingData
from keras_sentmatch.vectors.built_in import load_word_table

log = logging.getLogger(__name__)


@dataclass
class Folds:
    """The results of the folds of a run."""

    epochs: int  # the best number
    pairs: PairDataset  # all of them
    scores: np.ndarray  # of each pair, by the model of the fold that did not learn from it
    part: np.ndarray  # number of the fold of each pair
    baseline: dict[str, Any] | None  # its mean metrics
    chosen: dict[str, float]  # by the hooks of the model, see `PairModel.before_fit`


def bucket_counts(training: TrainingConfig, encoder: Encoder) -> dict[str, int]:
    """Return the number of lengths that batches are padded to, by role."""
    if not _compiles_each_shape():
        return {"train": training.length_buckets, "validation": encoder.max_length}
    # A step is compiled for every length, which takes as long as an epoch of thousands of pairs.
    return {"train": min(training.length_buckets, int(training.epochs)), "validation": 1}


def _compiles_each_shape() -> bool:
    return str(keras.config.backend()) == "jax"


@dataclass
class Run:
    """One run of `train`: its methods are the steps, in order."""

    recipe: Recipe
    data: TrainingData
    folder: Path
    identity: resume.Identity
    state: resume.State | None  # to resume from
    folds: Folds | None
    build: Build | None
    encodings: EncodingCache
    shared: SharedModel | None = None  # with the folds of this run
    is_fold: bool = False  # then other folds train in turn, and together they choose an epoch
    fitted: FittedEncoder = field(init=False)
    model: keras.Model = field(init=False)
    batches: dict[str, PairBatches] = field(init=False)
    inputs: dict[str, Any] = field(default_factory=dict, init=False)  # see `_input`
    sentences: str = field(init=False)  # how many were encoded and truncated
    chosen: dict[str, float] = field(default_factory=dict)  # by the hooks of the model
    history: dict[str, list[float]] = field(default_factory=dict)
    best_epoch: int = 0
    interrupted: bool = False
    fit_seconds: float = 0.0

    def __post_init__(self) -> None:
        training = self.recipe.training
        self.monitor, self.mode = monitor_of(self.data.labeled.task, training.monitor)
        self.epochs = training.epochs if self.folds is None else self.folds.epochs
        self.chosen_by_folds = {} if self.folds is None else self.folds.chosen
        if self.state is not None:
            self.history = self.state.history

    def fit_encoder(self, progress: bool) -> None:
        """Fit the encoder and load the word vectors."""
        self.fitted = self.encodings.fit(self.recipe, self.data.splits, progress)
        if self.fitted.vectors is not None:
            config = replace(self.recipe.vectors, dim=self.fitted.vectors.dim)
            self.recipe = replace(self.recipe, vectors=config)
        if self.shared is None or self.shared.model is None:
            # After the encoder: extracting vectors draws random numbers, unless they are cached. A
            # shared model has its own state, and TensorFlow optimizes its programs again after a seed.
            keras.utils.set_random_seed(self.recipe.training.seed)

    def build_model(self) -> None:
        """Build the model and its batches, and find the weights that `fit` does not train."""
        encoder, _, coverage = self.fitted
        self.model = self._new_model()
        self.make_batches()
        self.sentences = str(encoder.report)
        words = f"{encoder.vocabulary_size:,} words and pieces in the vocabulary"
        for note in (words, self.sentences, coverage):
            log.info(note)
        if isinstance(self.model, PairModel) and isinstance(encoder, PairEncoder):
            known = encoder.vocabulary.words
            self.chosen |= self.model.before_fit(known, self._examples, self.chosen_by_folds)

    def make_batches(self) -> None:
        """Encode the training and validation pairs, and divide them into batches."""
        training, encoder, data = self.recipe.training, self.fitted.encoder, self.data
        buckets: Any = None if self.shared is None else self.shared.bucket_lengths
        buckets = buckets or bucket_counts(training, encoder)
        self.batches = {
            role: PairBatches(
                pairs,
                encoder,
                # Without gradients, more pairs fit in memory, and most of the time is Keras's own.
                batch_size=training.batch_size * (1 if role == "train" else 4),
                shuffle=role == "train",
                fills=role == "train" and _compiles_each_shape(),
                seed=training.seed,
                bucket_lengths=buckets[role],
                features=list(self.model.input),
                targets=data.targets.get(role),
                weights=data.weights("train") if role == "train" else None,
                encoded=self.encodings.encoded(pairs, encoder),
            )
            for role, pairs in (("train", data.train), ("validation", data.validation))
        }

    def _new_model(self) -> keras.Model:
        encoder, vectors, _ = self.fitted
        training, train = self.recipe.training, self.data.train
        batches = math.ceil(len(train) / training.batch_size)
        most = batches if self.shared is None else self.shared.batches
        make = partial(make_model, self.recipe, train, encoder, vectors, self.build, most)
        if self.shared is None:
            return make()
        model = self.shared.renewed(make)
        set_steps(model.optimizer, batches * training.epochs)
        return model

    def _examples(self, role: str) -> Any:
        """Return inputs in batches of similar length, with labels and weights in that order."""
        pairs, encoder = getattr(self.data, role), self.fitted.encoder
        encoded, weights = self.encodings.encoded(pairs, encoder), self.data.weights(role)
        batches, order = [], []
        for rows, _, length in prediction_batches(
            encoded.lengths.max(axis=1), 256, encoder.max_length
        ):
            arrays = encoded.arrays(rows, length)
            batches.append({name: arrays[name] for name in self.model.input})
            order.append(rows)
        rows = np.concatenate(order)
        return batches, np.asarray(pairs.labels)[rows], None if weights is None else weights[rows]

    @property
    def _is_fitted(self) -> bool:
        """Whether gradients train any weights."""
        return not isinstance(self.model, PairModel) or self.model.fit_trains != "nothing"

    def fit(
        self,
        more: Sequence[keras.callbacks.Callback],
        progress: bool,
        until: int | None = None,
    ) -> None:
        """Train until an epoch, early stopping or Ctrl-C, from the checkpoint if there is one.

        The epoch is the last one unless `until` is another; then `fit` may be called again.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._is_fitted:
            return
        state, history = self.state, keras.callbacks.History()
        self.history = history.history
        resume.discard_later_files(self.folder, state)
        # With folds, there are no pairs that could choose an epoch: the model learns from all.
        blind = self.folds is not None
        watched = ("loss", "min") if blind else (self.monitor, self.mode)
        to_the_end = blind or self.is_fold
        callbacks = make_callbacks(
            self.folder,
            *watched,
            self.recipe.training,
            len(self.batches["train"]),
            None if blind else self.data.validation,
            self.batches["validation"],
            to_the_end=to_the_end,
        )
        bar = EpochLines(Console(stderr=True), *watched) if progress else None
        if bar is not None:
            bar.estimated = blind  # the folds have said it
        callbacks += [*more, *([] if bar is None else [bar])]
        done, epochs = 0, until or self.epochs
        if state is not None:
            state.restore(self.model)
            history.history = state.history
            done = epochs if state.stopped else state.epochs
        start = time.perf_counter()
        try:
            if done < epochs:
                self._say_shapes()
                checkpoint = resume.Checkpoint(
                    self.folder, self.identity, history, callbacks, state, keeps_all=self.is_fold
                )
                with equal_lengths():  # as `PairBatches` pads both sentences
                    self.model.fit(
                        self._input("train", done),
                        validation_data=None if blind else self._input("validation"),
                        shuffle=False,
                        initial_epoch=done,
                        epochs=epochs,
                        callbacks=[*callbacks, history, checkpoint],
                        verbose=0,
                    )
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            if bar is not None:
                bar.close()
        self.history = history.history
        self.fit_seconds = time.perf_counter() - start

    def _input(self, role: str, epoch: int = 0) -> Any:
        """Return batches as Keras's `fit` reads them; a further call of `fit` continues with them."""
        if role not in self.inputs:
            # A PyDataset needs no TensorFlow.
            kind = "tf_data" if keras.config.backend() == "tensorflow" else "pydataset"
            self.inputs[role] = getattr(self.batches[role], kind)(epoch)
        return self.inputs[role]

    def fit_epoch(self, epoch: int, callbacks: Sequence[keras.callbacks.Callback]) -> None:
        """Train a fold until the end of an epoch (from 1); Ctrl-C raises `KeyboardInterrupt`."""
        self.fit(callbacks, progress=False, until=epoch)
        if self.interrupted:
            raise KeyboardInterrupt
        self.state = resume.latest(self.folder)

    def validation_scores(self) -> np.ndarray:
        """Return the model's outputs of the validation pairs."""
        metrics = TaskMetrics(self.data.validation, self.batches["validation"])
        metrics.set_model(self.model)
        outputs = metrics.predict(once=True)
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def _say_shapes(self) -> None:
        if _compiles_each_shape() and self.folds is None:  # they have compiled all
            shapes = [shape for batches in self.batches.values() for shape in batches.shapes()]
            log.info(
                f"compiling {len(shapes)} programs, one for each shape of a batch: the first epoch "
                "takes longer …"
            )

    def keep_best_epoch(self) -> None:
        """Load the weights of the best epoch."""
        if not self._is_fitted:
            return
        if not self.history.get("loss"):
            log.warning("Stopped before the end of the first epoch: there is nothing to keep.")
            raise KeyboardInterrupt
        finite = np.isfinite(self.history["loss"])
        if not finite.all():
            log.warning(
                f"The loss became NaN in epoch {np.argmin(finite) + 1}: lower training.learning_rate."
            )
        done = len(self.history["loss"])
        best = max(epoch for epoch in resume.best_epochs(self.folder) if epoch <= done)
        # On JAX a step that is interrupted takes the model's own arrays with it.
        if self.interrupted and keras.config.backend() == "jax":
            self.shared = None
            self.model = self._new_model()
        self.keep_epoch(best)

    def keep_epoch(self, epoch: int) -> None:
        """Load the weights of an epoch (from 1), and find those that `fit` does not train."""
        self.best_epoch = epoch
        resume.load_weights(self.model, resume.best_weights(self.folder, epoch))
        if isinstance(self.model, PairModel):
            self.chosen |= self.model.after_fit(self._examples, self.chosen_by_folds)

    def save(self, info: Mapping[str, Any]) -> Matcher:
        """Write the matcher."""
        encoder, vectors, _ = self.fitted
        labeled = self.data.labeled
        # The traces of `fit` rely on sentences that are equally long.
        self.model.train_function = self.model.test_function = self.model.predict_function = None
        matcher = Matcher(
            self.model,
            encoder,
            labeled.label_names,
            task=labeled.task,
            info={**self.facts, **info},
            word_table=load_word_table() if vectors is not None and vectors.built_in else None,
            learned=self._learned(),
        )
        matcher.save(self.folder)
        if self.interrupted:
            log.info(
                f"Stopped by Ctrl-C: the best epoch so far, {self.best_epoch}, is kept in "
                f"{self.folder}; --resume continues the training"
            )
        return matcher

    def _learned(self) -> LearnedPairs:
        keys = pair_keys(self.data.labeled)
        learned = LearnedPairs(keys)
        if self.folds is not None:
            pairs, scores, part = self.folds.pairs, self.folds.scores, self.folds.part
            groups = None if pairs.task != "ranking" else numbered(pairs.groups or ())
            learned = LearnedPairs(keys, scores, np.asarray(pairs.labels), part, groups)
        training = self.recipe.training
        runs = [*training.teacher, *([training.first_run] if training.first_run else [])]
        folders = [member for run in runs for member in members_of(Path(run))]
        others = [found for folder in folders if (found := LearnedPairs.read(folder))]
        for role, measured in self.data.measured.items() if others else ():
            if known := int(np.any([other.rows(measured) >= 0 for other in others], axis=0).sum()):
                log.warning(
                    f"The teacher or the first run learned from {known:,} of {len(measured):,} {role} "
                    "pairs, so metrics on them are too good. Use other pairs."
                )
        plain = plain_keys(self.data.labeled)
        keys = np.concatenate([learned.keys, plain, *(other.keys for other in others)])
        return replace(learned, keys=keys)

    @property
    def facts(self) -> dict[str, Any]:
        """Facts to store with the matcher and its metrics."""
        recipe = self.recipe
        return {"model": recipe.name, "data": self.data.labeled.name, "seed": recipe.training.seed}
