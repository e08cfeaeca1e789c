"""The report of a matcher on labeled pairs: where it errs, and how stable its predictions are."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from keras_sentmatch.analysis._categories import categorize, read_annotations
from keras_sentmatch.data import PairDataset
from keras_sentmatch.display.rendering import render
from keras_sentmatch.display.tables import data_name, write_report
from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics import wilson_interval
from keras_sentmatch.metrics.calibration import decide, log_odds
from keras_sentmatch.metrics.scores import macro_f1
from keras_sentmatch.training.baseline import bag_of_words_baseline
from keras_sentmatch.transformations import TRANSFORMATIONS, Lexicon, transform
from keras_sentmatch.transformations.transform import Transformed, Translate, get_transformation

if TYPE_CHECKING:
    from keras_sentmatch.inference import Matcher
    from keras_sentmatch.inference.ensemble import EnsembleMatcher

COLUMNS = "kind name pairs right accuracy low high before rule".split()
BASELINES = {"bag of words": "all", "second sentence only": "sentence2", "word overlap": "overlap"}
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
    form: str = "own",
    annotations: str | Path | None = None,
    top: int = 20,
    examples: int = 5,
    seed: int = 0,
    batch_size: int = 64,
) -> dict[str, Any]:
    """Analyze the predictions of a matcher on labeled pairs.

    Args:
        matcher: A matcher that predicts labels.
        pairs: Labeled pairs.
        splits: The `"train"` and `"validation"` pairs of the matcher. If given, three baselines are
            trained on them.
        transformations: Names of transformations, or `"all"` for those that the other arguments
            allow. Accuracy is measured before and after each. Defaults to `()`.
        lexicon: Antonyms for the category of that name, and what `SwapAnt` and `SwapSyn` need.
        translate: The function that `BackTrans` needs, see `transform`.
        opposite: The positive and the negative label, see `transform`.
        entries: The words that transformations may write, see `transform`.
        form: Form of the changed pairs, see `transform`.
        annotations: File with the categories of pairs, used instead of the rules. Each line has a
            pair's id, a tab, and names between tabs.
        top: Number of most confident errors to list.
        examples: Number of examples per transformation.
        seed: Random seed of the transformations.
        batch_size: Maximum number of pairs per batch.

    Returns:
        The report:

        - `learned`: the number of pairs that the matcher learned from; on these it is too good.
        - `pairs`, `right`, `accuracy` with its 95% interval `low` to `high` (Wilson), `macro_f1`.
        - `categories`: the same for each linguistic category (`name`, `rule`); `mean` and `sd` of
          their accuracies.
        - `baselines`: metrics by name, always with `majority`.
        - `errors`: the most confident first, each with its `row` from 0.
        - `transformations`: `name`, `what`, `of` (all pairs), `pairs` (changed ones), `right`,
          `accuracy`, `low`, `high` (after the change), `before` (accuracy), and `flips`, examples
          that were right before and are wrong after.
        - `left_out`: transformations and baselines that could not be measured, with the reason.

    Raises:
        InputError: If the matcher returns scores, the pairs have no labels or other labels, or a
            named transformation cannot be applied.

    Example:

    ```python
    from keras_sentmatch import Matcher
    from keras_sentmatch.analysis import report
    from keras_sentmatch.data import load_pairs

    splits = load_pairs("pairs.tsv")
    found = report(Matcher.load("runs/mine"), splits["test"], splits=splits, transformations="all")
    found["categories"]
    ```
    """
    names = matcher.label_names
    if names is None:
        raise InputError(
            "This matcher returns scores. A report needs a matcher that predicts labels. Measure "
            "scores with `evaluate`."
        )
    tags = None if annotations is None else read_annotations(annotations)
    labeled = matcher.relabel(pairs)
    learned = matcher.warn_of_learned(labeled)
    labels = np.asarray(labeled.labels)
    scores = matcher.predict_proba(labeled, batch_size=batch_size)
    predicted = decide(scores, matcher.threshold)
    right = predicted == labels
    rows, rules = categorize(labeled, lexicon, tags)
    found = {name: _share(right[places]) for name, places in rows.items() if places}
    shares = [share["accuracy"] for share in found.values()]
    counts = np.bincount(labels, minlength=len(names))
    baselines = {"majority": {"accuracy": float(counts.max() / len(labels))}}
    if splits is not None:
        train, validation = (matcher.relabel(splits[name]) for name in ("train", "validation"))
        for name, sees in BASELINES.items():
            measured = bag_of_words_baseline(train, validation, labeled, sees=sees)
            baselines[name] = measured["test"]
    changed, left_out = [], {}
    asked = [transformations] if isinstance(transformations, str) else transformations
    for name in TRANSFORMATIONS if transformations == "all" else asked:
        given: Any = {"lexicon": lexicon, "translate": translate, "opposite": opposite}
        try:
            made = transform(labeled, name, seed=seed, entries=entries, form=form, **given)
        except InputError as error:
            if transformations != "all":
                raise
            left_out[name] = str(error)
            continue
        after = predicted[:0]
        if made.count:
            after = matcher.predict_proba(made.after, batch_size=batch_size)
            after = decide(after, matcher.threshold)
        changed.append(_before_and_after(made, predicted[made.rows], after, names, examples))
    return {
        "data": labeled.name,
        "split": labeled.split,
        "learned": learned,
        **_share(right),
        "macro_f1": macro_f1(labels, predicted),
        "categories": [{"name": n, "rule": rules[n], **share} for n, share in found.items()],
        "mean": float(np.mean(shares)) if shares else None,
        "sd": float(np.std(shares, ddof=1)) if len(shares) > 1 else None,
        "baselines": baselines,
        "errors": _confident(labeled, names, scores, predicted, top),
        "seed": seed,
        "entries": entries,
        "transformations": changed,
        "left_out": left_out,
    }


def _share(right: np.ndarray) -> dict[str, Any]:
    hits, total = int(right.sum()), len(right)
    low, high = wilson_interval(hits, total)
    share = hits / total if total else None
    return {"pairs": total, "right": hits, "accuracy": share, "low": low, "high": high}


def _confident(
    labeled: PairDataset, names: Sequence[str], scores: np.ndarray, predicted: np.ndarray, top: int
) -> list[dict[str, Any]]:
    """Return the errors with the highest probabilities."""
    labels = np.asarray(labeled.labels)
    wrong = np.flatnonzero(predicted != labels)
    confidence = log_odds(scores[wrong], predicted[wrong])
    order = wrong[np.argsort(-confidence, kind="stable")][:top]
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


def _before_and_after(
    changed: Transformed, old: np.ndarray, new: np.ndarray, names: Sequence[str], examples: int
) -> dict[str, Any]:
    """Measure the predictions of the pairs that a transformation could change."""
    rule = get_transformation(changed.name)
    one, two = np.asarray(changed.before.labels), np.asarray(changed.after.labels)
    before, after = old == one, new == two
    flips = np.flatnonzero(before & ~after)
    shown = np.linspace(0, len(flips) - 1, min(examples, len(flips))).round().astype(int)
    return {
        "name": rule.name,
        "what": rule.what,
        "of": changed.total,
        **_share(after),
        "before": float(before.mean()) if changed.count else None,
        "flips": [
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
        ],
    }


class Section(NamedTuple):
    """A part of the report: a title, sentences, and a table with its columns."""

    title: str
    text: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()


def table(report: Mapping[str, Any]) -> list[list[Any]]:
    """Return every accuracy of the report as a row of `COLUMNS`."""
    parts = {
        "all": [{**report, "name": "all pairs"}],
        "category": report["categories"],
        "baseline": [
            {"name": name, "accuracy": found["accuracy"]}
            for name, found in report["baselines"].items()
        ],
        "transformation": [{**one, "rule": one["what"]} for one in report["transformations"]],
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
    if report["learned"]:
        mean = (
            f"**The matcher learned from {report['learned']:,} of these pairs, so these figures are "
            f"too good.** {mean}"
        )
    baselines = [[name, found["accuracy"]] for name, found in report["baselines"].items()]
    found = [
        Section("Accuracy", mean, ["pairs with", *COLUMNS[2:7], "rule"], rows),
        Section("Baselines", "", ["baseline", "accuracy"], baselines),
    ]
    if report["transformations"]:
        keys = ["name", "of", "pairs", "before", "accuracy"]
        rows = [[row[key] for key in keys] for row in report["transformations"]]
        text = "`pairs` is the number of pairs (`of` all) that the transformation can change."
        if report["entries"] == "held_out":
            text += " Only words and sentences that training.augment never uses were written."
        columns = ["transformation", *keys[1:3], "accuracy before", "accuracy after"]
        found.append(Section("Changed pairs", text, columns, rows))
    for one in () if short else report["transformations"]:
        keys = ["changed1", "changed2", "label", "new_label", "answer"]
        if rows := [[flip[key] for key in keys] for flip in one["flips"]]:
            columns = ["sentence 1", "sentence 2", "label before", "label now", "answer"]
            what = f"{one['what'][0].upper()}{one['what'][1:]}."
            found.append(Section(one["name"], what, columns, rows))
    if errors := report["errors"][: SHORT if short else None]:
        keys = ["row", "sentence1", "sentence2", "label", "answer", "probability"]
        rows = [[error[key] for key in keys] for error in errors]
        found.append(Section("The most confident errors", "", keys, rows))
    if report["left_out"]:
        rows = [[name, reason] for name, reason in report["left_out"].items()]
        found.append(Section("Not measured", "", ["name", "reason"], rows))
    return found


def save_report(report: Mapping[str, Any], folder: str | Path) -> None:
    """Write report.json, report.md and report.csv into a folder."""
    page = render(
        "report.md",
        run=report.get("run", ""),
        data=data_name(report),
        sections=report_sections(report),
    )
    write_report(Path(folder), "report", report, page, COLUMNS, table(report))
