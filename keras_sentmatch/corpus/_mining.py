"""Pairs of a corpus that match: candidates from retrievers, scored by a matcher."""

import contextlib
import hashlib
import logging
import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_sentmatch.corpus._cells import Array, Cells
from keras_sentmatch.data import PairDataset
from keras_sentmatch.display.progress import progress_bar
from keras_sentmatch.errors import InputError, argument
from keras_sentmatch.inference.answer_file import AnswerFile
from keras_sentmatch.inference.base import Prediction
from keras_sentmatch.inference.pairs import check_count
from keras_sentmatch.text import Tokenizer
from keras_sentmatch.vectors.static import load_static

if TYPE_CHECKING:
    from keras_sentmatch.inference import Matcher
    from keras_sentmatch.inference.ensemble import EnsembleMatcher

log = logging.getLogger(__name__)
_BLOCK = 4096  # sentences read at a time
_WINDOW = 4096  # pairs scored, and kept, at a time
_ROUNDED = 0.01  # more than float16 vectors change a cosine
_EXAMPLES = 8192  # pairs from whose scores others are guessed
_FEWEST = 50  # of them are taken for matching at least
_LOST = 0.05  # share of the matching pairs among them that would not be scored
_RIDGE = 30.0
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

    The candidates of a sentence are those whose static vectors are nearest (see `load("static")`). Among
    many candidates, the scores of 8,192 of them teach which others are worth scoring. The number of
    candidates that are not scored is logged.

    Args:
        matcher: The matcher that scores candidate pairs.
        sentences: The corpus.
        against: A second corpus. If given, each pair has one sentence of each.
        threshold: Lowest score of a pair that matches. Defaults to the matcher's threshold or 0.5;
            required for a matcher that returns scores.
        label: The label whose probability is the score. Required for more than two labels; of two,
            the default is the second.
        candidates: Number of candidates per sentence. More candidates find more pairs and take
            longer. Defaults to `10`.
        batch_size: Maximum number of pairs per batch. Defaults to `64`.
        partial: File that keeps the scores (`NAME.partial` and `NAME.partial.json`), so that the same
            call continues after an interruption. Delete both when you have saved the result.
            Defaults to none.

    Returns:
        A list of predictions, best first, with `index1` and `index2` (positions in the corpora),
        `sentence1`, `sentence2` and `score`. Within one corpus, `index1` is the smaller one. Equal
        sentences always match, whatever their score: each further copy is paired with the first one.
        Sentences that differ only in case, spacing and final punctuation are equal.

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
    options = label, threshold, candidates, batch_size, partial
    with contextlib.closing(Miner(matcher, sentences, against, *options)) as miner:
        return miner.pairs()


class Distinct:
    """The distinct sentences of a list, with their static vectors, words and positions.

    Sentences that differ only in case, spacing and final punctuation are equal. `vocabulary` has a
    number for each word, and gets new ones.
    """

    def __init__(
        self, texts: Sequence[str], name: str, vocabulary: dict[str, int], least: int = 1
    ) -> None:
        if isinstance(texts, str):
            raise InputError(f"{name} is one string. Pass a list of sentences.")
        self.texts = list(texts)
        for place, text in enumerate(self.texts):
            if not isinstance(text, str):
                raise InputError(f"{name}[{place}] is {text!r:.60}. Expected a string.")
        if len(self.texts) < least:
            raise InputError(f"{name} has {len(self.texts)} sentences. Expected at least {least}.")
        self.keys: dict[str, int] = {}
        self.places: list[int] = []  # of the first of equal sentences
        self.copies: dict[int, list[int]] = {}  # places of the others
        tokens, embed = Tokenizer(), load_static()
        columns, ends = array("i"), array("i", [0])  # the words of each, as in a csr_matrix
        vectors = np.zeros((len(self.texts), embed.dim), "float16")
        for start in range(0, len(self.texts), _BLOCK):
            before, new = len(self), []
            for place, text in enumerate(self.texts[start : start + _BLOCK], start):
                words = tokens(text)
                row = self.keys.setdefault(" ".join(words).rstrip(" .!?") or text, len(self.keys))
                if row < len(self.places):
                    self.copies.setdefault(row, []).append(place)
                else:
                    self.places.append(place)
                    new.append(words)
                    known = vocabulary.setdefault
                    columns.extend([known(word, len(vocabulary)) for word in dict.fromkeys(words)])
                    ends.append(len(columns))
            vectors[before : len(self)] = embed.of_tokens(new)
        self.vectors = vectors[: len(self)]
        self.words = np.asarray(columns), np.asarray(ends)

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, row: int) -> str:
        return self.texts[self.places[row]]


