"""The results of a run: its metrics, what they are worth, its card and its pictures."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, precision_recall_fscore_support

from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.dataset import rows_by_group
from keras_sentmatch.display.figures import confusion_matrix, learning_curve, precision_recall
from keras_sentmatch.display.rendering import render
from keras_sentmatch.display.tables import markdown_table
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.run_folder import write_json
from keras_sentmatch.metrics import evaluate_predictions
from keras_sentmatch.metrics.evaluation import PRIMARY
from keras_sentmatch.training.adapt import rarest_class
from keras_sentmatch.training.config import f1_label
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.training_data import TrainingData

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
    predicted = outputs.argmax(-1)
    columns = precision_recall_fscore_support(
        labels, predicted, labels=range(len(names)), zero_division=0.0
    )
    found = []
    for number, (name, p, r, f, n) in enumerate(zip(names, *columns)):
        ranked = average_precision_score(labels == number, outputs[:, number]) if n else None
        answers = np.bincount(predicted[labels == number], minlength=len(names))
        found.append(
            {
                "label": name,
                "precision": float(p),
                "recall": float(r),
                "f1": float(f),
                "average_precision": None if ranked is None else float(ranked),
                "n": int(n),
                "answers": dict(zip(names, answers.tolist())),
            }
        )
    return found


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


def advice(metrics: Mapping[str, Any], most_epochs: int, unknown: float) -> list[str]:
    """Return lines on what the results of a run are worth; `unknown` is the share of unknown words."""
    name = figure_of(metrics["monitor"], metrics["task"])
    ours, train_rows = metrics["validation"][name], metrics["rows"]["train"]
    title = name.replace("_", " ")
    rising = metrics["rising"]
    lines = []
    if (error := metrics.get("standard_error")) is not None:
        rows = metrics["validation"]["rows"]
        lines.append(
            f"Validation {title} {ours:.3f} ± {error:.3f} (standard error, {rows:,} pairs)"
        )
    rivals = {"a bag of words": metrics.get("baseline", {}).get("validation")}
    rivals["always predicting the most frequent class"] = metrics.get("majority")
    won = {rival: found[name] for rival, found in rivals.items() if found and name in found}
    won = {rival: value for rival, value in won.items() if value > ours}
    if won:
        against = " and ".join(f"{value:.3f} for {rival}" for rival, value in won.items())
        if max(won.values()) - ours > (error or 0.0):
            lines.append(f"This matcher lost: validation {title} {ours:.3f}, but {against}.")
        else:
            lines.append(
                f"This matcher is not better, as far as {metrics['validation']['rows']:,} validation "
                f"pairs can tell: {title} {ours:.3f}, but {against}."
            )
        lines += _reasons(metrics, train_rows, unknown, rising)
    if rising:
        more = 2 * most_epochs
        way = "Train again with" if metrics.get("folds") else "Continue with --resume and"
        lines.append(f"It still improved in the last epoch, {most_epochs}. {way} --epochs {more}.")
    return lines


def _reasons(metrics: Mapping[str, Any], pairs: int, unknown: float, rising: bool) -> Sequence[str]:
    why, attempts = [], []
    if pairs < FEW_PAIRS:
        why.append(f"few training pairs ({pairs:,})")
        attempts.append("more pairs")
    if unknown > MANY_UNKNOWN:
        why.append(f"many unknown words ({unknown:.0%})")
    if metrics["vectors"] is None and metrics["word_level"]:
        why.append("word vectors that start at random")
    if unknown > MANY_UNKNOWN or len(why) and why[-1].startswith("word vectors"):
        attempts.append("pretrained word vectors (--vectors)")
    if rising:
        why.append("training that ended too early")
        attempts.append("more epochs")
    attempts.append("another model or seed")
    if metrics["model"] != "bag_of_words":
        attempts.append("the bag of words itself (train bag_of_words)")
    likely = f"Likely reasons: {', '.join(why)}." if why else ""
    return [line for line in (likely, f"Worth a try: {', '.join(attempts)}.") if line]


def model_card(
    metrics: Mapping[str, Any], recipe: Recipe, label_names: tuple[str, ...] | None
) -> str:
    """Return the README.md of a run: what was trained, and the results."""
    columns = {role: metrics[role] for role in ("validation", "test") if role in metrics}
    for role, results in metrics.get("baseline", {}).items():
        columns[f"{role}, bag of words"] = results
    names = dict.fromkeys(name for results in columns.values() for name in results)
    rows = [
        [name, *(results.get(name) for results in columns.values())]
        for name in names
        if name != "primary"
    ]
    return render(
        "run_card.md",
        m=metrics,
        answers=", ".join(label_names) if label_names else "one score",
        results="\n".join(markdown_table(["", *columns], rows)),
        recipe=recipe.to_toml().rstrip(),
    )


def measured(data: TrainingData, outputs: Mapping[str, np.ndarray], monitor: str) -> dict[str, Any]:
    """Return the metrics of each split, what the validation metric is worth, and those of classes."""
    task, label = data.labeled.task, f1_label(monitor)
    found: dict[str, Any] = {
        role: evaluate_predictions(pairs, outputs[role], f1_of=label)
        for role, pairs in data.measured.items()
    }
    pairs, name = data.measured["validation"], figure_of(monitor, task)
    found["standard_error"] = standard_error(pairs, outputs["validation"], name, label)
    found["majority"] = majority_figures(data.labeled, pairs, label)
    if task == "classification":
        found["rare"] = bool(rarest_class(data.labeled))
        found["classes"] = {
            role: class_figures(pairs, outputs[role]) for role, pairs in data.measured.items()
        }
    return found


def write_results(
    folder: Path,
    metrics: Mapping[str, Any],
    recipe: Recipe,
    pairs: Mapping[str, PairDataset],
    outputs: Mapping[str, np.ndarray],
) -> None:
    """Write `metrics.json`, the recipe, the card and the pictures of a run."""
    write_json(folder / "metrics.json", dict(metrics))
    (folder / "recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
    shown = next((role for role in ("test", "validation") if role in pairs), None)
    names = None if shown is None else pairs[shown].label_names
    (folder / "README.md").write_text(model_card(metrics, recipe, names), encoding="utf-8")
    if metrics["epochs"]:
        learning_curve(folder / "history.csv", folder / "learning_curve.png")
    if shown is None or names is None:
        return
    labels, found = np.asarray(pairs[shown].labels), outputs[shown]
    confusion_matrix(labels, found.argmax(-1), names, folder / "confusion_matrix.png")
    if metrics.get("rare"):
        precision_recall(labels, found, names, folder / "precision_recall.png")
