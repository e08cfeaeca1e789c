"""Errors in labeled pairs, found before training: wrong labels, duplicates, leaks, shortcuts."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset, leak_report
from keras_sentmatch.data.splits import plain_sides
from keras_sentmatch.display.progress import progress_bar
from keras_sentmatch.display.rendering import render, render_page
from keras_sentmatch.display.tables import write_report, write_text
from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics import evaluate_predictions
from keras_sentmatch.training import train
from keras_sentmatch.training.adapt import rarest_class
from keras_sentmatch.training.baseline import bag_of_words_baseline
from keras_sentmatch.training.folds import fold_numbers, fold_parts
from keras_sentmatch.training.recipe import Recipe

SHORTCUTS = {"sentence 2 only": "sentence2", "word overlap only": "overlap"}
ENOUGH = 1000  # pairs to measure shortcuts on
MARGIN = 0.05  # above the majority, from which on a shortcut is reported
SHOWN = 200  # suspects, and conflicts, on the page
FAR = 4.0  # standard deviations (estimated from the median) from which on a score is suspect
COLUMNS = ["row", "label", "answer", "probability", "of_label", "sentence1", "sentence2"]


def audit(
    pairs: PairDataset,
    recipe: Recipe,
    *,
    folds: int = 5,
    others: Mapping[str, PairDataset] | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Look for errors in labeled pairs before a model learns from them.

    Each pair is predicted by a model that was trained on other folds. Pairs with the same first
    sentence stay in one fold. A pair is suspect if another label is at least as probable for it as,
    on average, for pairs that have that label, and more probable than its own label (confident
    learning); with scores, if the prediction is far from the score.

    Args:
        pairs: Labeled pairs.
        recipe: The model that predicts. The linear `bag_of_words` takes seconds.
        folds: Number of folds.
        others: Further parts by name, such as `"test"`, which should share nothing with the pairs.
        progress: Whether to show progress on standard error.

    Returns:
        The report: `rows`, `balance` (pairs by label), `answers` (the model's metrics), `suspects`
        (the most certain first, each with `row` from 1, `label`, `answer`, `probability` and
        `of_label`, the probability of its own label), `conflicts`, `repeats`, `leaks`, `shortcuts`,
        and `notes`, the findings in sentences.

    Raises:
        InputError: Pairs without labels or with only one label, or more folds than pairs.

    Example:

    ```python
    from keras_sentmatch.analysis import audit
    from keras_sentmatch.data import read_pairs
    from keras_sentmatch.training import load_recipe

    recipe = load_recipe("bag_of_words", overrides=["model.matching_features=true"])
    report = audit(read_pairs("pairs.tsv"), recipe)
    report["notes"]
    ```

    References:
        Northcutt, Jiang and Chuang 2021, arXiv 1911.00068 (confident learning).
    """
    labeled = pairs.labels is not None and pairs.task != "regression"
    if labeled and sum(n > 0 for n in pairs.label_counts().values()) < 2:
        raise InputError(
            f"All {len(pairs):,} pairs have the same label, so nothing can be compared. Add pairs of "
            "another label, or name the column of the labels."
        )
    fold = fold_numbers(pairs, folds)
    outputs, shortcuts = _cross_answers(pairs, recipe, folds, fold, progress)
    suspects = _far_scores if pairs.task == "regression" else _suspects
    repeats, conflicts = _repeats(pairs)
    report: dict[str, Any] = {
        "data": pairs.name,
        "rows": len(pairs),
        "task": pairs.task,
        "model": recipe.name,
        "folds": folds,
        "balance": pairs.label_counts(),
        "answers": _figure(pairs, outputs),
        "suspects": suspects(pairs, outputs),
        "conflicts": conflicts,
        "repeats": repeats,
        "leaks": {name: _leaks(other, pairs) for name, other in (others or {}).items()},
        "shortcuts": shortcuts,
    }
    return {**report, "notes": _notes(report, pairs)}


