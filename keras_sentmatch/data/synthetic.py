"""The embedded pairs: seeded, no file, no network; labels computed from meaning (`natural_logic`).

Each premise comes with one hypothesis of each label, so it tells nothing by itself; of several
hypotheses of a label the one is taken whose words have stood least for that label so far, so that
single words say nothing either. What is left is how the two sentences relate.
"""

import math
import random
import zlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Literal

from keras_sentmatch.data.dataset import PairDataset
from keras_sentmatch.data.natural_logic import LABELS, Quantified, Relational
from keras_sentmatch.errors import InputError

_SPLITS = {"train": range(8), "validation": range(8, 9), "test": range(9, 10)}
_TRIES = 12  # hypotheses drawn for each premise
_QUANTIFIED = 0.65  # share of premises that are quantified; the others are relational
_Votes = defaultdict[str, list[int]]


def _generate(n: int, seed: int, split: str) -> Iterator[tuple[str, str, int]]:
    """Pairs in threes: a premise with a hypothesis of each label."""
    rng = random.Random(f"{seed} {split}")
    votes: _Votes = defaultdict(lambda: [0, 0, 0])
    seen: set[str] = set()
    kind: type[Quantified] | type[Relational]
    while n > 0:
        kind = Quantified if rng.random() < _QUANTIFIED else Relational
        premise = kind.sample(rng)
        text = premise.text()
        if text in seen or _code(text) % 10 not in _SPLITS[split]:
            continue
        hypotheses = _hypotheses(premise, text, split, rng, votes)
        if len(hypotheses) < len(LABELS):
            continue
        seen.add(text)
        rows = [(text, hypothesis, label) for label, hypothesis in hypotheses.items()]
        rng.shuffle(rows)
        yield from rows[:n]
        n -= len(rows)


def _code(text: str) -> int:
    return zlib.crc32(text.encode())


def _hypotheses(
    premise: Any, text: str, split: str, rng: random.Random, votes: _Votes
) -> dict[int, str]:
    """For each label found, the hypothesis whose words have stood least for that label so far."""
    best: dict[int, tuple[float, str, set[str]]] = {}
    words = set(text.split())
    for _ in range(_TRIES):
        form = premise
        for _ in range(rng.choice((1, 1, 2, 2, 3))):
            form = form.edit(rng)
        hypothesis = form.text()
        label = premise.label(form)
        if label is None or hypothesis == text:
            continue
        # Of a pair and its reverse in different splits only one is kept.
        code = _code(hypothesis)
        if code % 10 not in _SPLITS[split] and code < _code(text):
            continue
        features = _features(words, set(hypothesis.split()))
        counted = ((votes[feature][label], sum(votes[feature])) for feature in features)
        # Exact, because the order of the set differs between processes.
        bias = math.fsum((3 * count - total) / (total + 10) for count, total in counted)
        if label not in best or bias < best[label][0]:
            best[label] = (bias, hypothesis, features)
    if len(best) == len(LABELS):
        for label, (_, _, features) in best.items():
            for feature in features:
                votes[feature][label] += 1
    return {label: hypothesis for label, (_, hypothesis, _) in best.items()}


def _features(premise: set[str], hypothesis: set[str]) -> set[str]:
    """What a bag of words sees of the pair; not the premise alone, it has every label once."""
    return (
        {"+" + word for word in hypothesis - premise}
        | {"-" + word for word in premise - hypothesis}
        | {"=" + word for word in premise & hypothesis}
        | hypothesis
    )


def natural_logic_pairs(
    n: int, *, seed: int, split: Literal["train", "validation", "test"] = "train"
) -> PairDataset:
    """Generates `n` sentence pairs labeled entailment, neutral or contradiction.

    The labels are computed from the meaning of the two sentences and balanced to one row. No
    premise of one split is a premise of another. The same arguments always give the same pairs.

    Args:
        n: Number of pairs.
        seed: Seed of the generator.
        split: Which part of all premises to draw from: `"train"` (8 in 10), `"validation"`,
            `"test"`.

    Returns:
        A `PairDataset` with `label_names=("entailment", "neutral", "contradiction")`.

    Raises:
        InputError: An unknown split, or `n` below 1.

    Example:

    ```python
    from keras_sentmatch.data import natural_logic_pairs

    data = natural_logic_pairs(6, seed=0)
    data.label_counts()  # {"entailment": 2, "neutral": 2, "contradiction": 2}
    ```
    """
    if split not in _SPLITS:
        raise InputError(f"split={split!r} is not one of {', '.join(_SPLITS)}.")
    if n < 1:
        raise InputError(f"n={n}: at least one pair must be asked for.")
    first, second, labels = zip(*_generate(n, seed, split))
    return PairDataset(first, second, labels, label_names=LABELS, name="embedded", split=split)
