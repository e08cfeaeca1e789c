"""The encoder of a run, its word vectors, and the encoded pairs."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from keras_sentmatch import applications
from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairEncoder, SubwordPairEncoder
from keras_sentmatch.encoders.batches import encode_dataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.text import Tokenizer
from keras_sentmatch.text.tags import english_antonyms, installed_tagger
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.training_data import Splits
from keras_sentmatch.vectors import WordVectors, load_vectors

Encoder = PairEncoder | SubwordPairEncoder


class FittedEncoder(NamedTuple):
    """An encoder, its word vectors (None for random ones), and a sentence on their coverage."""

    encoder: Encoder
    vectors: WordVectors | None
    coverage: str


def fit_encoder(recipe: Recipe, splits: Splits, progress: bool) -> FittedEncoder:
    """Fit the encoder of a recipe on all splits, and load its word vectors."""
    if "backbone" in recipe.model:
        coverage = f"word pieces of {recipe.model['backbone']}"
        return FittedEncoder(subword_encoder(recipe), None, coverage)
    datasets = [splits["train"], *(data for role, data in splits.items() if role != "train")]
    options = recipe.encoder.values()
    counts = count_tokens(recipe, datasets)
    notes = resolve_features(options, datasets)
    source = recipe.vectors.source
    # A file has its own dimension; only extracted vectors can be made to measure.
    dim = recipe.vectors.dim if source.startswith("encoder:") else None
    vectors = load_vectors(source, counts, dim=dim, progress=progress)
    if vectors is None:
        encoder = PairEncoder.fit(datasets[0], **options)
        return FittedEncoder(encoder, None, "; ".join(["no word vectors", *notes]))
    known = {word for word in counts if word in vectors}
    # Vectors that never change need no training pairs: the model knows all words of the table.
    fixed = vectors.built_in and not trains_vectors(recipe)
    encoder = PairEncoder.fit(
        datasets, keep_words=known, more_words=vectors.words if fixed else (), **options
    )
    if vectors.built_in:
        notes.insert(0, vectors.report)
    return FittedEncoder(encoder, vectors, "; ".join([vectors.coverage(counts), *notes]))


def count_tokens(recipe: Recipe, datasets: Sequence[PairDataset]) -> Counter[str]:
    """Count the tokens of all sentences, as the recipe's encoder splits them."""
    options, found = recipe.encoder.values(), Counter[str]()
    tokenize = Tokenizer(options.get("tokenizer", "words"), options.get("lowercase", True))
    for dataset in datasets:
        for sentence in (*dataset.sentence1, *dataset.sentence2):
            found.update(tokenize(sentence))
    return found


def trains_vectors(recipe: Recipe) -> bool | None:
    """Return whether the model trains its word vectors; None if it has no such argument."""
    name, default = "trainable_embedding", True
    if recipe.name in applications.list_models():
        arguments = applications.get_model_class(recipe.name).arguments()
        if name not in arguments:
            return None
        default = arguments[name].default
    return bool(recipe.model.get(name, default))


class EncodingCache:
    """Encoders, word vectors and encoded pairs, shared by several runs on the same pairs."""

    def __init__(self) -> None:
        self._fitted: dict[str, FittedEncoder] = {}
        # The pairs are kept too, so that their ids stay theirs.
        self._encoded: dict[tuple[int, int], tuple[PairDataset, Any]] = {}
        self._reports: dict[int, Any] = {}

    def fit(self, recipe: Recipe, splits: Splits, progress: bool) -> FittedEncoder:
        """Call `fit_encoder` once per configuration of encoder and vectors."""
        key = (
            f"{recipe.encoder} {recipe.vectors} {recipe.model.get('backbone')} "
            f"{trains_vectors(recipe)}"  # then it has the words of the training pairs only
        )
        if key not in self._fitted:
            self._fitted[key] = fit_encoder(recipe, splits, progress)
        encoder = self._fitted[key][0]
        if id(encoder) in self._reports:  # as it was before any prediction
            encoder.report = dataclasses.replace(self._reports[id(encoder)])
        return self._fitted[key]

    def forget_pairs(self) -> None:
        """Forget the encoded pairs, and what the encoders counted in them."""
        self._encoded.clear()
        self._reports.clear()
        for encoder, *_ in self._fitted.values():
            encoder.reset_report()

    def encoded(self, dataset: PairDataset, encoder: Encoder) -> Any:
        """Return the pairs as `PairBatches` accepts them, encoded once per encoder."""
        key = id(encoder), id(dataset)
        if key not in self._encoded:
            self._encoded[key] = dataset, encode_dataset(dataset, encoder)
            self._reports[id(encoder)] = dataclasses.replace(encoder.report)
        return self._encoded[key][1]


def subword_encoder(recipe: Recipe) -> SubwordPairEncoder:
    """Return the encoder of a recipe whose model has a `backbone`."""
    try:
        return SubwordPairEncoder.from_preset(recipe.model["backbone"], **recipe.encoder.values())
    except InputError as error:
        raise InputError(
            f"{error} Name another preset or a folder with --backbone (model.backbone)."
        ) from error


def resolve_features(options: dict[str, Any], datasets: Sequence[PairDataset]) -> list[str]:
    """Find the sources of the features `pos` and `antonym`, or remove `pos` from `options`.

    With `"auto"`, the default of `encoder.tagger` and `encoder.antonyms`, tags come from the data or
    from spaCy, and antonyms from the package. Any other source must be available. Returns a note if
    `pos` was removed.
    """
    features, notes = list(options.get("features", ())), []
    tagger = options.pop("tagger", "auto")
    if "pos" in features:
        if tagger != "auto":
            options["tagger"] = tagger
        elif any(data.tags is None for data in datasets):
            try:
                options["tagger"] = installed_tagger()
            except InputError as error:
                features.remove("pos")
                notes.append(f"the feature 'pos' is off: the data has no tags, and {error}")
    antonyms = options.pop("antonyms", "auto")
    if "antonym" in features:
        options["antonyms"] = english_antonyms() if antonyms == "auto" else antonyms
    if features:
        options["features"] = features
    return notes
