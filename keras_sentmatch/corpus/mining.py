"""Pairs of a corpus that match: candidates from retrievers, scored by a matcher."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from keras_sentmatch.corpus.retrieval import Bm25, Dense, Retriever, fuse
from keras_sentmatch.corpus.vectors import Array, default_kind, make_vectors
from keras_sentmatch.display.progress import progress_bar
from keras_sentmatch.errors import InputError, argument
from keras_sentmatch.inference.base import Prediction
from keras_sentmatch.inference.pairs import check_count

RETRIEVERS = ("both", "bm25", "dense")
log = logging.getLogger(__name__)


class Distinct:
    """The different sentences of a list, and the places where each stands."""

    def __init__(self, sentences: Sequence[str], name: str) -> None:
        if isinstance(sentences, str):
            raise InputError(f"{name} is one string; give a list of sentences.")
        places: dict[str, list[int]] = {}
        for place, sentence in enumerate(sentences):
            if not isinstance(sentence, str):
                raise InputError(f"{name}[{place}] is {sentence!r:.60}; expected a string.")
            places.setdefault(sentence, []).append(place)
        self.sentences, self.places = list(places), list(places.values())

    def __len__(self) -> int:
        return len(self.sentences)


class Miner:
    """Finds the pairs of a corpus that a matcher says match, without looking at all of them.

    Equal sentences are looked at once: they always match, and every copy is paired with the first.

    Args:
        matcher: What scores pairs.
        sentences: The corpus.
        against: Another corpus: pairs of one sentence of each are found then.
        retriever: `"bm25"` finds candidates by the words they share, `"dense"` by vectors, `"both"`
            joins the two by reciprocal rank.
        vectors: What vectors of sentences are made of: `"table"`, the package's word vectors, made
            to compare as a sentence encoder does (English); `"words"`, the run's own word vectors;
            `"encodings"`, the model's own encodings; or the folder of a KerasHub encoder. By
            default `"table"` where the run's word vectors are the package's, otherwise `"words"`.
        candidates: How many sentences each one is paired with.
        batch_size: Most pairs scored at once.

    Raises:
        InputError: Fewer than two sentences, what is no sentence, or an unknown retriever.

    Example:

    ```python
    from keras_sentmatch.corpus import Miner

    miner = Miner(matcher, questions, candidates=20)
    best = miner.pairs(threshold=0.9)
    miner.recall(sample=20)  # {"bm25": 0.88, "dense": 0.91, "both": 0.97, "pairs": 64}
    ```
    """

    def __init__(
        self,
        matcher: Any,
        sentences: Sequence[str],
        against: Sequence[str] | None = None,
        *,
        retriever: str = "both",
        vectors: str | None = None,
        candidates: int = 10,
        batch_size: int = 64,
    ) -> None:
        check_count("candidates", candidates)
        check_count("batch_size", batch_size)
        if retriever not in RETRIEVERS:
            raise InputError(
                f"{argument('retriever', retriever)}: expected one of "
                f"{', '.join(map(repr, RETRIEVERS))}."
            )
        if vectors is not None and retriever == "bm25":
            raise InputError(
                f"{argument('vectors', vectors)}: the retriever bm25 uses no vectors; leave this out, "
                f"or use {argument('retriever', 'both')}."
            )
        self.matcher, self.batch_size, self.count = matcher, batch_size, candidates
        self.first = Distinct(sentences, "sentences")
        self.second = self.first if against is None else Distinct(against, "against")
        least = 2 if against is None else 1
        for name, found in (("corpus", self.first), ("corpus to pair it with", self.second)):
            if (total := sum(map(len, found.places))) < least:
                raise InputError(
                    f"The {name} has {total} sentence{'' if total == 1 else 's'}; "
                    f"at least {least} {'is' if least == 1 else 'are'} needed to make a pair."
                )
        self.names = ("bm25", "dense") if retriever == "both" else (retriever,)
        member = getattr(matcher, "members", [matcher])[0]
        self.kind = vectors or default_kind(member)
        self.member = member
        self._rankings: dict[str, Array] = {}

    @property
    def alone(self) -> bool:
        """Whether the pairs are of one corpus."""
        return self.second is self.first

    def rankings(self) -> dict[str, Array]:
        """The candidates of each distinct sentence, by retriever: `[sentences, candidates]`."""
        for name in self.names:
            if name not in self._rankings:
                self._rankings[name] = self._search(self._retriever(name))
        return self._rankings

    def _retriever(self, name: str) -> Retriever:
        corpus = self.second.sentences
        if name == "bm25":
            return Bm25(corpus)
        return Dense(make_vectors(self.kind, self.member, corpus), corpus)

    def _search(self, retriever: Retriever) -> Array:
        """Candidates of all sentences; no sentence is its own."""
        if not self.alone:
            return retriever.search(self.first.sentences, self.count)
        found = retriever.search(self.first.sentences, self.count + 1)
        own = found == np.arange(len(found))[:, None]
        order = np.argsort(own | (found < 0), axis=1, kind="stable")
        found = np.where(own, -1, found)
        return np.take_along_axis(found, order, axis=1)[:, : self.count]

    def joined(self) -> Array:
        """The candidates of all retrievers, joined."""
        rankings = [*self.rankings().values()]
        return rankings[0] if len(rankings) == 1 else fuse(rankings, self.count)

    def candidates(self) -> Array:
        """Each pair of distinct sentences to score, once: int `[pairs, 2]`."""
        found = self.joined()
        rows = np.repeat(np.arange(len(found)), found.shape[1])
        pairs = np.stack([rows, found.reshape(-1)], axis=1)
        pairs = pairs[pairs[:, 1] >= 0]
        if self.alone:
            pairs.sort(axis=1)
        else:  # what stands in both
            places = {sentence: i for i, sentence in enumerate(self.second.sentences)}
            equal = [(i, places[s]) for i, s in enumerate(self.first.sentences) if s in places]
            pairs = np.concatenate([pairs, np.reshape(equal, (-1, 2)).astype(int)])
        return np.unique(pairs, axis=0)

    def scores(self, pairs: Array, label: str | None = None) -> Array:
        """The matcher's score of pairs of distinct sentences."""
        self.matcher.score_column(label)
        name = label or (self.matcher.label_names or [None, None])[1]
        one, two = self.first.sentences, self.second.sentences
        rows = ((one[i], two[j]) for i, j in pairs.tolist())
        found = np.zeros(len(pairs), "float32")
        with progress_bar("scoring", len(pairs), len(pairs) > 1000, in_bytes=False) as show:
            stream = self.matcher.predict_stream(rows, batch_size=self.batch_size)
            for place, answer in enumerate(stream):
                found[place] = answer["score"] if name is None else answer["probabilities"][name]
                show(place + 1)
        return found

    def threshold(self, given: float | None, label: str | None) -> float:
        """The score from which on a pair matches."""
        if given is not None:
            return given
        column = self.matcher.score_column(label)
        if column is None:
            raise InputError(
                f"This matcher gives one score: say from which score on a pair matches, with "
                f"{argument('threshold')}."
            )
        own = self.matcher.threshold
        return own if own is not None and column == 1 else 0.5

    def edges(
        self, threshold: float | None = None, label: str | None = None
    ) -> tuple[Array, Array]:
        """The pairs of distinct sentences that match, `[pairs, 2]`, and their scores, best first."""
        least = self.threshold(threshold, label)
        pairs = self.candidates()
        log.info("%d candidate pairs among %d different sentences", len(pairs), len(self.first))
        scores = self.scores(pairs, label)
        kept = np.flatnonzero(scores >= least)
        kept = kept[np.argsort(-scores[kept], kind="stable")]
        return pairs[kept], scores[kept]

    def pairs(
        self, *, threshold: float | None = None, label: str | None = None
    ) -> list[Prediction]:
        """The pairs that match, the best first; see `Matcher.mine`."""
        edges, scores = self.edges(threshold, label)
        found = [
            (float(score), self.first.places[i][0], self.second.places[j][0])
            for (i, j), score in zip(edges.tolist(), scores)
        ]
        found += self._copies(edges, scores, label)
        found.sort(key=lambda one: -one[0])
        return [Prediction(self._row(*one)) for one in found]

    def _row(self, score: float, i: int, j: int) -> dict[str, Any]:
        first, second = self._texts()
        return {
            "index1": i,
            "index2": j,
            "sentence1": first[i],
            "sentence2": second[j],
            "score": score,
        }

    def _texts(self) -> tuple[dict[int, str], dict[int, str]]:
        if not hasattr(self, "_by_place"):
            self._by_place = tuple(
                {place: s for s, places in zip(d.sentences, d.places) for place in places}
                for d in (self.first, self.second)
            )
        first, second = self._by_place
        return first, second

    def _copies(
        self, edges: Array, scores: Array, label: str | None
    ) -> Iterator[tuple[float, int, int]]:
        """Pairs of the further copies of a sentence: with its first copy, or across the corpora."""
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

    def recall(
        self,
        sample: int,
        *,
        threshold: float | None = None,
        label: str | None = None,
        seed: int = 0,
    ) -> dict[str, Any]:
        """The share of the matching pairs that each retriever finds, by sentences drawn at random.

        Each of `sample` sentences is scored with all others, which takes as many pairs as that.

        Returns:
            The recall of each retriever, of `"both"`, and how many `"pairs"` matched; NaN if none
            did.
        """
        check_count("sample", sample)
        least = self.threshold(threshold, label)
        rng = np.random.default_rng(seed)
        drawn = np.sort(rng.permutation(len(self.first))[:sample])
        rankings = {**self.rankings()}
        if len(rankings) > 1:
            rankings["both"] = self.joined()
        hits = dict.fromkeys(rankings, 0)
        matching = 0
        # A pair of one corpus is a candidate if either sentence finds the other.
        for i in drawn.tolist():
            scores = self._against_all(i, label)
            if self.alone:
                scores[i] = -np.inf
            true = np.flatnonzero(scores >= least)
            matching += len(true)
            for name, ranking in rankings.items():
                got = np.isin(true, ranking[i])
                if self.alone:
                    got |= (ranking[true] == i).any(axis=1)
                hits[name] += int(got.sum())
        return {n: h / matching if matching else float("nan") for n, h in hits.items()} | {
            "pairs": matching
        }

    def _against_all(self, i: int, label: str | None) -> Array:
        """The scores of one sentence with each of the corpus, in the order that pairs are scored."""
        rows = np.arange(len(self.second))
        pairs = np.stack([np.full(len(rows), i), rows], axis=1)
        if self.alone:
            pairs.sort(axis=1)
        return self.scores(pairs, label)
