"""Measure the matcher of a run, and write its metrics, card and pictures."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.display.figures import confusion_matrix, learning_curve, precision_recall
from keras_sentmatch.display.rendering import render
from keras_sentmatch.display.tables import markdown_table
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.run_folder import write_json
from keras_sentmatch.metrics import evaluate_predictions
from keras_sentmatch.safety import replace_file
from keras_sentmatch.training._model import count_without_word_embeddings
from keras_sentmatch.training.adapt import rarest_class
from keras_sentmatch.training.baseline import bag_of_words_baseline
from keras_sentmatch.training.config import f1_label
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.results import (
    advice,
    class_figures,
    figure_of,
    majority_figures,
    standard_error,
)
from keras_sentmatch.training.training_data import TrainingData
from keras_sentmatch.version import __version__

if TYPE_CHECKING:
    from keras_sentmatch.training._steps import Run


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


def measure(run: "Run", matcher: Matcher, baseline: bool, start: float) -> dict[str, Any]:
    """Measure the matcher of a run, and write the rest of the run folder."""
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
        "rising": 1 < run.best_epoch == epochs == training.epochs,
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
    _write(run.folder, metrics, recipe, data.measured, outputs)
    return metrics


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
) -> None:
    """Write `metrics.json`, the recipe, the card and the pictures of a run."""
    write_json(folder / "metrics.json", dict(metrics))
    replace_file(folder / "recipe.toml", recipe.to_toml())
    shown = next((role for role in ("test", "validation") if role in pairs), None)
    names = None if shown is None else pairs[shown].label_names
    replace_file(folder / "README.md", model_card(metrics, recipe, names))
    if metrics["epochs"]:
        learning_curve(folder / "history.csv", folder / "learning_curve.png")
    if shown is None or names is None:
        return
    labels, found = np.asarray(pairs[shown].labels), outputs[shown]
    confusion_matrix(labels, found.argmax(-1), names, folder / "confusion_matrix.png")
    if metrics.get("rare"):
        precision_recall(labels, found, names, folder / "precision_recall.png")
