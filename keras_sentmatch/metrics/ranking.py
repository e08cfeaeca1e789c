"""MAP and MRR, grouped by question, with a fixed rule for ties.

Candidates with equal scores are not ranked, and the order of the rows must not rank them: files often
list the answer first, which would make a constant scorer look perfect. So the metrics are the
expected value over all orders of the tied candidates, in closed form (McSherry & Najork, 2008). A
constant scorer gets what random ranking gets.

Questions without a positive candidate are left out of the mean, as is usual for TrecQA and WikiQA.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics.scores import columns, finite, is_missing

Block = tuple[int, int]  # number of candidates with one score, and of positives among them


def mean_average_precision(
    y: ArrayLike, scores: ArrayLike, groups: Sequence[str] | ArrayLike
) -> float:
    """Return the mean over questions of the average precision of their ranked candidates.

    Args:
        y: 1 (or any non-zero) for a right answer, 0 for a wrong one, [n].
        scores: Scores, the higher the better, [n].
        groups: The question of each row, [n]; rows of one question need not be adjacent.

    Raises:
        InputError: If no question has a right answer.

    Example:

    >>> mean_average_precision([1, 0, 0, 1], [0.9, 0.1, 0.8, 0.3], ["a", "a", "b", "b"])
    0.75
    >>> mean_average_precision([1, 0], [0.5, 0.5], ["a", "a"])  # (1 + 1/2) / 2
    0.75
    """
    return _mean(y, scores, groups, _average_precision)


def mean_reciprocal_rank(
    y: ArrayLike, scores: ArrayLike, groups: Sequence[str] | ArrayLike
) -> float:
    """Return the mean over questions of 1 / (rank of the first right answer).

    The arguments are those of `mean_average_precision`.

    Raises:
        InputError: If no question has a right answer.

    Example:

    >>> mean_reciprocal_rank([0, 1, 1], [0.9, 0.5, 0.1], ["a", "a", "a"])
    0.5
    """
    return _mean(y, scores, groups, _reciprocal_rank)


def ranking_counts(y: ArrayLike, groups: Sequence[str] | ArrayLike) -> dict[str, int]:
    """Count questions, and questions without a positive or without a negative candidate."""
    labels, questions = columns(y=y, groups=_objects(groups))
    labels, index = finite("y", labels), _numbers(questions)
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
    measure: Callable[[list[Block]], float],
) -> float:
    labels, values, questions = columns(y=y, scores=scores, groups=_objects(groups))
    labels, values = finite("y", labels), finite("scores", values)
    index = _numbers(questions)
    counts = np.bincount(index)
    results = []
    for rows in np.split(np.argsort(index, kind="stable"), np.cumsum(counts)[:-1]):
        blocks = _blocks(labels[rows] != 0, values[rows])
        if any(positives for _, positives in blocks):
            results.append(measure(blocks))
    if not results:
        raise InputError(
            f"None of the {len(counts)} questions has a right answer, so there is nothing to rank. "
            "Check the labels: 1 is a right answer."
        )
    return float(np.mean(results))


def _objects(groups: Sequence[str] | ArrayLike) -> np.ndarray:
    """Return the questions as they are: NumPy would make text of missing values and of numbers."""
    return np.asarray(groups if hasattr(groups, "dtype") else list(groups), dtype=object)  # type: ignore[arg-type]


def _numbers(questions: np.ndarray) -> np.ndarray:
    """Return the number of the question of each row; refuse rows whose question is missing."""
    names = questions.tolist()
    if missing := sum(map(is_missing, names)):
        raise InputError(
            f"{missing} of {len(names)} rows have no question in `groups`. Leave these rows out."
        )
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.fromiter((numbers[name] for name in names), int, len(names))


def _blocks(relevant: np.ndarray, scores: np.ndarray) -> list[Block]:
    """Group candidates of equal score, best score first."""
    _, index = np.unique(-scores, return_inverse=True)
    sizes = np.bincount(index)
    positives = np.bincount(index, weights=relevant).astype(int)
    return list(zip(sizes.tolist(), positives.tolist()))


def _average_precision(blocks: list[Block]) -> float:
    total, above, found = 0.0, 0, 0  # ranks and positives above the block
    for size, positives in blocks:
        if positives:
            place = np.arange(1, size + 1)
            # Given a positive at this place, each of the places before it holds one of the others.
            before = (place - 1) * (positives - 1) / max(size - 1, 1)
            total += positives / size * float(np.sum((found + 1 + before) / (above + place)))
        above, found = above + size, found + positives
    return total / found


def _reciprocal_rank(blocks: list[Block]) -> float:
    above = 0
    for size, positives in blocks:
        if not positives:
            above += size
            continue
        value, chance = 0.0, positives / size  # chance that the first positive stands at `place`
        for place in range(1, size - positives + 2):
            value += chance / (above + place)
            if place < size:
                chance *= (size - place - positives + 1) / (size - place)
        return value
    return 0.0
