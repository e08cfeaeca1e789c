"""The estimators in scikit-learn's hands: its own checks, searches, pickles, and bad input."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted, validate_data

from keras_sentmatch.errors import InputError
from keras_sentmatch.sklearn import SentencePairClassifier, SentencePairRegressor
from tests.toys.training import tiny_pairs

TINY = {"model.units": 4, "model.blocks": 1, "vectors.dim": 4, "training.folds": 0}
PAIRS = tiny_pairs(80, 0)
X = np.array(list(zip(PAIRS.sentence1, PAIRS.sentence2)))
Y = np.array(["no", "yes"])[PAIRS.labels]


def tiny(**values):
    """RE2, as small as it can be."""
    arguments = {"epochs": 2, "batch_size": 16, "vectors": "none", "settings": TINY}
    return SentencePairClassifier("re2", **{**arguments, **values})


class OnNumbers:
    """Reads numbers as words, so that scikit-learn's checks have something to check."""

    def __init__(self, model="bag_of_words", vectors="none", random_state=0):
        super().__init__(model, vectors=vectors, random_state=random_state)

    def fit(self, X, y):
        if y is not None:
            X, y = validate_data(self, X, y)
            X, self.width_ = as_words(X), X.shape[1]
        super().fit(X, y)
        self.n_features_in_ = self.width_
        return self

    def _scores(self, X):
        check_is_fitted(self)
        return super()._scores(as_words(validate_data(self, X, reset=False)))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string = True, False
        if tags.regressor_tags is not None:
            tags.regressor_tags.poor_score = True
        return tags


class ClassifierOnNumbers(OnNumbers, SentencePairClassifier):
    pass


class RegressorOnNumbers(OnNumbers, SentencePairRegressor):
    pass


def as_words(X):
    """One sentence that tells rows apart, and one that says roughly how large the numbers are."""
    rough = np.clip(np.round(X), -9, 9).astype(int)
    seconds = (" ".join(f"f{i}v{v}" for i, v in enumerate(row)) for row in rough)
    return [(" ".join(f"{v:.3f}" for v in row), second) for row, second in zip(X, seconds)]


@pytest.mark.parametrize("kind", [ClassifierOnNumbers, RegressorOnNumbers])
def test_the_checks_of_scikit_learn(kind):
    seen = set()
    for estimator, check in estimator_checks_generator(kind(), mark="skip"):
        name = getattr(check, "func", check).__name__
        if name not in seen and name != "check_array_api_input":  # some come several times
            seen.add(name)
            check(estimator)
    assert len(seen) > 40 and {"check_estimators_pickle", "check_fit2d_1sample"} <= seen


def test_searches_pipelines_and_calibration():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["asked", "answered"])
    linear = SentencePairClassifier("bag_of_words", vectors="none")
    piped = make_pipeline(
        FunctionTransformer(lambda frame: frame.apply(lambda c: c.str.lower())), linear
    )
    assert cross_val_score(piped, frame, Y, cv=3).mean() > 0.9
    grid = GridSearchCV(linear, {"settings": [{"encoder.max_length": 1}, None]}, cv=2)
    assert grid.fit(frame, Y).best_params_ == {"settings": None}  # a word is not enough
    assert list(grid.best_estimator_.feature_names_in_) == ["asked", "answered"]
    with pytest.raises(InputError, match="answered, asked, but .* fitted on asked, answered"):
        grid.predict(frame[["answered", "asked"]])
    assert CalibratedClassifierCV(linear, cv=2).fit(X, Y).score(X, Y) > 0.9
    many = tiny_pairs(200, 1)
    sides = np.array([many.sentence1, many.sentence2]).T
    regressor = SentencePairRegressor("bag_of_words", vectors="none")
    assert cross_val_score(regressor, sides, many.labels + 0.5, cv=2).min() > 0.7


def test_a_network_is_tuned_and_travels_in_a_pickle():
    state = np.random.get_state()[1]
    rates = np.array([1e-6, 0.03], "float32")  # searches draw NumPy's numbers
    search = GridSearchCV(tiny(epochs=np.int64(2)), {"learning_rate": rates}, cv=2).fit(
        X.tolist(), Y
    )
    np.testing.assert_array_equal(np.random.get_state()[1], state)
    best = search.best_estimator_
    assert set(search.predict(X)) <= {"no", "yes"} and best.metrics_["epochs"] == 2
    again = pickle.loads(pickle.dumps(best))
    np.testing.assert_allclose(again.predict_proba(X), best.predict_proba(X), atol=1e-6)
    assert again.matcher_ is not best.matcher_ and list(again.classes_) == ["no", "yes"]
    assert best.predict_proba(X).shape == (80, 2)
    assert copy.deepcopy(tiny()).get_params() == tiny().get_params()


@pytest.mark.parametrize(
    "values, pairs, labels, message",
    [
        ({}, [("a", "b"), ("c", None)], "xy", "None in row 1, column 1. Expected a string"),
        ({}, ["a", "b"], "xy", r"shape \(2,\). Expected \[n, 2\]"),
        ({}, [("a", "b")] * 2, "xx", "one class, 'x'. Give pairs of at least two classes"),
        ({}, [("a", "b")] * 3, "xy", "3 rows, but y has 2"),
        ({"epochs": 0}, X, Y, "training.epochs is 0"),
        ({"settings": {"training.epoch": 3}}, X, Y, "Did you mean epochs"),
        ({"validation_fraction": 1.5}, X, Y, "fraction between 0 and 1"),
        ({"validation_fraction": float("nan")}, X, Y, "fraction between 0 and 1"),
        ({"settings": {"training.epochs": {1}}}, X, Y, "is a set, not a value of a recipe"),
        ({}, [("a", "b")] * 3, ["x", "y", float("nan")], "y has 1 missing values"),
        ({}, [("a", "b")] * 3, ["x", None, None], "y has 2 missing values"),
    ],
)
def test_what_cannot_be_learned_is_refused(values, pairs, labels, message):
    with pytest.raises(InputError, match=message):
        tiny(**values).fit(pairs, list(labels))
    with pytest.raises(NotFittedError):
        tiny().predict(X)
