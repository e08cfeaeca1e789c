"""How well a matcher answers transformed pairs and test suites."""

from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.analysis.suites import Suite, common_names
from keras_sentmatch.data import PairDataset
from keras_sentmatch.display.figures import before_and_after
from keras_sentmatch.display.rendering import render
from keras_sentmatch.display.tables import data_name, write_report
from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics import accuracy, macro_f1
from keras_sentmatch.transformations import TRANSFORMATIONS, Lexicon, Transformed, transform
from keras_sentmatch.transformations.english import words
from keras_sentmatch.transformations.transform import Translate, get_transformation

Answers = Callable[[PairDataset], Sequence[str]]
COLUMNS = (
    "kind name of pairs accuracy_before accuracy_after drop macro_f1_before macro_f1_after "
    "not_positive_after".split()
)
ARTICLES = {"a", "an"}  # they follow the word that is written


def robustness_report(
    answers: Answers,
    dataset: PairDataset | None = None,
    *,
    names: Sequence[str] | None = None,
    suites: Sequence[Suite] = (),
    label_names: Sequence[str] | None = None,
    seed: int = 0,
    lexicon: Lexicon | None = None,
    translate: Translate | None = None,
    opposite: tuple[str, str] | None = None,
    entries: str = "all",
    examples: int = 5,
) -> dict[str, Any]:
    """Measures answers on the pairs that each transformation can change, before and after.

    Args:
        answers: From a data set to the label of each pair: for a matcher
            `lambda pairs: [answer.label for answer in matcher.predict(pairs)]`.
        dataset: Labeled pairs to transform; `None` for suites only.
        names: Transformations. Defaults to all that the arguments allow.
        suites: What `read_suite` returns.
        label_names: All possible answers. Defaults to the label names of the data set.
        seed: As for `transform`.
        lexicon: As for `transform`.
        translate: As for `transform`.
        opposite: As for `transform`.
        entries: As for `transform`.
        examples: Number of examples per transformation or suite.

    Returns:
        `pairs`, `seed`, `entries`, `transformations`, `left_out` (reasons by name) and `suites`. A transformation
        has `name`, `what`, `keeps_label`, `of` (all pairs), `pairs` (changed ones), `before` and
        `after` (`accuracy`, `macro_f1`; `None` without pairs), `drop` of accuracy, and `flips`:
        examples that were right before and wrong after. If the label changes, `after` has
        `not_positive`: the share no longer answered with the old label, and the transformation has
        `words`: for each two words that were swapped, in either direction, `words`, `pairs`, and the
        accuracies `before` and `after`, the most frequent first. Its `before` and `after` then have
        `accuracy_by_word`, the mean over these words. A suite has `name`, `pairs`,
        `after`, `categories`, and for pairs with an original `before`, `after_of_these`, `drop`, `flips`.

    Raises:
        InputError: If a transformation in `names` cannot be used, or labels are missing or others.

    Example:

    >>> from keras_sentmatch.data import PairDataset
    >>> from keras_sentmatch.analysis.robustness import robustness_report
    >>> pairs = PairDataset(["a", "a"], ["a", "b"], ["yes", "no"], label_names=["no", "yes"])
    >>> same = lambda data: [
    ...     "no" if a != b else "yes" for a, b in zip(data.sentence1, data.sentence2)
    ... ]
    >>> row = robustness_report(same, pairs, names=["AddPunc"])["transformations"][0]
    >>> row["before"]["accuracy"], row["after"]["accuracy"]
    (1.0, 0.5)
    """
    transformations, left_out = [], {}
    total = 0 if dataset is None else len(dataset)
    if dataset is not None:
        if dataset.labels is None or not dataset.label_names or not total:
            raise InputError(
                "Robustness is measured on pairs labeled with classes; none were given."
            )
        old = np.asarray(_answers(answers, dataset), object)
        options: dict[str, Any] = dict(
            seed=seed, lexicon=lexicon, translate=translate, opposite=opposite, entries=entries
        )
        change: Callable[[PairDataset, str], Transformed] = partial(transform, **options)
        for name in TRANSFORMATIONS if names is None else names:
            try:
                changed = change(dataset, name)
            except InputError as error:
                if names is not None:
                    raise
                left_out[name] = str(error)
            else:
                row = _measure_transformed(changed, list(old[changed.rows]), answers, examples)
                transformations.append(row)
    known = label_names or (dataset.label_names if dataset is not None else None) or ()
    return {
        "pairs": total,
        "seed": seed,
        "entries": entries,
        "transformations": transformations,
        "left_out": left_out,
        "suites": [_measure_suite(suite, known, answers, examples) for suite in suites],
    }


