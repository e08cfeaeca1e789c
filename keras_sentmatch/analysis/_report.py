"""The report of a matcher on labeled pairs: where it errs, and how stable its predictions are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_sentmatch.analysis._categories import categorize
from keras_sentmatch.data import PairDataset
from keras_sentmatch.display.figures import accuracies
from keras_sentmatch.display.rendering import render
from keras_sentmatch.display.tables import data_name, write_report
from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics import wilson_interval
from keras_sentmatch.metrics.calibration import decide
from keras_sentmatch.metrics.scores import accuracy, macro_f1
from keras_sentmatch.training import bag_of_words_baseline
from keras_sentmatch.transformations import TRANSFORMATIONS, Lexicon, Transformed, transform
from keras_sentmatch.transformations.english import words
from keras_sentmatch.transformations.transform import Translate, get_transformation

if TYPE_CHECKING:
    from keras_sentmatch.inference import EnsembleMatcher, Matcher

COLUMNS = "kind name pairs right accuracy low high before rule".split()
BASELINES = {"bag of words": "all", "second sentence only": "sentence2", "word overlap": "overlap"}
SYMMETRIC = ({"not_paraphrase", "paraphrase"}, {"not_duplicate", "duplicate"})
ARTICLES = {"a", "an"}  # change with the word that follows them
SHORT = 5  # errors in a short report


def report(
    matcher: "Matcher | EnsembleMatcher",
    pairs: PairDataset,
    *,
    splits: Mapping[str, PairDataset] | None = None,
    transformations: Sequence[str] | str = (),
    lexicon: Lexicon | None = None,
    translate: Translate | None = None,
    opposite: tuple[str, str] | None = None,
    entries: str = "all",
    annotations: Mapping[str, frozenset[str]] | None = None,
    symmetric: Sequence[str] | None = None,
    top: int = 20,
    examples: int = 5,
    seed: int = 0,
    batch_size: int = 64,
) -> dict[str, Any]:
    """Analyzes the predictions of a matcher on labeled pairs.

    Args:
        matcher: A matcher that predicts labels.
        pairs: Labeled pairs.
        splits: The `"train"` and `"validation"` pairs of the matcher. If given, three baselines are
            trained on them.
        transformations: Names of transformations, or `"all"` for those that the other arguments
            allow. The metrics are measured before and after each. By default there are none.
        lexicon: Antonyms for the category of that name, and what `SwapAnt` and `SwapSyn` need.
        translate: The function that `BackTrans` needs, see `transform`.
        opposite: The positive and the negative label, see `transform`.
        entries: The words that transformations may write, see `transform`.
        annotations: Categories by pair id (`read_annotations`), used instead of the rules.
        symmetric: Labels that do not depend on the order of the sentences. By default all labels of
            paraphrases and duplicates, and contradiction in inference.
        top: Number of most confident errors to list.
        examples: Number of examples per transformation.
        seed: Random seed of the transformations.
        batch_size: Maximum number of pairs per batch.

    Returns:
        A dict for `save_report`:

        - `pairs`, `right`, `accuracy` with its 95% interval `low` to `high` (Wilson), `macro_f1`.
        - `categories`: the same for each linguistic category (`name`, `rule`); `mean` and `sd` of
          their accuracies.
        - `baselines`: metrics by name, always with `majority`.
        - `errors`: the most confident first.
        - `swap`: how often the label stays the same if the sentences are swapped; `None` if no label
          is symmetric.
        - `transformations`: `name`, `what`, `keeps_label`, `of` (all pairs), `pairs` (changed ones),
          `right`, `low`, `high` (after), `before` and `after` (`accuracy`, `macro_f1`), `drop` in
          accuracy, and `flips`, examples that were right before and are wrong after. If the label
          changes, `after` also has `not_positive`, the share that is no longer predicted to have the
          old label, and `words` has the accuracy for each two words that were swapped;
          `accuracy_by_word` is the mean over these.
        - `left_out`: transformations and baselines that could not be measured, with the reason.

    Raises:
        InputError: If the matcher returns scores, the pairs have no labels or other labels, or a
            named transformation cannot be applied.

    Example:

    ```python
    from keras_sentmatch import Matcher
    from keras_sentmatch.analysis import report, save_report
    from keras_sentmatch.data import load_pairs

    splits = load_pairs("pairs.tsv")
    found = report(Matcher.load("runs/mine"), splits["test"], splits=splits, transformations="all")
    save_report(found, "report")
    ```
    """
    names = matcher.label_names
    if names is None:
        raise InputError(
            "This matcher returns scores. A report needs a matcher that predicts labels. Measure "
            "scores with `evaluate`."
        )
    labeled = matcher.relabel(pairs)
    matcher.warn_of_learned(labeled)
    labels = np.asarray(labeled.labels)

    def predict(asked: PairDataset) -> np.ndarray:
        return matcher.predict_proba(asked, batch_size=batch_size)

    scores = predict(labeled)
    predicted = decide(scores, matcher.threshold)
    right = predicted == labels
    same = symmetric_labels(names) if symmetric is None else tuple(symmetric)
    swap = None
    if same:
        swapped = predict(PairDataset(labeled.sentence2, labeled.sentence1))
        columns = [names.index(name) for name in same]
        swap = {"labels": list(same), **_swap(scores, swapped, matcher.threshold, columns)}
    rows, rules = categorize(labeled, lexicon, annotations)
    found = {name: _share(right[places]) for name, places in rows.items() if places}
    shares = [share["accuracy"] for share in found.values()]
    counts = np.bincount(labels, minlength=len(names))
    baselines, left_out = {"majority": {"accuracy": float(counts.max() / len(labels))}}, {}
    if splits is not None:
        train, validation = (matcher.relabel(splits[name]) for name in ("train", "validation"))
        for name, sees in BASELINES.items():
            measured = bag_of_words_baseline(train, validation, labeled, sees=sees)
            baselines[name] = measured["test"]
    changed = []
    for name in TRANSFORMATIONS if transformations == "all" else transformations:
        given: Any = {"lexicon": lexicon, "translate": translate, "opposite": opposite}
        try:
            made = transform(labeled, name, seed=seed, entries=entries, **given)
        except InputError as error:
            if transformations != "all":
                raise
            left_out[name] = str(error)
            continue
        after = decide(predict(made.after), matcher.threshold) if made.count else predicted[:0]
        changed.append(_before_and_after(made, predicted[made.rows], after, names, examples))
    return {
        "data": labeled.name,
        "split": labeled.split,
        **_share(right),
        "macro_f1": macro_f1(labels, predicted),
        "categories": [{"name": n, "rule": rules[n], **share} for n, share in found.items()],
        "mean": float(np.mean(shares)) if shares else None,
        "sd": float(np.std(shares, ddof=1)) if len(shares) > 1 else None,
        "baselines": baselines,
        "errors": _confident(labeled, names, scores, predicted, top),
        "swap": swap,
        "seed": seed,
        "entries": entries,
        "transformations": changed,
        "left_out": left_out,
    }


def symmetric_labels(label_names: Sequence[str]) -> tuple[str, ...]:
    """Return the labels that do not depend on the order of the sentences.

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
    share = hits / total if total else None
    return {"pairs": total, "right": hits, "accuracy": share, "low": low, "high": high}


