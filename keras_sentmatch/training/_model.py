"""The compiled model of a run, its first weights, and its batches."""

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_sentmatch import applications
from keras_sentmatch.applications import PairModel
from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairBatches, PairEncoder
from keras_sentmatch.encoders.batches import prediction_batches
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference import Matcher
from keras_sentmatch.inference.run_folder import members_of
from keras_sentmatch.inference.unseen_words import BLOCK, word_tables
from keras_sentmatch.layers import FeatureAttention, SelectiveFeatureAttention, WordRepresentation
from keras_sentmatch.metrics import SparseMacroF1
from keras_sentmatch.training._ranking import RankingLoss, batches_per_epoch, by_question
from keras_sentmatch.training.config import TrainingConfig
from keras_sentmatch.training.distillation import DistillationLoss, OnLabels
from keras_sentmatch.training.encoding import Encoder, EncodingCache, trains_vectors
from keras_sentmatch.training.optimizers import make_optimizer
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.training_data import TrainingData
from keras_sentmatch.vectors import WordVectors
from keras_sentmatch.vectors.built_in import load_similarity

log = logging.getLogger(__name__)
Build = Callable[..., keras.Model]
ALIKE = 0.5  # least mean cosine of common words between vectors of one kind
FROM_DATA = ("vocabulary_size", "num_classes", "char_vocabulary_size", "name", "trainable", "dtype")


def make_model(
    recipe: Recipe,
    train: PairDataset,
    encoder: Encoder,
    vectors: WordVectors | None,
    build: Build | None,
) -> keras.Model:
    """Build and compile the model of a recipe, with word vectors or the weights of a run."""
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
    compile_model(model, train, settings)
    return model


def warn_of_narrow_features(model: keras.Model, longest: int) -> None:
    """Warn of feature attention that is too narrow for sentences of `longest` tokens (its eq 9)."""
    kinds = (FeatureAttention, SelectiveFeatureAttention)
    blocks = [layer for layer in model.layers if isinstance(layer, kinds)]
    for narrow in sorted({block.too_narrow(block.width, longest) for block in blocks} - {""}):
        log.warning(f"Feature attention: {narrow} Reduce less in model.feature_attention_config.")


def compile_model(model: keras.Model, train: PairDataset, settings: TrainingConfig) -> None:
    """Compile with the recipe's optimizer, and with the loss and metrics of the task."""
    optimizer = make_optimizer(model, settings, batches_per_epoch(train, settings))
    loss: Any = keras.losses.MeanSquaredError()
    metrics: list[Any] = []
    if train.task != "regression":
        loss = keras.losses.SparseCategoricalCrossentropy()
        accuracy = keras.metrics.SparseCategoricalAccuracy("accuracy")
        metrics = [accuracy, SparseMacroF1(train.num_classes)]
    if settings.teacher:
        loss = DistillationLoss(settings.distillation_weight, settings.distillation_temperature)
    if by_question(settings):
        loss = RankingLoss(settings.ranking_loss)
    if settings.teacher or by_question(settings):
        metrics = [OnLabels(metric) for metric in metrics]
    model.compile(optimizer, loss, metrics=metrics, jit_compile=jit_compile())


def jit_compile() -> bool | str:
    """Return the argument of Keras's `compile`."""
    # On TensorFlow XLA compiles each length again, and its recurrent loops are slower.
    return False if keras.config.backend() == "tensorflow" else "auto"


def make_batches(
    data: TrainingData,
    encoder: Encoder,
    model: keras.Model,
    training: TrainingConfig,
    encodings: EncodingCache,
) -> dict[str, PairBatches]:
    """Return the batches of training and validation pairs."""
    # XLA compiles a step for every length, which costs more than to pad validation pairs.
    compiled = keras.config.backend() == "jax"
    buckets = {
        "train": training.length_buckets,
        "validation": 2 if compiled else encoder.max_length,
    }
    return {
        role: PairBatches(
            pairs,
            encoder,
            batch_size=training.batch_size,
            shuffle=role == "train",
            seed=training.seed,
            bucket_lengths=buckets[role],
            features=list(model.input),
            targets=data.targets.get(role),
            weights=data.weights("train") if role == "train" else None,
            encoded=encodings.encoded(pairs, encoder),
            questions=pairs.groups if by_question(training) else None,
        )
        for role, pairs in (("train", data.train), ("validation", data.validation))
    }


