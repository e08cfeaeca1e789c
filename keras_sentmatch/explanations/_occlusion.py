"""Occlusion: how a prediction changes if one word is left out."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.text.tokens import IDEOGRAPHS
from keras_sentmatch.transformations.english import Word, words

LEAST_DECIDING = 0.02  # change of a probability
MOST_DECIDING = 6
NUMBERS = {1: "₁", 2: "₂"}
Run = tuple[str, bool]  # a piece of text, and whether it is emphasized
# Letters of scripts that are written without spaces: Thai, Lao, Burmese, Khmer, kana, ideographs.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff"
    + "".join(f"{chr(low)}-{chr(high)}" for low, high in IDEOGRAPHS)
    + "]"
)


class Effect(NamedTuple):
    """The effect of leaving out a word of sentence 1 or 2.

    `change` is the probability of the predicted label (or the score) minus the probability without
    the word: above 0, the word supports the prediction. `answer` is the label without the word, or
    "" if it stays.
    """

    side: int
    word: str
    start: int
    change: float
    answer: str


def erasable(text: str) -> list[Word]:
    """Return what is left out in turn: words, letters of unspaced scripts, tokens such as an emoji."""
    found: list[Word] = []
    for word in words(text):
        edges = [word.start, word.end]
        if _UNSPACED.search(word.text):
            # A mark, such as a vowel above a letter, stays with its letter.
            places = range(word.start + 1, word.end)
            edges[1:1] = [i for i in places if not unicodedata.category(text[i]).startswith("M")]
        found.extend(Word(text[a:b], a, b) for a, b in pairwise(edges))
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


def occlude(
    matcher: Any, sentence1: str, sentence2: str, scores: np.ndarray, batch_size: int
) -> list[Effect]:
    """Score a pair without each of its words, in one call of `predict_proba`.

    References:
        Li, Monroe, Jurafsky: "Understanding Neural Networks through Representation Erasure", 2016.
    """
    sides = erasable(sentence1), erasable(sentence2)
    first = [erase(sentence1, word) for word in sides[0]] + [sentence1] * len(sides[1])
    second = [sentence2] * len(sides[0]) + [erase(sentence2, word) for word in sides[1]]
    without = matcher.predict_proba(PairDataset(first, second), batch_size=batch_size)
    answers = [""] * len(without)
    full, left = scores, without
    if matcher.label_names is not None:
        (whole,) = matcher.answers(np.asarray(scores)[None], abstain=False)
        column = matcher.label_names.index(whole["label"])
        full, left = scores[column], without[:, column]
        found = (answer["label"] for answer in matcher.answers(without, abstain=False))
        answers = ["" if answer == whole["label"] else answer for answer in found]
    changes = float(full) - np.asarray(left, "float64")
    numbered = [(number, word) for number, side in enumerate(sides, 1) for word in side]
    return [
        Effect(side, word.text, word.start, float(change), answer)
        for (side, word), change, answer in zip(numbered, changes, answers)
    ]


def deciding(effects: Sequence[Effect], scored: bool) -> list[Effect]:
    """Return the most important words first, at most `MOST_DECIDING`."""
    greatest = max((abs(effect.change) for effect in effects), default=0.0)
    least = max(0.2 * greatest if scored else LEAST_DECIDING, 1e-9)
    found = [effect for effect in effects if abs(effect.change) >= least]
    return sorted(found, key=lambda effect: -abs(effect.change))[:MOST_DECIDING]


def describe(effects: Sequence[Effect], scored: bool) -> list[list[Run]]:
    """Describe the words that decided a prediction, as lines of runs of text."""
    found = deciding(effects, scored)
    lines: list[list[Run]] = []
    if not found:
        lines.append([("No single word changes it much.", False)])
    for verb, sign in (("support", 1), ("oppose", -1)):
        if mine := [effect for effect in found if effect.change * sign > 0]:
            numbers = [f" {e.change:{'+.2f' if abs(e.change) >= 0.01 else '+.1g'}}" for e in mine]
            lines.append([(f"Words that {verb} it: ", False), *_join(mine, numbers), (".", False)])
    turning = sorted(effects, key=lambda effect: (effect.answer, -abs(effect.change)))
    for answer, group in groupby(turning, lambda effect: effect.answer):
        if answer:
            mine = list(group)[:MOST_DECIDING]
            start = "Without " if len(mine) == 1 else "Without any one of "
            end: list[Run] = [(", the prediction would be ", False), (answer, True), (".", False)]
            lines.append([(start, False), *_join(mine, [""] * len(mine)), *end])
    return lines


def _join(effects: Sequence[Effect], numbers: Sequence[str]) -> list[Run]:
    runs: list[Run] = []
    for effect, number in zip(effects, numbers):
        runs += [(", ", False), (effect.word, True), (NUMBERS[effect.side] + number, False)]
    return runs[1:]