def _confident(
    labeled: PairDataset, names: Sequence[str], scores: np.ndarray, predicted: np.ndarray, top: int
) -> list[dict[str, Any]]:
    labels = np.asarray(labeled.labels)
    wrong = np.flatnonzero(predicted != labels)
    order = wrong[np.argsort(-scores[wrong, predicted[wrong]], kind="stable")][:top]
    return [
        {
            "row": int(row),
            **({"id": labeled.ids[row]} if labeled.ids is not None else {}),
            "sentence1": labeled.sentence1[row],
            "sentence2": labeled.sentence2[row],
            "label": names[labels[row]],
            "answer": names[predicted[row]],
            "probability": float(scores[row, predicted[row]]),
        }
        for row in order
    ]


def _swap(
    scores: np.ndarray, swapped: np.ndarray, threshold: float | None, columns: list[int]
) -> dict[str, Any]:
    """Measure how often a symmetric label stays the same if the sentences are swapped."""
    first, second = decide(scores, threshold), decide(swapped, threshold)
    rows = np.isin(first, columns)
    moved = np.abs(scores - swapped)[:, columns][rows]
    difference = float(moved.mean()) if moved.size else None
    return {**_share((first == second)[rows]), "mean_difference": difference}


def _before_and_after(
    changed: Transformed,
    old: np.ndarray,
    new: np.ndarray,
    names: Sequence[str],
    examples: int,
) -> dict[str, Any]:
    """Measure the predictions of the pairs that a transformation could change."""
    rule = get_transformation(changed.name)
    row: dict[str, Any] = {"name": rule.name, "what": rule.what, "keeps_label": rule.keeps_label}
    row["of"] = changed.total
    if not changed.count:
        row |= {"pairs": 0, "before": None, "after": None, "drop": None, "flips": []}
        return row if rule.keeps_label else {**row, "words": []}
    one, two = np.asarray(changed.before.labels), np.asarray(changed.after.labels)
    right = old == one, new == two
    before, after = (
        {"accuracy": accuracy(labels, given), "macro_f1": macro_f1(labels, given)}
        for labels, given in ((one, old), (two, new))
    )
    flips = np.flatnonzero(right[0] & ~right[1])
    shown = np.linspace(0, len(flips) - 1, min(examples, len(flips))).round().astype(int)
    row |= {key: value for key, value in _share(right[1]).items() if key != "accuracy"}
    row |= {"before": before, "after": after, "drop": before["accuracy"] - after["accuracy"]}
    row["flips"] = [
        {
            "sentence1": changed.before.sentence1[i],
            "sentence2": changed.before.sentence2[i],
            "label": names[one[i]],
            "changed1": changed.after.sentence1[i],
            "changed2": changed.after.sentence2[i],
            "new_label": names[two[i]],
            "answer": names[new[i]],
        }
        for i in flips[shown].tolist()
    ]
    if not rule.keeps_label:
        after["not_positive"] = float(np.mean(new != one))
        row["words"] = _by_words(changed, *right)
        for part, metrics in (("before", before), ("after", after)):
            metrics["accuracy_by_word"] = float(np.mean([found[part] for found in row["words"]]))
    return row


