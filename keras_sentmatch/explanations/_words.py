"""Aligns the words of a sentence with the model's tokens, and attention with the words."""

import os
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from keras_sentmatch.explanations._erasure import Effect, erasable
from keras_sentmatch.explanations._panels import Picture

FARTHEST = 24  # characters that may be skipped to find a token in the text
UNKNOWN = ("[UNK]", "<unk>")


@dataclass(frozen=True)
class ShownWord:
    """A word or another token of a sentence.

    Attributes:
        text: The word as it is written.
        start: Its position in the sentence.
        tokens: The positions of its tokens among the model's tokens of this sentence.
        before: The text between the previous word and this word.
        unknown: Whether one of its tokens is not in the vocabulary.
        cut: Whether the model does not read it because the sentence is too long.
        effect: The effect of leaving it out, if measured.
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
    """Split a sentence into words, and find the tokens of each word.

    Args:
        text: The sentence.
        tokens: The model's tokens of the sentence; empty if they are not known.
        unknown: The tokens that are not in the vocabulary.
        effects: The effects of leaving out each word of `erasable(text, starts)`, or none.
        starts: The position of each token in the text. Tokens are searched in the text by default.
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
    """Remove case and accents from a text; its length stays the same."""
    decomposed = (unicodedata.normalize("NFD", char.lower()) for char in text)
    return "".join(char[:1] for char in decomposed).replace("’", "'")


def find_starts(text: str, tokens: Sequence[str]) -> list[int]:
    """Return the position in the text at which each token begins."""
    spans = {word.start: word.end for word in erasable(text)}
    plain, at, places = _fold(text), 0, []
    for token in tokens:
        bare = _fold(_bare(token))
        sought = bare and token not in UNKNOWN  # a token may be only the mark of a space
        found = plain.find(bare, at, at + FARTHEST + len(bare)) if sought else -1
        at += len(plain[at:]) - len(plain[at:].lstrip())
        if found >= 0:
            places.append(found)
            at = found + len(bare)
        else:  # cleaning has changed the token, so it belongs to the next word
            places.append(min(at, max(0, len(text) - 1)))
            if token in UNKNOWN:
                at = next((end for start, end in spans.items() if start <= at < end), at + 1)
    return places


@dataclass(frozen=True)
class Links:
    """One layer of attention from words to words of the other sentence.

    Attributes:
        name: The name of the layer.
        forth: `[words of sentence 1, words of sentence 2]`. A row sums to less than 1 if attention
            also goes elsewhere.
        back: `[words of sentence 2, words of sentence 1]`.
    """

    name: str
    forth: np.ndarray
    back: np.ndarray


def find_links(
    pictures: Sequence[Picture], sides: tuple[Sequence[ShownWord], Sequence[ShownWord]]
) -> list[Links]:
    """Return the attention between the sentences per layer, followed by the mean of the layers."""
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
    """Return an array `[words, tokens]` with 1 if the token belongs to the word."""
    tokens = 1 + max((number for word in words for number in word.tokens), default=-1)
    found = np.zeros((len(words), tokens))
    for row, word in zip(found, words):
        row[list(word.tokens)] = 1
    return found


def _between(rows: np.ndarray, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Convert attention between tokens to words: mean over the rows, sum over the columns."""
    mean = rows / np.maximum(rows.sum(1, keepdims=True), 1)
    return np.asarray(mean @ values @ columns.T)
