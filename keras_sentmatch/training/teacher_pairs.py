"""New pairs made of the training pairs, for a teacher to label (`training.teacher_pairs`).

Half of them are two training sentences that share rare words, from different pairs (as in Augmented
SBERT, Thakur et al. 2021); the others are training pairs of which some words gave way to near ones
(as in TinyBERT, Jiao et al. 2020).
"""

import re
from collections.abc import Callable

import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.vectors import load_word_table

NEAR = 10  # sentences, or words, among which one is drawn
REPLACED = 0.2  # of the words
LEAST = 0.5  # cosine of a near word
TRIES = 10  # for each pair that is wanted
_WORD = re.compile(r"[^\W\d_]{3,}")
_BLOCK = 1024


def pairs_for_teacher(
    train: PairDataset, share: float, seed: int
) -> tuple[PairDataset, dict[str, int]]:
    """Unlabeled pairs, `share` times as many as the training pairs, and how many of each kind.

    No pair is made twice, nor is one a training pair, in whatever order of its sentences. Text
    without near words, such as text that is not English, gives recombined pairs only.

    Raises:
        InputError: Training pairs of which no others can be made.
    """
    wanted = max(1, round(share * len(train)))
    rng = np.random.default_rng(seed)
    seen = {frozenset(pair) for pair in zip(train.sentence1, train.sentence2)}
    near_words, near = NearWords(train, rng), _nearest(train.sentence1, train.sentence2)

    def with_near_words() -> tuple[str, str]:
        row = rng.integers(len(train))
        return near_words.replace(train.sentence1[row]), near_words.replace(train.sentence2[row])

    def recombine() -> tuple[str, str]:
        row = rng.integers(len(train))
        return train.sentence1[row], train.sentence2[rng.choice(near[row])]

    replaced = _drawn(with_near_words, wanted // 2, seen)
    recombined = _drawn(recombine, wanted - len(replaced), seen)
    if not (found := [*recombined, *replaced]):
        raise InputError(
            f"training.teacher_pairs: no other pairs can be made of the {len(train):,} training "
            "pairs. Set it to 0."
        )
    first, second = zip(*found)
    made = PairDataset(first, second, label_names=train.label_names, task=train.task)
    return made, {"recombined": len(recombined), "near words": len(replaced)}


def _drawn(
    draw: Callable[[], tuple[str, str]], wanted: int, seen: set[frozenset[str]]
) -> list[tuple[str, str]]:
    """As many pairs as wanted that were not seen before, or fewer if they are hard to find."""
    found: list[tuple[str, str]] = []
    for _ in range(TRIES * wanted):
        if len(found) == wanted:
            break
        pair = draw()
        if frozenset(pair) not in seen:
            seen.add(frozenset(pair))
            found.append(pair)
    return found


def _nearest(first: tuple[str, ...], second: tuple[str, ...]) -> np.ndarray:
    """For each sentence the rows of those that are nearest by TF-IDF, `[N, NEAR]`."""
    vectors = TfidfVectorizer(token_pattern=r"\S+", sublinear_tf=True).fit([*first, *second])
    one, two = vectors.transform(first), vectors.transform(second).T.tocsc()
    count, near = min(NEAR, len(second)), []
    for start in range(0, len(first), _BLOCK):
        scores = (one[start : start + _BLOCK] @ two).toarray()
        near.append(np.argpartition(-scores, count - 1, axis=1)[:, :count])
    return np.concatenate(near)


class NearWords:
    """Replaces words by words of the training pairs that are near in the package's table."""

    def __init__(self, train: PairDataset, rng: np.random.Generator) -> None:
        self.rng = rng
        table = load_word_table()
        words = {w.lower() for s in (*train.sentence1, *train.sentence2) for w in _WORD.findall(s)}
        self.words = sorted(words & table.words.keys() - ENGLISH_STOP_WORDS)
        self.rows = {word: row for row, word in enumerate(self.words)}
        vectors = table.matrix()[[table.words[word] for word in self.words]]
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        self.vectors = vectors / np.maximum(norms, 1e-9)
        self.known: dict[str, list[str]] = {}

    def of(self, word: str) -> list[str]:
        """Near words; none of an unknown word, or of one that says little, such as "the"."""
        if word not in self.known:
            row = self.rows.get(word)
            cosines = self.vectors @ self.vectors[row] if row is not None else np.zeros(0)
            best = (
                np.argpartition(-cosines, NEAR)[: NEAR + 1]
                if len(cosines) > NEAR
                else range(len(cosines))
            )
            self.known[word] = [self.words[i] for i in best if i != row and cosines[i] >= LEAST]
        return self.known[word]

    def replace(self, sentence: str) -> str:
        """The sentence with a share of `REPLACED` of its words replaced, where they have near ones."""

        def near(word: re.Match[str]) -> str:
            some = self.of(word[0].lower()) if self.rng.random() < REPLACED else []
            if not some:
                return word[0]
            new = some[self.rng.integers(len(some))]
            return new.capitalize() if word[0][0].isupper() else new

        return _WORD.sub(near, sentence)
