"""How sure figures are: intervals of shares, and tests of two matchers on the same pairs (NumPy)."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.errors import InputError

_Z95 = 1.959963984540054  # of the normal distribution, two-sided 95%


def wilson_interval(hits: int, total: int) -> tuple[float, float]:
    """The 95% interval of a share, after Wilson (1927).

    Unlike the usual one it stays within [0, 1] and is right for few rows.

    Args:
        hits: Rows that count.
        total: All rows.

    Returns:
        Lower and upper end; (0, 1) for no rows.

    Raises:
        InputError: Fewer than 0 hits, or more than there are rows.

    Example:

    >>> [round(end, 3) for end in wilson_interval(9, 10)]
    [0.596, 0.982]
    """
    if not 0 <= hits <= total:
        raise InputError(f"{hits} hits of {total} rows; expected 0 to {total}.")
    if not total:
        return 0.0, 1.0
    share, square = hits / total, _Z95**2
    middle = (share + square / (2 * total)) / (1 + square / total)
    spread = math.sqrt(share * (1 - share) / total + square / (4 * total**2))
    half = _Z95 / (1 + square / total) * spread
    return (
        0.0 if hits == 0 else max(0.0, middle - half),
        1.0 if hits == total else min(1.0, middle + half),
    )


def mcnemar(right1: ArrayLike, right2: ArrayLike) -> dict[str, Any]:
    """McNemar's exact test: do two matchers get equally many of the same pairs right?

    Only pairs that one gets right and the other wrong tell; if neither is better, each of them is a
    toss of a coin. The two-sided p-value is of that binomial distribution.

    Args:
        right1: For each pair, whether the first is right, [n].
        right2: The same of the second.

    Returns:
        `only1` and `only2`, the pairs that only the one gets right, and `p`.

    Raises:
        InputError: Columns of different lengths.

    Example:

    >>> mcnemar([1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0])
    {'only1': 5, 'only2': 0, 'p': 0.0625}
    """
    first, second = _same_pairs(right1, right2)
    only1, only2 = int((first & ~second).sum()), int((second & ~first).sum())
    return {"only1": only1, "only2": only2, "p": _coin(min(only1, only2), only1 + only2)}


def _coin(fewer: int, tosses: int) -> float:
    """The probability that so few heads, or so few tails, come up in so many tosses."""
    if not tosses:
        return 1.0
    log_half, whole = tosses * math.log(2), math.lgamma(tosses + 1)
    tail = math.fsum(
        math.exp(whole - math.lgamma(k + 1) - math.lgamma(tosses - k + 1) - log_half)
        for k in range(fewer + 1)
    )
    return min(1.0, 2 * tail)


def paired_bootstrap(
    right1: ArrayLike, right2: ArrayLike, *, samples: int = 10_000, seed: int = 0
) -> dict[str, float]:
    """The difference of two matchers' accuracies on the same pairs, and how far chance moves it.

    Pairs are drawn anew with replacement, the same ones for both; of matchers that were trained with
    several seeds the seeds are drawn as well.

    Args:
        right1: For each pair, whether the first is right (or any other figure of it), [n] or
            [seeds, n].
        right2: The same of the second; it may have another number of seeds.
        samples: How often pairs are drawn.
        seed: Of the draws.

    Returns:
        `difference` (first minus second), `low` and `high` (the 95% interval), and `p`: twice the
        share of draws in which the better one is not better, at least 2/(samples + 1).

    Raises:
        InputError: Columns of different lengths, no pairs, or no samples.

    Example:

    >>> paired_bootstrap([1, 1, 1, 0], [1, 1, 1, 0])
    {'difference': 0.0, 'low': 0.0, 'high': 0.0, 'p': 1.0}
    """
    first, second = (np.atleast_2d(np.asarray(side, float)) for side in (right1, right2))
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1] or not first.size:
        raise InputError(
            f"Answers of shapes {first.shape} and {second.shape}; expected one for each of the same "
            "pairs, at least one."
        )
    if samples < 1:
        raise InputError(f"samples={samples}: at least 1 is needed.")
    # Pairs that all seeds answer alike are the same: it is enough to draw how many of each kind come.
    kinds, counts = np.unique(np.concatenate([first, second]), axis=1, return_counts=True)
    rng, total = np.random.default_rng(seed), first.shape[1]
    drawn = rng.multinomial(total, counts / total, size=samples)
    means = drawn @ kinds.T / total  # [samples, seeds of both]
    sides = []
    for scores in (means[:, : len(first)], means[:, len(first) :]):
        many = scores.shape[1]
        weights = rng.multinomial(many, np.full(many, 1 / many), size=samples) / many
        sides.append((scores * weights).sum(axis=1))
    differences = np.round(sides[0] - sides[1], 12)  # so that no difference is none
    difference = float(first.mean() - second.mean())
    low, high = (float(end) for end in np.quantile(differences, (0.025, 0.975)))
    beyond = int(((differences <= 0) if difference > 0 else (differences >= 0)).sum())
    p = min(1.0, 2 * (beyond + 1) / (samples + 1))
    return {"difference": difference, "low": low, "high": high, "p": p}


def _same_pairs(right1: ArrayLike, right2: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.asarray(right1, bool), np.asarray(right2, bool)
    if first.shape != second.shape or first.ndim != 1:
        raise InputError(
            f"Answers of shapes {first.shape} and {second.shape}; expected one for each of the same "
            "pairs."
        )
    return first, second
