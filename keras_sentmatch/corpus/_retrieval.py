"""Retrievers: for each sentence the few that may match it, by rare words (BM25) or by vectors."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keras_sentmatch.display.progress import progress_bar
from keras_sentmatch.errors import InputError
from keras_sentmatch.text import Tokenizer
from keras_sentmatch.vectors.built_in import load_similarity, load_word_table

Array = NDArray[Any]
EXACT = 100_000  # above this number of vectors, only the nearest lists are searched
PROBES = 32  # number of lists that are searched
_K1, _B = 1.5, 0.75  # of BM25, as Lucene sets them
_COMMON = 5_000  # a word in more sentences than this is not looked up
_BLOCK = 4096  # sentences embedded per block
_ROWS = 128  # sentences looked up per block
_FUSION = 60  # as in Cormack et al. (2009), Reciprocal Rank Fusion


def load_faiss() -> ModuleType:
    try:
        import faiss
    except ImportError:
        raise InputError(
            'faiss-cpu is not installed. Run: pip install "keras-sentmatch[corpus]".'
        ) from None
    return faiss


class Bm25:
    """Finds sentences that share rare words, by sparse products of many sentences at once.

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

    def search(self, sentences: Sequence[str], k: int) -> Array:
        """Return the `k` best sentences for each sentence, -1 where there are fewer."""
        found = np.full((len(sentences), k), -1)
        with progress_bar("looking up sentences", len(sentences), len(sentences) > _ROWS) as show:
            for start in range(0, len(sentences), _ROWS):
                block = [self._rare(sentence) for sentence in sentences[start : start + _ROWS]]
                scores = _bags(block, len(self.words)) @ self.scores
                for row in range(len(block)):
                    part = slice(scores.indptr[row], scores.indptr[row + 1])
                    best = _best(scores.data[part], scores.indices[part], k)
                    found[start + row, : len(best)] = best
                show(start + len(block))
        return found

    def _rare(self, sentence: str) -> list[int]:
        """Return the ids of a sentence's rare words, or of the rarest word if all are common."""
        words = [self._ids[w] for w in dict.fromkeys(self._tokens(sentence)) if w in self._ids]
        rare = [word for word in words if self._counts[word] <= _COMMON]
        return rare or sorted(words, key=lambda word: int(self._counts[word]))[:1]


def _bags(rows: list[list[int]], width: int) -> Any:
    """Return bags of words as a sparse matrix `[rows, width]`."""
    from scipy.sparse import csr_matrix

    flat = np.fromiter((word for row in rows for word in row), int)
    ends = np.cumsum([0, *map(len, rows)])
    return csr_matrix((np.ones(len(flat), "float32"), flat, ends), shape=(len(rows), width))


def _best(scores: Array, rows: Array, k: int) -> Array:
    """Return the rows of the `k` highest scores above 0, best first; ties keep their order."""
    rows, scores = rows[scores > 0], scores[scores > 0]
    if len(rows) > k:
        least = np.partition(scores, -k)[-k]
        rows, scores = rows[scores >= least], scores[scores >= least]
    return np.asarray(rows[np.lexsort((rows, -scores))][:k])


class Dense:
    """Finds sentences with near vectors (faiss): exactly up to `EXACT`, above that in lists."""

    def __init__(self, vectors: Array) -> None:
        faiss = load_faiss()
        dim = vectors.shape[1]
        self.index = faiss.IndexFlatIP(dim)
        if len(vectors) > EXACT:
            lists = int(4 * len(vectors) ** 0.5)
            self.index = faiss.IndexIVFFlat(self.index, dim, lists, faiss.METRIC_INNER_PRODUCT)
            self.index.nprobe = PROBES
            self.index.cp.niter = 10
            self.index.cp.max_points_per_centroid = 64
            self.index.train(vectors)
        self.index.add(vectors)

    def search(self, vectors: Array, k: int) -> Array:
        """Return the `k` nearest rows for each vector, -1 where there are fewer."""
        found = np.asarray(self.index.search(vectors, min(k, self.index.ntotal))[1])
        found[~vectors.any(axis=1)] = -1  # no word of the sentence has a vector
        return np.pad(found, [(0, 0), (0, k - found.shape[1])], constant_values=-1)


def fuse(rankings: Sequence[Array], k: int) -> Array:
    """Join rankings of the same sentences by reciprocal rank."""
    found = np.full((len(rankings[0]), k), -1)
    for row in range(len(found)):
        scores: dict[int, float] = {}
        for ranking in rankings:
            for rank, candidate in enumerate(ranking[row].tolist()):
                if candidate >= 0:
                    scores[candidate] = scores.get(candidate, 0.0) + 1 / (_FUSION + rank)
        best = sorted(scores, key=lambda one: -scores[one])[:k]
        found[row, : len(best)] = best
    return found


def embed(sentences: Sequence[str]) -> Array:
    """Return unit vectors `[sentences, dim]`, or zeros if no word of a sentence has a vector.

    They are means of the built-in word vectors, weighted and mapped so that their cosines are close
    to those of all-MiniLM-L6-v2.
    """
    blocks = range(0, len(sentences), _BLOCK)
    return np.concatenate([_embed_block(sentences[i : i + _BLOCK]) for i in blocks])


def _embed_block(sentences: Sequence[str]) -> Array:
    learned, table, tokens = load_similarity(), load_word_table(), Tokenizer()
    ids: dict[str, int] = {}
    rows = [[ids.setdefault(word, len(ids)) for word in tokens(s)] for s in sentences]
    vectors = np.zeros((len(ids), table.dim), "float32")
    for word, row in ids.items():
        vector = table.lookup(word, correct=False)[0]
        if vector is not None:
            vectors[row] = vector
    hidden = np.tanh(vectors @ learned["kernel"] + learned["bias"])
    weights = np.exp(hidden @ learned["context"]).reshape(-1) * vectors.any(axis=1)
    bags = _bags(rows, len(ids)).multiply(weights).tocsr()
    sums = np.asarray(bags.sum(axis=1), "float32").reshape(-1, 1)
    means = np.asarray(bags @ vectors) / np.maximum(sums, 1e-12)
    found = (means @ learned["map"] + learned["map_bias"]) * (sums > 0)
    norms = np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(found / np.maximum(norms, 1e-9), "float32")