def _cross_answers(
    pairs: PairDataset, recipe: Recipe, folds: int, fold: np.ndarray, progress: bool
) -> tuple[np.ndarray, dict[str, float]]:
    """Return the prediction of each pair by a model that has not seen it, and metrics of simple models."""
    found: np.ndarray | None = None
    figures: dict[str, list[float]] = {name: [] for name in SHORTCUTS}
    with progress_bar("folds", folds, progress) as show:
        for number, parts in enumerate(fold_parts(pairs, folds)):
            library = logging.getLogger("keras_sentmatch")
            level = library.level
            library.setLevel(logging.ERROR)  # each fold would say the same
            try:
                run = train(recipe, parts, None, progress=False, baseline=False)
            finally:
                library.setLevel(level)
            answers = run.matcher.predict_proba(parts["test"]).reshape(len(parts["test"]), -1)
            if found is None:
                found = np.zeros((len(pairs), answers.shape[1]))
            found[fold == number] = answers
            three = parts["train"], parts["validation"], parts["test"]
            for name, sees in SHORTCUTS.items() if (fold < number).sum() < ENOUGH else ():
                test = bag_of_words_baseline(*three, sees=sees)["test"]
                figures[name].append(test[_name(pairs)])
            show(number + 1)
    assert found is not None
    return found, {name: float(np.mean(values)) for name, values in figures.items()}


def _name(pairs: PairDataset) -> str:
    """Return the metric of simple models."""
    return "pearson" if pairs.task == "regression" else "accuracy"


def _figure(pairs: PairDataset, outputs: np.ndarray) -> dict[str, float]:
    name = _name(pairs)
    found = outputs[:, 0] if pairs.task == "regression" else outputs
    figures = {name: evaluate_predictions(pairs, found)[name]}
    if pairs.task != "regression":
        figures["majority"] = max(pairs.label_counts().values()) / len(pairs)
    return figures


def _suspects(pairs: PairDataset, outputs: np.ndarray) -> list[dict[str, Any]]:
    """Return the rows that probably have another label (confident learning)."""
    labels, names = np.asarray(pairs.labels), pairs.label_names or ()
    rows = np.arange(len(pairs))
    usual = np.array(
        [
            outputs[labels == n, n].mean() if (labels == n).any() else np.inf
            for n in range(len(names))
        ]
    )
    likely = np.where(outputs >= usual, outputs, -1.0)
    answer, own = likely.argmax(1), outputs[rows, labels]
    wrong = (likely.max(1) > 0) & (answer != labels) & (outputs[rows, answer] > own)
    order = sorted(np.flatnonzero(wrong).tolist(), key=lambda r: own[r] - outputs[r, answer[r]])
    return [
        _suspect(pairs, r, names[labels[r]], names[answer[r]], outputs[r, answer[r]], own[r])
        for r in order
    ]


def _far_scores(pairs: PairDataset, outputs: np.ndarray) -> list[dict[str, Any]]:
    """Return the rows whose score is far from the prediction."""
    labels = np.asarray(pairs.labels)
    away = np.abs(outputs[:, 0] - labels.astype(float))
    spread = 1.4826 * np.median(away)
    order = np.argsort(-away, kind="stable")
    return [
        _suspect(pairs, row, _shortest(labels[row]), float(outputs[row, 0]), None, None)
        for row in order[away[order] > FAR * max(spread, 1e-9)].tolist()
    ]


def _shortest(score: np.floating) -> float:
    """Return the shortest decimal number of a float32 score: 0.4, not 0.4000000059604645."""
    return float(str(np.float32(score)))


def _suspect(
    pairs: PairDataset, row: int, label: Any, answer: Any, probability: Any, own: Any
) -> dict[str, Any]:
    found = {"row": int(row) + 1}
    if pairs.ids is not None:
        found["id"] = pairs.ids[row]  # type: ignore[assignment]
    return {
        **found,
        "label": label,
        "answer": answer,
        "probability": None if probability is None else round(float(probability), 4),
        "of_label": None if own is None else round(float(own), 4),
        "sentence1": pairs.sentence1[row],
        "sentence2": pairs.sentence2[row],
    }