def _by_words(changed: Transformed, before: np.ndarray, after: np.ndarray) -> list[dict[str, Any]]:
    """Return the accuracy for each two words that were swapped, the most frequent first."""
    rows: dict[tuple[str, ...], list[int]] = {}
    for row, sentences in enumerate(zip(changed.before.sentence2, changed.after.sentence2)):
        old, new = ([word.lower for word in words(sentence)] for sentence in sentences)
        swapped = next(
            both for both in zip(old, new) if both[0] != both[1] and not ARTICLES.issuperset(both)
        )
        rows.setdefault(tuple(sorted(swapped)), []).append(row)
    found = [
        {
            "words": list(both),
            "pairs": len(places),
            "before": float(np.mean(before[places])),
            "after": float(np.mean(after[places])),
        }
        for both, places in rows.items()
    ]
    return sorted(found, key=lambda one: (-one["pairs"], one["words"]))


# --- how it is shown ---


@dataclass(frozen=True)
class Section:
    """A part of the report: a title, sentences, and a table with its columns."""

    title: str
    text: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()


def table(report: Mapping[str, Any]) -> list[list[Any]]:
    """Return every accuracy of the report as a row of `COLUMNS`."""
    baselines = [{"name": name, **found} for name, found in report["baselines"].items()]
    parts = {
        "all": [{**report, "name": "all pairs"}],
        "category": report["categories"],
        "baseline": [{"name": one["name"], "accuracy": one["accuracy"]} for one in baselines],
        "transformation": [
            {
                **one,
                "accuracy": (one["after"] or {}).get("accuracy"),
                "before": (one["before"] or {}).get("accuracy"),
                "rule": one["what"],
            }
            for one in report["transformations"]
        ],
    }
    return [
        [kind, *(row.get(name) for name in COLUMNS[1:])]
        for kind, rows in parts.items()
        for row in rows
    ]


def report_sections(report: Mapping[str, Any], *, short: bool = False) -> list[Section]:
    """Return the parts of the report in the order in which they are shown.

    Args:
        report: What `report` returned.
        short: Whether to leave examples out and to list `SHORT` errors.
    """
    rows = [row[1:7] + row[8:] for row in table(report) if row[0] in ("all", "category")]
    mean = ""
    if report["mean"] is not None:
        sd = "" if report["sd"] is None else f", standard deviation {report['sd']:.4f}"
        mean = f"Mean over the categories {report['mean']:.4f}{sd}. 95% intervals after Wilson."
    baselines = [[name, found["accuracy"]] for name, found in report["baselines"].items()]
    found = [
        Section("Accuracy", mean, ["pairs with", *COLUMNS[2:7], "rule"], rows),
        Section("Baselines", "", ["baseline", "accuracy"], baselines),
    ]
    if report["swap"]:
        found.append(Section("With the sentences swapped", _swap_text(report["swap"])))
    if report["transformations"]:
        found.append(_changed_section(report))
    for row in () if short else report["transformations"]:
        if row.get("words"):
            found.append(_words_section(row))
        if flips := [_flip_row(flip) for flip in row["flips"]]:
            what = f"{row['what'][0].upper()}{row['what'][1:]}."
            columns = ["sentence 1", "sentence 2", "label", "answer"]
            found.append(Section(row["name"], what, columns, flips))
    if errors := report["errors"][: SHORT if short else None]:
        keys = ["row", "sentence1", "sentence2", "label", "answer", "probability"]
        rows = [[error[key] for key in keys] for error in errors]
        found.append(Section("The most confident errors", "", keys, rows))
    if report["left_out"]:
        rows = [[name, reason] for name, reason in report["left_out"].items()]
        found.append(Section("Not measured", "", ["name", "reason"], rows))
    return found


