"""Measure the matcher of a run: metrics, how reliable they are, advice; the files of the run folder."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from sklearn.metrics import average_precision_score, precision_recall_fscore_support
from sklearn.metrics import confusion_matrix as count_predictions

from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.dataset import rows_by_group
from keras_sentmatch.display.figures import confusion_matrix, learning_curve, precision_recall
from keras_sentmatch.display.rendering import render
from keras_sentmatch.display.tables import markdown_table
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.run_folder import write_json
from keras_sentmatch.metrics import evaluate_predictions
from keras_sentmatch.safety import replace_file
from keras_sentmatch.training._model import count_without_word_embeddings
from keras_sentmatch.training.adapt import rarest_class
from keras_sentmatch.training.baseline import bag_of_words_baseline
from keras_sentmatch.training.callbacks import figure_of
from keras_sentmatch.training.config import TrainingConfig, f1_label
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.training_data import TrainingData
from keras_sentmatch.version import __version__

if TYPE_CHECKING:
    from keras_sentmatch.training._steps import Run

FEW_PAIRS = 3000  # training pairs
MANY_UNKNOWN = 0.1  # share of the words
DRAWS = 100  # samples of the bootstrap


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


def measure(
    run: "Run", matcher: Matcher, baseline: bool, start: float, pictures: bool
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Measure the matcher of a run, and write the rest of the run folder.

    Returns the metrics, and the predictions for the pairs of each measured part.
    """
    recipe, data, folds = run.recipe, run.data, run.folds
    encoder, vectors, coverage = run.fitted
    training, label = recipe.training, f1_label(run.monitor)
    outputs = {} if folds is None else {"validation": folds.scores}
    for role, pairs in data.measured.items():
        if role not in outputs:
            outputs[role] = matcher.predict_proba(pairs)
    epochs = len(run.history.get("loss", ()))
    first = training.first_run
    metrics = {
        **run.facts,
        "backend": keras.config.backend(),
        "task": data.labeled.task,
        "rows": data.rows,
        "parameters": run.model.count_params(),
        "parameters_without_word_embeddings": count_without_word_embeddings(run.model, encoder),
        "departures": run.model.departures() if hasattr(run.model, "departures") else [],
        "encoding": run.sentences,
        "vectors": None
        if vectors is None
        else {"source": vectors.source, "dim": vectors.dim, "coverage": coverage},
        "init": None if first is None else Path(first).name,
        "teacher": data.teacher,
        "made_pairs": data.made,
        "monitor": run.monitor,
        "epochs": epochs,
        "best_epoch": run.best_epoch,
        "interrupted": run.interrupted,
        "identity": run.identity,
        "folds": training.folds,
        "linear_strength": None,
        "network_share": None,
        **run.chosen,
        "rising": still_rises(run.history, run.best_epoch, training),
        "word_level": isinstance(encoder, PairEncoder),
        **_measured(data, outputs, run.monitor),
    }
    if baseline and not run.interrupted:
        given, test = data.given, data.measured.get("test")
        options: dict[str, Any] = {"class_weight": training.class_weight, "f1_of": label}
        found = bag_of_words_baseline(given["train"], given["validation"], test, **options)
        metrics["baseline"] = found | ((folds and folds.baseline) or {})
    unknown = encoder.report.unknown / max(encoder.report.tokens, 1)
    metrics["notes"] = advice(metrics, unknown)
    earlier = 0.0 if run.state is None else run.state.seconds
    metrics["fit_seconds"] = round(earlier + run.fit_seconds, 1)
    metrics["seconds"] = round(earlier + time.perf_counter() - start, 1)
    metrics["versions"] = {"keras_sentmatch": __version__, "keras": keras.__version__}
    _write(run.folder, metrics, recipe, data.measured, outputs, pictures)
    return metrics, outputs


def still_rises(
    history: Mapping[str, Sequence[float]], best: int, training: TrainingConfig
) -> bool:
    """Return whether more epochs may help: the last one was the best.

    With a learning rate that falls to zero it usually is. Then the training pairs also have to be
    almost as hard as the validation pairs (90% of their loss).
    """
    losses, others = history.get("loss", ()), history.get("val_loss", [np.inf])
    is_last = 1 < best == len(losses) == training.epochs
    return is_last and (not training.falls_to_zero or losses[-1] > 0.9 * others[-1])


def _measured(
    data: TrainingData, outputs: Mapping[str, np.ndarray], monitor: str
) -> dict[str, Any]:
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


def _write(
    folder: Path,
    metrics: Mapping[str, Any],
    recipe: Recipe,
    pairs: Mapping[str, PairDataset],
    outputs: Mapping[str, np.ndarray],
    pictures: bool,
) -> None:
    """Write `metrics.json`, the recipe, the card and the pictures of a run."""
    write_json(folder / "metrics.json", dict(metrics))
    replace_file(folder / "recipe.toml", recipe.to_toml())
    shown = next((role for role in ("test", "validation") if role in pairs), None)
    names = None if shown is None else pairs[shown].label_names
    replace_file(folder / "README.md", model_card(metrics, recipe, names))
    if not pictures:
        return
    if metrics["epochs"]:
        learning_curve(folder / "history.csv", folder / "learning_curve.png")
    if shown is None or names is None:
        return
    labels, found = np.asarray(pairs[shown].labels), outputs[shown]
    confusion_matrix(labels, found.argmax(-1), names, folder / "confusion_matrix.png")
    if metrics.get("rare"):
        precision_recall(labels, found, names, folder / "precision_recall.png")


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
    numbers, predicted, found = range(len(names)), outputs.argmax(-1), []
    columns = precision_recall_fscore_support(labels, predicted, labels=numbers, zero_division=0.0)
    answers = count_predictions(labels, predicted, labels=numbers)
    for number, (p, r, f, n) in enumerate(zip(*columns)):
        row = {"label": names[number], "precision": float(p), "recall": float(r), "f1": float(f)}
        area = average_precision_score(labels == number, outputs[:, number]) if n else None
        row |= {"average_precision": area if area is None else float(area), "n": int(n)}
        found.append(row | {"answers": dict(zip(names, answers[number].tolist()))})
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
    rows = rows_by_group(range(len(pairs)) if pairs.groups is None else pairs.groups)
    for _ in range(DRAWS):
        some = [rows[number] for number in rng.integers(0, len(rows), len(rows))]
        order = np.concatenate(some)
        again = pairs.select(order)
        if pairs.groups is not None:  # a question that is drawn twice counts twice
            groups = np.repeat(np.arange(len(some)), [len(one) for one in some]).astype(str)
            again = PairDataset.from_dict(again.to_dict() | {"groups": groups.tolist()})
        with suppress(InputError):  # only questions without a right answer were drawn
            figures = evaluate_predictions(again, outputs[order], f1_of=f1_of)
            drawn.append(figures.get(name, np.nan))
    return float(np.nanstd(drawn, ddof=1))


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
        lost = max(won.values()) - ours > error
        verdict = "lost" if lost else f"is not better, as far as {rows} can tell"
        lines.append(f"This matcher {verdict}: validation {title} {ours:.3f}, but {against}.")
        lines.append(f"Worth a try: {', '.join(_attempts(metrics, unknown))}.")
    classes = metrics.get("classes", {}).get("validation", ())
    for name, count in ((row["label"], row["n"]) for row in classes):
        if count and not any(row["answers"][name] for row in classes):
            lines.append(
                f"{name!r} is never predicted, though {count:,} of {rows} have it. Train with --set "
                "training.class_weight=balanced, or choose a threshold with calibrate."
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
