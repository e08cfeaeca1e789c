"""The compiled model of a run."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from keras_sentmatch import applications
from keras_sentmatch.applications import PairModel
from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.unseen_words import BLOCK
from keras_sentmatch.metrics import SparseMacroF1
from keras_sentmatch.training._initial_weights import init_from
from keras_sentmatch.training.config import TrainingConfig
from keras_sentmatch.training.distillation import DistillationLoss, OnLabels
from keras_sentmatch.training.encoding import Encoder, trains_vectors
from keras_sentmatch.training.optimizers import make_optimizer
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.resume import restore, snapshot
from keras_sentmatch.vectors import WordVectors
from keras_sentmatch.vectors.built_in import load_similarity

log = logging.getLogger(__name__)
Build = Callable[..., keras.Model]


class SharedModel:
    """A compiled model that several runs train one after the other, each from the same first state.

    So it is built, and its steps are traced or compiled, only once. `batches` is the number in an
    epoch of the longest run.
    """

    def __init__(self, batches: int):
        self.batches = batches
        self.model: keras.Model | None = None
        # By role. With them, the shapes of batches are shared too.
        self.bucket_lengths: dict[str, Sequence[int]] | None = None

    def renewed(self, make: Callable[[], keras.Model]) -> keras.Model:
        """Return the model as `make` returned it when it was called first."""
        if self.model is None:
            self.model = make()
            self.first = {name: np.array(array) for name, array in snapshot(self.model).items()}
        else:
            restore(self.model, self.first)
        return self.model


def make_model(
    recipe: Recipe,
    train: PairDataset,
    encoder: Encoder,
    vectors: WordVectors | None,
    build: Build | None,
    batches: int,
) -> keras.Model:
    """Build and compile the model of a recipe, with word vectors or the weights of a run.

    `batches` is the number in an epoch.
    """
    build, settings = build or applications.build_model, recipe.training
    config: dict[str, Any] = {"num_classes": 1 if train.task == "regression" else train.num_classes}
    if isinstance(encoder, PairEncoder):
        config["vocabulary_size"] = encoder.vocabulary_size
        if vectors is not None and vectors.built_in:
            config["vocabulary_size"] += BLOCK  # of words that are met later
        config["embedding_dim"] = vectors.dim if vectors is not None else recipe.vectors.dim
        if "char" in encoder.features:
            config["char_vocabulary_size"] = len(encoder.characters)
            config["max_word_length"] = encoder.max_word_length
        if "pos" in encoder.features:
            config["pos_tags"] = len(encoder.tags)
        if "antonym" in encoder.features:
            config["antonym"] = True
    if clash := sorted(set(config) & set(recipe.model)):
        raise InputError(
            f"The recipe sets model.{', model.'.join(clash)}, which follows from the data and the "
            "vectors. Leave it out (vectors.dim sets embedding_dim)."
        )
    arguments = dict(recipe.model)
    if vectors is None and trains_vectors(recipe) is False:
        log.info("The word vectors are random, so they are trained.")
        arguments["trainable_embedding"] = True
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(settings.dtype_policy)
    try:
        model = build(recipe.name, **config, **arguments)
    finally:
        keras.config.set_dtype_policy(before)
    limit = getattr(model, "max_length", None)
    if limit is not None and encoder.max_length > limit:
        raise InputError(
            f"encoder.max_length is {encoder.max_length}, but {recipe.model['backbone']} reads at most "
            f"{limit} word pieces. Set encoder.max_length={limit} or less."
        )
    if vectors is not None and isinstance(encoder, PairEncoder):
        matrix = vectors.matrix_for(encoder.vocabulary, settings.seed)
        spare = config["vocabulary_size"] - len(matrix)
        similarity = load_similarity() if vectors.built_in else None
        model.set_word_vectors(np.pad(matrix, [(0, spare), (0, 0)]), similarity)
    if settings.first_run is not None:
        init_from(model, encoder, vectors, train, settings.first_run)
    compile_model(model, train, settings, batches)
    return model


def compile_model(
    model: keras.Model, train: PairDataset, settings: TrainingConfig, batches: int
) -> None:
    """Compile with the recipe's optimizer, and with the loss and metrics of the task."""
    optimizer = make_optimizer(model, settings, batches)
    loss: Any = keras.losses.MeanSquaredError()
    metrics: list[Any] = []
    if train.task != "regression":
        loss = keras.losses.SparseCategoricalCrossentropy()
        accuracy = keras.metrics.SparseCategoricalAccuracy("accuracy")
        metrics = [accuracy, SparseMacroF1(train.num_classes)]
    if settings.teacher:
        loss = DistillationLoss(settings.distillation_weight, settings.distillation_temperature)
        metrics = [OnLabels(metric) for metric in metrics]
    model.compile(optimizer, loss, metrics=metrics, jit_compile=jit_compile())
    # TensorFlow traces a step twice if the first trace creates variables.
    optimizer.build(model.trainable_variables)


def jit_compile() -> bool | str:
    """Return the argument of Keras's `compile`."""
    # On TensorFlow XLA compiles each length again, and its recurrent loops are slower.
    return False if keras.config.backend() == "tensorflow" else "auto"


def count_without_word_embeddings(model: keras.Model, encoder: Encoder) -> int:
    """Count parameters as the papers do: without tables that have a row per word."""
    if isinstance(model, PairModel):
        return int(model.count_params_without_word_embeddings())
    tables = [layer for layer in model.layers if isinstance(layer, keras.layers.Embedding)]
    words = encoder.vocabulary_size
    return int(model.count_params() - sum(t.count_params() for t in tables if t.input_dim == words))
