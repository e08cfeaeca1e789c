"""Retrievers: for each sentence the few that may match it, by words (BM25) or by vectors."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keras_sentmatch.errors import InputError, argument
from keras_sentmatch.inference.unseen_words import word_tables
from keras_sentmatch.text import Tokenizer
from keras_sentmatch.vectors.built_in import load_similarity, load_word_table

Array = NDArray[Any]
Lookup = Callable[[str], Array | None]
KINDS = ("table", "words")
EXACT = 100_000  # above this number of vectors, only the nearest lists are searched
PROBES = 32  # number of lists that are searched
BLOCK = 4096  # sentences embedded per block
_COMMON = 5_000  # a word in more sentences than this is not looked up
_HALF = 1e-3  # share of all words at which a word gets half the weight of a rare word
_ROWS = 128  # sentences looked up per block
_FUSION = 60  # ranks, as in Cormack et al. (2009)


def optional(name: str, package: str) -> ModuleType:
    """Import a package of the extra `[corpus]` without JAX, which bm25s imports if it can."""
    without = {} if "jax" in sys.modules else {"jax": None}
    sys.modules.update(without)  # type: ignore[arg-type]
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InputError(
            f'{package} is not installed. Run: pip install "keras-sentmatch[corpus]".'
        ) from None
    finally:
        for hidden in without:
            del sys.modules[hidden]


class Bm25:
    """Finds sentences that share rare words (bm25s), by sparse products of many sentences."""

    def __init__(self, sentences: Sequence[str], folder: Path | None = None) -> None:
        """Index sentences, or read an index that `save` wrote into a folder."""
        import scipy.sparse

        self.tokens = Tokenizer()
        bm25s = optional("bm25s", "bm25s")
        if folder is not None:
            self.index = bm25s.BM25.load(folder, mmap=True)
        else:
            self.index = bm25s.BM25()
            # bm25s needs at least one token per sentence.
            tokens = [self.tokens(sentence) or [""] for sentence in sentences]
            self.index.index(tokens, show_progress=False)
        found = self.index.scores
        self.ids: dict[str, int] = self.index.vocab_dict
        shape = len(found["indptr"]) - 1, found["num_docs"]
        # The same arrays, read as rows of words instead of columns of sentences.
        self.scores = scipy.sparse.csr_matrix(
            (found["data"], found["indices"], found["indptr"]), shape=shape, copy=False
        )
        self.counts = np.diff(self.scores.indptr)

    def save(self, folder: Path) -> None:
        """Write .npy and .json files."""
        self.index.save(folder, show_progress=False)

    def search(self, sentences: Sequence[str], k: int) -> Array:
        found = np.full((len(sentences), k), -1)
        for start in range(0, len(sentences), _ROWS):
            block = [self._words(sentence) for sentence in sentences[start : start + _ROWS]]
            scores = self._queries(block) @ self.scores
            for row in range(len(block)):
                part = slice(scores.indptr[row], scores.indptr[row + 1])
                best = _best(scores.data[part], scores.indices[part], k)
                found[start + row, : len(best)] = best
        return found

    def _words(self, sentence: str) -> list[int]:
        """Return the ids of a sentence's rare words, or of the rarest word if all are common."""
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
    """Return the rows of the `k` highest scores above 0, best first; ties keep their order."""
    rows, scores = rows[scores > 0], scores[scores > 0]
    if len(rows) > k:
        least = np.partition(scores, -k)[-k]
        rows, scores = rows[scores >= least], scores[scores >= least]
    return np.asarray(rows[np.lexsort((rows, -scores))][:k])


class Dense:
    """Finds sentences with near vectors (faiss): exactly up to `EXACT`, above that in lists."""

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
        found[~vectors.any(axis=1)] = -1  # no word of these has a vector
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


# --- vectors of sentences ---


def unit(vectors: Array) -> Array:
    """Scale rows to unit length; rows of zeros stay."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(norms, 1e-9), "float32")


class WordMeans:
    """The weighted mean of a sentence's word vectors."""

    def __init__(self, tokens: Callable[[str], list[str]], lookup: Lookup, dim: int) -> None:
        self.tokens, self.lookup, self.dim = tokens, lookup, dim

    def weights(self, words: list[str], vectors: Array) -> Array:
        """Return the weight of each word."""
        raise NotImplementedError

    def finish(self, means: Array) -> Array:
        """Transform the means."""
        raise NotImplementedError

    def __call__(self, sentences: Sequence[str]) -> Array:
        found = [self._block(sentences[i : i + BLOCK]) for i in range(0, len(sentences), BLOCK)]
        return np.concatenate([np.zeros((0, self.dim), "float32"), *found])

    def _block(self, sentences: Sequence[str]) -> Array:
        from scipy.sparse import csr_matrix

        rows: dict[str, int] = {}
        ids = [[rows.setdefault(word, len(rows)) for word in self.tokens(s)] for s in sentences]
        vectors = np.zeros((len(rows), self.dim), "float32")
        for word, row in rows.items():
            vector = self.lookup(word)
            if vector is not None:
                vectors[row] = vector
        weights = self.weights(list(rows), vectors) * vectors.any(axis=1)
        flat = np.concatenate([*map(np.asarray, ids), np.zeros(0)]).astype(int)
        ends = np.cumsum([0, *map(len, ids)])
        bags = csr_matrix((weights[flat], flat, ends), shape=(len(sentences), len(rows)))
        sums = np.asarray(bags.sum(axis=1), "float32").reshape(-1, 1)
        means = bags @ vectors / np.maximum(sums, 1e-12)
        return unit(self.finish(np.asarray(means)) * (sums > 0))