def examples(
    data: TrainingData,
    role: str,
    encoder: Encoder,
    model: keras.Model,
    encodings: EncodingCache,
) -> tuple[list[dict[str, np.ndarray]], np.ndarray, np.ndarray | None]:
    """Return the inputs of a model in batches of similar length, and labels and weights in that order."""
    pairs = data.train if role == "train" else data.validation
    encoded = encodings.encoded(pairs, encoder)
    batches, order = [], []
    for rows, _, length in prediction_batches(encoded.lengths.max(axis=1), 256, encoder.max_length):
        arrays = encoded.arrays(rows, length)
        batches.append({name: arrays[name] for name in model.input})
        order.append(rows)
    rows, weights = np.concatenate(order), data.weights(role)
    labels = np.asarray(pairs.labels)[rows]
    return batches, labels, None if weights is None else weights[rows]


def count_without_word_embeddings(model: keras.Model, encoder: Encoder) -> int:
    """Count parameters as the papers do: without tables that have a row per word."""
    if isinstance(model, PairModel):
        return int(model.count_params_without_word_embeddings())
    tables = [layer for layer in model.layers if isinstance(layer, keras.layers.Embedding)]
    words = encoder.vocabulary_size
    return int(model.count_params() - sum(t.count_params() for t in tables if t.input_dim == words))


def fit_arguments(batches: Mapping[str, PairBatches], first_epoch: int = 0) -> dict[str, Any]:
    """Return the data arguments of `fit`, from an epoch on."""
    # A PyDataset needs no TensorFlow.
    kind = "tf_data" if keras.config.backend() == "tensorflow" else "pydataset"
    return {
        "x": getattr(batches["train"], kind)(first_epoch),
        "validation_data": getattr(batches["validation"], kind)(),
        "shuffle": False,
    }


def init_from(
    model: keras.Model,
    encoder: Encoder,
    vectors: WordVectors | None,
    train: PairDataset,
    folder: str,
) -> None:
    """Give a new model the weights of the run in `folder`.

    Words and characters are matched by name; those that the run does not have keep the weights of
    `model`. The last layer stays new if the run has other labels, and so do the weights that
    `PairModel.own_weights` names. A hybrid may begin with a run of RE2.

    Args:
        model: A new model, with its word vectors in place.
        encoder: The encoder of the model.
        vectors: The word vectors of the model; None if they are random.
        train: The training pairs.
        folder: The folder of the run, or `similarity` for the built-in matcher.

    Raises:
        InputError: The folder is no run or an ensemble, its run has another model or other word
            vectors, or the weights of the model are not trained.
    """
    where = f"training.init is {folder}"
    if isinstance(model, PairModel) and model.fit_trains == "nothing":
        raise InputError(
            f"{where}, but the weights of {model.name} are solved, not trained. Leave it out."
        )
    if len(members_of(Path(folder))) > 1:
        raise InputError(f"{where}, an ensemble. Name the folder of one of its members.")
    run = Matcher.load(folder)
    old = run.model
    if not isinstance(model, type(old)):
        raise InputError(
            f"{where}, a run of {type(old).__name__}, but the recipe trains "
            f"{type(model).__name__}. Train that model, or name another run."
        )
    rows = _rows_by_name(model, run, encoder)
    if vectors is not None and rows:
        _check_vectors(rows, model, old, where)
    names = None if train.task == "regression" else train.label_names
    weights, given_weights = _shared_weights(model, old), _shared_weights(old, model)
    fresh: set[int] = set()
    if names != run.label_names and hasattr(model, "logits"):
        fresh = {id(variable) for variable in model.logits.variables}
    of_classes = model.output_shape[-1], old.output_shape[-1]
    copied, kept = 0, len(model.weights) - len(weights)
    if len(weights) != len(given_weights):
        raise InputError(f"{where}, a model of another form. {_difference(model, old)}")
    for new, given in zip(weights, given_weights):
        if id(new) in fresh:
            kept += 1
            continue
        if id(new) in rows and new.shape[1:] == given.shape[1:]:
            to, source = rows[id(new)]
            value = np.array(ops.convert_to_numpy(new))
            value[to] = ops.convert_to_numpy(given)[source]
            new.assign(value)
        elif new.shape == given.shape:
            new.assign(given)
        elif of_classes == (new.shape[-1], given.shape[-1]) and new.shape[:-1] == given.shape[:-1]:
            kept += 1  # a last layer for other labels
            continue
        else:
            raise InputError(f"{where}, a model of another form. {_difference(model, old)}")
        copied += 1
    known = ""
    if tables := word_tables(model):
        found = len(rows[id(tables[0])][0]) - 2
        known = f" with {found:,} of {encoder.vocabulary_size:,} words"
    log.info(f"starting from {folder}: {copied} weights{known}; {kept} are new")


