"""Word erasure: how the prediction of any model changes if one word is left out, also in sentences."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.text.tokens import IDEOGRAPHS
from keras_sentmatch.transformations.english import Word, words

LEAST_DECIDING = 0.02  # change of a probability
MOST_DECIDING = 6
MOST_NAMED = 4
NUMBERS = {1: "₁", 2: "₂"}
Run = tuple[str, bool]  # a piece of text, and whether it is emphasized
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff]")


@dataclass(frozen=True)
class Erasure:
    """The importance of each word for a prediction.

    The importance of a word is the probability of the predicted label (or the score) minus the
    probability without the word. Words above 0 support the prediction, words below 0 oppose it.

    Attributes:
        of: The predicted label, or `"score"`.
        full: Its probability (or the score) with all words.
        words_1: The words of the first sentence.
        words_2: The words of the second sentence.
        importance_1: float `[len(words_1)]`.
        importance_2: float `[len(words_2)]`.
        answers_1: The label predicted without each word; empty for scores.
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
        """The effect of leaving out each word, in the order of the text."""
        words = [(1, word) for word in self.words_1] + [(2, word) for word in self.words_2]
        changes = [*self.importance_1, *self.importance_2]
        answers = self.answers_1 + self.answers_2 or ("",) * len(words)
        return [
            Effect(side, word, float(change), "" if answer == self.of else answer)
            for (side, word), change, answer in zip(words, changes, answers)
        ]

    @property
    def scored(self) -> bool:
        """Whether the prediction is a score, not a label."""
        return not (self.answers_1 or self.answers_2)

    @property
    def greatest(self) -> float:
        """The largest absolute importance."""
        return float(np.abs([*self.importance_1, *self.importance_2]).max(initial=0.0))

    def deciding(self) -> list["Effect"]:
        """Return the most important words first, at most `MOST_DECIDING`."""
        least = 0.2 * self.greatest if self.scored else LEAST_DECIDING
        found = [effect for effect in self.effects if abs(effect.change) >= max(least, 1e-9)]
        return sorted(found, key=lambda effect: -abs(effect.change))[:MOST_DECIDING]

    def turning(self) -> list[tuple[str, list["Effect"]]]:
        """Return the other labels, each with the words without which the model predicts it."""
        found = sorted(self.effects, key=lambda effect: (effect.answer, -abs(effect.change)))
        groups = groupby(found, lambda effect: effect.answer)
        return [(answer, list(effects)) for answer, effects in groups if answer]


class Effect(NamedTuple):
    """The effect of leaving a word out of sentence 1 or 2; `answer` is "" if the label stays."""

    side: int
    word: str
    change: float
    answer: str


def erasable(text: str, starts: Sequence[int] = ()) -> list[Word]:
    """Return what is left out in turn: words, single ideographs, and tokens such as an emoji.

    Scripts without spaces (Thai, Lao, Burmese, Khmer, kana) are split where the model's tokens
    begin, which is what `starts` says.
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
    """Remove a word and the extra space next to it.

    Example:

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
    """Score a pair without each of its words, in one call of `predict_proba`.

    Args:
        matcher: A `Matcher` or an `EnsembleMatcher`.
        sentence1: The first sentence.
        sentence2: The second sentence.
        scores: What `predict_proba` returns for the pair: `[classes]`, or one score.
        batch_size: Maximum number of pairs per batch.
        starts: The positions at which the model's tokens of sentence 1 and 2 begin, for `erasable`.
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


def summarize(
    label: str | None,
    score: float | None,
    probability: float | None,
    gold: str | float | None,
    erasure: Erasure | None,
    abstained: bool = False,
) -> list[list[Run]]:
    """Describe a prediction and the words that decided it, as lines of runs of text.

    A small number after a word names its sentence.
    """
    if probability is None:
        lines = [[("The score is ", False), (f"{score:.4f}", True), (".", False)]]
    else:
        share = f", with a probability of {probability:.1%}."
        start = (
            "The matcher abstains; the most probable label is "
            if abstained
            else "The prediction is "
        )
        lines = [[(start, False), (str(label), True), (share, False)]]
    if gold is not None:
        lines.append([("The data says ", False), (str(gold), True), (".", False)])
    if erasure is None:
        return lines
    found = erasure.deciding()
    if not found:
        lines.append([("No single word changes it much.", False)])
    for verb, sign in (("support", 1), ("oppose", -1)):
        if mine := [effect for effect in found if effect.change * sign > 0]:
            listed = _join(mine, ", ", numbered=True)
            lines.append([(f"Words that {verb} it: ", False), *listed, (".", False)])
    for answer, effects in erasure.turning():
        line = [("Without ", False), *_join(effects[:1], ""), (", the prediction would be ", False)]
        line.append((answer, True))
        if others := effects[1:]:
            line += [("; the same holds for ", False), *_join(others[:MOST_NAMED], ", ")]
            if more := len(others[MOST_NAMED:]):
                line.append((f" and {more} other{'s' * (more > 1)}", False))
        lines.append([*line, (".", False)])
    return lines


def _join(effects: Sequence[Effect], between: str, numbered: bool = False) -> list[Run]:
    runs: list[Run] = []
    for effect in effects:
        number = f" {effect.change:{'+.2f' if abs(effect.change) >= 0.01 else '+.1g'}}"
        runs += [
            (between, False),
            (effect.word, True),
            (NUMBERS[effect.side] + number * numbered, False),
        ]
    return runs[1:]
