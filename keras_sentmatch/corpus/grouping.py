"""Groups of sentences that match each other."""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_sentmatch.corpus.mining import Miner
from keras_sentmatch.corpus.vectors import Array
from keras_sentmatch.display.rendering import render
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.base import Prediction
from keras_sentmatch.inference.pairs import check_count

MOST_SHOWN = 500  # groups on a page
log = logging.getLogger(__name__)


class Joined(NamedTuple):
    """What `join` made: the members of each part, and which edges joined them or did not."""

    parts: list[list[int]]
    joins: list[int]
    refused: int


def join(
    nodes: Iterable[int], edges: Iterable[Sequence[int]], largest: int | None = None
) -> Joined:
    """Joins nodes along edges, in their order, where no part gets more than `largest` nodes."""
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
    miner: Miner,
    *,
    threshold: float | None = None,
    label: str | None = None,
    largest: int = 200,
) -> list[Prediction]:
    """The groups of a miner's corpus, the largest first; see `Matcher.groups`."""
    check_count("largest", largest)
    if not miner.alone:
        raise InputError("Groups are of one corpus: leave `against` out.")
    least = miner.threshold(threshold, label)
    edges, scores = miner.edges(least, label)
    parts, _, refused = join(range(len(miner.first)), edges.tolist(), largest)
    if refused:
        log.info(
            "%d matching pairs join no groups: those would have more than %d different sentences",
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
    """The scores of pairs, of which those of the edges are known."""
    keys, edge_keys = (p[:, 0] * len(miner.first) + p[:, 1] for p in (pairs, edges))
    known, at, of = np.intersect1d(keys, edge_keys, assume_unique=True, return_indices=True)
    found = np.zeros(len(pairs), "float32")
    found[at] = scores[of]
    missing = np.setdiff1d(np.arange(len(pairs)), at)
    found[missing] = miner.scores(pairs[missing], label)
    return found


def _clusters(part: list[int], scores: Array, least: float) -> list[tuple[list[int], Array]]:
    """Average linkage within a connected part, cut at the threshold; clusters of two and more."""
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
    """A group: its representative is the sentence that matches the others best on average."""
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


def save_page(path: Path, groups: Sequence[Prediction], title: str, sentences: int) -> None:
    """Writes a page of the largest groups, to be looked through in a browser."""
    page = render(
        "groups.html",
        title=title,
        light=(),  # no cells are colored
        dark=(),
        groups=groups[:MOST_SHOWN],
        count=len(groups),
        members=sum(group.size for group in groups),
        sentences=sentences,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
