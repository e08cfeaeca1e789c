"""MAP and MRR, grouped by question, with a fixed rule for ties.

A model that gives several candidates the same score has not ranked them, and the order of the rows
in the file must not rank them for it (files often list the answer first, which makes a constant
scorer look perfect). Two rules:

- `"average"` (default): the expected value over all orders of the tied candidates, in closed form
  (McSherry & Najork, 2008). A constant scorer gets exactly what random ranking gets, and the value
  stays comparable with published ones, whose tools break ties arbitrarily.
- `"worst"`: positives come last among equal scores: a lower bound, whatever the order.

Questions without a positive candidate have no average precision: `empty="skip"` (default, as is
usual for TrecQA and WikiQA) leaves them out of the mean, `empty="zero"` counts them as 0.
`ranking_counts` counts them.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics.checks import columns, finite

Ties = Literal["average", "worst"]
Empty = Literal["skip", "zero"]
Block = tuple[int, int]  # (candidates, positives among them), candidates of one score


def mean_average_precision(
    y: ArrayLike,
    scores: ArrayLike,
    groups: Sequence[str] | ArrayLike,
    ties: Ties = "average",
    empty: Empty = "skip",
) -> float:
    """MAP: the mean over questions of the average precision of their ranked candidates.

    Args:
        y: 1 (or any non-zero) for a right answer, 0 for a wrong one, [n].
        scores: the higher, the better; [n].
        groups: the question each row belongs to, [n]; rows of one question need not be adjacent.
        ties: `"average"` or `"worst"`, as described at the top of the module.
        empty: `"skip"` or `"zero"`: whether questions without a positive are left out or count 0.

    Raises:
        InputError: No question has a positive, and such questions are skipped.

    Example:

    >>> mean_average_precision([1, 0, 0, 1], [0.9, 0.1, 0.8, 0.3], ["a", "a", "b", "b"])
    0.75
    >>> mean_average_precision([1, 0], [0.5, 0.5], ["a", "a"])  # (1 + 1/2) / 2
    0.75
    """
    return _mean(y, scores, groups, ties, empty, _average_precision)


def mean_reciprocal_rank(
    y: ArrayLike,
    scores: ArrayLike,
    groups: Sequence[str] | ArrayLike,
    ties: Ties = "average",
    empty: Empty = "skip",
) -> float:
    """MRR: the mean over questions of 1 / (rank of the first right answer).

    Takes what `mean_average_precision` takes.

    Raises:
        InputError: No question has a positive, and such questions are skipped.

    Example:

    >>> mean_reciprocal_rank([0, 1, 1], [0.9, 0.5, 0.1], ["a", "a", "a"])
    0.5
    """
    return _mean(y, scores, groups, ties, empty, _reciprocal_rank)


def ranking_counts(y: ArrayLike, groups: Sequence[str] | ArrayLike) -> dict[str, int]:
    """Counts questions, and those without a positive or without a negative candidate.

    Args:
        y: 1 (or any non-zero) for a right answer, 0 for a wrong one, [n].
        groups: the question each row belongs to, [n].

    Example:

    >>> ranking_counts([1, 0, 0], ["a", "a", "b"])
    {'questions': 2, 'without_positive': 1, 'without_negative': 0}
    """
    labels, questions = columns(y=y, groups=groups)
    _, index = np.unique(questions, return_inverse=True)
    rows = np.bincount(index)
    positives = np.bincount(index, weights=labels != 0).astype(int)
    return {
        "questions": len(rows),
        "without_positive": int(np.sum(positives == 0)),
        "without_negative": int(np.sum(positives == rows)),
    }


def _mean(
    y: ArrayLike,
    scores: ArrayLike,
    groups: Sequence[str] | ArrayLike,
    ties: Ties,
    empty: Empty,
    measure: Callable[[list[Block], Ties], float],
) -> float:
    if ties not in ("average", "worst"):
        raise InputError(f'ties={ties!r}; expected "average" or "worst".')
    if empty not in ("skip", "zero"):
        raise InputError(f'empty={empty!r}; expected "skip" or "zero".')
    labels, values, questions = columns(y=y, scores=scores, groups=groups)
    values = finite("scores", values)
    _, index, counts = np.unique(questions, return_inverse=True, return_counts=True)
    results = []
    for rows in np.split(np.argsort(index, kind="stable"), np.cumsum(counts)[:-1]):
        blocks = _blocks(labels[rows] != 0, values[rows])
        if any(positives for _, positives in blocks):
            results.append(measure(blocks, ties))
        elif empty == "zero":
            results.append(0.0)
    if not results:
        raise InputError(
            f"None of the {len(counts)} questions has a right answer, so nothing "
            "can be ranked. Check the labels (1 = right answer), or count such questions as 0 "
            'with empty="zero".'
        )
    return float(np.mean(results))


def _blocks(relevant: np.ndarray, scores: np.ndarray) -> list[Block]:
    """Candidates of equal score, best score first."""
    _, index = np.unique(-scores, return_inverse=True)
    sizes = np.bincount(index)
    positives = np.bincount(index, weights=relevant).astype(int)
    return list(zip(sizes.tolist(), positives.tolist()))


def _average_precision(blocks: list[Block], ties: Ties) -> float:
    total, above, found = 0.0, 0, 0  # ranks and positives above the block
    for size, positives in blocks:
        if positives and ties == "worst":
            place = np.arange(1, positives + 1)
            total += float(np.sum((found + place) / (above + size - positives + place)))
        elif positives:
            place = np.arange(1, size + 1)
            # Given a positive at this place, each of the places before it holds one of the others.
            before = (place - 1) * (positives - 1) / max(size - 1, 1)
            total += positives / size * float(np.sum((found + 1 + before) / (above + place)))
        above, found = above + size, found + positives
    return total / found


def _reciprocal_rank(blocks: list[Block], ties: Ties) -> float:
    above = 0
    for size, positives in blocks:
        if not positives:
            above += size
            continue
        if ties == "worst":
            return 1.0 / (above + size - positives + 1)
        value, chance = 0.0, positives / size  # chance that the first positive stands at `place`
        for place in range(1, size - positives + 2):
            value += chance / (above + place)
            if place < size:
                chance *= (size - place - positives + 1) / (size - place)
        return value
    return 0.0
