"""Errors in labeled pairs, found before training: wrong labels, duplicates, leaks, shortcuts."""

import contextlib
import logging
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset, leak_report
from keras_sentmatch.data.splits import plain_sides
from keras_sentmatch.display.progress import progress_bar
from keras_sentmatch.display.rendering import render
from keras_sentmatch.display.tables import write_report
from keras_sentmatch.errors import InputError, argument
from keras_sentmatch.metrics import evaluate_predictions
from keras_sentmatch.text import Tokenizer
from keras_sentmatch.training import bag_of_words_baseline, train
from keras_sentmatch.training.adapt import rarest_class
from keras_sentmatch.training.folds import fold_numbers, fold_parts
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.results import figure_of

log = logging.getLogger(__name__)
SHORTCUTS = {"sentence 2 alone": "sentence2", "word overlap alone": "overlap"}
ENOUGH = 1000  # pairs to measure shortcuts on
MARGIN = 0.05  # above the majority, from which on a shortcut is reported
SHOWN = 200  # suspects, and conflicts, on the page
BINS = 20  # of histograms
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
    """Looks for errors in labeled pairs before a model learns from them.

    A model is trained on all folds but one and answers that one, so that each pair is answered by a
    model that has not seen it. Pairs with the same first sentence stay in one fold. A pair is suspect
    if another label is at least as probable for it as, on average, for pairs that have that label,
    and the most probable such label is not its own (confident learning); with scores, if the answer
    is far from the score. Suspects are sorted by how much more probable the other label is.

    Args:
        pairs: Labeled pairs.
        recipe: The model that answers. That of the example takes seconds.
        folds: Number of folds.
        others: Further parts by name, such as `"test"`, which should share nothing with the pairs.
        progress: Whether to show progress on standard error.

    Returns:
        The report: `rows`, `balance`, `answers` (what the model got right), `suspects` (each with
        `row` from 1, `label`, `answer`, `probability` and `of_label`, its own label's), `confusion`
        (suspects by label and answer), `conflicts`, `repeats`, `leaks`, `shortcuts`, `lengths`, and
        `notes`, the findings in sentences.

    Raises:
        InputError: Pairs without labels or with only one label, or more folds than pairs.

    Example:

    ```python
    from keras_sentmatch.analysis.audit import audit
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
            f"All {len(pairs):,} pairs have one label: there is nothing to compare. Add pairs with "
            "another one, or say which column has the labels."
        )
    fold, _ = fold_numbers(pairs, folds)
    outputs, shortcuts = _cross_answers(pairs, recipe, folds, fold, progress)
    suspects, confusion = (
        (_far_scores(pairs, outputs), None)
        if pairs.task == "regression"
        else _suspects(pairs, outputs)
    )
    repeats, conflicts = _repeats(pairs)
    report: dict[str, Any] = {
        "data": pairs.name,
        "rows": len(pairs),
        "task": pairs.task,
        "model": recipe.name,
        "folds": folds,
        "balance": pairs.label_counts(),
        "answers": _figure(pairs, outputs),
        "suspects": suspects,
        "confusion": confusion,
        "own_probability": _own_histogram(pairs, outputs, suspects),
        "conflicts": conflicts,
        "repeats": repeats,
        "leaks": {name: _leaks(other, pairs) for name, other in (others or {}).items()},
        "shortcuts": shortcuts,
        "lengths": _lengths(pairs),
    }
    return {**report, "notes": _notes(report, pairs)}


def _cross_answers(
    pairs: PairDataset, recipe: Recipe, folds: int, fold: np.ndarray, progress: bool
) -> tuple[np.ndarray, dict[str, float]]:
    """The answer to each pair by a model that has not seen it, and figures of simple models."""
    found: np.ndarray | None = None
    figures: dict[str, list[float]] = {name: [] for name in SHORTCUTS}
    with (
        tempfile.TemporaryDirectory() as home,
        progress_bar("folds", folds, progress, in_bytes=False) as show,
    ):
        for number, parts in enumerate(fold_parts(pairs, folds)):
            with _quiet():
                folder = Path(home) / str(number)
                run = train(recipe, parts, folder, progress=False, baseline=False)
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


@contextlib.contextmanager
def _quiet() -> Any:
    """Only warnings of the library: each fold would say the same."""
    library = logging.getLogger("keras_sentmatch")
    level = library.level
    library.setLevel(max(level, logging.ERROR))
    try:
        yield
    finally:
        library.setLevel(level)


def _name(pairs: PairDataset) -> str:
    """The figure of simple models."""
    return "accuracy" if pairs.task != "regression" else figure_of("val_pearson", pairs.task)


def _figure(pairs: PairDataset, outputs: np.ndarray) -> dict[str, float]:
    name = _name(pairs)
    found = outputs[:, 0] if pairs.task == "regression" else outputs
    figures = {name: evaluate_predictions(pairs, found)[name]}
    if pairs.task != "regression":
        figures["majority"] = max(pairs.label_counts().values()) / len(pairs)
    return figures


def _suspects(
    pairs: PairDataset, outputs: np.ndarray
) -> tuple[list[dict[str, Any]], dict[str, dict[str, int]]]:
    """Confident learning: the rows that probably have another label, and how many by label."""
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
    confusion = {name: dict.fromkeys(names, 0) for name in names}
    found = []
    for row in sorted(np.flatnonzero(wrong).tolist(), key=lambda r: own[r] - outputs[r, answer[r]]):
        given, meant = names[labels[row]], names[answer[row]]
        confusion[given][meant] += 1
        probability = outputs[row, answer[row]]
        found.append(_suspect(pairs, row, given, meant, probability, own[row]))
    return found, confusion


def _far_scores(pairs: PairDataset, outputs: np.ndarray) -> list[dict[str, Any]]:
    """The rows whose score is far from the answer."""
    labels = np.asarray(pairs.labels, float)
    away = np.abs(outputs[:, 0] - labels)
    spread = 1.4826 * np.median(away)
    order = np.argsort(-away, kind="stable")
    return [
        _suspect(pairs, row, float(labels[row]), float(outputs[row, 0]), None, None)
        for row in order[away[order] > FAR * max(spread, 1e-9)].tolist()
    ]


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


def _own_histogram(
    pairs: PairDataset, outputs: np.ndarray, suspects: Sequence[Mapping[str, Any]]
) -> list[dict[str, int]] | None:
    """How many pairs have their label answered with which probability, and how many are suspect."""
    if pairs.task == "regression":
        return None
    own = outputs[np.arange(len(pairs)), np.asarray(pairs.labels)]
    place = np.minimum((own * BINS).astype(int), BINS - 1)
    marked = np.zeros(len(pairs), bool)
    marked[[found["row"] - 1 for found in suspects]] = True
    return [
        {"pairs": int((place == n).sum()), "suspects": int((marked & (place == n)).sum())}
        for n in range(BINS)
    ]


def _repeats(pairs: PairDataset) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """How many rows repeat a pair, and the pairs that have several labels."""
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
            label = names[int(labels[row])] if names else str(labels[row])
            by_label.setdefault(label, []).append(row + 1)
        if len(by_label) > 1:
            one, two = pairs.sentence1[mine[0]], pairs.sentence2[mine[0]]
            conflicts.append({"sentence1": one, "sentence2": two, "labels": by_label})
        other = rows.get((pair[1], pair[0]), []) if pair[0] < pair[1] else []
        turned += bool({labels[r] for r in other} - {labels[r] for r in mine})
    counts = {
        "repeated": len(pairs) - len(rows),
        "conflicting": sum(len(r) for found in conflicts for r in found["labels"].values()),
        "other_order_other_label": turned,
        "same_sentence": sum(one == two for one, two in rows),
        "empty": sum(not (one and two) for one, two in zip(*plain_sides(pairs))),
    }
    return counts, conflicts


def _leaks(other: PairDataset, pairs: PairDataset) -> dict[str, Any]:
    """What another part shares with the pairs; its own sentences are counted once each."""
    known = {sentence for side in plain_sides(pairs) for sentence in side}
    theirs = dict.fromkeys(sentence for side in plain_sides(other) for sentence in side)
    shared = [sentence for sentence in theirs if sentence in known]
    counts = leak_report(pairs, other)
    return {"rows": len(other), **counts, "sentences": len(theirs), "examples": shared[:5]}


def _lengths(pairs: PairDataset) -> dict[str, Any]:
    """Words of the sentences of each side, and a histogram that both share."""
    tokenize = Tokenizer()
    sides = [
        np.array([len(tokenize(sentence)) for sentence in side])
        for side in (pairs.sentence1, pairs.sentence2)
    ]
    top = max(1, int(np.percentile(np.concatenate(sides), 99)))
    step = max(1, -(-top // BINS))
    edges = [*range(0, top + 2 * step, step)]
    found: dict[str, Any] = {"step": step, "edges": edges[:-1]}
    for name, counts in zip(("sentence1", "sentence2"), sides):
        middle, high = np.percentile(counts, [50, 95])
        histogram = np.bincount(np.minimum(counts // step, len(edges) - 2))
        found[name] = {
            "median": float(middle),
            "high": float(high),
            "longest": int(counts.max()),
            "histogram": np.pad(histogram, (0, len(edges) - 1 - len(histogram))).tolist(),
        }
    return found


def _notes(report: Mapping[str, Any], pairs: PairDataset) -> list[str]:
    """The findings in sentences, the most urgent first."""
    rows, notes = report["rows"], []
    for name, found in report["leaks"].items():
        if found["shared_pairs"]:
            notes.append(
                f"{found['shared_pairs']:,} of {found['rows']:,} {name} pairs are among these pairs: "
                "remove them from one of the two, or the metrics will be too good."
            )
        if found["shared_sentences"]:
            share = found["shared_sentences"] / found["sentences"]
            notes.append(
                f"{found['shared_sentences']:,} sentences of the {name} pairs ({share:.0%}) are among "
                "these pairs."
            )
    counts = report["repeats"]
    if counts["conflicting"]:
        notes.append(
            f"{counts['conflicting']:,} rows have a pair that also has another label "
            f"({len(report['conflicts']):,} pairs): keep one label each."
        )
    if counts["other_order_other_label"]:
        notes.append(
            f"{counts['other_order_other_label']:,} pairs have another label with their sentences in "
            "the other order: fine for inference, wrong for paraphrases."
        )
    if counts["empty"]:
        notes.append(f"{counts['empty']:,} rows have an empty sentence.")
    if counts["repeated"]:
        notes.append(f"{counts['repeated']:,} rows repeat an earlier pair.")
    if found := len(report["suspects"]):
        what = "probably have a wrong label" if report["confusion"] else "are far from the answer"
        notes.append(f"{found:,} rows ({found / rows:.1%}) {what}: look at the first ones first.")
    majority = report["answers"].get("majority")
    for name in SHORTCUTS:
        if majority is not None and report["shortcuts"][name] > majority + MARGIN:
            notes.append(
                f"{name[0].upper()}{name[1:]} gives {report['shortcuts'][name]:.3f} accuracy, and the "
                f"most frequent label {majority:.3f}: a model can answer without comparing the "
                "sentences."
            )
    if rare := rarest_class(pairs):
        notes.append(
            f"{rare[0]!r} is rare ({rare[1]:.1%}): add such pairs, or weight them "
            "(training.class_weight)."
        )
    return notes or ["No errors were found."]


def save_audit(report: Mapping[str, Any], folder: Path) -> None:
    """Writes `audit.html`, a page to look through, `audit.json`, `audit.md` and `audit.csv`.

    The table has all suspects, the most certain first.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{argument('out', folder)}: it is a file; expected a folder.")
    rows = [[found[name] for name in COLUMNS] for found in report["suspects"]]
    markdown = render("audit.md", r=report, columns=COLUMNS, suspects=rows[:SHOWN])
    write_report(folder, "audit", report, markdown, COLUMNS, rows)
    page = render("audit.html", title=_title(report), light=(), dark=(), r=report, most=SHOWN)
    (folder / "audit.html").write_text(page, encoding="utf-8")


def _title(report: Mapping[str, Any]) -> str:
    return f"Audit of {report['data'] or 'pairs'}"