def _measure_transformed(
    changed: Transformed, old: list[str], answers: Answers, examples: int
) -> dict[str, Any]:
    rule = get_transformation(changed.name)
    row: dict[str, Any] = {"name": rule.name, "what": rule.what, "keeps_label": rule.keeps_label}
    row |= {"of": changed.total, "pairs": changed.count}
    if not changed.count:
        row |= {"before": None, "after": None, "drop": None, "flips": []}
        return row if rule.keeps_label else {**row, "words": []}
    new = _answers(answers, changed.after)
    labels = _labels(changed.before), _labels(changed.after)
    row |= _compare((changed.before, changed.after), labels, (old, new), examples)
    if not rule.keeps_label:
        row["after"]["not_positive"] = float(np.mean([a != b for a, b in zip(new, labels[0])]))
        right = [[a == b for a, b in zip(*both)] for both in zip(labels, (old, new))]
        row["words"] = _by_words(changed, *right)
        for part in ("before", "after"):
            row[part]["accuracy_by_word"] = float(np.mean([one[part] for one in row["words"]]))
    return row


def _by_words(changed: Transformed, before: list[bool], after: list[bool]) -> list[dict[str, Any]]:
    """The accuracy for each two words that were swapped, the most frequent first."""
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
            "before": float(np.mean([before[row] for row in places])),
            "after": float(np.mean([after[row] for row in places])),
        }
        for both, places in rows.items()
    ]
    return sorted(found, key=lambda one: (-one["pairs"], one["words"]))


def _compare(
    pairs: tuple[PairDataset, PairDataset],
    labels: tuple[list[str], list[str]],
    given: tuple[list[str], list[str]],
    examples: int,
) -> dict[str, Any]:
    """Metrics of the same pairs before and after, and pairs that were right and are wrong."""
    before, after = (_metrics(*both) for both in zip(labels, given))
    old, new = pairs
    columns = {
        **{"sentence1": old.sentence1, "sentence2": old.sentence2, "label": labels[0]},
        **{"changed1": new.sentence1, "changed2": new.sentence2, "new_label": labels[1]},
        "answer": given[1],
    }
    flips = [
        {key: column[i] for key, column in columns.items()}
        for i in range(len(old))
        if given[0][i] == labels[0][i] and given[1][i] != labels[1][i]
    ]
    chosen = np.linspace(0, len(flips) - 1, min(examples, len(flips))).round().astype(int)
    drop = before["accuracy"] - after["accuracy"]
    return {"before": before, "after": after, "drop": drop, "flips": [flips[i] for i in chosen]}


def _measure_suite(
    suite: Suite, known: Sequence[str], answers: Answers, examples: int
) -> dict[str, Any]:
    names = common_names(known, suite.pairs.label_names or ())
    if names is None:
        raise InputError(
            f"{suite.name} has the labels {', '.join(suite.pairs.label_names or ())}, but the answers "
            f"are {', '.join(known)}: they mean different things. Leave the suite out."
        )
    of_answer, of_label = names
    labels = [of_label[name] for name in _labels(suite.pairs)]
    given = [of_answer[name] for name in _answers(answers, suite.pairs)]
    categories = {}
    for category in sorted(set(suite.categories)):
        rows = [i for i, name in enumerate(suite.categories) if name == category]
        metrics = _metrics([labels[i] for i in rows], [given[i] for i in rows])
        categories[category or "others"] = {"pairs": len(rows), **metrics}
    row = {"name": suite.name, "pairs": len(labels), "after": _metrics(labels, given)}
    row |= {"categories": categories}
    if suite.originals is not None:
        old = [of_answer[name] for name in _answers(answers, suite.originals)]
        chosen, new = [labels[i] for i in suite.rows], [given[i] for i in suite.rows]
        both = suite.originals, suite.pairs.select(list(suite.rows))
        found = _compare(both, (chosen, chosen), (old, new), examples)
        row |= {"pairs_with_original": len(old), "after_of_these": found.pop("after"), **found}
    return row


def _labels(pairs: PairDataset) -> list[str]:
    assert pairs.labels is not None and pairs.label_names is not None
    return [pairs.label_names[label] for label in pairs.labels]


