"""What a run needs before `fit`: checked splits, an encoder, word vectors, batches, a compiled model."""

import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from numpy.typing import NDArray

from keras_sentmatch import applications
from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairBatches, PairEncoder, SubwordPairEncoder
from keras_sentmatch.encoders.batches import encode_dataset
from keras_sentmatch.errors import InputError, wording
from keras_sentmatch.inference.unseen_words import BLOCK
from keras_sentmatch.layers import FeatureAttention, SelectiveFeatureAttention
from keras_sentmatch.metrics import SparseMacroF1, ranking_counts
from keras_sentmatch.text import Tokenizer
from keras_sentmatch.text.tags import installed_tagger, wordnet_antonyms
from keras_sentmatch.training.config import TrainingConfig, f1_label
from keras_sentmatch.training.distillation import DistillationLoss, OnLabels
from keras_sentmatch.training.init import init_from
from keras_sentmatch.training.losses import RankingLoss
from keras_sentmatch.training.optimizers import make_optimizer
from keras_sentmatch.training.ranking import batches_per_epoch, by_question
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.weights import check_weights
from keras_sentmatch.vectors import WordVectors, load_vectors
from keras_sentmatch.vectors.built_in import WordTable, load_similarity

log = logging.getLogger(__name__)

TYPES = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}
Build = Callable[..., keras.Model]
Splits = Mapping[str, PairDataset]
Encoder = PairEncoder | SubwordPairEncoder


class FittedEncoder(NamedTuple):
    """An encoder, the word vectors if the recipe names some, and their coverage in words."""

    encoder: Encoder
    vectors: WordVectors | None
    coverage: str


def check_splits(splits: Splits) -> None:
    """Refuses splits that cannot be trained on, before anything slow happens."""
    missing = [role for role in ("train", "validation") if role not in splits]
    if missing:
        raise InputError(
            f"No {' and no '.join(missing)} pairs; the splits are {', '.join(splits) or 'none'}. "
            'Cut some off by `split_pairs`, or name a file for each: {"train": …, "validation": …}.'
        )
    train = splits["train"]
    for role, dataset in splits.items():
        if not len(dataset):
            raise InputError(
                f"The {role} split holds no pairs; give at least one, or leave it out."
            )
        if dataset.labels is None:
            if role != "test":
                raise InputError(f"The {role} pairs have no labels; training needs labeled ones.")
            continue
        if (dataset.task, dataset.label_names) != (train.task, train.label_names):
            raise InputError(
                f"The train pairs are {_described(train)}, the {role} pairs {_described(dataset)}; "
                "expected the same. Read both with "
                f"{wording('the same label_names', '--labels, which names the labels of both')}."
            )
    if train.task == "ranking":
        if train.num_classes != 2:
            raise InputError(f"Ranking needs two labels (wrong, right); got {_described(train)}.")
        validation = splits["validation"]
        if validation.labels is None or validation.groups is None:
            how = wording("PairDataset(groups=…)", "--columns FIRST,SECOND,LABEL,QUESTION")
            raise InputError(f"Ranking needs the question of each pair: give {how}.")
        counts = ranking_counts(validation.labels, validation.groups)
        if counts["without_positive"] == counts["questions"]:
            raise InputError(
                f"None of the {counts['questions']} validation questions has a right answer, so "
                "no epoch can be told from another. Take other questions for validation."
            )
    elif train.labels is not None and (train.labels == train.labels[0]).all():
        name = train.label_names[int(train.labels[0])] if train.label_names else train.labels[0]
        how = wording("label=… and label_names=…", "--columns FIRST,SECOND,LABEL and --labels")
        raise InputError(
            f"Nothing to learn: all {len(train):,} train pairs have the label {name}. Add pairs with "
            f"another label; or, if labels were read wrongly, say where and what they are with {how}."
        )


def check_training(training: TrainingConfig, splits: Splits) -> None:
    """Refuses settings that do not fit the task or the labels of the pairs."""
    train = splits["train"]
    check_weights(training, train)
    label, names = f1_label(training.monitor), train.label_names or ()
    if label is not None and (train.task != "classification" or label not in names):
        labels = f"their labels are {', '.join(names)}" if names else "they have scores, not labels"
        raise InputError(
            f"training.monitor is {training.monitor!r}, but the training pairs are {train.task} and "
            f"{labels}; expected val_f1: and one of the labels of a classification."
        )


def check_model(recipe: Recipe) -> None:
    """Refuses arguments that the recipe's model does not have, or of another type than it takes."""
    if recipe.name not in applications.list_models():
        return
    cls = applications.get_model_class(recipe.name)
    cls.check_arguments(recipe.model)
    parameters = cls.arguments()
    for name, value in recipe.model.items():
        wanted = parameters[name].annotation if name in parameters else None
        if wanted in TYPES and type(value) not in (wanted, int if wanted is float else wanted):
            raise InputError(f"model.{name} is {value!r}; expected {TYPES[wanted]}.")


