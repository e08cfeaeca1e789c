"""The words of a sentence with their positions, and edits that keep everything else."""

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple
from unicodedata import category

VOWEL_SOUND = re.compile(
    r"(?!uni(?!n|m)|us[aeiu]|ut[ei]|eu|one\b|once\b)[aeiou]|hour|honest|honou?r|heir", re.IGNORECASE
)
NEGATIONS = frozenset(
    "no not never none nobody nothing nowhere neither nor without cannot cant dont doesnt isnt arent wasnt "
    "werent wont wouldnt couldnt shouldnt didnt hasnt havent hardly scarcely barely lack lacks lacking "
    "unless".split()
)
# Grammatical words: no transformation replaces them.
FUNCTION_WORDS = frozenset(
    "a an the this that these those some any each every all both either neither no not none nor and or but "
    "if then than so as of at by for from in into on onto off out over under up down to with within without "
    "about above across after against along among around before behind below beneath beside between beyond "
    "during except inside outside near like unlike past per since through throughout till toward towards until "
    "upon via i me my mine myself you your yours yourself he him his himself she her hers herself it its itself "
    "we us our ours ourselves they them their theirs themselves who whom whose which what when where why how be "
    "am is are was were been being have has had having do does did done doing can could may might must shall "
    "should will would ought need there here one ones other others another such same own very too also just "
    "only even still yet again once more most less least much many few several lot lots get gets got getting "
    "let lets go goes going went make makes made making take takes took taking yes please etc ever never "
    "always often sometimes now today well else cannot something anything "
    "everything someone anyone everyone somebody anybody everybody hundred hundreds thousand thousands million "
    "millions billion billions trillion trillions dozen dozens".split()
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
    """The words of a text: runs of letters, marks and digits, with apostrophes inside."""
    found = (_ASCII if text.isascii() else _pattern()).finditer(text)
    return tuple(Word(match.group(), match.start(), match.end()) for match in found)


def stands_alone(text: str, word: Word) -> bool:
    """Whether a word is not part of a hyphenated word, a URL, `@name`, `3.5` or the like."""
    before, after = text[max(0, word.start - 1) : word.start], text[word.end : word.end + 2]
    return bool(_BEFORE.fullmatch(before) and _AFTER.match(after))


def lower_words(text: str) -> set[str]:
    return {word.lower for word in words(text)}


def is_negated(text: str) -> bool:
    """Whether a sentence contains a negation such as `not` or `n't`."""
    found = lower_words(text)
    return bool(NEGATIONS & found) or any(word.endswith(("n't", "'t")) for word in found)


def apply(text: str, edits: Iterable[Edit]) -> str:
    """Applies edits to a text, from the last to the first."""
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def replace(text: str, word: Word, new: str) -> list[Edit]:
    """The edits that replace a word with `new` in the same case and correct `a` or `an` before it."""
    edits = [Edit(word.start, word.end, match_case(word.text, new))]
    before = re.search(r"(?:^|\s)(an?)\s+$", text[: word.start], re.IGNORECASE)
    if before:
        article = before.group(1)
        right = article[0] + ("n" if VOWEL_SOUND.match(new) else "")
        if article.lower() != right.lower():
            edits.append(Edit(*before.span(1), right))
    return edits


def match_case(old: str, new: str) -> str:
    """`new` in upper case, capitalized or unchanged, like `old`."""
    if len(old) > 1 and old.isupper():
        return new.upper()
    return new[:1].upper() + new[1:] if old[:1].isupper() else new


def in_style_of(text: str, addition: str) -> str:
    """`addition` in lower case if `text` has no capital letter."""
    return addition if any(char.isupper() for char in text) else addition.lower()


PLURALS = frozenset("men women children people feet teeth mice geese lives wives kids".split())
COMPARED = {"better": "er", "worse": "er", "best": "est", "worst": "est"}
PASTS = frozenset(
    "ate began bought broke brought built came caught chose died did drank drew drove fell felt fought found flew "
    "gave went grew heard held kept knew laid led left lent lost made meant met paid ran rode rose said sang sat saw "
    "sold sent shot slept spent spoke stole stood swam taught told thought took threw understood woke won wore wrote "
    "gone done been seen taken given known grown flown driven ridden written eaten fallen broken spoken".split()
)  # irregular verbs, in a form other than the present


def form(word: str) -> str:
    """The ending that tells a word's form, so that `running` is not replaced by `walk`."""
    if word in PLURALS:
        return "s"
    if word in PASTS:
        return "ed"
    if word in COMPARED:
        return COMPARED[word]
    if word.endswith("ed") and len(word) > 3 and word[-3] != "e":
        return "ed"
    for ending in ("ing", "est", "er", "ly", "ness", "tion", "sion"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return ending
    return "s" if word.endswith("s") and not word.endswith(("ss", "us", "is")) else ""
