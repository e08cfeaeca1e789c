"""The linear part of a model: which words occur, and how well they match (Wide & Deep, 2016)."""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_sentmatch.applications._training import Arrays, Examples, TrainingHooks
from keras_sentmatch.applications.pair_model import PairModel
from keras_sentmatch.layers.hybrid import FEATURES, MOST, MatchingFeatures, WideLogits
from keras_sentmatch.text.tokens import word_facts

STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # inverse regularization strengths to choose from
SHARES = ("shared_1", "shared_2")
CONSTANT = 1e-4  # standard deviation up to which a feature is taken for constant
PRODUCTS = 0.1  # standard deviation of a product of features, next to 1 of a feature
DENSE = 0.3  # share of values that are not 0, above which a matrix is no longer sparse
MOST_PAIRS = 50_000  # to learn from the products of features; of more, a network learns them itself


class LinearPart:
    """The linear part of a model: its layers, and how its weights are solved.

    `matching` uses all of `MatchingFeatures`, not only the shares of common words.
    """

    def __init__(self, model: PairModel, matching: bool, trainable: bool = False):
        self.model = model
        self.used = [matching or name in SHARES for name in FEATURES]
        self.matching = MatchingFeatures(model.vocabulary_size, name="matching_features")
        self.logits = WideLogits(
            model.vocabulary_size,
            model.num_classes,
            products=matching,
            name="wide_logits",
            trainable=trainable,
        )
        self._readers: dict[tuple[tuple[str, int], ...], keras.Model] = {}  # see `outputs`

    def __call__(self, word_ids_1, word_ids_2, vectors_1, vectors_2):
        """The logits `[B, C]`, from word ids `[B, L]` and word vectors `[B, L, D]`."""
        self.features = self.matching(word_ids_1, word_ids_2, vectors_1, vectors_2)
        logits = self.logits(word_ids_1, word_ids_2, self.features)

        def weights():
            one, two = self.logits.word_logits(word_ids_1, word_ids_2)
            of_features = self.logits.feature_logits(self.features)
            return {"weights_1": one, "weights_2": two, "weights_of_features": of_features}

        self.model.show(weights)
        return logits

    def set_similarity(self, weights: Mapping[str, np.ndarray]) -> None:
        """Set the similarity that the matching features compare by, if they are used."""
        if all(self.used):
            self.matching.set_similarity(weights)

    def solve(
        self,
        words: Sequence[str],
        train: Examples,
        validation: Examples | None,
        strength: float | None = None,
    ) -> float:
        """Solve the weights by logistic regression, or by ridge regression for scores.

        `words` is the vocabulary. Validation pairs choose the `strength`, the inverse of the
        regularization, unless it is given; it is returned.
        """
        self._set_facts(words, train[0])
        parts = [train] if validation is None else [train, validation]
        features = [self._features(batches) for batches, *_ in parts]
        mean, spread = features[0].mean(0), features[0].std(0)
        scale = np.where(spread > CONSTANT, spread, np.inf)  # what does not vary has no weight
        standardized = [(f - mean) / scale for f in features]
        products = _Products(standardized[0], self.logits.products)
        size, count, classes = self.model.vocabulary_size, len(mean), self.model.num_classes
        examples = [
            (_design(batches, np.hstack([z, products(z)]), size), *more)
            for (batches, *more), z in zip(parts, standardized)
        ]
        check = None if validation is None else examples[1]
        weights, bias, strength = solve_linear(examples[0], check, classes, strength)
        of_words, of_features, of_products = np.split(weights, (3 * size, 3 * size + count))
        kernel = np.zeros((len(FEATURES), classes))
        kernel[self.used] = of_features / scale[:, None]
        layer = self.logits
        if layer.products:
            of_products, shift = products.kernel(of_products)
            layer.product_kernel.assign(of_products)
            layer.mean.assign(mean)
            layer.inverse_scale.assign(1 / scale)
            bias = bias - shift
        bias = bias - mean @ kernel[self.used]
        variables = layer.words_1, layer.words_2, layer.words_both, layer.kernel, layer.bias
        for variable, value in zip(variables, (*np.split(of_words, 3), kernel, bias)):
            variable.assign(value)
        return strength

    def _set_facts(self, words: Sequence[str], batches: Sequence[Arrays]) -> None:
        """Note how common each word is, whether it negates, and whether it is a number."""
        sides = [batch[name] for batch in batches for name in ("word_ids_1", "word_ids_2")]
        rows = (np.unique(ids) for side in sides for ids in side)
        count = np.bincount(np.concatenate([*rows]), minlength=self.model.vocabulary_size)
        facts = keras.ops.convert_to_numpy(self.matching.facts).copy()
        facts[:, 0] = np.log1p(count) / np.log1p(sum(map(len, sides)))
        facts[: len(words), 1:] = word_facts(words)
        self.matching.facts.assign(facts)

    def _features(self, batches: Sequence[Arrays]) -> np.ndarray:
        """The features that are used, float64 `[pairs, F]`."""
        (found,) = self.outputs({"features": self.features}, batches)
        return found.astype(float)[:, self.used]

    def outputs(self, tensors: Mapping[str, Any], batches: Sequence[Arrays]) -> list[np.ndarray]:
        """Compute tensors of the model's graph for batches; JAX compiles few shapes, each once."""
        key = tuple((name, id(tensor)) for name, tensor in tensors.items())
        if key not in self._readers:
            self._readers[key] = keras.Model(self.model.input, dict(tensors))
        reader = self._readers[key]
        if keras.config.backend() == "jax":  # which would compile each operation for each shape
            found = [_compiled(reader, batch, max(map(_rows, batches))) for batch in batches]
        else:
            found = [reader(dict(batch), training=False) for batch in batches]
        return [
            np.concatenate([keras.ops.convert_to_numpy(outputs[name]) for outputs in found])
            for name in tensors
        ]