def _shared_weights(model: keras.Model, other: keras.Model) -> list[Any]:
    """Return the weights that `model` has in common with `other`."""
    own = model.own_weights(other) if isinstance(model, PairModel) else []
    left_out = {id(variable) for variable in own}
    return [variable for variable in model.weights if id(variable) not in left_out]


Rows = dict[int, tuple[list[int], list[int]]]  # by id of a variable: rows to fill and to read


def _rows_by_name(model: keras.Model, run: Matcher, encoder: Encoder) -> Rows:
    """Return the rows of the words and characters that both models have, by id of the table."""
    if not (isinstance(encoder, PairEncoder) and isinstance(run.encoder, PairEncoder)):
        return {}
    words = _common(encoder.vocabulary.ids, run.encoder.vocabulary.ids)
    characters = _common(encoder.characters.ids, run.encoder.characters.ids)
    found = {id(table): words for table in word_tables(model)}
    for layer in model.layers:
        if isinstance(layer, WordRepresentation) and (chars := layer.char_cnn or layer.char_lstm):
            found[id(chars.embedding.embeddings)] = characters
    return found


def _common(new: dict[str, int], old: dict[str, int]) -> tuple[list[int], list[int]]:
    both = [name for name in new if name in old]
    special = [0, 1]  # padding and unknown words
    return special + [new[name] for name in both], special + [old[name] for name in both]


def _check_vectors(rows: Rows, model: keras.Model, old: keras.Model, where: str) -> None:
    """Refuse a run whose word vectors are of another kind than those of `model`."""
    for new, given in zip(word_tables(model), word_tables(old)):
        if new.shape[1] != given.shape[1]:
            raise InputError(
                f"{where}, whose word vectors have {given.shape[1]} dimensions, but those of the "
                f"recipe have {new.shape[1]}. Train with the same vectors (--vectors)."
            )
        to, source = rows[id(new)]
        one, two = ops.convert_to_numpy(new)[to[2:]], ops.convert_to_numpy(given)[source[2:]]
        norms = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
        cosines = (one * two).sum(1)[norms > 0] / norms[norms > 0]
        if len(cosines) and cosines.mean() < ALIKE:
            raise InputError(
                f"{where}, whose word vectors are of another kind. The mean cosine of the "
                f"{len(cosines):,} common words is {cosines.mean():.2f}; expected at least {ALIKE}. "
                "Train with the same vectors (--vectors)."
            )


def _difference(model: keras.Model, old: keras.Model) -> str:
    """Describe the arguments in which two models of one class differ."""
    here, there = ({n: _plain(x) for n, x in m.get_config().items()} for m in (model, old))
    of_data = {name for name in FROM_DATA if "0" not in (here.get(name), there.get(name))}
    names = [n for n in here if n not in of_data and here[n] != there.get(n)]
    if not names:
        return "Its weights have other shapes. Name another run."
    one, two = (", ".join(f"{n}={config.get(n):.40}" for n in names) for config in (there, here))
    return f"It has {one}, this one {two}. Set the same values, or name another run."


def _plain(value: Any) -> str:
    return json.dumps(value, default=str)
