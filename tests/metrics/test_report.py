import numpy as np
import pytest

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics import evaluate_predictions

pytestmark = pytest.mark.once


def pairs(labels, **more):
    return PairDataset(["a"] * len(labels), ["b"] * len(labels), labels, **more)


def test_classification():
    data = pairs([0, 1, 1, 0], label_names=("no", "yes"))
    figures = evaluate_predictions(data, [[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.8, 0.2]])
    assert figures["primary"] == "accuracy" and figures["rows"] == 4
    assert figures["accuracy"] == 0.75
    assert figures["f1"] == pytest.approx(2 / 3)


def test_ranking_takes_probabilities_or_scores():
    data = pairs([0, 1, 0, 1, 0], label_names=("no", "yes"), groups=["q", "q", "r", "r", "s"])
    scores = np.array([0.8, 0.6, 0.1, 0.7, 0.5])
    figures = evaluate_predictions(data, scores)
    assert figures["primary"] == "map"
    assert figures["map"] == 0.75 and figures["mrr"] == 0.75
    assert figures["questions"] == 3 and figures["without_positive"] == 1
    both = evaluate_predictions(data, np.stack([1 - scores, scores], 1))
    assert both["map"] == figures["map"] and both["accuracy"] == 0.8


def test_regression():
    data = pairs(np.array([1.0, 2.0, 4.0]))
    figures = evaluate_predictions(data, np.array([[1.0], [2.0], [3.0]]))
    assert figures["primary"] == "pearson" and figures["spearman"] == pytest.approx(1.0)
    assert figures["mse"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("data", "predictions", "message"),
    [
        (pairs([0, 1], label_names=("a", "b")), np.ones((3, 2)), "3 predictions for the 2 rows"),
        (pairs([0, 1], label_names=("a", "b")), np.ones((2, 3)), r"expected \[rows, 2\]"),
        (pairs([0, 1], label_names=("a", "b")), np.full((2, 2), np.nan), "2 of 2 predictions"),
        (pairs(np.array([0.5, 1.0])), np.ones((2, 2)), "one score a row"),
        (PairDataset(["a"], ["b"]), np.ones((1, 2)), "no labels"),
    ],
)
def test_bad_input(data, predictions, message):
    with pytest.raises(InputError, match=message):
        evaluate_predictions(data, predictions)