class WithLinearPart(TrainingHooks):
    """Mixin of models with a linear part, `self.wide`, that is solved before `fit`.

    It is not a `PairModel`, since Keras cannot build a class that has `keras.Model` behind two of
    its bases.
    """

    wide: LinearPart

    def set_word_vectors(self, matrix, similarity=None) -> None:
        super().set_word_vectors(matrix)  # type: ignore[misc]
        if similarity is not None:
            self.wide.set_similarity(similarity)

    def row_tables(self) -> list[tuple[str, Any]]:
        """As for all models, with `"facts"` (commonness, then `word_facts`) and linear `"weights"`."""
        logits = self.wide.logits
        weights = logits.words_1, logits.words_2, logits.words_both
        tables = [("facts", self.wide.matching.facts), *(("weights", table) for table in weights)]
        return super().row_tables() + tables  # type: ignore[misc,no-any-return]

    def before_fit(self, words, examples, chosen) -> dict[str, float]:
        """Solve the linear part; validation pairs choose the strength of its regularization."""
        strength = chosen.get("linear_strength")
        check = examples("validation") if strength is None else None
        return {"linear_strength": self.wide.solve(words, examples("train"), check, strength)}


class _Products:
    """Products of standardized features `[pairs, F]`, as inputs of a linear model.

    They are standardized and made small, so that regularization holds their many weights back more
    than those of the features. There are none if they are not `used`, or for very many pairs.
    """

    def __init__(self, features: np.ndarray, used: bool):
        self.count = features.shape[1]
        few = used and len(features) <= MOST_PAIRS
        self.pairs = np.triu_indices(self.count if few else 0)
        self.mean: Any = 0.0
        self.scale: Any = 1.0
        products = self(features)
        self.mean, spread = products.mean(0), products.std(0)
        self.scale = np.where(spread > CONSTANT, spread, np.inf) / PRODUCTS

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """The products of standardized features `[pairs, F]`."""
        z = np.clip(features, -MOST, MOST)
        one, two = self.pairs
        return (z[:, one] * z[:, two] - self.mean) / self.scale

    def kernel(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The weights of all products `[F * F, C]`, and what they add to every logit."""
        weights = weights / self.scale[:, None]
        kernel = np.zeros((self.count, self.count, weights.shape[1]))
        kernel[self.pairs] = weights / 2
        kernel += kernel.transpose(1, 0, 2)  # half for each of the two features
        return kernel.reshape(-1, weights.shape[1]), self.mean @ weights


def _design(batches: Sequence[Arrays], features: np.ndarray, vocabulary_size: int) -> Any:
    """A sparse matrix: counts of sentence 1, of sentence 2, words in both, and features."""
    from scipy import sparse

    def counts(name: str) -> Any:
        parts = [batch[name] for batch in batches]
        rows = np.repeat(np.arange(len(features)), [len(ids) for part in parts for ids in part])
        ids = np.concatenate([part.ravel() for part in parts])
        known = ids > 1
        ones = np.ones(known.sum())
        shape = (len(features), vocabulary_size)
        return sparse.csr_matrix((ones, (rows[known], ids[known])), shape=shape)

    one, two = counts("word_ids_1"), counts("word_ids_2")
    return sparse.hstack([one, two, one.sign().multiply(two.sign()), features], format="csr")


def _rows(batch: Arrays) -> int:
    return len(next(iter(batch.values())))


def _compiled(reader: keras.Model, batch: Arrays, rows: int) -> dict[str, np.ndarray]:
    """The outputs for a batch, padded to `rows` and to a length that is a power of two."""
    count = _rows(batch)

    def padded(array: np.ndarray) -> np.ndarray:
        length = 1 << (array.shape[1] - 1).bit_length()
        more = [(0, rows - count), (0, length - array.shape[1])]
        return np.pad(array, more + [(0, 0)] * (array.ndim - 2))

    outputs = reader.predict_on_batch({name: padded(array) for name, array in batch.items()})
    return {name: array[:count] for name, array in outputs.items()}


def solve_linear(
    train: tuple[Any, ...],
    validation: tuple[Any, ...] | None,
    classes: int,
    strength: float | None = None,
) -> tuple[np.ndarray, np.ndarray, float]:
    """The weights `[F, classes]`, the bias `[classes]` and the strength of a linear model.

    Pairs are features `[pairs, F]`, sparse or not, labels, and perhaps how much each counts.
    """
    from sklearn.linear_model import LogisticRegression

    # A fit starts from the weights of the fit before. Newton's method needs a few steps for it, L-BFGS up to hundreds.
    model = LogisticRegression(solver="newton-cg", max_iter=1000, warm_start=True)
    if strength is not None:
        return *_fit(classes, strength, model, *train), strength
    assert validation is not None
    best, lowest = None, np.inf
    for strength in STRENGTHS:
        weights, bias = _fit(classes, strength, model, *train)
        error = prediction_error(validation[0] @ weights + bias, *validation[1:])
        if best is not None and error >= lowest:
            break
        best, lowest = (weights, bias, strength), error
    assert best is not None
    return best


def _fit(
    classes: int,
    strength: float,
    model: Any,
    features: Any,
    labels: np.ndarray,
    counts: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.linear_model import Ridge

    if classes == 1:
        ridge = Ridge(1 / strength).fit(features, labels, counts)
        return ridge.coef_.reshape(-1, 1), np.array([ridge.intercept_])
    weights, bias = np.zeros((features.shape[1], classes)), np.full(classes, -30.0)
    met = np.unique(labels)
    bias[met] = 0.0
    if len(met) > 1:
        used: Any = slice(None)
        design = features
        if hasattr(features, "getnnz"):  # words that no pair has keep the weight 0: far faster
            used = np.flatnonzero(features.getnnz(axis=0))
            design = features[:, used]
            if design.nnz > DENSE * math.prod(design.shape):  # three times as fast
                design = design.astype("float32").toarray()
        with warnings.catch_warnings():
            # The line search fails if rounding allows no better weights.
            warnings.filterwarnings("ignore", "(?i).*line search")
            model.set_params(C=strength).fit(design, labels, counts)
        columns = met[1:] if len(met) == 2 else met  # with two classes: the logit of the second
        found = np.zeros((features.shape[1], len(columns)))
        found[used] = model.coef_.T
        weights[:, columns], bias[columns] = found, model.intercept_
    return weights, bias


def prediction_error(
    logits: np.ndarray, labels: np.ndarray, counts: np.ndarray | None = None
) -> float:
    """The mean cross entropy, or the mean squared error of scores `[pairs, 1]`."""
    if logits.shape[1] == 1:
        return float(np.average((logits[:, 0] - labels) ** 2, weights=counts))
    from scipy.special import log_softmax

    found = log_softmax(logits, axis=1)[np.arange(len(labels)), labels]
    return -float(np.average(found, weights=counts))