def _described(dataset: PairDataset) -> str:
    names = f" with the labels {', '.join(dataset.label_names)}" if dataset.label_names else ""
    return f"{dataset.task}{names}"


def fit_encoder(recipe: Recipe, splits: Splits, progress: bool) -> FittedEncoder:
    """The encoder, the word vectors if the recipe names some, and what they cover, in words."""
    if "backbone" in recipe.model:
        coverage = f"word pieces of {recipe.model['backbone']}"
        return FittedEncoder(subword_encoder(recipe), None, coverage)
    datasets = [splits["train"], *(data for role, data in splits.items() if role != "train")]
    options = recipe.encoder.values()
    counts = count_tokens(recipe, datasets)
    notes = resolve_features(options, datasets, set(counts))
    source = recipe.vectors.source
    # A file has the dimension it has; `dim` is for what is made to measure.
    dim = recipe.vectors.dim if source.startswith("encoder:") else None
    vectors = load_vectors(source, counts, dim=dim, progress=progress)
    if vectors is None:
        encoder = PairEncoder.fit(datasets[0], **options)
        return FittedEncoder(encoder, None, "; ".join(["no word vectors", *notes]))
    known = {word for word in counts if word in vectors}
    # Vectors that never change need no training: the model knows all words of the table.
    fixed = isinstance(vectors.extractor, WordTable) and not _trains_vectors(recipe)
    encoder = PairEncoder.fit(
        datasets, keep_words=known, more_words=vectors.words if fixed else (), **options
    )
    if isinstance(vectors.extractor, WordTable):
        notes.insert(0, vectors.report)
    return FittedEncoder(encoder, vectors, "; ".join([vectors.coverage(counts), *notes]))


def count_tokens(recipe: Recipe, datasets: Sequence[PairDataset]) -> Counter[str]:
    """How often each token occurs, as the recipe's encoder reads the sentences."""
    options = recipe.encoder.values()
    tokenize = Tokenizer(options.get("tokenizer", "words"), options.get("lowercase", True))
    return Counter(
        token
        for dataset in datasets
        for side in (dataset.sentence1, dataset.sentence2)
        for sentence in side
        for token in tokenize(sentence)
    )


def _trains_vectors(recipe: Recipe) -> bool | None:
    """Whether the model trains its word vectors; `None` if it has no such argument."""
    default = True
    if recipe.name in applications.list_models():
        arguments = applications.get_model_class(recipe.name).arguments()
        if "trainable_embedding" not in arguments:
            return None
        default = arguments["trainable_embedding"].default
    return bool(recipe.model.get("trainable_embedding", default))


class EncodingCache:
    """Encoders, word vectors and encoded pairs, shared by several runs on the same pairs."""

    def __init__(self) -> None:
        self._fitted: dict[str, FittedEncoder] = {}
        # With the pairs themselves, so that their ids last.
        self._encoded: dict[tuple[int, int], tuple[PairDataset, Any]] = {}
        self._reports: dict[int, Any] = {}

    def fit(self, recipe: Recipe, splits: Splits, progress: bool) -> FittedEncoder:
        """As `fit_encoder`, once for each configuration of encoder and vectors."""
        key = f"{recipe.encoder} {recipe.vectors} {recipe.model.get('backbone')}"
        if key not in self._fitted:
            self._fitted[key] = fit_encoder(recipe, splits, progress)
        encoder = self._fitted[key][0]
        if id(encoder) in self._reports:  # without what has been counted since
            encoder.report = dataclasses.replace(self._reports[id(encoder)])
        return self._fitted[key]

    def encoded(self, dataset: PairDataset, encoder: Encoder) -> Any:
        """The pairs as `PairBatches` takes them, encoded once by each encoder."""
        key = id(encoder), id(dataset)
        if key not in self._encoded:
            self._encoded[key] = dataset, encode_dataset(dataset, encoder)
            self._reports[id(encoder)] = dataclasses.replace(encoder.report)
        return self._encoded[key][1]


def subword_encoder(recipe: Recipe) -> SubwordPairEncoder:
    """The encoder of a recipe whose model has a `backbone`."""
    try:
        return SubwordPairEncoder.from_preset(recipe.model["backbone"], **recipe.encoder.values())
    except InputError as error:
        raise InputError(
            f"{error} (model.backbone: name another preset or a folder with --backbone, or with "
            "--set model.backbone=…)"
        ) from error


