"""Pairs of a corpus that match: candidates from retrievers, scored by a matcher."""

import contextlib
import hashlib
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_sentmatch.corpus._retrieval import Array, Bm25, Dense, embed, fuse
from keras_sentmatch.data import PairDataset
from keras_sentmatch.display.progress import progress_bar
from keras_sentmatch.errors import InputError, argument
from keras_sentmatch.inference.answer_file import AnswerFile
from keras_sentmatch.inference.base import Prediction
from keras_sentmatch.inference.pairs import check_count

if TYPE_CHECKING:
    from keras_sentmatch.inference import Matcher
    from keras_sentmatch.inference.ensemble import EnsembleMatcher

log = logging.getLogger(__name__)
_WINDOW = 1024  # pairs scored, and kept, at a time
_COMPARED = 8  # kept scores that are computed again before a call goes on
_LOG_ODDS = 15.0, 0.05  # largest ones that are compared, and by how much they may differ


def mine(
    matcher: "Matcher | EnsembleMatcher",
    sentences: Sequence[str],
    against: Sequence[str] | None = None,
    *,
    threshold: float | None = None,
    label: str | None = None,
    candidates: int = 10,
    batch_size: int = 64,
    partial: str | os.PathLike[str] | None = None,
) -> list[Prediction]:
    """Find the pairs of a corpus that match, without scoring all pairs.

    Each sentence is scored with the few candidates that two retrievers find for it: sentences with
    the same rare words (BM25), and sentences whose built-in word vectors (English) are near. This
    needs the extra `[corpus]`.

    Args:
        matcher: The matcher that scores candidate pairs.
        sentences: The corpus.
        against: A second corpus. If given, each pair has one sentence of each.
        threshold: Lowest score of a pair that matches. Defaults to the matcher's threshold or 0.5;
            required for a matcher that returns scores.
        label: The label whose probability is the score. Required for more than two labels; of two,
            the default is the second.
        candidates: Number of candidates per sentence. More candidates find more pairs and take
            longer in proportion. Defaults to `10`.
        batch_size: Maximum number of pairs per batch. Defaults to `64`.
        partial: File that keeps the scores (as `NAME.partial`) until all are known, so that the same
            call continues after an interruption. Defaults to none.

    Returns:
        A list of predictions, best first, with `index1` and `index2` (positions in the corpora),
        `sentence1`, `sentence2` and `score`. Within one corpus, `index1` is the smaller one. Equal
        sentences always match, whatever their score: each further copy is paired with the first one.

    Raises:
        InputError: There are fewer than two sentences, a sentence is no string, or an argument is
            out of range.

    Example:

    ```python
    from keras_sentmatch import Matcher, mine

    mine(Matcher.load("runs/mine"), ["It rains.", "A dog runs.", "There is rain."], threshold=0.8)
    # [{"index1": 0, "index2": 2, "sentence1": "It rains.", …, "score": 0.91}]
    ```
    """
    miner = Miner(matcher, sentences, against, label, candidates, batch_size, partial)
    found = miner.pairs(miner.threshold(threshold))
    miner.finish()
    return found


class Distinct:
    """The distinct sentences of a list, and the positions of each."""

    def __init__(self, sentences: Sequence[str], name: str, least: int = 1) -> None:
        if isinstance(sentences, str):
            raise InputError(f"{name} is one string. Pass a list of sentences.")
        places: dict[str, list[int]] = {}
        for place, sentence in enumerate(sentences):
            if not isinstance(sentence, str):
                raise InputError(f"{name}[{place}] is {sentence!r:.60}. Expected a string.")
            places.setdefault(sentence, []).append(place)
        self.sentences, self.places = list(places), list(places.values())
        total = sum(map(len, self.places))
        if total < least:
            raise InputError(f"{name} has {total} sentences. Expected at least {least}.")
        self.sizes = total, len(self.places)

    def __len__(self) -> int:
        return len(self.sentences)


