"""scikit-learn estimators that train matchers."""

import json
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from keras_sentmatch.data import PairDataset, split_pairs
from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics.scores import is_missing
from keras_sentmatch.training import load_recipe, train

__all__ = ["SentencePairClassifier", "SentencePairRegressor"]


class _SentencePairEstimator(BaseEstimator):
    """Base of the two estimators."""

    def __init__(
        self,
        model: str = "hybrid",
        *,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        vectors: str | None = None,
        settings: Mapping[str, Any] | None = None,
        validation_fraction: float = 0.1,
        random_state: int | np.random.RandomState | None = 0,
        verbose: bool = False,
    ) -> None:
        self.model = model
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.vectors = vectors
        self.settings = settings
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.verbose = verbose

    def _train(self, X: Any, labels: np.ndarray, **facts: Any) -> None:
        """Train on the pairs of `X`; a part of them chooses the best epoch."""
        first, second = self._sides(X, fitting=True)
        if len(first) != len(labels):
            raise InputError(
                f"X has {len(first)} rows, but y has {len(labels)}. Give one label per row."
            )
        seed = self.random_state
        if type(seed) is not int:
            seed = int(check_random_state(seed).randint(2**31))
        given = {
            "training.epochs": self.epochs,
            "training.batch_size": self.batch_size,
            "training.learning_rate": self.learning_rate,
            "vectors.source": self.vectors,
            "training.seed": seed,
            **(self.settings or {}),
        }
        changes = [
            f"{key}={json.dumps(v, default=_plain)}" for key, v in given.items() if v is not None
        ]
        recipe = load_recipe(self.model, "pairs", overrides=changes)
        pairs = PairDataset(first, second, labels, name="pairs", **facts)
        share = self.validation_fraction
        try:
            if not 0 < share < 1:
                raise InputError("no share")
            parts = split_pairs(pairs, [1 - share, share], seed=seed)
        except InputError as error:
            raise InputError(
                f"X has {len(pairs)} sample(s) with {len(set(first))} different first sentences, "
                f"which cannot be split for validation_fraction={share!r}. Give more pairs, or a "
                "fraction between 0 and 1."
            ) from error
        state = np.random.get_state()  # training seeds NumPy, too
        try:
            options: dict[str, Any] = {"progress": self.verbose, "baseline": False}
            result = train(recipe, dict(zip(("train", "validation"), parts)), None, **options)
        finally:
            np.random.set_state(state)
        self.matcher_, self.metrics_ = result.matcher, result.metrics

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        first, second = self._sides(X)
        return self.matcher_.predict_proba(sentence1=first, sentence2=second)

    def _sides(self, X: Any, fitting: bool = False) -> tuple[list[str], list[str]]:
        """Return the first and the second sentences of `X`; with `fitting`, note its columns."""
        names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
        values = np.asarray(X, dtype=object)
        if values.ndim != 2 or values.shape[1] != 2 or not len(values):
            raise InputError(
                f"X has the shape {values.shape}. Expected [n, 2] with at least one pair. Give an "
                "array, a list of pairs, or a frame such as X[['sentence1', 'sentence2']]."
            )
        for row, column in np.ndindex(values.shape):
            if not isinstance(values[row, column], str):
                raise InputError(
                    f"X has {values[row, column]!r:.60} in row {row}, column {column}. Expected a "
                    "string. Fill in missing values, or leave out the row."
                )
        fitted: Any = names if fitting else getattr(self, "feature_names_in_", names)
        if names is not None and names != list(fitted):
            raise InputError(
                f"X has the columns {', '.join(names)}, but the estimator was fitted on "
                f"{', '.join(fitted)}. Give these columns in this order."
            )
        if fitting:
            self.n_features_in_ = 2
        if fitting and names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        return values[:, 0].tolist(), values[:, 1].tolist()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.string, tags.input_tags.two_d_array = True, False  # of numbers
        return tags


