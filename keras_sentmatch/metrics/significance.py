"""Confidence intervals of proportions, and tests of two matchers on the same pairs."""

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.errors import InputError


def wilson_interval(hits: int, total: int) -> tuple[float, float]:
    """The 95% confidence interval of a proportion, after Wilson (1927).

    Unlike the normal approximation it is right for few rows, too.

    Args:
        hits: Rows that count.
        total: All rows; without any the interval is (0, 1).

    Raises:
        InputError: Fewer than 0 hits, or more than there are rows.

    Example:

    >>> [round(end, 3) for end in wilson_interval(9, 10)]
    [0.596, 0.982]
    """
    from scipy.stats import binomtest

    if not 0 <= hits <= total:
        raise InputError(f"{hits} hits in {total} rows; expected 0 to {total}.")
    if not total:
        return 0.0, 1.0
    interval = binomtest(hits, total).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def mcnemar(right1: ArrayLike, right2: ArrayLike) -> dict[str, float]:
    """McNemar's exact test: are two matchers equally often right on the same pairs?

    A two-sided binomial test of the pairs that one gets right and the other wrong.

    Args:
        right1: For each pair, whether the first is right, [n].
        right2: The same for the second.

    Returns:
        `only1` and `only2`, the number of pairs that only one gets right, and `p`.

    Raises:
        InputError: Columns of different lengths.

    Example:

    >>> mcnemar([1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0])
    {'only1': 5, 'only2': 0, 'p': 0.0625}
    """
    from scipy.stats import binomtest

    first, second = np.asarray(right1, bool), np.asarray(right2, bool)
    if first.shape != second.shape or first.ndim != 1:
        raise _not_the_same_pairs(first, second)
    only1, only2 = int((first & ~second).sum()), int((second & ~first).sum())
    tosses = only1 + only2
    p = float(binomtest(only1, tosses).pvalue) if tosses else 1.0
    return {"only1": only1, "only2": only2, "p": p}


def paired_bootstrap(
    right1: ArrayLike, right2: ArrayLike, *, samples: int = 10_000, seed: int = 0
) -> dict[str, float]:
    """The difference between two matchers' accuracies on the same pairs, with its 95% interval.

    Each sample draws pairs with replacement, the same for both matchers. Of matchers trained with
    several seeds, the seeds are drawn as well.

    Args:
        right1: For each pair, whether the first is right (or any other score of the pair), [n] or
            [seeds, n].
        right2: The same for the second; the number of seeds may differ.
        samples: Number of samples.
        seed: Random seed.

    Returns:
        `difference` (first minus second), `low` and `high` (the 95% interval), and `p`: twice the
        share of samples in which the better one is not better, at least 2/(samples + 1).

    Raises:
        InputError: Columns of different lengths, no pairs, or no samples.

    Example:

    >>> paired_bootstrap([1, 1, 1, 0], [1, 1, 1, 0])
    {'difference': 0.0, 'low': 0.0, 'high': 0.0, 'p': 1.0}
    """
    first, second = (np.atleast_2d(np.asarray(side, float)) for side in (right1, right2))
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1] or not first.size:
        raise _not_the_same_pairs(first, second)
    if samples < 1:
        raise InputError(f"samples={samples}: at least 1 is needed.")
    # Pairs with the same scores are interchangeable: draw only how many there are of each kind.
    kinds, counts = np.unique(np.concatenate([first, second]), axis=1, return_counts=True)
    rng, total = np.random.default_rng(seed), first.shape[1]
    drawn = rng.multinomial(total, counts / total, size=samples)
    means = drawn @ kinds.T / total  # [samples, seeds of both]
    sides = []
    for scores in (means[:, : len(first)], means[:, len(first) :]):
        many = scores.shape[1]
        weights = rng.multinomial(many, np.full(many, 1 / many), size=samples) / many
        sides.append((scores * weights).sum(axis=1))
    differences = np.round(sides[0] - sides[1], 12)  # no rounding errors
    difference = float(first.mean() - second.mean())
    low, high = (float(end) for end in np.quantile(differences, (0.025, 0.975)))
    beyond = int(((differences <= 0) if difference > 0 else (differences >= 0)).sum())
    p = min(1.0, 2 * (beyond + 1) / (samples + 1))
    return {"difference": difference, "low": low, "high": high, "p": p}


def _not_the_same_pairs(first: np.ndarray, second: np.ndarray) -> InputError:
    return InputError(
        f"Answers of shapes {first.shape} and {second.shape}; expected one for each of the same "
        "pairs, at least one."
    )
