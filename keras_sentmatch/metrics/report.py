"""All figures of a prediction, chosen by the data's task."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics.calibration import (
    decide,
    expected_calibration_error,
    negative_log_likelihood,
)
from keras_sentmatch.metrics.classification import accuracy, f1, macro_f1
from keras_sentmatch.metrics.correlation import pearson, spearman
from keras_sentmatch.metrics.ranking import (
    mean_average_precision,
    mean_reciprocal_rank,
    ranking_counts,
)

if TYPE_CHECKING:
    from keras_sentmatch.data.dataset import PairDataset

PRIMARY = {"classification": "accuracy", "ranking": "map", "regression": "pearson"}


def evaluate_predictions(
    dataset: "PairDataset", predictions: ArrayLike, *, threshold: float | None = None
) -> dict[str, Any]:
    """The task's figures for predictions in row order.

    | task | figures | primary |
    |---|---|---|
    | classification | accuracy, macro_f1; with two classes f1 (of class 1); nll, ece | accuracy |
    | ranking | map, mrr, accuracy, nll, ece, questions, without_positive, without_negative | map |
    | regression | pearson, spearman, mse | pearson |

    Args:
        dataset: labelled pairs.
        predictions: class probabilities [n, C]; ranking takes [n, 2] (column 1 ranks) or scores
            [n]; regression scores [n] or [n, 1].
        threshold: with two classes, the probability of class 1 above which it is answered.

    Returns:
        Figures by name, `rows`, and `primary`, the name of the one to choose models by. Raises
        `InputError` for unlabelled data and for predictions of another shape.

    Example:

    >>> import numpy as np
    >>> from keras_sentmatch.data import PairDataset
    >>> pairs = PairDataset(["a", "b"], ["a", "c"], [1, 0], label_names=("no", "yes"))
    >>> evaluate_predictions(pairs, np.array([[0.2, 0.8], [0.9, 0.1]]))["accuracy"]
    1.0
    """
    if dataset.labels is None:
        raise InputError(
            f"{_name(dataset)} has no labels, so predictions cannot be scored. "
            "Evaluate a labelled split."
        )
    labels = np.asarray(dataset.labels)
    values = np.asarray(predictions)
    if len(values) != len(labels):
        raise InputError(
            f"{len(values)} predictions for the {len(labels)} rows of {_name(dataset)}; "
            "expected one for each row."
        )
    if not np.isfinite(values).all():
        rows = int((~np.isfinite(values.reshape(len(values), -1)).all(1)).sum())
        raise InputError(
            f"{rows} of {len(values)} predictions for {_name(dataset)} are NaN or infinite; "
            "the model has diverged. Train again with a lower learning rate."
        )
    figures: dict[str, Any]
    if dataset.task == "regression":
        figures = _regression(labels, values)
    elif dataset.task == "ranking":
        figures = _ranking(dataset, labels, values, threshold)
    else:
        figures = _classification(labels, _probabilities(values, dataset.num_classes), threshold)
    return {**figures, "rows": len(labels), "primary": PRIMARY[dataset.task]}


def _name(dataset: "PairDataset") -> str:
    return " ".join(part for part in (dataset.name, dataset.split) if part) or "The dataset"


def _probabilities(values: np.ndarray, num_classes: int) -> np.ndarray:
    if values.ndim != 2 or values.shape[1] != num_classes:
        raise InputError(
            f"Predictions of shape {values.shape}; expected [rows, {num_classes}], "
            "one probability for each label name."
        )
    return values


def _classification(
    labels: np.ndarray, probabilities: np.ndarray, threshold: float | None
) -> dict[str, float]:
    predicted = decide(probabilities, threshold)
    figures = {
        "accuracy": accuracy(labels, predicted),
        "macro_f1": macro_f1(labels, predicted),
    }
    if probabilities.shape[1] == 2:
        figures["f1"] = f1(labels, predicted)
    return {**figures, **_belief(labels, probabilities)}


def _belief(labels: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    return {
        "nll": negative_log_likelihood(labels, probabilities),
        "ece": expected_calibration_error(labels, probabilities),
    }


def _ranking(
    dataset: "PairDataset", labels: np.ndarray, values: np.ndarray, threshold: float | None
) -> dict[str, Any]:
    if dataset.groups is None:
        raise InputError(
            f"{_name(dataset)} is a ranking task without groups, so no question can be ranked. "
            "Give PairDataset the question of each row by groups=…."
        )
    groups = np.asarray(dataset.groups)
    if values.ndim == 2 and values.shape[1] > 1:
        scores = _probabilities(values, 2)[:, 1]
        extra = {"accuracy": accuracy(labels, decide(values, threshold)), **_belief(labels, values)}
    else:
        scores, extra = values.reshape(len(values)), {}
    return {
        "map": mean_average_precision(labels, scores, groups),
        "mrr": mean_reciprocal_rank(labels, scores, groups),
        **extra,
        **ranking_counts(labels, groups),
    }


def _regression(labels: np.ndarray, values: np.ndarray) -> dict[str, float]:
    if values.size != len(labels):
        raise InputError(
            f"Predictions of shape {values.shape}; expected one score a row, [rows] or [rows, 1]."
        )
    scores = values.reshape(len(labels)).astype("float64")
    return {
        "pearson": pearson(labels, scores),
        "spearman": spearman(labels, scores),
        "mse": float(np.mean((labels - scores) ** 2)),
    }
