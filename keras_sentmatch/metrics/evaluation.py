"""The metrics of a task."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.errors import InputError, wording
from keras_sentmatch.metrics.calibration import (
    decide,
    expected_calibration_error,
    negative_log_likelihood,
)
from keras_sentmatch.metrics.ranking import (
    mean_average_precision,
    mean_reciprocal_rank,
    ranking_counts,
)
from keras_sentmatch.metrics.scores import accuracy, f1, macro_f1, pearson, spearman


class LabeledPairs(Protocol):
    """The attributes of a `keras_sentmatch.data.PairDataset` that are used."""

    labels: Any
    label_names: Any
    groups: Any
    task: Any
    name: Any
    split: Any


PRIMARY = {"classification": "accuracy", "ranking": "map", "regression": "pearson"}


def evaluate_predictions(
    dataset: LabeledPairs,
    predictions: ArrayLike,
    *,
    threshold: float | None = None,
    f1_of: str | None = None,
) -> dict[str, Any]:
    """Measure predictions by the metrics of the task.

    | task | metrics | primary |
    |---|---|---|
    | classification | accuracy, macro_f1; with two classes f1 (of class 1); nll, ece | accuracy |
    | ranking | map, mrr, accuracy, nll, ece, questions, without_positive, without_negative | map |
    | regression | pearson, spearman, mse | pearson |

    Args:
        dataset: Labeled pairs, a `keras_sentmatch.data.PairDataset`.
        predictions: Class probabilities [n, C] in row order. Ranking accepts [n, 2] (column 1
            ranks) or scores [n]; regression accepts scores [n] or [n, 1].
        threshold: Of two classes, the probability of class 1 above which it is predicted.
        f1_of: Name of a label whose F1 is added as `f1:NAME` in classification.

    Returns:
        Metrics by name, `rows`, and `primary`, the name of the metric that chooses models.

    Raises:
        InputError: If the data has no labels or the predictions have the wrong shape.

    Example:

    >>> import numpy as np
    >>> from keras_sentmatch.data import PairDataset
    >>> pairs = PairDataset(["a", "b"], ["a", "c"], [1, 0], label_names=("no", "yes"))
    >>> evaluate_predictions(pairs, np.array([[0.2, 0.8], [0.9, 0.1]]))["accuracy"]
    1.0
    """
    if dataset.labels is None:
        raise InputError(
            f"{_name(dataset)} has no labels, so predictions cannot be scored. Evaluate a labeled "
            "split."
        )
    labels = np.asarray(dataset.labels)
    values = np.asarray(predictions)
    if len(values) != len(labels):
        raise InputError(
            f"There are {len(values)} predictions for the {len(labels)} rows of {_name(dataset)}. "
            "Expected one per row."
        )
    if not np.isfinite(values).all():
        rows = int((~np.isfinite(values.reshape(len(values), -1)).all(1)).sum())
        raise InputError(
            f"{rows} of {len(values)} predictions for {_name(dataset)} are NaN or infinite: training "
            "has diverged. Train again with a lower learning rate."
        )
    if dataset.task == "regression":
        figures = _regression(labels, values)
    elif dataset.task == "ranking":
        figures = _ranking(dataset, labels, values, threshold)
    else:
        _check_classes(values, len(dataset.label_names))
        figures = _classification(labels, values, threshold)
        if f1_of is not None:
            number = list(dataset.label_names).index(f1_of)
            of_label = f1(labels == number, decide(values, threshold) == number)
            figures = {**figures, f"f1:{f1_of}": of_label}
    return {**figures, "rows": len(labels), "primary": PRIMARY[dataset.task]}


def _name(dataset: LabeledPairs) -> str:
    return " ".join(part for part in (dataset.name, dataset.split) if part) or "The dataset"


def _check_classes(values: np.ndarray, num_classes: int) -> None:
    if values.ndim != 2 or values.shape[1] != num_classes:
        raise InputError(
            f"The predictions have shape {values.shape}. Expected [rows, {num_classes}], one "
            "probability per label."
        )


def _classification(
    labels: np.ndarray, probabilities: np.ndarray, threshold: float | None
) -> dict[str, float]:
    predicted = decide(probabilities, threshold)
    return {
        "accuracy": accuracy(labels, predicted),
        "macro_f1": macro_f1(labels, predicted),
        **({"f1": f1(labels, predicted)} if probabilities.shape[1] == 2 else {}),
        "nll": negative_log_likelihood(labels, probabilities),
        "ece": expected_calibration_error(labels, probabilities),
    }


def _ranking(
    dataset: LabeledPairs, labels: np.ndarray, values: np.ndarray, threshold: float | None
) -> dict[str, float]:
    if dataset.groups is None:
        how = wording("PairDataset(groups=…)", "--columns FIRST,SECOND,LABEL,QUESTION")
        raise InputError(
            f"{_name(dataset)} is a ranking task without groups, so its questions are unknown. Set "
            f"the question of each row with {how}."
        )
    # An array of strings would give every row the size of the longest string.
    groups = np.asarray(dataset.groups, dtype=object)
    scores, extra = values.reshape(len(values), -1)[:, -1], {}
    if values.ndim == 2 and values.shape[1] > 1:
        _check_classes(values, 2)
        found = _classification(labels, values, threshold)
        extra = {name: found[name] for name in ("accuracy", "nll", "ece")}
    return {
        "map": mean_average_precision(labels, scores, groups),
        "mrr": mean_reciprocal_rank(labels, scores, groups),
        **extra,
        **ranking_counts(labels, groups),
    }


def _regression(labels: np.ndarray, values: np.ndarray) -> dict[str, float]:
    if values.size != len(labels):
        raise InputError(
            f"The predictions have shape {values.shape}. Expected one score per row: [rows] or "
            "[rows, 1]."
        )
    scores = values.reshape(len(labels)).astype("float64")
    return {
        "pearson": pearson(labels, scores),
        "spearman": spearman(labels, scores),
        "mse": float(np.mean((labels - scores) ** 2)),
    }
