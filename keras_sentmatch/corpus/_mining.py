"""Pairs of a corpus that match: candidates from retrievers, scored by a matcher."""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_sentmatch.corpus._retrieval import (
    Array,
    Bm25,
    Dense,
    fuse,
    make_vectors,
    vector_kind,
)
from keras_sentmatch.display.progress import progress_bar
from keras_sentmatch.errors import InputError, argument
from keras_sentmatch.inference.base import Prediction
from keras_sentmatch.inference.pairs import check_count

if TYPE_CHECKING:
    from keras_sentmatch.inference import Matcher
    from keras_sentmatch.inference.ensemble import EnsembleMatcher

log = logging.getLogger(__name__)
_WINDOW = 4096  # pairs scored at once


def mine(
    matcher: "Matcher | EnsembleMatcher",
    sentences: Sequence[str],
    against: Sequence[str] | None = None,
    *,
    threshold: float | None = None,
    label: str | None = None,
    candidates: int = 10,
    vectors: str | None = None,
    batch_size: int = 64,
) -> list[Prediction]:
    """Find the pairs of a corpus that match, without scoring all pairs.

    Each sentence is scored with the few candidates that two retrievers find for it: by rare words
    (BM25) and by vectors. This needs the extra `[corpus]`.

    Args:
        matcher: The matcher that scores candidate pairs.
        sentences: The corpus.
        against: A second corpus. If given, each pair has one sentence of each.
        threshold: Lowest score of a pair that matches. Defaults to the matcher's threshold or 0.5;
            required for a matcher that returns scores.
        label: The label whose probability is the score. Required for more than two labels; of two,
            the default is the second.
        candidates: Number of candidates per sentence. More candidates find more pairs and take
            longer in proportion.
        vectors: `"table"` for the built-in word vectors (English), or `"words"` for the word vectors
            of the run. Defaults to `"table"` if the run's vectors come from there, or `"words"`.
        batch_size: Maximum number of pairs per batch.

    Returns:
        A list of predictions, best first, with `index1` and `index2` (positions in the corpora),
        `sentence1`, `sentence2` and `score`. Within one corpus, `index1` is the smaller one. Equal
        sentences always match: each further copy is paired with the first one.

    Raises:
        InputError: If there are fewer than two sentences, a sentence is no string, or an argument
            is out of range.

    Example:

    ```python
    from keras_sentmatch import Matcher
    from keras_sentmatch.corpus import mine

    mine(Matcher.load("runs/mine"), ["It rains.", "A dog runs.", "There is rain."], threshold=0.8)
    # [{"index1": 0, "index2": 2, "sentence1": "It rains.", …, "score": 0.91}]
    ```
    """
    options: Any = {"candidates": candidates, "vectors": vectors, "batch_size": batch_size}
    return Miner(matcher, sentences, against, **options).pairs(threshold, label)


class Distinct:
    """The distinct sentences of a list, and the positions of each."""

    def __init__(self, sentences: Sequence[str], name: str) -> None:
        if isinstance(sentences, str):
            raise InputError(f"{name} is one string. Pass a list of sentences.")
        places: dict[str, list[int]] = {}
        for place, sentence in enumerate(sentences):
            if not isinstance(sentence, str):
                raise InputError(f"{name}[{place}] is {sentence!r:.60}. Expected a string.")
            places.setdefault(sentence, []).append(place)
        self.sentences, self.places = list(places), list(places.values())

    def __len__(self) -> int:
        return len(self.sentences)


