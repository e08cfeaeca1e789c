"""The words of a sentence as they stand in the text, and which of them attend to which."""

import os
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from keras_sentmatch.explanations.erasure import Effect, erasable
from keras_sentmatch.explanations.pictures import Picture

FARTHEST = 24  # characters that may be skipped to find a token again
UNKNOWN = ("[UNK]", "<unk>")


@dataclass(frozen=True)
class ShownWord:
    """A word, or another token, of a sentence.

    Attributes:
        text: As it is written.
        start: Where it starts in the sentence.
        tokens: Which of the model's tokens of this sentence belong to it.
        before: The text between the word before and this one.
        unknown: Whether a token of it is not in the vocabulary.
        cut: Whether it lies beyond what the model reads.
        effect: What leaving it out does, if that was tried.
    """

    text: str
    start: int
    tokens: tuple[int, ...] = ()
    before: str = ""
    unknown: bool = False
    cut: bool = False
    effect: Effect | None = None


def shown_words(
    text: str,
    tokens: Sequence[str],
    unknown: Sequence[str],
    effects: Sequence[Effect],
    starts: Sequence[int] = (),
) -> list[ShownWord]:
    """Cuts a sentence into words, and finds the tokens of each.

    Args:
        text: The sentence.
        tokens: The model's tokens of it; none if the model is not looked into.
        unknown: The tokens that are not in the vocabulary.
        effects: What leaving out each of `erasable(text, starts)` does; may be empty.
        starts: Where each token begins in the text; found by looking for it if not given.
    """
    spans = {word.start: word.end for word in erasable(text, starts)}
    known = dict(zip(spans, effects))
    members: dict[int, list[int]] = {start: [] for start in spans}
    for number, (token, place) in enumerate(zip(tokens, starts or find_starts(text, tokens))):
        inside = [start for start, end in spans.items() if start <= place < end]
        start = inside[0] if inside else place
        spans.setdefault(start, start + max(1, len(_bare(token))))
        members.setdefault(start, []).append(number)
    last = max((start for start, found in members.items() if found), default=len(text))
    words, end = [], 0
    for start in sorted(spans):
        found, stop = tuple(members[start]), max(end, min(spans[start], len(text)))
        lost = any(tokens[i] in unknown or tokens[i] in UNKNOWN for i in found)
        words.append(
            ShownWord(
                text[max(start, end) : stop], start, found, text[end:start], lost,
                cut=not found and start > last, effect=known.get(start),
            )
        )  # fmt: skip
        end = stop
    return words


def _bare(token: str) -> str:
    return re.sub("^(##|[Ġ▁])", "", token)


def _fold(text: str) -> str:
    """Text without case and accents, as long as it was."""
    decomposed = (unicodedata.normalize("NFD", char.lower()) for char in text)
    return "".join(char[:1] for char in decomposed).replace("’", "'")


def find_starts(text: str, tokens: Sequence[str]) -> list[int]:
    """Where each token begins in the text."""
    spans = {word.start: word.end for word in erasable(text)}
    plain, at, places = _fold(text), 0, []
    for token in tokens:
        bare = _fold(_bare(token))
        sought = bare and token not in UNKNOWN  # a mark of a space stands for nothing
        found = plain.find(bare, at, at + FARTHEST + len(bare)) if sought else -1
        at += len(plain[at:]) - len(plain[at:].lstrip())
        if found >= 0:
            places.append(found)
            at = found + len(bare)
        else:  # it was changed by cleaning: it belongs to what comes next
            places.append(min(at, max(0, len(text) - 1)))
            if token in UNKNOWN:
                at = next((end for start, end in spans.items() if start <= at < end), at + 1)
    return places


@dataclass(frozen=True)
class Links:
    """One layer of attention from words to those of the other sentence.

    Attributes:
        name: The layer.
        forth: `[words of sentence 1, words of sentence 2]`; the rest of a row to 1 goes elsewhere.
        back: `[words of sentence 2, words of sentence 1]`.
    """

    name: str
    forth: np.ndarray
    back: np.ndarray


def find_links(
    pictures: Sequence[Picture], sides: tuple[Sequence[ShownWord], Sequence[ShownWord]]
) -> list[Links]:
    """The attention between the sentences in `pictures`, layer by layer, then its mean."""
    one, two = (_membership(words) for words in sides)
    none = np.zeros((len(one), len(two)))
    found: dict[str, Links] = {}
    for picture in pictures:
        if picture.kind != "map" or not picture.scale.even or "mean of" in picture.title:
            continue
        name = re.sub(r", sentence [12]|(, layer )", _colon, picture.title)
        links = found.get(name, Links(name, none, none.T))
        values = picture.values
        if picture.axes == ("1", "2"):
            found[name] = replace(links, forth=_between(one, values, two))
        elif picture.axes == ("2", "1"):
            found[name] = replace(links, back=_between(two, values, one))
        elif picture.axes == ("joint", "joint"):
            m, n = one.shape[1], two.shape[1]
            first, second = slice(1, 1 + m), slice(len(values) - 1 - n, len(values) - 1)
            forth = _between(one, values[first, second], two)
            found[name] = Links(name, forth, _between(two, values[second, first], one))
    layers = list(found.values())
    if len(layers) > 1:
        start, colon, _ = os.path.commonprefix([layer.name for layer in layers]).partition(": ")
        cut = len(start + colon) if colon else 0
        layers = [replace(layer, name=layer.name[cut:]) for layer in layers]
        forth, back = (np.mean([getattr(x, way) for x in layers], 0) for way in ("forth", "back"))
        layers.append(Links("mean", forth, back))
    return layers


def _colon(match: re.Match[str]) -> str:
    return ": layer " if match.group(1) else ""


def _membership(words: Sequence[ShownWord]) -> np.ndarray:
    """1 where a token belongs to a word, `[words, tokens]`."""
    tokens = 1 + max((number for word in words for number in word.tokens), default=-1)
    found = np.zeros((len(words), tokens))
    for row, word in zip(found, words):
        row[list(word.tokens)] = 1
    return found


def _between(rows: np.ndarray, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """From words to words: the mean over the tokens of a row, the sum over those of a column."""
    mean = rows / np.maximum(rows.sum(1, keepdims=True), 1)
    return np.asarray(mean @ values @ columns.T)
