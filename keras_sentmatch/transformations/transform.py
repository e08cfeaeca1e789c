"""Transformations of a whole data set: seeded, with the labels of the changed pairs."""

import difflib
import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError, wording
from keras_sentmatch.transformations.lexicon import HOW, KINDS, Lexicon
from keras_sentmatch.transformations.rules import (
    ENTRIES,
    FORMS,
    TRANSFORMATIONS,
    Context,
    Pair,
    Transformation,
)

Translate = Callable[[list[str]], Sequence[str]]

# The label of a pair before and after a change, for data with both labels. The first row counts.
OPPOSITES = (
    ("entailment", "contradiction"),
    ("entailment", "not_entailment"),
    ("entailment", "neutral"),
    ("paraphrase", "not_paraphrase"),
    ("duplicate", "not_duplicate"),
)
# Data sets whose annotators gave such pairs other labels.
CONVENTIONS = {"sick": ("entailment", "neutral")}


@dataclass(frozen=True)
class Transformed:
    """A data set changed by a transformation.

    Attributes:
        name: Name of the transformation.
        before: Pairs that it changed.
        after: The changed pairs, with their new labels.
        rows: Row numbers of these pairs in the data set.
        total: Number of pairs in the data set.
    """

    name: str
    before: PairDataset
    after: PairDataset
    rows: np.ndarray
    total: int

    @property
    def count(self) -> int:
        """Number of changed pairs."""
        return len(self.rows)


def transform(
    dataset: PairDataset,
    name: str,
    *,
    seed: int = 0,
    lexicon: Lexicon | None = None,
    translate: Translate | None = None,
    opposite: tuple[str, str] | None = None,
    entries: str = "all",
    form: str = "own",
) -> Transformed:
    """Change every pair of a data set that a transformation applies to.

    The result for a pair depends only on the seed and the pair. The rest of a changed sentence keeps
    its characters and spacing.

    Args:
        dataset: Pairs. `SwapAnt` and `NumWord` need labels.
        name: A name of `TRANSFORMATIONS`, in any case.
        seed: Random seed. Defaults to `0`.
        lexicon: Lexicon for `SwapAnt` (antonyms) and `SwapSyn` (synonyms).
        translate: For `BackTrans`, a function that translates a list of sentences there and back.
        opposite: `(positive, negative)` label names for `SwapAnt` and `NumWord`, if they are unusual.
        entries: Antonyms, synonyms, numbers and sentences that may be written: `"all"`, `"train"` (used
            by `training.augment`) or `"held_out"` (the others). Defaults to `"all"`.
        form: `"own"`, or `"textflint"`: then `SwapAnt` pairs the second sentence with its own copy
            that has the antonym, and `NumWord` changes a number of any pair, in inference of the first
            sentence. Defaults to `"own"`.

    Raises:
        InputError: If the name is unknown, something needed is missing, or the labels do not fit.

    Example:

    >>> from keras_sentmatch.data import PairDataset
    >>> from keras_sentmatch.transformations import transform
    >>> names = ["entailment", "neutral", "contradiction"]
    >>> pairs = PairDataset(["Two dogs run."], ["Two dogs do."], ["entailment"], label_names=names)
    >>> changed = transform(pairs, "NumWord", seed=1)
    >>> changed.after.sentence2, changed.after.label_counts()["contradiction"]
    (('Nine dogs do.',), 1)
    """
    known = get_transformation(name)
    if entries not in ENTRIES:
        raise InputError(f"entries={entries!r} does not exist. Use {', '.join(ENTRIES)}.")
    if form not in FORMS:
        raise InputError(f"form={form!r} does not exist. Use {' or '.join(FORMS)}.")
    _check_needs(known, lexicon, translate)
    positive = negative = -1
    candidates = np.arange(len(dataset))
    if not known.keeps_label:
        positive, negative = _opposite_labels(dataset, known.name, opposite)
        if (known.name, form) != ("NumWord", "textflint"):
            candidates = np.flatnonzero(dataset.labels == positive)
    translations = {}
    if known.needs == "translate" and translate is not None:
        translations = _translations([dataset.sentence2[row] for row in candidates], translate)
    inference = positive >= 0 and (dataset.label_names or ())[positive] == "entailment"
    context = Context(dataset.task, lexicon, translations, entries, form, inference)
    changes: dict[int, Pair] = {}
    for row in map(int, candidates):
        pair = dataset.sentence1[row], dataset.sentence2[row]
        key = "\0".join((str(seed), known.name, *pair)).encode("utf-8", "surrogatepass")
        rng = random.Random(hashlib.sha256(key).digest())
        changed = known.rule(*pair, rng, context)
        if changed is not None and changed != pair:
            changes[row] = changed
    before = dataset.select(list(changes))
    first, second = ([pair[side] for pair in changes.values()] for side in (0, 1))
    fields = before.to_dict() | {"sentence1": first, "sentence2": second}
    if not known.keeps_label:
        fields["labels"] = np.full(len(changes), negative, "int32")
    after = PairDataset.from_dict(fields)
    return Transformed(known.name, before, after, np.array(list(changes), int), len(dataset))


