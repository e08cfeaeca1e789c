"""Tokens and vocabularies: one definition for Python and TensorFlow."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.errors import InputError
from keras_sentmatch.safety import read_bytes

PAD, UNK = "[PAD]", "[UNK]"
LAST = 0x323AF  # letters end here; above are only tags, selectors and private characters

# CJK ideographs; each is a token of its own (kana and hangul stay in runs, as they are letters).
IDEOGRAPHS = (
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2FA1F), (0x30000, 0x323AF)
)  # fmt: skip
TAGS = (0xE0000, 0xE0FFF)  # the plane of invisible tags and variation selectors
_BOUND = 0x20000  # no code point from here on changes when cleaned, but for TAGS
_CLITICS = "[sS]|[rR][eE]|[vV][eE]|[lL][lL]|[dD]|[mM]"

# Rewriting rules ("isn't" -> "is n't", "dog's" -> "dog 's", as in the corpora behind GloVe), applied in
# turn to text with single spaces around each token. Python and RE2 run the same patterns, so they have
# no look-around. Two spaces between tokens mean that nothing stood between them.
CONTRACTIONS = (
    (rf"([nN]'[tT]|'(?:{_CLITICS})) ", r" \1 "),
    (rf" '  ({_CLITICS}) ", r" '\1 "),
)
NAMES = ("words", "whitespace", "characters")
NEGATIONS = frozenset("not n't no never nobody none nothing nor neither without cannot".split())


@cache
def clean_table(lowercase: bool) -> dict[int, str | None]:
    """Return the replacement of each code point that cleaning changes; `None` deletes it.

    Letters are lowered one by one (Σ is always σ, İ is i). Spaces and control characters become a
    space, U+2019 becomes an apostrophe, lone surrogates become U+FFFD. Invisible format characters and
    variation selectors are deleted.
    """
    table: dict[int, str | None] = {}
    for code, char in enumerate(map(chr, range(_BOUND))):
        category = unicodedata.category(char)
        if category in ("Cc", "Zs", "Zl", "Zp") or code == 0x200B:
            new: str | None = " "
        elif category == "Cf" or 0xFE00 <= code <= 0xFE0F:
            new = None
        elif category == "Cs" or code == 0x2019:
            new = "'" if code == 0x2019 else "\ufffd"
        else:
            new = char.lower()[0] if lowercase else char
        if new != char:
            table[code] = new
    return table | dict.fromkeys(range(TAGS[0], TAGS[1] + 1))


def clean_codes(lowercase: bool) -> list[int]:
    """Return `clean_table` as a list up to the last code point that changes; 0 deletes."""
    table = clean_table(lowercase)
    last = max(code for code in table if code < _BOUND)
    return [ord(table.get(code, chr(code)) or "\0") for code in range(last + 1)]


@cache
def word_ranges(limit: int = 0x3FFFF) -> tuple[tuple[int, int], ...]:
    """Return the code points of words: letters, marks, numbers, connectors, but no ideographs."""
    categories = (unicodedata.category(chr(code)) for code in range(limit + 1))
    letters = {code for code, c in enumerate(categories) if c[0] in "LMN" or c == "Pc"}
    return code_ranges(letters.difference(*(range(low, high + 1) for low, high in IDEOGRAPHS)))


def code_ranges(codes: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Merge code points into ranges (first, last)."""
    ranges: list[tuple[int, int]] = []
    for code in sorted(codes):
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1] = (ranges[-1][0], code)
        else:
            ranges.append((code, code))
    return tuple(ranges)


def token_pattern(name: str, word: str) -> str:
    """Return the pattern of a token for the tokenizer `name`; `word` holds the word characters."""
    other = r"[^\x00-\x20\x7f]"
    if name == "words":
        return rf"[0-9]+(?:[.,][0-9]+)+|[{word}]+(?:'[{word}]+)*|{other}"
    return other + "+" if name == "whitespace" else other


@cache
def _compile(name: str, limit: int) -> re.Pattern[str]:
    word = "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in word_ranges(limit))
    return re.compile(token_pattern(name, word))


