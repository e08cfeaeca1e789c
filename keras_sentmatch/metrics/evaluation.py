"""The metrics of a task."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.errors import InputError, wording
from keras_sentmatch.metrics.calibration import (
    apply_temperature,
    decide,
    expected_calibration_error,
    log_odds,
    negative_log_likelihood,
)
from keras_sentmatch.metrics.ranking import (
    mean_average_precision,
    mean_reciprocal_rank,
    ranking_counts,
)
from keras_sentmatch.metrics.scores import accuracy, f1, macro_f1, pearson, positive_class, spearman

PRIMARY = {"classification": "accuracy", "ranking": "map", "regression": "pearson"}


def evaluate_predictions(
    dataset: Any,
    predictions: ArrayLike,
    *,
    threshold: float | None = None,
    temperature: float = 1.0,
    f1_of: str | None = None,
) -> dict[str, Any]:
    """Measure predictions by the metrics of the task.

    | task | metrics | primary |
    |---|---|---|
    | classification | accuracy, macro_f1, f1:LABEL (of two labels), nll, ece | accuracy |
    | ranking | map, mrr, accuracy, nll, ece, questions, without_positive, without_negative | map |
    | regression | pearson, spearman, mse | pearson |

    With two labels, F1 is that of the label called yes, match, duplicate, paraphrase, entailment,
    true, 1, positive, relevant or same, or else of the rarer one. Candidates are ranked by the log
    odds of the right answer, which a temperature does not round to ties.

    Args:
        dataset: Labeled pairs, a `keras_sentmatch.data.PairDataset`.
        predictions: Class probabilities [n, C] in row order. Ranking accepts [n, 2] (column 1
            ranks) or scores [n]; regression accepts scores [n] or [n, 1].
        threshold: For two classes, the probability of class 1 above which it is predicted.
        temperature: Temperature to apply to the probabilities.
        f1_of: Name of a label whose F1 is added as `f1:NAME` in classification.

    Returns:
        Metrics by name, `rows`, and `primary`, the name of the metric that chooses models.

    Raises:
        InputError: If the data has no labels or the predictions have the wrong shape.

    Example:

    >>> import numpy as np
    >>> from keras_sentmatch.data import PairDataset
    >>> pairs = PairDataset(["a", "b"], ["a", "c"], [1, 0], label_names=("no", "yes"))
    >>> evaluate_predictions(pairs, np.array([[0.2, 0.8], [0.9, 0.1]]))["f1:yes"]
    1.0
    """
    name = " ".join(part for part in (dataset.name, dataset.split) if part) or "The dataset"
    if dataset.labels is None:
        raise InputError(
            f"{name} has no labels, so predictions cannot be scored. Evaluate a labeled split."
        )
    labels, values = np.asarray(dataset.labels), np.asarray(predictions)
    if len(values) != len(labels):
        raise InputError(
            f"There are {len(values)} predictions for the {len(labels)} rows of {name}. Expected one "
            "per row."
        )
    if not np.isfinite(values).all():
        rows = int((~np.isfinite(values.reshape(len(values), -1)).all(1)).sum())
        raise InputError(
            f"{rows} of {len(values)} predictions for {name} are NaN or infinite: training has "
            "diverged. Train again with a lower learning rate."
        )
    if threshold is not None and (
        not 0 < threshold < 1 or dataset.task == "regression" or values.shape[1:] != (2,)
    ):
        raise InputError(
            f"threshold={threshold!r} does not fit. Expected a number between 0 and 1, and "
            "probabilities of two labels."
        )
    if dataset.task == "regression":
        figures = _regression(labels, values)
    elif dataset.task == "ranking":
        if dataset.groups is None:
            how = wording("PairDataset(groups=…)", "--columns FIRST,SECOND,LABEL,QUESTION")
            raise InputError(
                f"{name} is a ranking task without groups, so its questions are unknown. Set the "
                f"question of each row with {how}."
            )
        # An array of strings would give every row the size of the longest string.
        groups = np.asarray(dataset.groups, dtype=object)
        figures = _ranking(labels, values, groups, threshold, temperature)
    else:
        names = list(dataset.label_names)
        _check_classes(values, len(names))
        p = apply_temperature(values, temperature)
        figures = _classification(labels, p, threshold)
        if f1_of is not None and f1_of not in names:
            raise InputError(f"f1_of={f1_of!r} is not a label. Expected one of {', '.join(names)}.")
        wanted = {names.index(f1_of)} if f1_of is not None else set()
        wanted |= {positive_class(names, labels)} if len(names) == 2 else set()
        for label in sorted(wanted):
            figures[f"f1:{names[label]}"] = f1(labels, decide(p, threshold), label)
    return {**figures, "rows": len(labels), "primary": PRIMARY[dataset.task]}


def _check_classes(values: np.ndarray, num_classes: int) -> None:
    if values.ndim != 2 or values.shape[1] != num_classes:
        raise InputError(
            f"The predictions have shape {values.shape}. Expected [rows, {num_classes}], one "
            "probability per label."
        )


def _classification(labels: np.ndarray, p: np.ndarray, threshold: float | None) -> dict[str, float]:
    predicted = decide(p, threshold)
    return {
        "accuracy": accuracy(labels, predicted),
        "macro_f1": macro_f1(labels, predicted),
        "nll": negative_log_likelihood(labels, p),
        "ece": expected_calibration_error(labels, p),
    }


def _ranking(
    labels: np.ndarray,
    values: np.ndarray,
    groups: np.ndarray,
    threshold: float | None,
    temperature: float,
) -> dict[str, float]:
    scores, extra = values.reshape(len(values), -1)[:, -1], {}
    if values.ndim == 2 and values.shape[1] > 1:
        _check_classes(values, 2)
        scores = log_odds(values, 1, temperature)
        found = _classification(labels, apply_temperature(values, temperature), threshold)
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