def get_transformation(name: str) -> Transformation:
    """Find a transformation by its name in any case."""
    by_lower = {known.lower(): known for known in TRANSFORMATIONS}
    if name.lower() not in by_lower:
        near = difflib.get_close_matches(name.lower(), by_lower, n=1)
        hint = f" Did you mean {by_lower[near[0]]}?" if near else ""
        raise InputError(
            f"There is no transformation {name!r}.{hint} The names are {', '.join(TRANSFORMATIONS)}."
        )
    return TRANSFORMATIONS[by_lower[name.lower()]]


def _check_needs(
    known: Transformation, lexicon: Lexicon | None, translate: Translate | None
) -> None:
    if known.needs == "translate" and translate is None:
        how = wording("translate=", "--translate MODULE:FUNCTION")
        raise InputError(
            "BackTrans needs a function that translates a list of sentences there and back. "
            f"Give {how}."
        )
    if known.needs in KINDS and (lexicon is None or known.needs not in lexicon.kinds):
        problem = "no lexicon was given" if lexicon is None else f"the lexicon has no {known.needs}"
        how = wording("lexicon=Lexicon.read(…)", "--lexicon")
        raise InputError(f"{known.name} needs {known.needs}, but {problem} ({how}). {HOW}")


def _opposite_labels(
    dataset: PairDataset, name: str, given: tuple[str, str] | None
) -> tuple[int, int]:
    """Return the indices of the label of a pair before and after a change."""
    names = dataset.label_names or ()
    if dataset.labels is None or dataset.task != "classification":
        what = "no labels" if dataset.labels is None else f"{dataset.task} pairs"
        raise InputError(
            f"{name} turns one class into another, but the data has {what}. Give pairs labeled with "
            "classes, such as entailment or paraphrase."
        )
    known = [pair for pair in OPPOSITES if set(names) in ({*pair}, {*pair, "neutral"})]
    found = given or CONVENTIONS.get((dataset.name or "").lower()) or (known[0] if known else None)
    if found is None:
        how = wording("opposite=(POSITIVE, NEGATIVE)", "--opposite POSITIVE,NEGATIVE")
        raise InputError(
            f"{name} makes a positive pair negative, but it is unknown which of the labels "
            f"{', '.join(names)} is which. Name them with {how}."
        )
    if unknown := [label for label in found if label not in names]:
        raise InputError(
            f"opposite={found!r} names {unknown[0]!r}, which is not a label. The labels are "
            f"{', '.join(names)}."
        )
    if found[0] == found[1]:
        raise InputError(f"opposite={found!r} names one label twice. Give two different labels.")
    return names.index(found[0]), names.index(found[1])


def _translations(sentences: Sequence[str], translate: Translate) -> dict[str, str]:
    """Map each distinct sentence to its translation there and back."""
    asked = list(dict.fromkeys(sentence for sentence in sentences if sentence.strip()))
    answers = list(translate(asked)) if asked else []
    if len(answers) != len(asked) or not all(isinstance(text, str) for text in answers):
        raise InputError(
            f"translate returned {len(answers)} values for {len(asked)} sentences. It must return one "
            "string per sentence."
        )
    return dict(zip(asked, answers))
