"""How reliable the metrics of a run are, the metrics of its classes, and advice."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.metrics import (
    average_precision_score,
    confusion_matrix,
    precision_recall_fscore_support,
)

from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.dataset import rows_by_group
from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics import evaluate_predictions
from keras_sentmatch.metrics.evaluation import PRIMARY

FEW_PAIRS = 3000  # training pairs
MANY_UNKNOWN = 0.1  # share of the words
DRAWS = 100  # samples of the bootstrap


def majority_figures(
    train: PairDataset, pairs: PairDataset, f1_of: str | None = None
) -> dict[str, Any] | None:
    """Return the metrics of always predicting the most frequent class; None without classes."""
    if train.task != "classification":
        return None
    shares = np.bincount(np.asarray(train.labels), minlength=train.num_classes) / len(train)
    return evaluate_predictions(pairs, np.tile(shares, (len(pairs), 1)), f1_of=f1_of)


def class_figures(pairs: PairDataset, outputs: np.ndarray) -> list[dict[str, Any]]:
    """Return for each class precision, recall, F1, average precision, pairs and predictions.

    `average_precision` is the area under the precision-recall curve, None for a class without pairs.
    """
    names, labels = pairs.label_names or (), np.asarray(pairs.labels)
    numbers = range(len(names))
    predicted = outputs.argmax(-1)
    columns = precision_recall_fscore_support(labels, predicted, labels=numbers, zero_division=0.0)
    answers = confusion_matrix(labels, predicted, labels=numbers)
    return [
        {
            "label": names[number],
            "precision": float(p),
            "recall": float(r),
            "f1": float(f),
            "average_precision": float(
                average_precision_score(labels == number, outputs[:, number])
            )
            if n
            else None,
            "n": int(n),
            "answers": dict(zip(names, answers[number].tolist())),
        }
        for number, (p, r, f, n) in enumerate(zip(*columns))
    ]


def standard_error(
    pairs: PairDataset, outputs: np.ndarray, name: str, f1_of: str | None = None
) -> float:
    """Return the standard error of a metric: by formula for accuracy, else by the bootstrap.

    The bootstrap of a ranking draws whole questions.
    """
    if name == "accuracy":
        share = evaluate_predictions(pairs, outputs)[name]
        return float(np.sqrt(share * (1 - share) / len(pairs)))
    rng, drawn = np.random.default_rng(0), []
    groups = range(len(pairs)) if pairs.groups is None else pairs.groups
    rows = rows_by_group(groups)
    for _ in range(DRAWS):
        some = rng.integers(0, len(rows), len(rows))
        again = pairs.select(np.concatenate([rows[number] for number in some]))
        if pairs.groups is not None:  # a question that is drawn twice counts twice
            sizes = [len(rows[number]) for number in some]
            groups_again = np.repeat(np.arange(len(some)), sizes).astype(str)
            again = PairDataset.from_dict(again.to_dict() | {"groups": groups_again.tolist()})
        order = np.concatenate([rows[number] for number in some])
        with suppress(InputError):  # only questions without a right answer were drawn
            figures = evaluate_predictions(again, outputs[order], f1_of=f1_of)
            drawn.append(figures.get(name, np.nan))
    return float(np.nanstd(drawn, ddof=1))


def figure_of(monitor: str, task: str) -> str:
    """Return the metric that a run is judged by: the monitored one, or the primary for a loss."""
    name = monitor.removeprefix("val_")
    return PRIMARY[task] if name == "loss" else name


def advice(metrics: Mapping[str, Any], unknown: float) -> list[str]:
    """Return lines on what the results of a run are worth; `unknown` is the share of unknown words."""
    name, figures = figure_of(metrics["monitor"], metrics["task"]), metrics["validation"]
    ours, error, title = figures[name], metrics["standard_error"], name.replace("_", " ")
    rows = f"{figures['rows']:,} validation pairs"
    lines = [f"Validation {title} {ours:.3f} ± {error:.3f} (standard error, {rows})"]
    rivals = {"a bag of words": metrics.get("baseline", {}).get("validation")}
    rivals["always predicting the most frequent class"] = metrics.get("majority")
    won = {rival: found[name] for rival, found in rivals.items() if found and found[name] >= ours}
    if won:
        against = " and ".join(f"{value:.3f} for {rival}" for rival, value in won.items())
        if max(won.values()) - ours > error:
            lines.append(f"This matcher lost: validation {title} {ours:.3f}, but {against}.")
        else:
            lines.append(
                f"This matcher is not better, as far as {rows} can tell: {title} {ours:.3f}, but "
                f"{against}."
            )
        lines.append(f"Worth a try: {', '.join(_attempts(metrics, unknown))}.")
    for found in metrics.get("classes", {}).get("validation", ()):
        if found["n"] and not any(
            row["answers"][found["label"]] for row in metrics["classes"]["validation"]
        ):
            lines.append(
                f"{found['label']!r} is never predicted, though {found['n']:,} of {rows} have it. "
                "Train with --set training.class_weight=balanced, or choose a threshold with "
                "calibrate."
            )
    if metrics["rising"]:
        most = metrics["epochs"]
        lines.append(
            f"It still improved in the last epoch, {most}. Train with --epochs {2 * most}."
        )
    return lines


def _attempts(metrics: Mapping[str, Any], unknown: float) -> Iterator[str]:
    if metrics["rows"]["train"] < FEW_PAIRS:
        yield f"more than these {metrics['rows']['train']:,} training pairs"
    if unknown > MANY_UNKNOWN:
        yield f"other word vectors (--vectors), because {unknown:.0%} of the words are unknown"
    elif metrics["vectors"] is None and metrics["word_level"]:
        yield "pretrained word vectors (--vectors)"
    yield "another model or seed"
    if metrics["model"] != "bag_of_words":
        yield "the bag of words itself (train bag_of_words)"
