"""Groups of sentences that match each other."""

import contextlib
import logging
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_sentmatch.corpus._cells import Array
from keras_sentmatch.corpus._mining import Miner
from keras_sentmatch.inference.base import Prediction

if TYPE_CHECKING:
    from keras_sentmatch.inference import Matcher
    from keras_sentmatch.inference.ensemble import EnsembleMatcher

LARGEST = 200  # distinct sentences per group
log = logging.getLogger(__name__)


def group(
    matcher: "Matcher | EnsembleMatcher",
    sentences: Sequence[str],
    *,
    threshold: float | None = None,
    label: str | None = None,
    candidates: int = 10,
    batch_size: int = 64,
    partial: str | os.PathLike[str] | None = None,
) -> list[Prediction]:
    """Find the groups of sentences of a corpus that match each other.

    The pairs that `mine` finds connect sentences. All pairs of connected sentences are scored, and
    average linkage joins sentences as long as their mean score is at least the threshold. So one
    wrong pair does not join two groups. Equal sentences are always together. A group has at most 200
    distinct sentences.

    Args:
        matcher: The matcher that scores candidate pairs.
        sentences: The corpus.
        threshold: Lowest score of a pair that matches, as for `mine`.
        label: The label whose probability is the score, as for `mine`.
        candidates: Number of candidates per sentence. Defaults to `10`.
        batch_size: Maximum number of pairs per batch. Defaults to `64`.
        partial: File that keeps the scores of candidates, as for `mine`.

    Returns:
        A list of predictions, the largest group first, with the number `group`; `size`;
        `representative`, the sentence that matches the others best on average; and `members`, the
        representative first, each with `index`, `sentence` and `score` (with the representative).

    Raises:
        InputError: As for `mine`.

    Example:

    ```python
    from keras_sentmatch import Matcher, group

    for found in group(Matcher.load("runs/mine"), questions, threshold=0.8):
        print(found.size, found.representative)
    ```
    """
    options = label, threshold, candidates, batch_size, partial
    with contextlib.closing(Miner(matcher, sentences, None, *options)) as miner:
        edges, _ = miner.edges()
        parts, refused = join(len(miner.first), edges.tolist(), LARGEST)
        if refused:
            log.info(
                "%d matching pairs would join groups of more than %d sentences", refused, LARGEST
            )
        wanted = [np.array(part)[np.stack(np.triu_indices(len(part), 1), 1)] for part in parts]
        found = miner.shown(miner.scores(np.concatenate([*wanted, np.zeros((0, 2), int)])))
    groups, start = [], 0
    for part, pairs in zip(parts, wanted):
        groups += _clusters(part, found[start : start + len(pairs)], miner.threshold)
        start += len(pairs)
    grouped = {node for nodes, _ in groups for node in nodes}
    copies = [[node] for node in miner.first.copies if node not in grouped]
    groups += [(nodes, np.zeros((1, 1))) for nodes in copies]
    rows = [_describe(miner, nodes, matrix) for nodes, matrix in groups]
    rows.sort(key=lambda row: (-row["size"], row["members"][0]["index"]))
    return [Prediction(group=number, **row) for number, row in enumerate(rows, 1)]


def join(count: int, edges: Iterable[Sequence[int]], largest: int) -> tuple[list[list[int]], int]:
    """Join nodes along edges, in order, unless a part would get more than `largest` nodes.

    Returns the parts of at least two nodes, and the number of refused edges.
    """
    parts = {node: [node] for node in range(count)}
    refused = 0
    for i, j in edges:
        small, large = sorted((parts[i], parts[j]), key=len)
        if small is large:
            continue
        if len(small) + len(large) > largest:
            refused += 1
            continue
        large += small
        parts.update(dict.fromkeys(small, large))
    found = [part for node, part in parts.items() if part[0] == node and len(part) > 1]
    return [sorted(part) for part in found], refused


def _clusters(part: list[int], scores: Array, least: float) -> list[tuple[list[int], Array]]:
    """Cut average linkage of a connected part at the threshold; return clusters of at least two."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    top = max(float(scores.max()), least)
    tree = linkage(top - scores.astype(float), "average")
    clusters = fcluster(tree, top - least + 1e-9, "distance")
    matrix = squareform(scores)
    found = []
    for number in np.unique(clusters):
        rows = np.flatnonzero(clusters == number)
        if len(rows) > 1:
            found.append(([part[row] for row in rows], matrix[np.ix_(rows, rows)]))
    return found


def _describe(miner: Miner, nodes: list[int], matrix: Array) -> dict[str, Any]:
    """Describe a group by its size, its representative and its members."""
    found = miner.first
    best = int(np.argmax(matrix.sum(axis=1)))
    order = sorted(range(len(nodes)), key=lambda row: (row != best, -matrix[best, row]))
    members = [
        {
            "index": place,
            "sentence": found.texts[place],
            "score": None if row == best else float(matrix[best, row]),
        }
        for row in order
        for place in (found.places[nodes[row]], *found.copies.get(nodes[row], ()))
    ]
    return {"size": len(members), "representative": found[nodes[best]], "members": members}