def _repeats(pairs: PairDataset) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Count rows that repeat a pair, and return the pairs that have several labels."""
    rows: dict[tuple[str, str], list[int]] = {}
    for row, pair in enumerate(zip(*plain_sides(pairs))):
        rows.setdefault(pair, []).append(row)
    assert pairs.labels is not None
    names, labels = pairs.label_names, pairs.labels.tolist()
    conflicts: list[dict[str, Any]] = []
    turned = 0
    for pair, mine in rows.items():
        by_label: dict[str, list[int]] = {}
        for row in mine:
            label = names[int(labels[row])] if names else str(_shortest(labels[row]))
            by_label.setdefault(label, []).append(row + 1)
        if len(by_label) > 1:
            one, two = pairs.sentence1[mine[0]], pairs.sentence2[mine[0]]
            conflicts.append({"sentence1": one, "sentence2": two, "labels": by_label})
        other = rows.get((pair[1], pair[0]), []) if pair[0] < pair[1] else []
        turned += bool(other and {labels[r] for r in other} != {labels[r] for r in mine})
    counts = {
        "repeated": len(pairs) - len(rows),
        "conflicting": sum(len(r) for found in conflicts for r in found["labels"].values()),
        "other_order_other_label": turned,
        "same_sentence": sum(one == two for one, two in rows),
        "empty": sum(not (one and two) for one, two in zip(*plain_sides(pairs))),
    }
    return counts, conflicts


def _leaks(other: PairDataset, pairs: PairDataset) -> dict[str, Any]:
    """Count what another part shares with the pairs; each of its sentences counts once."""
    known = {sentence for side in plain_sides(pairs) for sentence in side}
    theirs = dict.fromkeys(sentence for side in plain_sides(other) for sentence in side)
    shared = [sentence for sentence in theirs if sentence in known]
    counts = leak_report(pairs, other)
    return {"rows": len(other), **counts, "sentences": len(theirs), "examples": shared[:5]}


def _notes(report: Mapping[str, Any], pairs: PairDataset) -> list[str]:
    """Return the findings in sentences, the most urgent first."""
    rows, counts, suspects = report["rows"], report["repeats"], len(report["suspects"])
    far = report["task"] == "regression"
    doubt = "predicted far from their score" if far else "probably wrong"
    found: list[tuple[float, str]] = []
    for name, leak in report["leaks"].items():
        share = leak["shared_sentences"] / max(leak["sentences"], 1)
        found += [
            (leak["shared_pairs"], f"of {leak['rows']:,} {name} pairs are also among the audited "
             "ones. Remove them from either part; otherwise, the metrics will be too high."),
            (leak["shared_sentences"], f"sentences of the {name} pairs ({share:.0%}) also occur in the "
             "audited ones."),
        ]  # fmt: skip
    found += [
        (counts["conflicting"], "rows have a pair that also has another label "
         f"({len(report['conflicts']):,} pairs). Keep one label each."),
        (counts["other_order_other_label"], "pairs have another label with their sentences in the "
         "other order, which is right for inference and wrong for paraphrases."),
        (counts["empty"], "rows have an empty sentence."),
        (counts["repeated"], "rows repeat an earlier pair."),
        (suspects, f"labels ({suspects / rows:.1%}) are {doubt}. Look at the first ones first."),
    ]  # fmt: skip
    notes = [f"{count:,} {text}" for count, text in found if count]
    majority = report["answers"].get("majority", np.inf)
    for name, value in report["shortcuts"].items():
        if value > majority + MARGIN:
            notes.append(
                f"A model that sees {name} reaches an accuracy of {value:.3f}; always predicting the most "
                f"frequent label reaches {majority:.3f}. So a model need not compare the sentences."
            )
    if rare := rarest_class(pairs):
        notes.append(
            f"{rare[0]!r} is rare ({rare[1]:.1%}). Add such pairs, or weight them with "
            "training.class_weight."
        )
    return notes or ["No errors were found."]


def save_audit(report: Mapping[str, Any], folder: Path) -> None:
    """Write audit.json, audit.md, audit.csv (all suspects) and the page audit.html into a folder."""
    rows = [[found[name] for name in COLUMNS] for found in report["suspects"]]
    markdown = render("audit.md", r=report, columns=COLUMNS, suspects=rows[:SHOWN])
    write_report(folder, "audit", report, markdown, COLUMNS, rows)
    title = f"Audit of {report['data'] or 'pairs'}"
    write_text(folder / "audit.html", render_page("audit.html", title, r=report, most=SHOWN))
