"""Words as a retriever: for a sentence the few that may match it, by rare words (BM25)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_sentmatch.corpus._cells import Array
from keras_sentmatch.text import Tokenizer

_K1, _B = 1.5, 0.75  # of BM25, as Lucene sets them
_COMMON = 5_000  # a word in more sentences than this is not looked up
_FUSION = 60  # as in Cormack et al. (2009), Reciprocal Rank Fusion


class Bm25:
    """Finds sentences that share rare words.

    Args:
        words: The words of the sentences.
        scores: Sparse matrix `[words, sentences]` with the BM25 score of each word.
    """

    def __init__(self, words: Sequence[str], scores: Any) -> None:
        self.words, self.scores = words, scores
        self._tokens = Tokenizer()
        self._ids = {word: row for row, word in enumerate(words)}
        self._counts = np.diff(scores.indptr)

    @classmethod
    def of(cls, sentences: Sequence[str]) -> "Bm25":
        """Count the words of sentences."""
        from scipy.sparse import coo_matrix

        tokens, ids = Tokenizer(), {"": 0}  # at least one word, which no sentence has
        rows = [[ids.setdefault(w, len(ids)) for w in tokens(s)] for s in sentences]
        lengths = np.array([len(row) for row in rows], float)
        at = np.fromiter((word for row in rows for word in row), np.int32)
        of = np.repeat(np.arange(len(rows), dtype=np.int32), lengths.astype(int))
        shape = len(ids), len(rows)
        found = coo_matrix((np.ones(len(at), "float32"), (at, of)), shape=shape).tocsr()
        norms = _K1 * (1 - _B + _B * lengths / max(lengths.mean(), 1e-9))
        counts = np.diff(found.indptr)
        rarity = np.log(1 + (len(rows) - counts + 0.5) / (counts + 0.5))
        shares = found.data / (found.data + norms[found.indices])
        found.data = (np.repeat(rarity, counts) * shares).astype("float32")
        return cls(list(ids), found)

    def search(self, sentence: str, k: int) -> Array:
        """Return the rows of the `k` best sentences, best first."""
        found = np.zeros(self.scores.shape[1], "float32")
        for word in self._rare(sentence):
            part = slice(*self.scores.indptr[word : word + 2])
            found[self.scores.indices[part]] += self.scores.data[part]
        rows = np.flatnonzero(found)
        return np.asarray(rows[np.argsort(-found[rows], kind="stable")[:k]])

    def _rare(self, sentence: str) -> list[int]:
        """Return the ids of a sentence's rare words, or of the rarest word if all are common."""
        words = [self._ids[w] for w in dict.fromkeys(self._tokens(sentence)) if w in self._ids]
        rare = [word for word in words if self._counts[word] <= _COMMON]
        return rare or sorted(words, key=lambda word: int(self._counts[word]))[:1]


def fuse(rankings: Sequence[Array], k: int) -> Array:
    """Join rankings by reciprocal rank, and return the `k` best."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, candidate in enumerate(ranking.tolist()):
            scores[candidate] = scores.get(candidate, 0.0) + 1 / (_FUSION + rank)
    return np.array(sorted(scores, key=lambda one: -scores[one])[:k], int)
