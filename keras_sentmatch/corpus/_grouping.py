"""Groups of sentences that match each other."""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from keras_sentmatch.corpus._mining import Miner
from keras_sentmatch.corpus._retrieval import Array
from keras_sentmatch.display.rendering import render_page
from keras_sentmatch.inference.base import Prediction
from keras_sentmatch.inference.pairs import check_count

if TYPE_CHECKING:
    from keras_sentmatch.inference import Matcher
    from keras_sentmatch.inference.ensemble import EnsembleMatcher

MOST_SHOWN = 500  # groups on a page
log = logging.getLogger(__name__)


class Joined(NamedTuple):
    """The members of each part, the edges that joined parts, and the number of refused edges."""

    parts: list[list[int]]
    joins: list[int]
    refused: int


def join(
    nodes: Iterable[int], edges: Iterable[Sequence[int]], largest: int | None = None
) -> Joined:
    """Join nodes along edges, in order, unless a part would get more than `largest` nodes."""
    parts = {node: [node] for node in nodes}
    joins, refused = [], 0
    for number, (i, j) in enumerate(edges):
        small, large = sorted((parts[i], parts[j]), key=len)
        if small is large:
            continue
        if largest is not None and len(small) + len(large) > largest:
            refused += 1
            continue
        joins.append(number)
        large += small
        parts.update(dict.fromkeys(small, large))
    return Joined([p for node, p in parts.items() if p[0] == node], joins, refused)


def group(
    matcher: "Matcher | EnsembleMatcher",
    sentences: Sequence[str],
    *,
    threshold: float | None = None,
    label: str | None = None,
    candidates: int = 10,
    largest: int = 200,
    vectors: str | None = None,
    batch_size: int = 64,
) -> list[Prediction]:
    """Find the groups of sentences of a corpus that match each other.

    The pairs that `mine` finds connect sentences. All pairs of connected sentences are scored, and
    average linkage joins sentences as long as their mean score is at least the threshold. So one
    wrong pair does not join two groups. Equal sentences are always together.

    Args:
        matcher: The matcher that scores candidate pairs.
        sentences: The corpus.
        threshold: Lowest score of a pair that matches, as for `mine`.
        label: The label whose probability is the score, as for `mine`.
        candidates: Number of candidates per sentence.
        largest: Maximum number of distinct sentences per group.
        vectors: `"table"` or `"words"`, as for `mine`.
        batch_size: Maximum number of pairs per batch.

    Returns:
        A list of predictions, the largest group first, with the number `group`; `size`;
        `representative`, the sentence that matches the others best on average; `held_by`, the pair
        without which the group would fall into two (`None` for copies of one sentence); and
        `members`, the representative first, each with `index`, `sentence` and `score` (with the
        representative).

    Raises:
        InputError: As for `mine`.

    Example:

    ```python
    from keras_sentmatch import Matcher
    from keras_sentmatch.corpus import group

    for found in group(Matcher.load("runs/mine"), questions, threshold=0.8):
        print(found.size, found.representative)
    ```
    """
    check_count("largest", largest)
    options: Any = {"candidates": candidates, "vectors": vectors, "batch_size": batch_size}
    miner = Miner(matcher, sentences, None, **options)
    least = miner.threshold(threshold, label)
    edges, scores = miner.edges(least, label)
    parts, _, refused = join(range(len(miner.first)), edges.tolist(), largest)
    if refused:
        log.info(
            "%d matching pairs do not join groups, which would have more than %d distinct sentences",
            refused,
            largest,
        )
    parts = [sorted(part) for part in parts if len(part) > 1]
    wanted = [np.array(part)[np.stack(np.triu_indices(len(part), 1), 1)] for part in parts]
    pairs = np.concatenate([*wanted, np.zeros((0, 2), int)])
    found = _all_scores(miner, edges, scores, pairs, label)
    groups, start = [], 0
    for part in parts:
        size = len(part) * (len(part) - 1) // 2
        groups += _clusters(part, found[start : start + size], least)
        start += size
    alone = set(range(len(miner.first))) - {node for nodes, _ in groups for node in nodes}
    copies = [[node] for node in sorted(alone) if len(miner.first.places[node]) > 1]
    rows = [_describe(miner, nodes, matrix) for nodes, matrix in groups]
    rows += [_describe(miner, nodes, np.zeros((1, 1))) for nodes in copies]
    rows.sort(key=lambda row: (-row["size"], row["members"][0]["index"]))
    return [Prediction(group=number, **row) for number, row in enumerate(rows, 1)]


def _all_scores(
    miner: Miner, edges: Array, scores: Array, pairs: Array, label: str | None
) -> Array:
    """Return the scores of pairs; the scores of the edges are known."""
    keys, edge_keys = (p[:, 0] * len(miner.first) + p[:, 1] for p in (pairs, edges))
    known, at, of = np.intersect1d(keys, edge_keys, assume_unique=True, return_indices=True)
    found = np.zeros(len(pairs), "float32")
    found[at] = scores[of]
    missing = np.setdiff1d(np.arange(len(pairs)), at)
    found[missing] = miner.scores(pairs[missing], label)
    return found


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
    """Describe a group by its representative, its members, and the pair that holds it together."""
    sentences, places = miner.first.sentences, miner.first.places
    best = int(np.argmax(matrix.sum(axis=1)))
    order = sorted(range(len(nodes)), key=lambda row: (row != best, -matrix[best, row]))
    members = [
        {
            "index": place,
            "sentence": sentences[nodes[row]],
            "score": None if row == best else float(matrix[best, row]),
        }
        for row in order
        for place in places[nodes[row]]
    ]
    one, two = np.triu_indices(len(nodes), 1)
    ranked = np.argsort(-matrix[one, two], kind="stable")
    edges = np.stack([one, two], axis=1)[ranked]
    held_by = None
    if len(edges):
        i, j = edges[join(range(len(nodes)), edges.tolist()).joins[-1]].tolist()
        first, second = nodes[i], nodes[j]
        held_by = {
            "index1": places[first][0],
            "index2": places[second][0],
            "sentence1": sentences[first],
            "sentence2": sentences[second],
            "score": float(matrix[i, j]),
        }
    return {
        "size": len(members),
        "representative": sentences[nodes[best]],
        "held_by": held_by,
        "members": members,
    }


def save_groups(path: Path, groups: Sequence[Prediction], title: str, sentences: int) -> None:
    """Write an HTML page of the largest groups.

    Args:
        path: The file to write.
        groups: What `group` returned.
        title: Title of the page.
        sentences: Number of sentences in the corpus.
    """
    page = render_page(
        "groups.html",
        title,
        groups=groups[:MOST_SHOWN],
        count=len(groups),
        members=sum(group.size for group in groups),
        sentences=sentences,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