class TableMeans(WordMeans):
    """Means of the built-in vectors, weighted and mapped to have the cosines of MiniLM's vectors."""

    def __init__(self) -> None:
        table = load_word_table()
        self.learned = load_similarity()
        known: dict[str, Array | None] = {}

        def lookup(word: str) -> Array | None:
            if word not in known:
                known[word] = table.lookup(word, correct=False)[0]
            return known[word]

        super().__init__(Tokenizer(), lookup, table.dim)

    def weights(self, words: list[str], vectors: Array) -> Array:
        hidden = np.tanh(vectors @ self.learned["kernel"] + self.learned["bias"])
        return np.asarray(np.exp(hidden @ self.learned["context"])).reshape(-1)

    def finish(self, means: Array) -> Array:
        return np.asarray(means @ self.learned["map"] + self.learned["map_bias"])


class RunMeans(WordMeans):
    """Means of a run's word vectors by smooth inverse frequency, without the common direction.

    Source: Arora et al. (2017), A Simple but Tough-to-Beat Baseline for Sentence Embeddings.
    """

    def __init__(self, matcher: Any, sentences: Sequence[str] | Mapping[str, Any]) -> None:
        """Learn the frequencies of words from sentences, or restore a `state`."""
        lookup, dim = run_vectors(matcher)
        super().__init__(matcher.encoder.tokens, lookup, dim)
        if isinstance(sentences, Mapping):
            self.shares = dict(sentences["shares"])
            self.direction = np.asarray(sentences["direction"], "float32")
            return
        counts: dict[str, float] = {}
        for sentence in sentences:
            for word in self.tokens(sentence):
                counts[word] = counts.get(word, 0) + 1
        whole = sum(counts.values())
        self.shares = {word: count / whole for word, count in counts.items()}
        self.direction = np.zeros(dim, "float32")
        means = self(sentences[:100_000])
        if len(means) > dim:  # fewer sentences have no reliable direction
            self.direction = np.linalg.eigh(means.T @ means)[1][:, -1].astype("float32")

    def state(self) -> dict[str, Any]:
        return {"shares": self.shares, "direction": self.direction.tolist()}

    def weights(self, words: list[str], vectors: Array) -> Array:
        return np.array([_HALF / (_HALF + self.shares.get(word, 0.0)) for word in words])

    def finish(self, means: Array) -> Array:
        return np.asarray(means - np.outer(means @ self.direction, self.direction))


def run_vectors(matcher: Any) -> tuple[Lookup, int]:
    """Return the lookup of a run's word vectors, and their size."""
    import keras

    model, encoder = getattr(matcher, "model", None), matcher.encoder
    if model is None:
        raise InputError(
            f"{matcher!r} has no word vectors. Use {argument('vectors', 'table')}, or load the run "
            "without an engine."
        )
    tables = word_tables(model)
    if not tables:  # a backbone, whose tokens are word pieces
        matrix = keras.ops.convert_to_numpy(model.bert.backbone.token_embedding.embeddings)
        return lambda piece: matrix[encoder.tokenizer.token_to_id(piece)], matrix.shape[1]
    matrix = keras.ops.convert_to_numpy(tables[0])
    ids = encoder.vocabulary.ids
    table = matcher.word_table

    def lookup(word: str) -> Array | None:
        if word in ids and ids[word] < len(matrix):
            return np.asarray(matrix[ids[word]])
        return None if table is None else table.lookup(word)[0]

    return lookup, matrix.shape[1]


def vector_kind(matcher: Any, vectors: str | None) -> str:
    """Return the kind of vectors to use: the built-in table if the run's vectors come from it."""
    if vectors is None:
        return "words" if getattr(matcher, "word_table", None) is None else "table"
    if vectors not in KINDS:
        raise InputError(
            f"{argument('vectors', vectors)} is unknown. Expected {' or '.join(map(repr, KINDS))}."
        )
    return vectors


def make_vectors(
    kind: str, matcher: Any, sentences: Sequence[str] | Mapping[str, Any]
) -> Callable[[Sequence[str]], Array]:
    """Return a function from sentences to unit vectors.

    Args:
        kind: `"table"` or `"words"`.
        matcher: The matcher, or the first member of an ensemble.
        sentences: The sentences (or a saved state) from which word frequencies are learned.
    """
    return TableMeans() if kind == "table" else RunMeans(matcher, sentences)