def resolve_features(
    options: dict[str, Any], datasets: Sequence[PairDataset], words: Collection[str]
) -> list[str]:
    """Finds the sources of the features `pos` and `antonym`, or removes them from `options`.

    With `"auto"`, the default of `encoder.tagger` and `encoder.antonyms`, tags come from the data or
    from spaCy, and antonyms from WordNet. Any other source must be available. Returns notes on what
    was removed, and why.
    """
    features, notes = list(options.get("features", ())), []

    def leave_out(feature: str, why: object) -> None:
        features.remove(feature)
        notes.append(f"the feature {feature!r} is off: {why}")

    tagger = options.pop("tagger", "auto")
    if "pos" in features:
        if tagger != "auto":
            options["tagger"] = tagger
        elif any(data.tags is None for data in datasets):
            try:
                options["tagger"] = installed_tagger()
            except InputError as error:
                leave_out("pos", f"the data has no tags, and {error}")
    antonyms = options.pop("antonyms", "auto")
    if "antonym" in features:
        if antonyms not in ("auto", "wordnet"):
            options["antonyms"] = antonyms
        else:
            try:
                found = wordnet_antonyms(words)
                if not found:
                    raise InputError("WordNet knows no antonyms among the words of the data.")
                options["antonyms"] = found
            except InputError as error:
                if antonyms == "wordnet":
                    raise
                leave_out("antonym", error)
    if features:
        options["features"] = features
    return notes


def make_model(
    recipe: Recipe,
    train: PairDataset,
    encoder: Encoder,
    vectors: WordVectors | None,
    build: Build | None,
) -> keras.Model:
    """The model of a recipe, with the word vectors or the weights of a run in place, compiled."""
    build, settings = build or applications.build_model, recipe.training
    config: dict[str, Any] = {"num_classes": 1 if train.task == "regression" else train.num_classes}
    if isinstance(encoder, PairEncoder):
        config["vocabulary_size"] = encoder.vocabulary_size
        if vectors is not None and isinstance(vectors.extractor, WordTable):
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
            "vectors; leave it out (vectors.dim sets embedding_dim)."
        )
    arguments = dict(recipe.model)
    if vectors is None and _trains_vectors(recipe) is False:
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
            f"{limit} word pieces: set encoder.max_length={limit} or less."
        )
    if vectors is not None and isinstance(encoder, PairEncoder):
        matrix = vectors.matrix_for(encoder.vocabulary, settings.seed)
        spare = config["vocabulary_size"] - len(matrix)
        similarity = load_similarity() if isinstance(vectors.extractor, WordTable) else None
        model.set_word_vectors(np.pad(matrix, [(0, spare), (0, 0)]), similarity)
    if settings.first_run is not None:
        init_from(model, encoder, vectors, train, settings.first_run)
    compile_model(model, train, settings)
    return model


def warn_of_narrow_features(model: keras.Model, longest: int) -> None:
    """Warn of feature attention too narrow for sentences of `longest` tokens (eq 9 of its paper)."""
    kinds = (FeatureAttention, SelectiveFeatureAttention)
    blocks = [layer for layer in model.layers if isinstance(layer, kinds)]
    for narrow in sorted({block.too_narrow(block.width, longest) for block in blocks} - {""}):
        log.warning(f"Feature attention: {narrow} Reduce less in model.feature_attention_config.")


def compile_model(model: keras.Model, train: PairDataset, settings: TrainingConfig) -> None:
    """Compiles with the recipe's optimizer and the loss and metrics of the task."""
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
    splits: Splits,
    targets: Mapping[str, NDArray[Any]],
    encoder: Encoder,
    model: keras.Model,
    training: TrainingConfig,
    encodings: EncodingCache,
    weights: NDArray[Any] | None = None,
) -> dict[str, PairBatches]:
    """The batches of training and validation pairs; `weights` are those of the training pairs."""
    # XLA compiles a step again for every length; to pad validation pairs costs less.
    compiled = keras.config.backend() == "jax"
    buckets = {
        "train": training.length_buckets,
        "validation": 2 if compiled else encoder.max_length,
    }
    return {
        role: PairBatches(
            splits[role],
            encoder,
            batch_size=training.batch_size,
            shuffle=role == "train",
            seed=training.seed,
            bucket_lengths=buckets[role],
            features=list(model.input),
            targets=targets.get(role),
            weights=weights if role == "train" else None,
            encoded=encodings.encoded(splits[role], encoder),
            questions=splits[role].groups if by_question(training) else None,
        )
        for role in ("train", "validation")
    }


def fit_arguments(batches: Mapping[str, PairBatches], first_epoch: int = 0) -> dict[str, Any]:
    """The data arguments of `fit`, from an epoch on."""
    # A PyDataset needs no TensorFlow.
    kind = "tf_data" if keras.config.backend() == "tensorflow" else "pydataset"
    return {
        "x": getattr(batches["train"], kind)(first_epoch),
        "validation_data": getattr(batches["validation"], kind)(),
        "shuffle": False,
    }
