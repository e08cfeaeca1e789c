"""Confidence intervals of proportions, and tests of two matchers on the same pairs."""

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.errors import InputError


def wilson_interval(hits: int, total: int) -> tuple[float, float]:
    """Return the 95% confidence interval of a proportion (Wilson, 1927).

    Unlike the normal approximation, it is also right for few rows.

    Args:
        hits: Number of rows that count.
        total: Number of rows. If it is 0, the interval is (0, 1).

    Raises:
        InputError: If there are fewer than 0 hits or more hits than rows.

    Example:

    >>> [round(end, 3) for end in wilson_interval(9, 10)]
    [0.596, 0.982]
    """
    from scipy.stats import binomtest

    if not 0 <= hits <= total:
        raise InputError(f"There are {hits} hits in {total} rows. Expected 0 to {total}.")
    if not total:
        return 0.0, 1.0
    interval = binomtest(hits, total).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def mcnemar(right1: ArrayLike, right2: ArrayLike) -> dict[str, float]:
    """Test whether two matchers are right equally often on the same pairs (McNemar's exact test).

    This is a two-sided binomial test of the pairs on which only one matcher is right.

    Args:
        right1: Whether the first matcher is right on each pair, [n].
        right2: The same for the second matcher.

    Returns:
        `only1` and `only2`, the number of pairs on which only one is right, and `p`.

    Raises:
        InputError: If the lengths differ.

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
    """Return the difference of two matchers' accuracies on the same pairs, with its 95% interval.

    Each sample draws pairs with replacement, the same for both matchers. If matchers were trained
    with several seeds, the seeds are drawn as well.

    Args:
        right1: Whether the first matcher is right on each pair (or another score), [n] or
            [seeds, n].
        right2: The same for the second matcher; the number of seeds may differ.
        samples: Number of samples.
        seed: Random seed.

    Returns:
        `difference` (first minus second), `low` and `high` (the 95% interval), and `p`, twice the
        share of samples in which the better matcher is not better, at least 2/(samples + 1).

    Raises:
        InputError: If the lengths differ, or there are no pairs or no samples.

    Example:

    >>> paired_bootstrap([1, 1, 1, 0], [1, 1, 1, 0])
    {'difference': 0.0, 'low': 0.0, 'high': 0.0, 'p': 1.0}
    """
    first, second = (np.atleast_2d(np.asarray(side, float)) for side in (right1, right2))
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1] or not first.size:
        raise _not_the_same_pairs(first, second)
    if samples < 1:
        raise InputError(f"samples={samples} is too small. Expected at least 1.")
    # Pairs with the same scores are interchangeable, so only the counts of each kind are drawn.
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
        f"The values have shapes {first.shape} and {second.shape}. Expected one value per pair, on "
        "the same pairs, and at least one pair."
    )
