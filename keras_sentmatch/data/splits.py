"""Split pairs into parts that share no question, and report what parts share."""

import logging
from collections.abc import Mapping, Sequence

import numpy as np

from keras_sentmatch.data.dataset import PairDataset, numbered
from keras_sentmatch.errors import InputError

log = logging.getLogger(__name__)


def split_pairs(
    dataset: PairDataset, fractions: Sequence[float], *, seed: int
) -> tuple[PairDataset, ...]:
    """Split a dataset into parts at random, with equal shares of each label or range of scores.

    Pairs of a group stay together, or without groups, pairs with the same first sentence (ignoring
    case and spacing). A pair also stays with its repetitions in either order.

    Args:
        dataset: The pairs.
        fractions: Shares of the parts, such as `[0.85, 0.05, 0.1]`. They sum to 1.
        seed: Seed of the split.

    Returns:
        One `PairDataset` per fraction, with rows in their old order.

    Raises:
        InputError: If fractions are not positive or do not sum to 1, or a part would be empty.

    Example:

    >>> pairs = PairDataset([f"a{i}" for i in range(10)], ["b"] * 10, [0, 1] * 5)
    >>> [len(part) for part in split_pairs(pairs, [0.8, 0.2], seed=0)]
    [8, 2]
    """
    part = part_numbers(dataset, fractions, seed=seed)
    return tuple(dataset.select(np.flatnonzero(part == i)) for i in range(len(fractions)))


def part_numbers(dataset: PairDataset, fractions: Sequence[float], *, seed: int) -> np.ndarray:
    """Return the part of each row as `split_pairs` does."""
    shares, given = np.asarray(fractions, float), list(fractions)
    if not shares.size or not (shares > 0).all() or not abs(shares.sum() - 1) <= 1e-6:
        raise InputError(f"fractions={given} is not accepted. Give positive numbers that sum to 1.")
    rng = np.random.default_rng(seed)
    groups = _split_groups(dataset)
    part = _assign(groups, _strata(dataset), shares, rng)
    counts = np.bincount(part, minlength=len(shares))
    if not counts.all():
        few = f"{len(dataset)} pairs in {groups.max(initial=-1) + 1} groups are too few"
        raise InputError(f"{few} for parts of {given}. Give more pairs, or one file per part.")
    return part


def _split_groups(dataset: PairDataset) -> np.ndarray:
    """Number what stays together, in the sorted order of groups or of first sentences."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    plain = plain_sides(dataset)
    number = numbered(dataset.groups or dataset.sentence1)
    keys = numbered(dataset.groups or plain[0])
    pairs = numbered(["\n".join(sorted(pair)) for pair in zip(*plain)])
    pairs += keys.max(initial=-1) + 1
    size = pairs.max(initial=-1) + 1
    links = coo_array((np.ones(len(keys)), (keys, pairs)), shape=(size, size))
    components = connected_components(links, directed=False)[1][keys]
    first = np.full(len(dataset), len(dataset))
    np.minimum.at(first, components, number)
    return np.unique(first[components], return_inverse=True)[1]


def _strata(dataset: PairDataset) -> np.ndarray:
    if dataset.labels is None:
        return np.zeros(len(dataset), int)
    if dataset.task != "regression":
        return dataset.labels
    ranks = np.argsort(np.argsort(dataset.labels, kind="stable"), kind="stable")
    return ranks * 5 // max(len(dataset), 1)


def _assign(
    groups: np.ndarray, strata: np.ndarray, shares: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the part of each row: groups go where they are needed most, single rows fill up."""
    part = np.full(len(groups), -1)
    wanted = np.outer(shares, np.bincount(strata, minlength=1)).astype(float)
    total, lacking = wanted.copy(), wanted
    sizes = np.bincount(groups)
    order = np.argsort(groups, kind="stable")
    ends = np.cumsum(sizes)
    for group in rng.permutation(np.flatnonzero(sizes > 1)):
        rows = order[ends[group] - sizes[group] : ends[group]]
        counts = np.bincount(strata[rows], minlength=wanted.shape[1])
        need = ((lacking / np.maximum(total, 1e-9)) * counts).sum(1)
        room = lacking.sum(1) >= len(rows)
        best = np.where(room, need, -np.inf).argmax() if room.any() else lacking.sum(1).argmax()
        part[rows] = best
        lacking[best] -= counts
    owed = np.zeros(len(shares))  # rows that rounding has kept back so far
    for stratum in range(wanted.shape[1]):
        rows = rng.permutation(np.flatnonzero((part < 0) & (strata == stratum)))
        space = np.maximum(lacking[:, stratum], 0)
        share = space / space.sum() if space.any() else shares
        exact = np.maximum(share * len(rows) + owed, 0)
        counts = np.floor(exact).astype(int)
        counts[np.argsort(counts - exact, kind="stable")[: len(rows) - counts.sum()]] += 1
        part[rows] = np.repeat(np.arange(len(shares)), counts)[: len(rows)]
        owed = exact - counts
    return part


def leak_report(a: PairDataset, b: PairDataset) -> dict[str, int]:
    """Count what `b` shares with `a`, ignoring case and spacing.

    Returns:
        `shared_pairs`: rows of `b` whose pair, in either order, is in `a`. `shared_groups`: group ids
        in both. `shared_sentences`: distinct sentences of `b` that are in `a` on any side.

    Example:

    >>> leak_report(PairDataset(["A dog"], ["x"]), PairDataset(["X"], ["a  dog"]))["shared_pairs"]
    1
    """
    (a1, a2), (b1, b2) = plain_sides(a), plain_sides(b)
    pairs = {frozenset(pair) for pair in zip(a1, a2)}
    return {
        "shared_pairs": sum(frozenset(pair) in pairs for pair in zip(b1, b2)),
        "shared_groups": len(set(a.groups or ()) & set(b.groups or ())),
        "shared_sentences": len((set(a1) | set(a2)) & (set(b1) | set(b2))),
    }


def plain_sides(data: PairDataset) -> list[list[str]]:
    """Return the sentences of both sides without case and spacing."""
    sides = (data.sentence1, data.sentence2)
    return [[" ".join(text.casefold().split()) for text in side] for side in sides]


def log_repeats(parts: Mapping[str, PairDataset]) -> None:
    """Log pairs with two labels, and training pairs in other parts; warn above 1% of a part."""

    def say(name: str, count: int, whole: int, what: str) -> None:
        level = logging.WARNING if count > 0.01 * whole else logging.INFO
        if count:
            log.log(level, f"{name}: {count:,} of {whole:,} ({count / whole:.1%}) pairs {what}")

    keys = {name: list(zip(*plain_sides(data))) for name, data in parts.items()}
    trained = {frozenset(key) for key in keys.get("train", ())}
    for name, data in parts.items():
        if data.labels is not None and data.task != "regression":
            labels: dict[tuple[str, ...], set[int]] = {}
            for key, label in zip(keys[name], data.labels.tolist()):
                labels.setdefault(key, set()).add(label)
            torn = [" / ".join(f"{x!r:.60}" for x in key) for key in labels if len(labels[key]) > 1]
            what = f"have more than one label, such as {''.join(torn[:1])}. Correct the labels."
            say(name or "data", len(torn), len(labels), what)
        if name != "train":
            shared = sum(frozenset(key) in trained for key in keys[name])
            what = (
                "are also training pairs, so its metrics are too good. Remove them from one part."
            )
            say(name, shared, len(keys[name]), what)
