"""Word erasure: how much an answer changes when one word is left out, whatever the model."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.text.tokens import IDEOGRAPHS
from keras_sentmatch.transformations.words import Word, words

LEAST_DECIDING = 0.02  # change of a probability
MOST_DECIDING = 6
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff]")


@dataclass(frozen=True)
class Erasure:
    """What each word does for the answer.

    The importance of a word is the probability of the answer (or the score) minus the one without
    it: above 0 the word speaks for the answer, below 0 against it.

    Attributes:
        of: The answer: a label, or `"score"`.
        full: Its probability (or the score) with all words.
        words_1: The words of the first sentence.
        words_2: The words of the second sentence.
        importance_1: float `[len(words_1)]`.
        importance_2: float `[len(words_2)]`.
        answers_1: The label answered without each word; empty for scores.
        answers_2: The same for the second sentence.

    References:
        Li, Monroe, Jurafsky: "Understanding Neural Networks through Representation Erasure", 2016.
    """

    of: str
    full: float
    words_1: tuple[str, ...]
    words_2: tuple[str, ...]
    importance_1: np.ndarray
    importance_2: np.ndarray
    answers_1: tuple[str, ...]
    answers_2: tuple[str, ...]

    @property
    def effects(self) -> list["Effect"]:
        """What leaving out each word does, in the order of the text."""
        words = [(1, word) for word in self.words_1] + [(2, word) for word in self.words_2]
        changes = [*self.importance_1, *self.importance_2]
        answers = self.answers_1 + self.answers_2 or ("",) * len(words)
        return [
            Effect(side, word, float(change), "" if answer == self.of else answer)
            for (side, word), change, answer in zip(words, changes, answers)
        ]

    @property
    def scored(self) -> bool:
        """Whether the answer is a score, not a label."""
        return not (self.answers_1 or self.answers_2)

    @property
    def greatest(self) -> float:
        """The largest importance, without its sign."""
        return float(np.abs([*self.importance_1, *self.importance_2]).max(initial=0.0))

    def deciding(self) -> list["Effect"]:
        """The words that matter most, at most `MOST_DECIDING`, the most important first."""
        least = 0.2 * self.greatest if self.scored else LEAST_DECIDING
        found = [effect for effect in self.effects if abs(effect.change) >= max(least, 1e-9)]
        return sorted(found, key=lambda effect: -abs(effect.change))[:MOST_DECIDING]

    def turning(self) -> list[tuple[str, list["Effect"]]]:
        """Other answers, and the words without which the model gives them."""
        found = sorted(self.effects, key=lambda effect: (effect.answer, -abs(effect.change)))
        groups = groupby(found, lambda effect: effect.answer)
        return [(answer, list(effects)) for answer, effects in groups if answer]


class Effect(NamedTuple):
    """What leaving a word out of sentence 1 or 2 does; `answer` is empty if it stays the same."""

    side: int
    word: str
    change: float
    answer: str


def erasable(text: str, starts: Sequence[int] = ()) -> list[Word]:
    """What is left out in turn: words, single ideographs, and tokens such as an emoji.

    Where words are written without spaces (Thai, Lao, Burmese, Khmer, kana) the model's tokens stand
    for them; `starts` is where these begin.
    """
    found: list[Word] = []
    for word in words(text):
        if any(_is_ideograph(char) for char in word.text):
            places = range(word.start, word.end)
            found.extend(Word(text[place], place, place + 1) for place in places)
        elif _UNSPACED.search(word.text):
            inside = {start for start in starts if word.start < start < word.end}
            edges = [word.start, *sorted(inside), word.end]
            found.extend(Word(text[a:b], a, b) for a, b in pairwise(edges))
        else:
            found.append(word)
    for chunk in re.finditer(r"\S+", text):
        if not words(chunk.group()):
            found.append(Word(chunk.group(), *chunk.span()))
    return sorted(found, key=lambda word: word.start)


def erase(text: str, word: Word) -> str:
    """The text without a word and without the extra space beside it.

    Example:

    >>> from keras_sentmatch.explanations.erasure import erasable, erase
    >>> [erase("A dog runs.", word) for word in erasable("A dog runs.")]
    ['dog runs.', 'A runs.', 'A .']
    """
    before, after = text[: word.start], text[word.end :]
    if not before or before[-1].isspace():
        after = after.lstrip()
    return before + after if after else before.rstrip()


def erase_words(
    matcher: Any,
    sentence1: str,
    sentence2: str,
    scores: np.ndarray,
    *,
    batch_size: int = 64,
    starts: Mapping[int, Sequence[int]] = {},  # noqa: B006
) -> Erasure:
    """Answers a pair without each of its words, in one call of `predict_proba`.

    Args:
        matcher: A `Matcher` or an `EnsembleMatcher`.
        sentence1: The first sentence.
        sentence2: The second sentence.
        scores: What `predict_proba` returns for the pair: `[classes]`, or one score.
        batch_size: Number of pairs scored at once.
        starts: Where the model's tokens of sentence 1 and 2 begin, for `erasable`.
    """
    sides = erasable(sentence1, starts.get(1, ())), erasable(sentence2, starts.get(2, ()))
    first = [erase(sentence1, word) for word in sides[0]] + [sentence1] * len(sides[1])
    second = [sentence2] * len(sides[0]) + [erase(sentence2, word) for word in sides[1]]
    without = matcher.predict_proba(PairDataset(first, second), batch_size=batch_size)
    (answer,) = matcher.answers(np.asarray(scores)[None], abstain=False)
    labels: Sequence[str] = ()
    if matcher.label_names is None:
        of, full, left = "score", float(scores), without
    else:
        of = answer["label"]
        column = matcher.label_names.index(of)
        full, left = float(scores[column]), without[:, column]
        labels = [found["label"] for found in matcher.answers(without, abstain=False)]
    change, count = full - np.asarray(left, "float64"), len(sides[0])
    first_words, second_words = (tuple(word.text for word in side) for side in sides)
    answers = tuple(labels[:count]), tuple(labels[count:])
    return Erasure(of, full, first_words, second_words, change[:count], change[count:], *answers)


def _is_ideograph(char: str) -> bool:
    return any(low <= ord(char) <= high for low, high in IDEOGRAPHS)
