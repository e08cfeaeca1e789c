"""Retrievers: for each sentence the few that may match it, by words (BM25) or by vectors."""

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from keras_sentmatch.corpus.vectors import Array
from keras_sentmatch.errors import InputError
from keras_sentmatch.text import Tokenizer

EXACT = 100_000  # vectors, from which on not all of them are compared
PROBES = 32  # lists of vectors looked through then
_COMMON = 5_000  # sentences with a word, above which nothing is looked up by it
_BLOCK = 128  # sentences looked up at once
_FUSION = 60  # ranks, as in Cormack et al. (2009)


class Retriever(Protocol):
    """Finds rows of a corpus."""

    def search(self, sentences: Sequence[str], k: int) -> Array:
        """The `k` best rows for each sentence, int `[sentences, k]`; -1 where there are fewer."""


def optional(name: str, package: str) -> ModuleType:
    """A package of the extra `[corpus]`; it is not to import JAX, which bm25s does if it finds it."""
    without = {} if "jax" in sys.modules else {"jax": None}
    sys.modules.update(without)  # type: ignore[arg-type]
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InputError(
            f'{package} is not installed: pip install "keras-sentmatch[corpus]".'
        ) from None
    finally:
        for hidden in without:
            del sys.modules[hidden]


class Bm25:
    """Sentences by the rare words that they share (bm25s), in sparse products of many at a time."""

    def __init__(self, sentences: Sequence[str], folder: Path | None = None) -> None:
        """Indexes sentences; or reads what `save` wrote into a folder."""
        import scipy.sparse

        self.tokens = Tokenizer()
        bm25s = optional("bm25s", "bm25s")
        if folder is not None:
            self.index = bm25s.BM25.load(folder, mmap=True)
        else:
            self.index = bm25s.BM25()
            # An empty sentence still needs a token, and so does a corpus without any.
            tokens = [self.tokens(sentence) or [""] for sentence in sentences]
            self.index.index(tokens, show_progress=False)
        found = self.index.scores
        self.ids: dict[str, int] = self.index.vocab_dict
        shape = len(found["indptr"]) - 1, found["num_docs"]
        # By word: the same arrays as by sentence in columns.
        self.scores = scipy.sparse.csr_matrix(
            (found["data"], found["indices"], found["indptr"]), shape=shape, copy=False
        )
        self.counts = np.diff(self.scores.indptr)

    def save(self, folder: Path) -> None:
        """Writes .npy and .json files."""
        self.index.save(folder, show_progress=False)

    def search(self, sentences: Sequence[str], k: int) -> Array:
        found = np.full((len(sentences), k), -1)
        for start in range(0, len(sentences), _BLOCK):
            block = [self._words(sentence) for sentence in sentences[start : start + _BLOCK]]
            scores = self._queries(block) @ self.scores
            for row in range(len(block)):
                part = slice(scores.indptr[row], scores.indptr[row + 1])
                best = _best(scores.data[part], scores.indices[part], k)
                found[start + row, : len(best)] = best
        return found

    def _words(self, sentence: str) -> list[int]:
        """The ids of its words, but for common ones; the rarest in any case."""
        words = [self.ids[w] for w in dict.fromkeys(self.tokens(sentence)) if w in self.ids]
        rare = [word for word in words if self.counts[word] <= _COMMON]
        return rare or sorted(words, key=lambda word: int(self.counts[word]))[:1]

    def _queries(self, words: list[list[int]]) -> Any:
        from scipy.sparse import csr_matrix

        flat = np.array([word for one in words for word in one], int)
        ends = np.cumsum([0, *map(len, words)])
        shape = len(words), self.scores.shape[0]
        return csr_matrix((np.ones(len(flat), "float32"), flat, ends), shape=shape)


def _best(scores: Array, rows: Array, k: int) -> Array:
    """The rows of the `k` highest scores above 0, the best first; equal ones in order."""
    rows, scores = rows[scores > 0], scores[scores > 0]
    if len(rows) > k:
        least = np.partition(scores, -k)[-k]
        rows, scores = rows[scores >= least], scores[scores >= least]
    return np.asarray(rows[np.lexsort((rows, -scores))][:k])


class Dense:
    """Sentences by the inner product of their vectors (faiss): exact up to `EXACT`, then IVF."""

    def __init__(self, embed: Callable[[Sequence[str]], Array], sentences: Sequence[str]) -> None:
        faiss = optional("faiss", "faiss-cpu")
        self.embed = embed
        self.vectors = embed(sentences)
        dim = self.vectors.shape[1]
        self.index = faiss.IndexFlatIP(dim)
        if len(sentences) > EXACT:
            lists = int(4 * len(sentences) ** 0.5)
            self.index = faiss.IndexIVFFlat(self.index, dim, lists, faiss.METRIC_INNER_PRODUCT)
            self.index.nprobe = PROBES
            self.index.cp.niter = 10
            self.index.cp.max_points_per_centroid = 64
            self.index.train(self.vectors)
        self.index.add(self.vectors)

    def search(self, sentences: Sequence[str], k: int) -> Array:
        vectors = self.embed(sentences)
        found = np.asarray(self.index.search(vectors, min(k, self.index.ntotal))[1])
        found[~vectors.any(axis=1)] = -1  # nothing is known of these
        return np.pad(found, [(0, 0), (0, k - found.shape[1])], constant_values=-1)


def fuse(rankings: Sequence[Array], k: int) -> Array:
    """Joins rankings of the same sentences by reciprocal rank."""
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