def _swap_text(swap: Mapping[str, Any]) -> str:
    labels = " or ".join(swap["labels"])
    if not swap["pairs"]:
        return f"No pair is predicted to be {labels}."
    return (
        f"{swap['pairs']:,} pairs are predicted to be {labels}. With their sentences swapped, "
        f"{swap['right']:,} of them ({swap['accuracy']:.1%}; {swap['low']:.1%} to {swap['high']:.1%}) "
        f"get the same label, and the probability changes by {swap['mean_difference']:.3f} on average."
    )


def _changed_section(report: Mapping[str, Any]) -> Section:
    text = (
        "`pairs` is the number of pairs (`of` all) that the transformation can change. The metrics "
        "are measured on these, before and after."
    )
    if any("not_positive" in (row["after"] or {}) for row in report["transformations"]):
        text += (
            " `not positive after` is the share that is no longer predicted to have the label that "
            "the change has made wrong."
        )
    if report["entries"] == "held_out":
        text += " Only words, numbers and sentences that `--augment` never uses were written."
    rows = []
    for row in report["transformations"]:
        before, after = row["before"] or {}, row["after"] or {}
        both = [side.get(name) for name in ("accuracy", "macro_f1") for side in (before, after)]
        rows.append([row["name"], row["of"], row["pairs"], *both, after.get("not_positive")])
    columns = ["transformation", "of", "pairs", "accuracy before", "accuracy after"]
    columns += ["macro F1 before", "macro F1 after", "not positive after"]
    return Section("Changed pairs", text, columns, rows)


def _words_section(row: Mapping[str, Any]) -> Section:
    many = len(row["words"])
    text = (
        f"{many} pair{'s' * (many > 1)} of words {'were' if many > 1 else 'was'} swapped. If each counts "
        f"once, the accuracy is {row['before']['accuracy_by_word']:.3f} before and "
        f"{row['after']['accuracy_by_word']:.3f} after. The most frequent ones:"
    )
    rows = [[" / ".join(one["words"]), *list(one.values())[1:]] for one in row["words"][:10]]
    columns = ["words", "pairs", "accuracy before", "accuracy after"]
    return Section(f"Words of {row['name']}", text, columns, rows)


def _flip_row(flip: Mapping[str, str]) -> list[str]:
    label, new = flip["label"], flip["new_label"]
    sentences = [_marked(flip[f"sentence{side}"], flip[f"changed{side}"]) for side in "12"]
    return [*sentences, label if label == new else f"{label} → {new}", flip["answer"]]


def _marked(old: str, new: str) -> str:
    """Show a change in Markdown: removed words are struck out, new words are bold."""
    before, after = old.split(), new.split()
    parts = []
    for kind, i, j, k, m in SequenceMatcher(None, before, after).get_opcodes():
        if kind == "equal":
            parts += before[i:j]
            continue
        parts += [f"~~{' '.join(before[i:j])}~~"] if j > i else []
        parts += [f"**{' '.join(after[k:m])}**"] if m > k else []
    return " ".join(parts)


def save_report(report: Mapping[str, Any], folder: str | Path) -> None:
    """Write report.json, report.md, report.csv and report.png into a folder."""
    folder = Path(folder)
    page = render(
        "report.md",
        run=report.get("run", ""),
        data=data_name(report),
        sections=report_sections(report),
    )
    rows = table(report)
    write_report(folder, "report", report, page, COLUMNS, rows)
    shown = [dict(zip(COLUMNS, row)) for row in rows if row[0] in ("category", "transformation")]
    lines = {row[1]: row[4] for row in rows if row[0] in ("all", "baseline")}
    accuracies([row for row in shown if row["pairs"]], lines, folder / "report.png")