class Miner:
    """The candidates of a corpus and their scores. Equal sentences are looked up and scored once."""

    def __init__(
        self,
        matcher: Any,
        sentences: Sequence[str],
        against: Sequence[str] | None,
        label: str | None,
        candidates: int,
        batch_size: int,
        partial: str | os.PathLike[str] | None,
    ) -> None:
        check_count("candidates", candidates)
        check_count("batch_size", batch_size)
        self.matcher, self.batch_size, self.count = matcher, batch_size, candidates
        self.column = matcher.score_column(label)
        self.first = Distinct(sentences, "The corpus", 2 if against is None else 1)
        self.second = self.first if against is None else Distinct(against, "The second corpus")
        self.kept: AnswerFile | None = None
        if partial is not None:
            texts = repr((self.first.sentences, self.second.sentences)).encode()
            facts = {"corpus": hashlib.sha256(texts).hexdigest()[:16], "--candidates": candidates}
            facts["--label"] = label
            facts |= {} if against is None else {"--against": True}
            exists = Path(f"{partial}.partial").exists()
            self.kept = AnswerFile(Path(partial), "tsv", facts, resume=exists)

    @property
    def alone(self) -> bool:
        """Whether all pairs are of one corpus."""
        return self.second is self.first

    def threshold(self, given: float | None) -> float:
        """Return the lowest score of a pair that matches."""
        if given is not None:
            number = isinstance(given, int | float | np.number) and not isinstance(given, bool)
            if not number or not (np.isfinite(given) if self.column is None else 0 <= given <= 1):
                wanted = "a finite number" if self.column is None else "a probability from 0 to 1"
                raise InputError(
                    f"{argument('threshold', given)} is out of range. Expected {wanted}."
                )
            return float(given)
        if self.column is None:
            raise InputError(
                "This matcher returns one score and has no threshold. Set the lowest score of a "
                f"matching pair with {argument('threshold')}."
            )
        own = self.matcher.threshold
        if own is None or len(self.matcher.label_names) != 2:
            return 0.5
        return float(own if self.column == 1 else 1 - own)

    def candidates(self) -> Array:
        """Return each pair of distinct sentences to score, once: int `[pairs, 2]`."""
        corpus, asked = self.second.sentences, self.first.sentences
        vectors, more = embed(corpus), int(self.alone)  # alone: a sentence finds itself
        found = [
            Bm25.of(corpus).search(asked, self.count + more),
            Dense(vectors).search(vectors if self.alone else embed(asked), self.count + more),
        ]
        best = fuse(found, self.count + more)
        rows = np.repeat(np.arange(len(best)), best.shape[1])
        pairs = np.stack([rows, best.reshape(-1)], axis=1)
        pairs = pairs[pairs[:, 1] >= 0]
        if self.alone:
            pairs = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1)
        else:  # sentences of both corpora
            places = {sentence: j for j, sentence in enumerate(corpus)}
            equal = [(i, places[s]) for i, s in enumerate(asked) if s in places]
            pairs = np.concatenate([pairs, np.reshape(equal, (-1, 2)).astype(int)])
        return np.unique(pairs, axis=0)

    def scores(self, pairs: Array, kept: AnswerFile | None = None) -> Array:
        """Return the log odds (or scores) of pairs of distinct sentences, which order them.

        A file `kept` may have those of the first pairs.
        """
        found = np.zeros(len(pairs))
        done = kept.answers if kept is not None else 0
        if kept is not None and done:
            found[:done] = _read_scores(kept.partial, done, len(pairs))
            some = np.argsort(np.abs(found[:done]), kind="stable")[:_COMPARED]  # the least sure
            most, room = (np.inf, 1e-3) if self.column is None else _LOG_ODDS
            kept_ones, now = np.clip([found[some], self._score(pairs[some])], -most, most)
            if np.abs(kept_ones - now).max() > room:
                raise InputError(
                    f"{kept.partial} has the scores of another run. Use that run, or delete the file "
                    "to start again."
                )
        closed = contextlib.nullcontext() if kept is None else contextlib.closing(kept)
        with closed, progress_bar("scoring pairs", len(pairs)) as show:
            for start in range(done, len(pairs), _WINDOW):
                scores = self._score(pairs[start : start + _WINDOW])
                end = start + len(scores)
                found[start:end] = scores
                if kept is not None:
                    text = "".join(f"{score!r}\n" for score in scores.tolist())
                    kept.write("", text, answers=len(scores), rows=end, digest="")
                show(end)
        return found

    def _score(self, pairs: Array) -> Array:
        rows = pairs.tolist()
        first = [self.first.sentences[i] for i, _ in rows]
        second = [self.second.sentences[j] for _, j in rows]
        raw = self.matcher.raw_scores(PairDataset(first, second), self.batch_size)
        return np.asarray(self.matcher.order(raw, self.column))

    def shown(self, order: Array) -> Array:
        """Return probabilities for log odds; scores stay."""
        from scipy.special import expit

        return order if self.column is None else np.asarray(expit(order))

    def edges(self, threshold: float) -> tuple[Array, Array]:
        """Return the matching pairs of distinct sentences, `[pairs, 2]`, and what orders them, best first."""
        log.info("%s sentences, %s of them distinct", *map("{:,}".format, self.first.sizes))
        pairs = self.candidates()
        log.info("%s candidate pairs", f"{len(pairs):,}")
        scores = self.scores(pairs, self.kept)
        equal = [self.first.sentences[i] == self.second.sentences[j] for i, j in pairs.tolist()]
        kept = np.flatnonzero((self.shown(scores) >= threshold) | np.array(equal, bool))
        kept = kept[np.argsort(-scores[kept], kind="stable")]
        return pairs[kept], scores[kept]

    def finish(self) -> None:
        """Delete the partial file, which nothing needs any more."""
        for path in (self.kept.partial, self.kept.note) if self.kept is not None else ():
            path.unlink(missing_ok=True)

    def pairs(self, threshold: float) -> list[Prediction]:
        """Return what `mine` returns."""
        edges, scores = self.edges(threshold)
        found = [
            (float(score), self.first.places[i][0], self.second.places[j][0])
            for (i, j), score in zip(edges.tolist(), scores)
        ]
        found += self._copies(edges, scores)
        found.sort(key=lambda one: -one[0])
        shown = self.shown(np.array([order for order, _, _ in found])).tolist()
        first, second = (
            {place: s for s, places in zip(d.sentences, d.places) for place in places}
            for d in (self.first, self.second)
        )
        return [
            Prediction(index1=i, index2=j, sentence1=first[i], sentence2=second[j], score=score)
            for score, (_, i, j) in zip(shown, found)
        ]

    def _copies(self, edges: Array, scores: Array) -> Iterator[tuple[float, int, int]]:
        """Yield the pairs of further copies: with the first copy, or across the corpora."""
        if self.alone:
            several = [i for i, places in enumerate(self.first.places) if len(places) > 1]
            equal = self.scores(np.array([several, several]).T.astype(int))
            for i, score in zip(several, equal):
                first, *others = self.first.places[i]
                yield from ((float(score), first, other) for other in others)
            return
        for (i, j), score in zip(edges.tolist(), scores):
            one, two = self.first.places[i], self.second.places[j]
            yield from ((float(score), other, two[0]) for other in one[1:])
            yield from ((float(score), one[0], other) for other in two[1:])


def _read_scores(path: Path, count: int, most: int) -> Array:
    """Read the scores that an interrupted call kept; refuse a damaged file."""
    try:
        found = np.loadtxt(path, ndmin=1)
    except ValueError:
        found = np.empty(0)
    if found.shape != (count,) or count > most or not np.isfinite(found).all():
        raise InputError(f"{path} is damaged. Delete it to start again.")
    return found
