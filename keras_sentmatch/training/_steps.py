"""The steps of `train`."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
from rich.console import Console

from keras_sentmatch.applications import PairModel
from keras_sentmatch.data.dataset import numbered
from keras_sentmatch.encoders import PairBatches, PairEncoder
from keras_sentmatch.encoders.batches import prediction_batches
from keras_sentmatch.inference.learned import LearnedPairs, pair_keys, plain_keys
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.run_folder import members_of
from keras_sentmatch.training import resume
from keras_sentmatch.training._model import Build, make_model
from keras_sentmatch.training.callbacks import EpochLines, make_callbacks, monitor_of
from keras_sentmatch.training.encoding import EncodingCache, FittedEncoder
from keras_sentmatch.training.folds import Folds
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.training_data import TrainingData
from keras_sentmatch.vectors.built_in import load_word_table

log = logging.getLogger(__name__)


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
    fitted: FittedEncoder = field(init=False)
    model: keras.Model = field(init=False)
    batches: dict[str, PairBatches] = field(init=False)
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

    def fit_encoder(self, progress: bool) -> None:
        """Fit the encoder and load the word vectors."""
        self.fitted = self.encodings.fit(self.recipe, self.data.splits, progress)
        if self.fitted.vectors is not None:
            config = replace(self.recipe.vectors, dim=self.fitted.vectors.dim)
            self.recipe = replace(self.recipe, vectors=config)
        # After the encoder: extracting vectors draws random numbers, unless they are cached.
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
        # XLA compiles a step for every length, which costs more than to pad validation pairs.
        compiled = keras.config.backend() == "jax"
        buckets = training.length_buckets, 2 if compiled else encoder.max_length
        self.batches = {
            role: PairBatches(
                pairs,
                encoder,
                batch_size=training.batch_size,
                shuffle=role == "train",
                seed=training.seed,
                bucket_lengths=lengths,
                features=list(self.model.input),
                targets=data.targets.get(role),
                weights=data.weights("train") if role == "train" else None,
                encoded=self.encodings.encoded(pairs, encoder),
            )
            for role, lengths, pairs in zip(
                ("train", "validation"), buckets, (data.train, data.validation)
            )
        }

    def _new_model(self) -> keras.Model:
        encoder, vectors, _ = self.fitted
        return make_model(self.recipe, self.data.train, encoder, vectors, self.build)

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

    def fit(self, more: Sequence[keras.callbacks.Callback], progress: bool) -> None:
        """Train until the last epoch, early stopping or Ctrl-C, from the checkpoint if there is one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._is_fitted:
            return
        state, history = self.state, keras.callbacks.History()
        self.history = history.history
        resume.discard_later_files(self.folder, state)
        # With folds, there are no pairs that could choose an epoch: the model learns from all.
        to_the_end = self.folds is not None
        watched = ("loss", "min") if to_the_end else (self.monitor, self.mode)
        callbacks = make_callbacks(
            self.folder,
            *watched,
            self.recipe.training,
            len(self.batches["train"]),
            self.data.validation,
            self.batches["validation"],
            resumed=state is not None,
            to_the_end=to_the_end,
        )
        bar = EpochLines(Console(stderr=True), *watched) if progress else None
        callbacks += [*more, *([] if bar is None else [bar])]
        done = 0
        if state is not None:
            state.restore(self.model)
            history.history = state.history
            done = self.epochs if state.stopped else state.epochs
        start = time.perf_counter()
        try:
            if done < self.epochs:
                self._say_shapes()
                checkpoint = resume.Checkpoint(
                    self.folder, self.identity, history, callbacks, state
                )
                # A PyDataset needs no TensorFlow.
                kind = "tf_data" if keras.config.backend() == "tensorflow" else "pydataset"
                validation = getattr(self.batches["validation"], kind)()
                self.model.fit(
                    getattr(self.batches["train"], kind)(done),
                    validation_data=None if to_the_end else validation,
                    shuffle=False,
                    initial_epoch=done,
                    epochs=self.epochs,
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

    def _say_shapes(self) -> None:
        if keras.config.backend() == "jax":
            shapes = self.batches["train"].shapes()
            if self.folds is None:
                shapes = [*shapes, *self.batches["validation"].shapes()]
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
        self.best_epoch = max(epoch for epoch in resume.best_epochs(self.folder) if epoch <= done)
        # On JAX a step that is interrupted takes the model's own arrays with it.
        if self.interrupted and keras.config.backend() == "jax":
            self.model = self._new_model()
        resume.load_weights(self.model, resume.best_weights(self.folder, self.best_epoch))
        if isinstance(self.model, PairModel):
            self.chosen |= self.model.after_fit(self._examples, self.chosen_by_folds)

    def save(self, info: Mapping[str, Any]) -> Matcher:
        """Write the matcher."""
        encoder, vectors, _ = self.fitted
        labeled = self.data.labeled
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
            pairs, scores = self.folds.pairs, self.folds.scores
            groups = None if pairs.task != "ranking" else numbered(pairs.groups or ())
            learned = LearnedPairs(keys, scores, np.asarray(pairs.labels), groups)
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
