"""Accuracy, F1, correlations, intervals and the paired bootstrap, and checks of their arrays."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from keras_sentmatch.errors import InputError

# Names of the label of interest among two.
POSITIVE = set("yes match duplicate paraphrase entailment true 1 positive relevant same".split())


def accuracy(y: ArrayLike, pred: ArrayLike) -> float:
    """Return the share of rows whose predicted label is the true label."""
    labels, predicted = _labels(y, pred)
    return float(np.mean(labels == predicted))


def f1(y: ArrayLike, pred: ArrayLike, positive: int = 1) -> float:
    """Return the F1 of one class; 0 if it is neither in the labels nor predicted."""
    labels, predicted = _labels(y, pred)
    found = np.count_nonzero(labels == positive) + np.count_nonzero(predicted == positive)
    right = np.count_nonzero((labels == positive) & (predicted == positive))
    return float(2 * right / found) if found else 0.0


def macro_f1(y: ArrayLike, pred: ArrayLike) -> float:
    """Return the mean F1 of the classes that occur in the labels or the predictions."""
    labels, predicted = _labels(y, pred)
    return float(np.mean([f1(labels, predicted, c) for c in np.union1d(labels, predicted)]))


def positive_class(names: Sequence[str], labels: ArrayLike | None = None) -> int:
    """Return which of two labels is of interest: the one called yes, match, … or else the rarer one.

    Without labels, or if both are equally frequent, it is the second one.
    """
    named = [place for place, name in enumerate(names) if name.lower() in POSITIVE]
    if len(named) == 1:
        return named[0]
    return 1 if labels is None else int(2 * np.count_nonzero(labels) <= np.size(labels))


def pearson(y: ArrayLike, scores: ArrayLike) -> float:
    """Return Pearson's linear correlation; 0.0, not NaN, if one side is constant."""
    from scipy.stats import pearsonr

    true, predicted = columns(y=y, scores=scores)
    true, predicted = finite("y", true), finite("scores", predicted)
    if np.ptp(true) == 0 or np.ptp(predicted) == 0:
        return 0.0
    with warnings.catch_warnings():  # SciPy warns of values that are almost constant
        warnings.simplefilter("ignore")
        return float(pearsonr(true, predicted).statistic)


def spearman(y: ArrayLike, scores: ArrayLike) -> float:
    """Return Spearman's rank correlation; equal values share their average rank."""
    from scipy.stats import rankdata

    true, predicted = columns(y=y, scores=scores)
    return pearson(rankdata(finite("y", true)), rankdata(finite("scores", predicted)))


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
    for name, values in (("right1", first), ("right2", second)):
        finite(name, values.ravel())
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


def _labels(y: ArrayLike, pred: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    labels, predicted = columns(y=y, pred=pred)
    return integers("y", labels), integers("pred", predicted)


def columns(**named: ArrayLike) -> tuple[np.ndarray, ...]:
    """Return each argument as a 1-D array ([n, 1] is flattened); all have the same length > 0."""
    arrays = {}
    for name, value in named.items():
        array = np.asarray(value)
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != 1:
            raise InputError(f"`{name}` has shape {array.shape}. Expected one value per row: [n].")
        arrays[name] = array
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) != 1:
        counts = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InputError(f"The columns have different lengths: {counts}. Pass one value per row.")
    if not all(lengths.values()):
        raise InputError("There are no rows to score. Pass at least one row.")
    return tuple(arrays.values())


def is_missing(value: Any) -> bool:
    """Whether a cell is empty: None, NaN, or pandas's NA."""
    try:
        return value is None or not bool(value == value)
    except TypeError:  # NA is neither true nor false
        return True


def integers(name: str, values: np.ndarray) -> np.ndarray:
    """Return label numbers as int64; refuse probabilities and one-hot rows."""
    if values.dtype != bool and not np.issubdtype(values.dtype, np.integer):
        raise InputError(
            f"`{name}` has dtype {values.dtype}. Expected integer label numbers. Pass "
            "`probabilities.argmax(-1)` instead of probabilities."
        )
    return values.astype("int64")


def finite(name: str, values: np.ndarray) -> np.ndarray:
    """Return values as float64; refuse NaN and infinities."""
    values = values.astype("float64")
    bad = int((~np.isfinite(values)).sum())
    if bad:
        raise InputError(
            f"{bad} of {len(values)} values of `{name}` are NaN or infinite. Expected finite numbers. "
            "If a model returned them, training has diverged: use a lower learning rate."
        )
    return values