class SentencePairClassifier(ClassifierMixin, _SentencePairEstimator):
    """scikit-learn classifier that trains a matcher of pairs with classes.

    `X` is a frame with two columns of text, an array `[n, 2]` of strings, or a list of pairs; `y`
    has one class per pair. Works with `cross_val_score`, `GridSearchCV`, `Pipeline` and
    `CalibratedClassifierCV`. A pickle contains the files of the trained matcher, and can be loaded
    on any backend.

    Args:
        model: Name of a model. Defaults to `"hybrid"`.
        epochs: Maximum number of epochs. Defaults to the value in the model's recipe.
        batch_size: Number of pairs per batch. Defaults to the recipe's.
        learning_rate: Highest learning rate. Defaults to the recipe's.
        vectors: Source of the word vectors: a file, `"encoder:NAME"`, `"table"`, `"auto"` or
            `"none"`. Defaults to the recipe's.
        settings: Further settings of the recipe by key, such as `{"training.patience": 3}`.
        validation_fraction: Share of the pairs used to choose the best epoch. Pairs with the same
            first sentence stay together. Defaults to `0.1`.
        random_state: Seed of the validation split and of the training, or a generator that draws
            it. Defaults to `0`.
        verbose: Whether to show the epochs on standard error. Defaults to `False`.

    Attributes:
        matcher_: The trained `Matcher`.
        metrics_: The content of a run's `metrics.json`.
        classes_: The classes, sorted.
        n_features_in_: 2.
        feature_names_in_: The columns, if `X` was a frame. A frame to predict must have the same.

    Raises:
        InputError: `X` does not have two columns of strings, `y` has one class, or the recipe does
            not accept a value.

    Example:

    ```python
    from sklearn.model_selection import cross_val_score

    from keras_sentmatch.sklearn import SentencePairClassifier

    X = [(f"{n} dogs run", other) for n in range(50) for other in ("animals run", "cats sleep")]
    y = ["yes", "no"] * 50
    cross_val_score(SentencePairClassifier("bag_of_words"), X, y, cv=5).mean()
    ```
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Train on pairs and their classes."""
        labels = _column(y)
        check_classification_targets(labels)
        self.classes_, indices = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(
                f"y has one class, {str(self.classes_[0])!r}. Give pairs of at least two classes."
            )
        self._train(X, indices, label_names=[str(name) for name in self.classes_])
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each pair."""
        indices = self.predict_proba(X).argmax(-1)
        return np.asarray(self.classes_[indices])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities `[n, classes]`, in the order of `classes_`."""
        return self._scores(X)


class SentencePairRegressor(RegressorMixin, _SentencePairEstimator):
    """scikit-learn regressor that trains a matcher of pairs with scores.

    It has the arguments of `SentencePairClassifier`; `y` has one number per pair.

    Raises:
        InputError: `X` does not have two columns of strings, `y` is not finite, or the recipe does
            not accept a value.

    Example:

    ```python
    from keras_sentmatch.sklearn import SentencePairRegressor

    X = [(f"{n} dogs run", other) for n in range(50) for other in ("animals run", "cats sleep")]
    SentencePairRegressor("bag_of_words").fit(X, [0.9, 0.1] * 50).predict(X[:2])
    ```
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Train on pairs and their scores."""
        self._train(X, _column(y).astype("float32"), task="regression")
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the score of each pair."""
        return self._scores(X)


def _column(y: Any) -> np.ndarray:
    if y is None:
        raise InputError("fit requires y to be passed, but the target y is None.")
    values = y if hasattr(y, "dtype") else np.asarray(y, dtype=object)
    if missing := sum(map(is_missing, np.ravel(values).tolist())):
        raise InputError(f"y has {missing} missing values. Leave out these rows.")
    return np.asarray(column_or_1d(y, warn=True))


def _plain(value: Any) -> Any:
    """Return a number of NumPy, which searches draw, as JSON has it."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise InputError(f"{value!r:.60} is a {type(value).__name__}, not a value of a recipe.")