class Miner:
    """The candidates of a corpus and their scores. Equal sentences are looked up and scored once."""

    def __init__(
        self,
        matcher: Any,
        sentences: Sequence[str],
        against: Sequence[str] | None,
        label: str | None,
        threshold: float | None,
        candidates: int,
        batch_size: int,
        partial: str | os.PathLike[str] | None,
    ) -> None:
        check_count("candidates", candidates)
        check_count("batch_size", batch_size)
        self.matcher, self.batch_size, self.count = matcher, batch_size, candidates
        self.column = matcher.score_column(label)
        self.threshold = self._threshold(threshold)
        vocabulary: dict[str, int] = {}
        self.first = Distinct(sentences, "The corpus", vocabulary, 2 if against is None else 1)
        self.second = self.first
        if against is not None:
            self.second = Distinct(against, "The second corpus", vocabulary)
        self.vocabulary_size = len(vocabulary)
        known = {} if self.alone else self.second.keys
        equal = [(i, known[key]) for key, i in self.first.keys.items() if key in known]
        self.equal = np.array(equal, "int32").reshape(-1, 2)  # sentences of both corpora
        self.first.keys = self.second.keys = {}  # large, and no longer needed
        self.kept: AnswerFile | None = None
        self.known = np.zeros(0)  # scores of an interrupted call, in the order of its pairs
        if partial is not None:
            digest = hashlib.sha256()
            for text in (*self.first.texts, None, *self.second.texts):
                digest.update(repr(text).encode())
            facts = {"corpus": digest.hexdigest()[:16], "--candidates": candidates}
            facts |= {"--label": label, "--threshold": self.threshold}
            facts |= {} if against is None else {"--against": True}
            exists = Path(f"{partial}.partial").exists()
            self.kept = AnswerFile(Path(partial), "tsv", facts, resume=exists)
            self.known = _read_scores(self.kept.partial, self.kept.answers)

    def close(self) -> None:
        """Leave the partial file as it is."""
        if self.kept is not None:
            self.kept.close()

    @property
    def alone(self) -> bool:
        """Whether all pairs are of one corpus."""
        return self.second is self.first

    def _threshold(self, given: float | None) -> float:
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
        """Return each pair of neighbors once, without equal ones: int32 `[pairs, 2]`."""
        size, more = len(self.second), int(self.alone)  # alone: a sentence finds itself
        rows = Cells(self.second.vectors).search(self.first.vectors, self.count + more)
        ones, twos = np.repeat(np.arange(len(rows)), rows.shape[1]), rows.reshape(-1)
        ones, twos = ones[twos >= 0], twos[twos >= 0]
        if self.alone:
            ones, twos = np.minimum(ones, twos), np.maximum(ones, twos)
            ones, twos = ones[ones < twos], twos[ones < twos]
        keys = np.setdiff1d(ones * size + twos, self.equal @ [size, 1])
        return np.stack(np.divmod(keys, size), axis=1).astype("int32")

    def promising(self, pairs: Array) -> tuple[Array, Array]:
        """Return the pairs that the matcher has scored, and their scores.

        If there are many, the scores of some pairs teach a linear model to guess a score from the two
        vectors and the share of common words. Pairs with a low guess are not scored: so low that among
        the examples only `_LOST` of the matching pairs have a lower one.
        """
        order = np.random.default_rng(0).permutation(len(pairs))
        examples, others = pairs[order[:_EXAMPLES]], pairs[np.sort(order[_EXAMPLES:])]
        scores = self.scores(examples)
        if len(others) < _EXAMPLES or self.matcher.engine == "static":  # quickly scored
            return np.concatenate([examples, others]), np.append(scores, self.scores(others))
        self.weights = self._word_weights()
        matching = self.shown(scores) >= self.threshold
        matching |= scores >= np.sort(scores)[-_FEWEST]  # few are no measure
        guess = self._learn(examples, scores)
        half = _EXAMPLES // 2  # each half is guessed from the other one
        guesses = np.append(
            self._learn(examples[half:], scores[half:])(examples[:half]),
            self._learn(examples[:half], scores[:half])(examples[half:]),
        )
        least = np.quantile(guesses[matching], _LOST)
        blocks = np.array_split(others, len(others) // _WINDOW + 1)
        hopeful = np.concatenate([guess(block) >= least for block in blocks])
        log.info(
            "%s candidates are not scored, because their words promise a low score. About %.0f%% of "
            "the matching pairs are among them",
            f"{np.sum(~hopeful):,}",
            100 * _LOST,
        )
        others = others[hopeful]
        return np.concatenate([examples, others]), np.append(scores, self.scores(others))

    def _learn(self, pairs: Array, scores: Array) -> Callable[[Array], Array]:
        """Return a function that guesses the scores of pairs: ridge regression on these."""

        def facts(some: Array) -> Array:
            one = self.first.vectors[some[:, 0]].astype("float32")
            two = self.second.vectors[some[:, 1]].astype("float32")
            rest = [self._common(some), np.ones(len(some))]
            return np.concatenate([one * two, np.abs(one - two), np.stack(rest, axis=1)], axis=1)

        x, y = facts(pairs), scores.clip(*np.quantile(scores, [0.01, 0.99]))
        scale = np.sqrt(np.square(x).mean(axis=0)) + 1e-9
        x /= scale
        weights = np.linalg.solve(x.T @ x + _RIDGE * np.eye(x.shape[1]), x.T @ y) / scale
        return lambda some: np.asarray(facts(some) @ weights)

    def _word_weights(self) -> list[Any]:
        """Return the words of both corpora as sparse matrices, whose squares are their rarity (idf)."""
        from scipy.sparse import csr_matrix

        sides = [self.first, *([] if self.alone else [self.second])]
        counts = sum(np.bincount(side.words[0], minlength=self.vocabulary_size) for side in sides)
        rarity = np.log((1 + sum(map(len, sides))) / np.maximum(counts, 1))
        weights = np.sqrt(rarity).astype("float32")
        made = []
        for side in sides:
            columns, ends = side.words
            shape = len(side), self.vocabulary_size
            made.append(csr_matrix((weights[columns], columns, ends), shape=shape, copy=False))
        return [made[0], made[-1]]

    def _common(self, pairs: Array) -> Array:
        """Return the share of the words of each pair that both have, weighted by rarity."""
        one, two = (side[rows] for side, rows in zip(self.weights, pairs.T))
        both, first, second = (
            x.multiply(y).sum(axis=1) for x, y in ((one, two), (one, one), (two, two))
        )
        return np.asarray(both / np.maximum(first + second - both, 1e-9)).ravel()

    def scores(self, pairs: Array) -> Array:
        """Return the log odds (or scores) of pairs of distinct sentences, which order them.

        The partial file may have those of the first pairs.
        """
        found = np.zeros(len(pairs))
        known, self.known = self.known[: len(pairs)], self.known[len(pairs) :]
        done = len(known)
        if done:
            found[:done] = known
            some = np.argsort(np.abs(known), kind="stable")[:_COMPARED]  # the least sure
            most, room = (np.inf, 1e-3) if self.column is None else _LOG_ODDS
            kept_ones, now = np.clip([known[some], self._score(pairs[some])], -most, most)
            if np.abs(kept_ones - now).max() > room:
                assert self.kept is not None
                raise InputError(
                    f"{self.kept.partial} has the scores of another run. Use that run, or delete the "
                    "file to start again."
                )
        with progress_bar("scoring pairs", len(pairs)) as show:
            for start in range(done, len(pairs), _WINDOW):
                scores = self._score(pairs[start : start + _WINDOW])
                end = start + len(scores)
                found[start:end] = scores
                if self.kept is not None:
                    text = "".join(f"{score!r}\n" for score in scores.tolist())
                    rows = self.kept.rows + len(scores)
                    self.kept.write("", text, answers=len(scores), rows=rows, digest="")
                show(end)
        return found

    def _score(self, pairs: Array) -> Array:
        if self.matcher.engine == "static":
            return self._cosines(pairs)
        first, second = [self.first[i] for i in pairs[:, 0]], [self.second[j] for j in pairs[:, 1]]
        raw = self.matcher.raw_scores(PairDataset(first, second), self.batch_size)
        return np.asarray(self.matcher.order(raw, self.column))

    def _cosines(self, pairs: Array) -> Array:
        """Return the static scores of pairs. Rounded vectors give those below the threshold."""
        sides = (self.first, pairs[:, 0]), (self.second, pairs[:, 1])
        one, two = (side.vectors[rows].astype("float32") for side, rows in sides)
        found: Array = np.einsum("ij,ij->i", one, two).astype(float)
        near = found >= self.threshold - _ROUNDED
        exact = []
        for side, rows in sides:
            distinct, places = np.unique(rows[near], return_inverse=True)
            exact.append(load_static()([side[row] for row in distinct])[places])
        found[near] = np.einsum("ij,ij->i", *exact)
        return found

    def shown(self, order: Array) -> Array:
        """Return probabilities for log odds; scores stay."""
        from scipy.special import expit

        return order if self.column is None else np.asarray(expit(order))

    def edges(self) -> tuple[Array, Array]:
        """Return the matching pairs of distinct sentences, `[pairs, 2]`, and what orders them, best first."""
        sizes = len(self.first.texts), len(self.first)
        log.info("%s sentences, %s of them distinct", *map("{:,}".format, sizes))
        pairs = self.candidates()
        log.info("%s candidate pairs", f"{len(pairs):,}")
        equal = self.scores(self.equal)
        pairs, scores = self.promising(pairs)
        if self.kept is not None:  # further scores are few
            if len(self.known):
                raise _damaged(self.kept.partial)
            self.close()
            self.kept = None
        matching = self.shown(scores) >= self.threshold
        pairs = np.concatenate([self.equal, pairs[matching]])
        scores = np.append(equal, scores[matching])
        best = np.lexsort((pairs[:, 1], pairs[:, 0], -scores))
        return pairs[best], scores[best]

    def pairs(self) -> list[Prediction]:
        """Return what `mine` returns."""
        edges, scores = self.edges()
        ones, twos = np.array(self.first.places), np.array(self.second.places)
        found = [(scores, ones[edges[:, 0]], twos[edges[:, 1]])]
        copies = np.array([*self._copies(edges, scores)]).reshape(-1, 3).T
        found.append((copies[0], copies[1].astype(int), copies[2].astype(int)))
        order, first, second = map(np.concatenate, zip(*found))
        best = np.argsort(-order, kind="stable")
        rows = zip(first[best].tolist(), second[best].tolist(), self.shown(order[best]).tolist())
        one, two = self.first.texts, self.second.texts
        return [
            Prediction(index1=i, index2=j, sentence1=one[i], sentence2=two[j], score=score)
            for i, j, score in rows
        ]

    def _copies(self, edges: Array, scores: Array) -> Iterator[tuple[float, int, int]]:
        """Yield the pairs of further copies: with the first copy, or across the corpora."""
        one, two = self.first, self.second
        if self.alone:
            several = np.array([*one.copies], "int32")
            for i, score in zip(several, self.scores(np.stack([several, several], axis=1))):
                yield from ((float(score), one.places[i], other) for other in one.copies[i])
        elif one.copies or two.copies:
            for (i, j), score in zip(edges.tolist(), scores):
                yield from ((float(score), k, two.places[j]) for k in one.copies.get(i, ()))
                yield from ((float(score), one.places[i], k) for k in two.copies.get(j, ()))


def _read_scores(path: Path, count: int) -> Array:
    """Read the scores that an interrupted call kept; refuse a damaged file."""
    try:
        found = np.loadtxt(path, ndmin=1) if count else np.zeros(0)
    except ValueError:
        found = np.empty(0)
    if found.shape != (count,) or not np.isfinite(found).all():
        raise _damaged(path)
    return found


def _damaged(path: Path) -> InputError:
    return InputError(f"{path} is damaged. Delete it to start again.")
