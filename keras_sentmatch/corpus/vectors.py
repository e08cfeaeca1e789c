"""Vectors of sentences, of unit length: by these the dense retriever finds candidates."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keras_sentmatch.errors import InputError, argument
from keras_sentmatch.inference.new_words import word_tables
from keras_sentmatch.text import Tokenizer
from keras_sentmatch.vectors.built_in import WordTable, load_similarity, load_word_table
from keras_sentmatch.vectors.extraction import WordEncoder

Array = NDArray[Any]
Lookup = Callable[[str], Array | None]
KINDS = ("table", "words", "encodings")
BLOCK = 4096  # sentences encoded at once
_COMMON = 1e-3  # share of all words at which a word has half the weight of a rare one


def unit(vectors: Array) -> Array:
    """The rows at unit length; rows of zeros stay."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(norms, 1e-9), "float32")


class WordMeans:
    """The weighted mean of a sentence's word vectors."""

    def __init__(self, tokens: Callable[[str], list[str]], lookup: Lookup, dim: int) -> None:
        self.tokens, self.lookup, self.dim = tokens, lookup, dim

    def weights(self, words: list[str], vectors: Array) -> Array:
        """How much each word matters."""
        raise NotImplementedError

    def finish(self, means: Array) -> Array:
        """What is done to the means."""
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
    """Means of the package's table, weighted and mapped to have the cosines of MiniLM's vectors."""

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
    """Means of a run's own word vectors: smooth inverse frequency, without the common direction.

    Source: Arora et al. (2017), A Simple but Tough-to-Beat Baseline for Sentence Embeddings.
    """

    def __init__(self, matcher: Any, sentences: Sequence[str] | Mapping[str, Any]) -> None:
        """Learns the frequencies of words from sentences, or takes a `state`."""
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
        if len(means) > dim:  # fewer tell no direction
            self.direction = np.linalg.eigh(means.T @ means)[1][:, -1].astype("float32")

    def state(self) -> dict[str, Any]:
        return {"shares": self.shares, "direction": self.direction.tolist()}

    def weights(self, words: list[str], vectors: Array) -> Array:
        return np.array([_COMMON / (_COMMON + self.shares.get(word, 0.0)) for word in words])

    def finish(self, means: Array) -> Array:
        return np.asarray(means - np.outer(means @ self.direction, self.direction))


def run_vectors(matcher: Any) -> tuple[Lookup, int]:
    """What looks up a token's vector in a run, and their width."""
    import keras

    model, encoder = getattr(matcher, "model", None), matcher.encoder
    if model is None:
        raise InputError(
            f"{matcher!r} shows no word vectors: use {argument('vectors', 'table')}, or load the "
            "run without an engine."
        )
    tables = word_tables(model)
    if not tables:  # a pretrained encoder, whose tokens are word pieces
        matrix = keras.ops.convert_to_numpy(model.bert.backbone.token_embedding.embeddings)
        return lambda piece: matrix[encoder.tokenizer.token_to_id(piece)], matrix.shape[1]
    matrix = keras.ops.convert_to_numpy(tables[0])
    ids = encoder.vocabulary.ids
    extractor = matcher.vector_extractor

    def lookup(word: str) -> Array | None:
        if word in ids and ids[word] < len(matrix):
            return np.asarray(matrix[ids[word]])
        return extractor.lookup(word)[0] if isinstance(extractor, WordTable) else None

    return lookup, matrix.shape[1]


class Encodings:
    """The mean of what the model itself makes of each word of a sentence."""

    def __init__(self, matcher: Any) -> None:
        if not getattr(matcher, "can_cache_encodings", False):
            raise InputError(
                f"{matcher!r} cannot encode a sentence without the other one: use "
                f"{argument('vectors', 'words')} or {argument('vectors', 'table')}."
            )
        self.matcher = matcher

    def __call__(self, sentences: Sequence[str]) -> Array:
        from keras import ops

        found: list[Array] = []
        for corpus in blocks_of(self.matcher, sentences):
            means = np.zeros((len(corpus), 0), "float32")
            for rows, block in corpus.blocks:
                arrays = {name: ops.convert_to_numpy(x) for name, x in block.items()}
                states = [x for x in arrays.values() if x.ndim == 3]
                if not states:
                    raise InputError(
                        f"{self.matcher!r} keeps no encoding of each word: use "
                        f"{argument('vectors', 'words')} or {argument('vectors', 'table')}."
                    )
                mask = arrays["mask"] if "mask" in arrays else np.ones(states[-1].shape[:2])
                mask = np.asarray(mask, "float32")[:, : states[-1].shape[1], None]
                mean = (states[-1] * mask).sum(1) / np.maximum(mask.sum(1), 1)
                if not means.shape[1]:
                    means = np.zeros((len(corpus), mean.shape[1]), "float32")
                means[rows] = mean[: len(rows)]
            found.append(means)
        return unit(np.concatenate(found))


class Pretrained:
    """The mean of what a pretrained encoder makes of the first 64 word pieces of a sentence."""

    def __init__(self, folder: str) -> None:
        self.encoder = WordEncoder(folder)

    def __call__(self, sentences: Sequence[str]) -> Array:
        rows, states = self.encoder.states(list(sentences), batch_size=64)
        return unit(np.concatenate([states, np.zeros_like(states[:1])])[rows])  # -1: zeros


def blocks_of(matcher: Any, sentences: Sequence[str]) -> Iterator[Any]:
    """Kept encodings of a few thousand sentences at a time."""
    for start in range(0, len(sentences), BLOCK):
        yield matcher.encode(sentences[start : start + BLOCK])


def default_kind(matcher: Any) -> str:
    """The package's table, where the run's vectors come from it; otherwise the run's own."""
    return "table" if isinstance(getattr(matcher, "vector_extractor", None), WordTable) else "words"


def make_vectors(
    kind: str, matcher: Any, sentences: Sequence[str] | Mapping[str, Any]
) -> Callable[[Sequence[str]], Array]:
    """What turns sentences into vectors; `sentences` or a state are what it learns from."""
    if kind == "table":
        return TableMeans()
    if kind == "words":
        return RunMeans(matcher, sentences)
    if kind == "encodings":
        return Encodings(matcher)
    if not Path(kind).is_dir():
        raise InputError(
            f"{argument('vectors', kind)}: expected {', '.join(map(repr, KINDS))}, or the folder of a "
            "KerasHub encoder."
        )
    return Pretrained(kind)
