"""The difference of two matchers on the same pairs, by paired bootstrap."""

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.errors import InputError


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
        raise InputError(
            f"The values have shapes {first.shape} and {second.shape}. Expected one value per pair, "
            "on the same pairs, and at least one pair."
        )
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
