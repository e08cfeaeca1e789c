"""A matcher's errors: by category, compared with baselines, and with the sentences swapped."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.analysis._categories import categorize
from keras_sentmatch.data import PairDataset
from keras_sentmatch.display.figures import categories as draw
from keras_sentmatch.display.rendering import render
from keras_sentmatch.display.tables import data_name, write_report
from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics import macro_f1, wilson_interval
from keras_sentmatch.metrics.calibration import decide
from keras_sentmatch.transformations import Lexicon

COLUMNS = "category pairs right accuracy low high rule".split()
SYMMETRIC = ({"not_paraphrase", "paraphrase"}, {"not_duplicate", "duplicate"})


def error_report(
    labeled: PairDataset,
    scores: np.ndarray,
    *,
    threshold: float | None = None,
    lexicon: Lexicon | None = None,
    annotations: Mapping[str, frozenset[str]] | None = None,
    swapped: np.ndarray | None = None,
    symmetric: Sequence[str] = (),
    baselines: Mapping[str, Mapping[str, Any]] | None = None,
    top: int = 20,
) -> dict[str, Any]:
    """Analyzes a matcher's answers to labeled pairs.

    Args:
        labeled: Pairs with the label indices of the matcher (`Matcher.relabel`).
        scores: Class probabilities, [pairs, classes].
        threshold: The matcher's threshold.
        lexicon: For the category of antonyms.
        annotations: What `read_annotations` returns; replaces the rules.
        swapped: The probabilities for the same pairs with their sentences swapped.
        symmetric: The labels that do not depend on the order of the sentences (`symmetric_labels`).
        baselines: Name → metrics (`accuracy`) to show for comparison.
        top: Number of most confident errors to list.

    Returns:
        `pairs`, `accuracy` with `low` and `high` (95%, Wilson), `macro_f1`, `baselines` (including
        `majority`), `categories` (`name`, `rule`, `pairs`, `right`, `accuracy`, `low`, `high`) and the
        `mean` and `sd` of their accuracies, `errors` (the most confident first) and `swap`.

    Example:

    >>> import numpy as np
    >>> pairs = PairDataset(["No.", "Yes."], ["a", "b"], ["no", "no"], label_names=["no", "yes"])
    >>> report = error_report(pairs, np.array([[0.9, 0.1], [0.2, 0.8]]))
    >>> report["errors"][0]["sentence1"], report["errors"][0]["probability"]
    ('Yes.', 0.8)
    """
    names = labeled.label_names
    if labeled.labels is None or not names or scores.ndim != 2:
        raise InputError("An error report needs answers of classes to labeled pairs.")
    if len(scores) != len(labeled):
        raise InputError(f"There are {len(scores)} answers for {len(labeled)} pairs.")
    labels = np.asarray(labeled.labels)
    given = decide(scores, threshold)
    right = given == labels
    counts = np.bincount(labels, minlength=len(names))
    known = {"majority": {"accuracy": float(counts.max() / len(labels))}, **(baselines or {})}
    rows, rules = categorize(labeled, lexicon, annotations)
    found = {name: _share(right[places]) for name, places in rows.items() if places}
    table = [{"name": name, "rule": rules[name], **share} for name, share in found.items()]
    shares = [row["accuracy"] for row in table]
    return {
        **_share(right),
        "macro_f1": macro_f1(labels, given),
        "baselines": known,
        "categories": table,
        "mean": float(np.mean(shares)) if shares else None,
        "sd": float(np.std(shares, ddof=1)) if len(shares) > 1 else None,
        "errors": _confident(labeled, scores, given, top),
        "swap": None if swapped is None else _swap(names, scores, swapped, threshold, symmetric),
    }


def symmetric_labels(label_names: Sequence[str]) -> tuple[str, ...]:
    """The labels that do not depend on the order of the sentences.

    All labels of paraphrases and duplicate questions; only contradiction in inference.

    Example:

    >>> symmetric_labels(("entailment", "neutral", "contradiction"))
    ('contradiction',)
    """
    if set(label_names) in SYMMETRIC:
        return tuple(label_names)
    return tuple(name for name in label_names if name == "contradiction")


def _share(right: np.ndarray) -> dict[str, Any]:
    hits, total = int(right.sum()), len(right)
    low, high = wilson_interval(hits, total)
    accuracy = hits / total if total else None
    return {"pairs": total, "right": hits, "accuracy": accuracy, "low": low, "high": high}


def _confident(
    labeled: PairDataset, scores: np.ndarray, given: np.ndarray, top: int
) -> list[dict[str, Any]]:
    assert labeled.labels is not None and labeled.label_names is not None
    wrong = np.flatnonzero(given != labeled.labels)
    sure = scores[wrong, given[wrong]]
    order = wrong[np.argsort(-sure, kind="stable")][:top]
    return [
        {
            "row": int(row),
            **({"id": labeled.ids[row]} if labeled.ids is not None else {}),
            "sentence1": labeled.sentence1[row],
            "sentence2": labeled.sentence2[row],
            "label": labeled.label_names[labeled.labels[row]],
            "answer": labeled.label_names[given[row]],
            "probability": float(scores[row, given[row]]),
        }
        for row in order
    ]


def _swap(
    names: Sequence[str],
    scores: np.ndarray,
    swapped: np.ndarray,
    threshold: float | None,
    symmetric: Sequence[str],
) -> dict[str, Any] | None:
    """How often an answer that should not depend on the order of the sentences stays the same."""
    if not symmetric:
        return None
    first, second = decide(scores, threshold), decide(swapped, threshold)
    columns = [names.index(name) for name in symmetric]
    rows = np.isin(first, columns)
    moved = np.abs(scores - swapped)[:, columns][rows]
    return {
        "labels": list(symmetric),
        **_share((first == second)[rows]),
        "mean_difference": float(moved.mean()) if moved.size else None,
    }


def table(report: Mapping[str, Any]) -> list[list[Any]]:
    """The categories as rows of `COLUMNS`, all pairs first."""
    rows = [{"name": "all pairs", "rule": "", **report}, *report["categories"]]
    keys = ("name", "pairs", "right", "accuracy", "low", "high", "rule")
    return [[row[key] for key in keys] for row in rows]


def to_markdown(report: Mapping[str, Any]) -> str:
    """The report as a Markdown page."""
    keys = ("row", "sentence1", "sentence2", "label", "answer", "probability")
    return render(
        "errors.md",
        report={"run": "", "left_out": {}, **report},
        data=data_name(report),
        columns=COLUMNS,
        rows=table(report),
        baselines=[[name, found["accuracy"]] for name, found in report["baselines"].items()],
        swap=swap_text(report["swap"]) if report["swap"] else "",
        errors=[[row[key] for key in keys] for row in report["errors"]],
    )


def swap_text(swap: Mapping[str, Any]) -> str:
    """The `swap` part of a report as a sentence."""
    if not swap["pairs"]:
        return f"No pair was answered {', '.join(swap['labels'])}."
    return (
        f"Of {swap['pairs']:,} pairs answered {' or '.join(swap['labels'])}, {swap['right']:,} "
        f"({swap['accuracy']:.1%}; {swap['low']:.1%} to {swap['high']:.1%}) get the same answer with "
        f"their sentences swapped; the probability changes by {swap['mean_difference']:.3f} on average."
    )


def save_report(report: Mapping[str, Any], folder: str | Path) -> None:
    """Writes errors.json, .md, .csv and .png into a folder."""
    folder = Path(folder)
    write_report(folder, "errors", report, to_markdown(report), COLUMNS, table(report))
    lines = {"all pairs": report["accuracy"]}
    lines |= {name: found["accuracy"] for name, found in report["baselines"].items()}
    draw(report["categories"], lines, folder / "errors.png")