class Tokenizer:
    """Split sentences into tokens, by the same rules in Python and in a TensorFlow graph.

    - `"words"` keeps runs of letters, marks, digits and underscores together, numbers such as
      `1,000.5` and words such as `o'clock`. It splits contractions (`is n't`, `dog 's`). Every ideograph
      and every other visible character is a token.
    - `"whitespace"` is for text that is already tokenized.
    - `"characters"` makes every visible character a token.

    The sentence is normalized to NFC and cleaned first: all spaces are alike, invisible characters are
    removed, letters are lowered one by one.

    Args:
        name: Name of a rule. For other rules, split your text beforehand and use `"whitespace"`.
            Defaults to `"words"`.
        lowercase: Whether letters become lower case. Defaults to `True`.

    Raises:
        InputError: If there is no such rule.

    Example:

    >>> Tokenizer()("The dog doesn't run 1,000 m.")
    ['the', 'dog', 'does', "n't", 'run', '1,000', 'm', '.']
    """

    def __init__(self, name: str = "words", lowercase: bool = True):
        if name not in NAMES:
            raise InputError(f"There is no tokenizer {name!r}. Use {', '.join(map(repr, NAMES))}.")
        self.name = name
        self.lowercase = lowercase

    def __call__(self, text: str) -> list[str]:
        """Return the tokens of `text`."""
        last = 0x7F
        if text.isascii():
            text = text.lower() if self.lowercase else text
        else:
            text = unicodedata.normalize("NFC", text).translate(clean_table(self.lowercase))
            last = 0xFFFF if max(text, default="") <= "\uffff" else 0x3FFFF
        # One language in three patterns: the fewer ranges, the faster Python's engine (ASCII: 5x).
        pattern = _compile(self.name, last)
        if self.name != "words" or "'" not in text:
            return pattern.findall(text)
        text = pattern.sub(r" \g<0> ", text.translate(clean_table(self.lowercase)))
        for old, new in CONTRACTIONS:
            text = re.sub(old, new, text)
        return text.split()


class Vocabulary:
    """Words and their ids: 0 is padding, 1 is every unknown word, the words follow in their order."""

    def __init__(self, words: Iterable[str] = ()):
        self.words = [PAD, UNK, *words]
        # Without the special entries: a token spelled "[PAD]" is an unknown word.
        self.ids = {word: i for i, word in enumerate(self.words) if i > 1}
        for i, word in enumerate(self.words[2:], 2):
            if word in (PAD, UNK, "") or "\n" in word or self.ids[word] != i:
                raise InputError(
                    f"Entry {i} of the vocabulary is {word!r}. A word must not be empty, occur twice, "
                    f"contain a line feed or be {PAD} or {UNK}, which are added automatically."
                )

    @classmethod
    def from_counts(cls, counts: Mapping[str, int]) -> "Vocabulary":
        """Order words by their counts, the most frequent first, and words of equal count by letters."""
        kept = [word for word in counts if word not in (PAD, UNK, "")]
        return cls(sorted(kept, key=lambda word: (-counts[word], word)))

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)  # without the special entries

    def __contains__(self, word: object) -> bool:
        return word in self.ids

    def __getitem__(self, word: str) -> int:
        return self.ids.get(word, 1)

    def save(self, path: str | Path) -> None:
        """Write the entries to a UTF-8 text file, one per line."""
        text = "".join(f"{word}\n" for word in self.words)
        Path(path).write_text(text, encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, path: str | Path) -> "Vocabulary":
        """Read a file that `save` wrote."""
        words = read_text(path).split("\n")  # not splitlines(): U+2028 ends no line here
        if words[:2] != [PAD, UNK] or words[-1]:
            raise InputError(
                f"{path} is not a vocabulary: it begins with {words[:2]!r}. Expected the lines {PAD} "
                f"and {UNK}, each with a line feed alone. Copy the file in binary mode."
            )
        try:
            return cls(words[2:-1])
        except InputError as error:
            raise InputError(f"{path} is damaged: {error} Copy the file again.") from None


def read_list(path: str | Path) -> list[str]:
    """Read the lines of a UTF-8 file that people write, without a byte order mark."""
    return read_text(path).removeprefix("\ufeff").split("\n")


def read_text(path: str | Path) -> str:
    """Read a UTF-8 file without changing its line ends."""
    try:
        return read_bytes(Path(path), "TEXT_BYTES").decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text ({error}). Save it as UTF-8.") from None


def read_word_pairs(path: str | Path) -> list[tuple[str, str]]:
    """Read a file with two words per line, such as antonyms, in lower case."""
    pairs: dict[Any, None] = {}
    for number, line in enumerate(read_list(path), 1):
        words = unicodedata.normalize("NFC", line).lower().split()
        if len(words) not in (0, 2):
            wrong = f"the line {line.strip()!r} has {len(words)} words"
            raise InputError(f"{path}:{number}: {wrong}. Expected two.")
        pairs |= {tuple(words): None} if words else {}
    return list(pairs)


def word_facts(words: Sequence[str]) -> np.ndarray:
    """Return whether each word negates, and whether it has a digit: float32 `[words, 2]`."""
    facts = [(word.lower() in NEGATIONS, any(map(str.isdigit, word))) for word in words]
    return np.reshape(np.array(facts, "float32"), (-1, 2))


def without_accents(text: str) -> str:
    """Decompose the text (NFD) and remove its combining marks."""
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(char for char in decomposed if unicodedata.category(char) != "Mn")
