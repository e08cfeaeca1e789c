"""Synonyms and antonyms, from files of word pairs or from WordNet."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from keras_sentmatch.errors import InputError
from keras_sentmatch.text.tags import load_wordnet
from keras_sentmatch.text.tokens import read_word_pairs

KINDS = ("antonyms", "synonyms")
HOW = (
    "Give files with two words per line and 'antonyms' or 'synonyms' in their names, a folder with "
    "such files, or 'wordnet' (pip install nltk; python -m nltk.downloader wordnet)."
)
WordPairs = Iterable[tuple[str, str]]
Lookup = Callable[[str], Sequence[str]]


class Lexicon:
    """Antonyms and synonyms of words in lower case. Pairs hold in both directions.

    Args:
        antonyms: Pairs of words with opposite meanings, or a function from a word to its antonyms.
            Defaults to none.
        synonyms: The same for words with similar meanings.

    Attributes:
        kinds: Which of `"antonyms"` and `"synonyms"` the lexicon has.

    Example:

    >>> lexicon = Lexicon(antonyms=[("hot", "cold")])
    >>> lexicon.antonyms("cold"), lexicon.antonyms("warm"), lexicon.kinds
    (('hot',), (), ('antonyms',))
    """

    def __init__(
        self, antonyms: WordPairs | Lookup | None = None, synonyms: WordPairs | Lookup | None = None
    ):
        self._lookups = {
            kind: source if callable(source) else _by_word(source)
            for kind, source in zip(KINDS, (antonyms, synonyms))
            if source is not None
        }
        self.kinds: tuple[str, ...] = tuple(self._lookups)

    def antonyms(self, word: str) -> tuple[str, ...]:
        """Return the antonyms of a word in lower case; none if the lexicon has no antonyms."""
        return tuple(self._lookups["antonyms"](word)) if "antonyms" in self._lookups else ()

    def synonyms(self, word: str) -> tuple[str, ...]:
        """Return the synonyms of a word in lower case; none if the lexicon has no synonyms."""
        return tuple(self._lookups["synonyms"](word)) if "synonyms" in self._lookups else ()

    @classmethod
    def read(cls, *sources: str | Path) -> "Lexicon":
        """Read files with two words per line.

        Args:
            *sources: Files with `antonyms` or `synonyms` in their names, folders with such files, or
                `"wordnet"` alone.

        Raises:
            InputError: If a file is missing or damaged, or its name says neither or both.
        """
        if [str(source) for source in sources] == ["wordnet"]:
            return cls.wordnet()
        pairs: dict[str, list[tuple[str, str]]] = {}
        for source in map(Path, sources):
            files = sorted(source.glob("*.txt")) if source.is_dir() else [source]
            known = [
                (kind, file) for file in files for kind in KINDS if kind[:-1] in file.name.lower()
            ]
            twice = len(known) > len({file for _, file in known})
            if not known or twice or not source.exists():
                problem = "has no antonyms or synonyms" if source.exists() else "does not exist"
                problem = "names a file after antonyms and synonyms" if twice else problem
                raise InputError(f"{source} {problem}. {HOW}")
            for kind, file in known:
                pairs.setdefault(kind, []).extend(read_word_pairs(file))
        return cls(**pairs)

    @classmethod
    def wordnet(cls) -> "Lexicon":
        """Return the single words of WordNet in their base form, read by NLTK.

        Antonyms come from any sense of a word, synonyms from its most frequent sense.

        Raises:
            InputError: If NLTK or WordNet is not installed.
        """
        wordnet = load_wordnet()

        def lemmas(synsets: Iterable[Any]) -> list[Any]:
            return [lemma for synset in synsets for lemma in synset.lemmas()]

        def antonyms(word: str) -> list[str]:
            own = [lemma for lemma in lemmas(wordnet.synsets(word)) if _name(lemma) == word]
            return _single(word, [other for lemma in own for other in lemma.antonyms()])

        def synonyms(word: str) -> list[str]:
            first = lemmas(wordnet.synsets(word)[:1])
            return _single(word, first) if word in map(_name, first) else []

        return cls(cache(antonyms), cache(synonyms))


def _name(lemma: Any) -> str:
    return str(lemma.name()).lower()


def _single(word: str, lemmas: Iterable[Any]) -> list[str]:
    """Return the distinct names of lemmas that are single words other than `word`."""
    names = dict.fromkeys(map(_name, lemmas))
    return [name for name in names if name.isalpha() and name != word]


def _by_word(pairs: WordPairs) -> Lookup:
    table: dict[str, dict[str, None]] = {}
    for pair in pairs.items() if isinstance(pairs, Mapping) else pairs:
        words = () if isinstance(pair, str) else tuple(pair)
        if [isinstance(word, str) for word in words] != [True, True]:
            raise InputError(
                f"{pair!r:.60} is not a pair of words. Give pairs, such as ('hot', 'cold')."
            )
        one, other = map(str.lower, words)
        if one != other:
            table.setdefault(one, {})[other] = None
            table.setdefault(other, {})[one] = None
    return lambda word: tuple(table.get(word, ()))