def _answers(answers: Answers, pairs: PairDataset) -> list[str]:
    given = [str(name) for name in answers(pairs)]
    if len(given) != len(pairs):
        raise InputError(
            f"There are {len(given)} answers for {len(pairs)} pairs; expected one for each."
        )
    return given


def _metrics(labels: Sequence[str], given: Sequence[str]) -> dict[str, float]:
    names = sorted({*labels, *given})
    y, pred = (np.searchsorted(names, side) for side in (labels, given))
    return {"accuracy": accuracy(y, pred), "macro_f1": macro_f1(y, pred)}


def table(report: Mapping[str, Any]) -> list[list[Any]]:
    """The report as rows of `COLUMNS`: transformations, suites and their categories."""

    def row(kind: str, name: str, of: int, pairs: int, found: Mapping[str, Any]) -> list[Any]:
        before, after = found.get("before") or {}, found["after"] or {}
        return [
            *(kind, name, of, pairs, before.get("accuracy"), after.get("accuracy")),
            *(found.get("drop"), before.get("macro_f1"), after.get("macro_f1")),
            after.get("not_positive"),
        ]

    found = report["transformations"]
    rows = [row("transformation", one["name"], one["of"], one["pairs"], one) for one in found]
    for suite in report["suites"]:
        name, of = suite["name"], suite["pairs"]
        rows.append(row("suite", name, of, of, {"after": suite["after"]}))
        if "before" in suite:
            both = suite | {"after": suite["after_of_these"]}
            rows.append(
                row("suite", f"{name}, with original", of, both["pairs_with_original"], both)
            )
        for category, after in suite["categories"].items():
            rows.append(
                row("category", f"{name}: {category}", of, after["pairs"], {"after": after})
            )
    return rows


def to_markdown(report: Mapping[str, Any]) -> str:
    """The report as a Markdown page: the table, what was left out, and examples."""
    return render(
        "robustness.md",
        report={"run": "", **report},
        data=data_name(report),
        columns=[name.replace("_", " ").replace("f1", "F1") for name in COLUMNS[1:]],
        rows=[row[1:] for row in table(report)],
        figure=bool(_measured(report)),
        swapped=[
            (
                row,
                [[" / ".join(one["words"]), *list(one.values())[1:]] for one in row["words"][:10]],
            )
            for row in report["transformations"]
            if row.get("words")
        ],
        examples=[
            (row["name"], row.get("what", "Right before, wrong after"), _flip_rows(row["flips"]))
            for row in [*report["transformations"], *report["suites"]]
            if row.get("flips")
        ],
    )


def _flip_rows(flips: Sequence[Mapping[str, str]]) -> list[list[str]]:
    """Both sentences with what was changed in them, both labels, and the wrong answer."""
    rows = []
    for flip in flips:
        label, new = flip["label"], flip["new_label"]
        sentences = [_marked(flip[f"sentence{side}"], flip[f"changed{side}"]) for side in "12"]
        rows.append([*sentences, label if label == new else f"{label} → {new}", flip["answer"]])
    return rows


def _marked(old: str, new: str) -> str:
    """A changed sentence in Markdown: what was left out is struck out, what is new is bold."""
    before, after = old.split(), new.split()
    parts = []
    for kind, i, j, k, m in SequenceMatcher(None, before, after).get_opcodes():
        if kind == "equal":
            parts += before[i:j]
            continue
        parts += [f"~~{' '.join(before[i:j])}~~"] if j > i else []
        parts += [f"**{' '.join(after[k:m])}**"] if m > k else []
    return " ".join(parts)


def _measured(report: Mapping[str, Any]) -> list[list[Any]]:
    """The rows of the table that the figure shows."""
    return [row for row in table(report) if row[5] is not None and row[0] != "category"]


def save_report(report: Mapping[str, Any], folder: str | Path) -> None:
    """Writes robustness.json, .md, .csv and .png into a folder."""
    folder = Path(folder)
    write_report(folder, "robustness", report, to_markdown(report), COLUMNS, table(report))
    if shown := _measured(report):
        names = [f"{row[1]} ({row[3]:,})" for row in shown]
        title = Path(report.get("run", "")).name
        before, after = [row[4] for row in shown], [row[5] for row in shown]
        before_and_after(names, before, after, folder / "robustness.png", title)
