"""Static sentence vectors: sums of built-in word vectors, compared by their cosine."""

import hashlib
from collections.abc import Sequence
from functools import cache

import numpy as np

from keras_sentmatch.text import Tokenizer
from keras_sentmatch.vectors.built_in import load_similarity, load_word_table

_BLOCK = 4096  # sentences embedded per block
_MOST = 1 << 18  # words that are remembered


class StaticVectors:
    """Unit vectors of sentences whose cosines are close to those of all-MiniLM-L6-v2.

    A sentence is the weighted mean of its built-in word vectors, under the map of `load_similarity`.
    A token without a word vector has a random one, which depends on its spelling alone, so that
    sentences of any language are near if they share tokens.
    """

    def __init__(self) -> None:
        self.dim = load_similarity()["map"].shape[1]
        self._tokens = Tokenizer()
        self._forget()

    def _forget(self) -> None:
        self._rows: dict[str, int] = {}
        self._vectors = np.zeros((0, self.dim), "float32")

    def __call__(self, sentences: Sequence[str], dtype: str = "float32") -> np.ndarray:
        """Return the vectors `[sentences, dim]`; zeros for a sentence without tokens."""
        found = np.zeros((len(sentences), self.dim), dtype)
        for start in range(0, len(sentences), _BLOCK):
            tokens = map(self._tokens, sentences[start : start + _BLOCK])
            found[start : start + _BLOCK] = self.of_tokens(list(tokens))
        return found

    def of_tokens(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """Return the vectors of sentences that are split into tokens."""
        from scipy.sparse import csr_matrix

        if len(self._rows) > _MOST:
            self._forget()
        known, rows = self._rows, [word for words in sentences for word in words]
        new = [word for word in dict.fromkeys(rows) if word not in known]
        self._vectors = np.concatenate([self._vectors, _word_vectors(new)])
        known.update(zip(new, range(len(known), len(known) + len(new))))
        ends = np.cumsum([0, *map(len, sentences)])
        columns = np.fromiter(map(known.__getitem__, rows), np.int32, len(rows))
        shape = len(sentences), len(known)
        bags = csr_matrix((np.ones(len(rows), "float32"), columns, ends), shape=shape)
        sums = np.asarray(bags @ self._vectors)
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        return np.asarray(sums / np.maximum(norms, 1e-9), "float32")


def _word_vectors(words: Sequence[str]) -> np.ndarray:
    """Return the weighted and mapped vectors of words, whose sum is that of a sentence."""
    learned, table = load_similarity(), load_word_table()
    vectors, unknown = np.zeros((len(words), table.dim), "float32"), list[int]()
    for row, word in enumerate(words):
        vector = table.lookup(word, correct=False)[0]
        if vector is None:
            unknown.append(row)
        else:
            vectors[row] = vector
    hidden = np.tanh(vectors @ learned["kernel"] + learned["bias"])
    weights = np.exp(hidden @ learned["context"])
    found = weights * (vectors @ learned["map"] + learned["map_bias"])
    known = np.delete(found, unknown, axis=0)
    length = np.linalg.norm(known, axis=1).mean() if len(known) else 1.0
    for row in unknown:
        seed = hashlib.blake2b(words[row].encode("utf-8", "surrogatepass"), digest_size=8).digest()
        random = np.random.default_rng(int.from_bytes(seed, "big")).normal(size=found.shape[1])
        found[row] = length / np.linalg.norm(random) * random
    return np.asarray(found, "float32")


@cache
def load_static() -> StaticVectors:
    """Return the static vectors, whose words are remembered."""
    return StaticVectors()
