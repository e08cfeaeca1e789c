"""English words and phrases for the transformations (english.toml), and the words of a sentence."""

import re
import tomllib
from collections.abc import Iterable
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple
from unicodedata import category

_DATA = tomllib.loads(files(__package__).joinpath("english.toml").read_text("utf-8"))
SETS = {name: frozenset(text.split()) for name, text in _DATA["sets"].items()}
NAMES: dict[str, list[str]] = _DATA["names"]
MONTHS = frozenset([*NAMES["month"], "March", "May"])
KIND_OF = {name: kind for kind, names in NAMES.items() for name in names}
TWITTER: dict[str, str] = _DATA["twitter"]

LISTS: dict[str, list[str]] = _DATA["lists"]
NUMBERS = LISTS["NUMBERS"]
ADVERBS = LISTS["ADVERBS"]
ADVERBS_OF_QUESTIONS = ADVERBS[:3]

BE = SETS["BE"]
HAVE = SETS["HAVE"]
MODALS = SETS["MODALS"]
AUXILIARIES = BE | HAVE | MODALS | {"do", "does", "did"}
FUNCTION_WORDS = SETS["FUNCTION_WORDS"]
COMPARED = {"better": "er", "worse": "er", "best": "est", "worst": "est"}
VOWEL_SOUND = re.compile(
    r"(?!uni(?!n|m)|us[aeiu]|ut[ei]|eu|one\b|once\b)[aeiou]|hour|honest|honou?r|heir", re.IGNORECASE
)
_ASCII = re.compile(r"\w+(?:'\w+)*")
_BEFORE = re.compile(r"[\s(\[{\"“‘'`¿¡,;:!?]?")
_AFTER = re.compile(r"$|[\s)\]}\"”’';!?]|[.,:](?:$|[\s)\"”’'])")


class Word(NamedTuple):
    """A word as written, and its first and end positions in the text."""

    text: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        """The word in lower case, with straight apostrophes."""
        return self.text.lower().replace("’", "'")


class Edit(NamedTuple):
    """The text that replaces the characters from `start` to `end`."""

    start: int
    end: int
    text: str


@cache
def _pattern() -> re.Pattern[str]:
    marks = "".join(char for char in map(chr, range(0x20000)) if category(char)[0] == "M")
    return re.compile(rf"[\w{marks}]+(?:['’][\w{marks}]+)*")


@lru_cache(maxsize=4096)
def words(text: str) -> tuple[Word, ...]:
    """Return the words of a text: runs of letters, marks and digits, with apostrophes inside."""
    found = (_ASCII if text.isascii() else _pattern()).finditer(text)
    return tuple(Word(match.group(), match.start(), match.end()) for match in found)


def stands_alone(text: str, word: Word) -> bool:
    """Return whether a word is not part of a hyphenated word, a URL, `@name`, `3.5` or the like."""
    before, after = text[max(0, word.start - 1) : word.start], text[word.end : word.end + 2]
    return bool(_BEFORE.fullmatch(before) and _AFTER.match(after))


def lower_words(text: str) -> set[str]:
    return {word.lower for word in words(text)}


def is_negated(text: str) -> bool:
    """Return whether a sentence contains a negation such as `not` or `n't`."""
    found = lower_words(text)
    return bool(SETS["NEGATIONS"] & found) or any(word.endswith(("n't", "'t")) for word in found)


def apply(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits to a text, from the last to the first."""
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def replace(text: str, word: Word, new: str) -> list[Edit]:
    """Return the edits that replace a word in the same case and correct `a` or `an` before it."""
    edits = [Edit(word.start, word.end, match_case(word.text, new))]
    before = re.search(r"(?:^|\s)(an?)\s+$", text[: word.start], re.IGNORECASE)
    if before:
        article = before.group(1)
        right = article[0] + ("n" if VOWEL_SOUND.match(new) else "")
        if article.lower() != right.lower():
            edits.append(Edit(*before.span(1), right))
    return edits


def match_case(old: str, new: str) -> str:
    """Return `new` in upper case, capitalized or unchanged, like `old`."""
    if len(old) > 1 and old.isupper():
        return new.upper()
    return new[:1].upper() + new[1:] if old[:1].isupper() else new


def in_style_of(text: str, addition: str) -> str:
    """Return `addition`, in lower case if `text` has no capital letter."""
    return addition if any(char.isupper() for char in text) else addition.lower()


def form(word: str) -> str:
    """Return the ending that tells a word's form, so that `walk` does not replace `running`."""
    if word in SETS["PLURALS"]:
        return "s"
    if word in SETS["PASTS"]:
        return "ed"
    if word in COMPARED:
        return COMPARED[word]
    if word.endswith("ed") and len(word) > 3 and word[-3] != "e":
        return "ed"
    for ending in ("ing", "est", "er", "ly", "ness", "tion", "sion"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return ending
    return "s" if word.endswith("s") and not word.endswith(("ss", "us", "is")) else ""