class Miner:
    """The candidates of a corpus and their scores. Equal sentences are looked up and scored once."""

    def __init__(
        self,
        matcher: Any,
        sentences: Sequence[str],
        against: Sequence[str] | None,
        *,
        candidates: int,
        vectors: str | None,
        batch_size: int,
    ) -> None:
        check_count("candidates", candidates)
        check_count("batch_size", batch_size)
        self.matcher, self.batch_size, self.count = matcher, batch_size, candidates
        self.member = getattr(matcher, "members", [matcher])[0]
        self.kind = vector_kind(self.member, vectors)
        self.first = Distinct(sentences, "sentences")
        self.second = self.first if against is None else Distinct(against, "against")
        least = 2 if against is None else 1
        for name, found in (("corpus", self.first), ("second corpus", self.second)):
            if (total := sum(map(len, found.places))) < least:
                raise InputError(
                    f"The {name} has {total} sentence{'' if total == 1 else 's'}. Expected at least "
                    f"{least}."
                )

    @property
    def alone(self) -> bool:
        """Whether all pairs are of one corpus."""
        return self.second is self.first

    def candidates(self) -> Array:
        """Return each pair of distinct sentences to score, once: int `[pairs, 2]`."""
        corpus = self.second.sentences
        embed = make_vectors(self.kind, self.member, corpus)
        found = fuse(
            [self._search(one) for one in (Bm25(corpus), Dense(embed, corpus))], self.count
        )
        rows = np.repeat(np.arange(len(found)), found.shape[1])
        pairs = np.stack([rows, found.reshape(-1)], axis=1)
        pairs = pairs[pairs[:, 1] >= 0]
        if self.alone:
            pairs.sort(axis=1)
        else:  # sentences that are in both corpora
            places = {sentence: i for i, sentence in enumerate(corpus)}
            equal = [(i, places[s]) for i, s in enumerate(self.first.sentences) if s in places]
            pairs = np.concatenate([pairs, np.reshape(equal, (-1, 2)).astype(int)])
        return np.unique(pairs, axis=0)

    def _search(self, retriever: Bm25 | Dense) -> Array:
        """Return the candidates of all sentences; a sentence is never its own candidate."""
        if not self.alone:
            return retriever.search(self.first.sentences, self.count)
        found = retriever.search(self.first.sentences, self.count + 1)
        own = found == np.arange(len(found))[:, None]
        order = np.argsort(own | (found < 0), axis=1, kind="stable")
        found = np.where(own, -1, found)
        return np.take_along_axis(found, order, axis=1)[:, : self.count]

    def scores(self, pairs: Array, label: str | None) -> Array:
        """Score pairs of distinct sentences."""
        column = self.matcher.score_column(label)
        one, two = self.first.sentences, self.second.sentences
        found = np.zeros(len(pairs), "float32")
        with progress_bar("scoring", len(pairs), len(pairs) > 1000) as show:
            for start in range(0, len(pairs), _WINDOW):
                part = pairs[start : start + _WINDOW].tolist()
                first, second = [one[i] for i, _ in part], [two[j] for _, j in part]
                scores = self.matcher.predict_proba(first, second, batch_size=self.batch_size)
                found[start : start + len(part)] = scores if column is None else scores[:, column]
                show(start + len(part))
        return found

    def threshold(self, given: float | None, label: str | None) -> float:
        """Return the lowest score of a pair that matches."""
        if given is not None:
            return given
        column = self.matcher.score_column(label)
        if column is None:
            raise InputError(
                "This matcher returns one score and has no threshold. Set the lowest score of a "
                f"matching pair with {argument('threshold')}."
            )
        own = self.matcher.threshold
        return own if own is not None and column == 1 else 0.5

    def edges(self, threshold: float | None, label: str | None) -> tuple[Array, Array]:
        """Return the matching pairs of distinct sentences, `[pairs, 2]`, and their scores, best first."""
        least = self.threshold(threshold, label)
        pairs = self.candidates()
        log.info("%d candidate pairs among %d distinct sentences", len(pairs), len(self.first))
        scores = self.scores(pairs, label)
        kept = np.flatnonzero(scores >= least)
        kept = kept[np.argsort(-scores[kept], kind="stable")]
        return pairs[kept], scores[kept]

    def pairs(self, threshold: float | None, label: str | None) -> list[Prediction]:
        """Return what `mine` returns."""
        edges, scores = self.edges(threshold, label)
        found = [
            (float(score), self.first.places[i][0], self.second.places[j][0])
            for (i, j), score in zip(edges.tolist(), scores)
        ]
        found += self._copies(edges, scores, label)
        found.sort(key=lambda one: -one[0])
        first, second = (
            {place: s for s, places in zip(d.sentences, d.places) for place in places}
            for d in (self.first, self.second)
        )
        return [
            Prediction(index1=i, index2=j, sentence1=first[i], sentence2=second[j], score=score)
            for score, i, j in found
        ]

    def _copies(
        self, edges: Array, scores: Array, label: str | None
    ) -> Iterator[tuple[float, int, int]]:
        """Yield the pairs of further copies: with the first copy, or across the corpora."""
        if self.alone:
            several = [i for i, places in enumerate(self.first.places) if len(places) > 1]
            equal = self.scores(np.array([several, several]).T.astype(int), label)
            for i, score in zip(several, equal):
                first, *others = self.first.places[i]
                yield from ((float(score), first, other) for other in others)
            return
        for (i, j), score in zip(edges.tolist(), scores):
            one, two = self.first.places[i], self.second.places[j]
            yield from ((float(score), other, two[0]) for other in one[1:])
            yield from ((float(score), one[0], other) for other in two[1:])
