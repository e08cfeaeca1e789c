"""Make keras_sentmatch/text/antonyms.txt, the antonyms of the feature `antonym`, from WordNet 3.0.

    apt install wordnet-base wamerican && pip install nltk
    python benchmarks/antonyms.py

They are WordNet's antonyms, the other words of these verbs, nouns and adverbs, and the adjectives that WordNet
calls similar to an antonym (`cold`, so `hot` and `chilly`). Both words must occur in WordNet's tagged texts.
Inflected forms that a dictionary of American English has stand next to the same form of the other word.
A line has a word and its antonyms.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_sentmatch.text.tags import load_wordnet

FILE = Path(__file__).parents[1] / "keras_sentmatch" / "text" / "antonyms.txt"
DICTIONARY = Path("/usr/share/dict/american-english")
ENDINGS = {"v": ["s", "ed", "ing"], "n": ["s"], "a": ["er", "est"], "r": []}
VOWELS = "aeiou"


def opposed(wordnet: Any) -> Iterator[tuple[str, str, str]]:
    """Yield two words and their part of speech."""
    for synset in wordnet.all_synsets():
        for lemma in synset.lemmas():
            for other in lemma.antonyms():
                theirs = other.synset()
                if synset.pos() in "as":
                    near = [theirs, *theirs.similar_tos()]
                    pairs = [(synset, one) for one in near]
                    pairs += [(one, theirs) for one in synset.similar_tos()]
                    part = "a"
                else:
                    pairs, part = [(synset, theirs)], synset.pos()
                for one, two in pairs:
                    for word in one.lemma_names():
                        for opposite in two.lemma_names():
                            yield word, opposite, part


def irregular(wordnet: Any) -> dict[tuple[str, str], set[str]]:
    """Return the irregular forms of words, by part of speech and word."""
    found = defaultdict(set)
    for part, forms in wordnet._exception_map.items():
        for form, words in forms.items():
            for word in words:
                found[part, word].add(form)
    return found


def inflected(word: str, ending: str) -> str:
    if ending == "s":
        if word[-1] == "y" and word[-2:-1] not in VOWELS:
            return word[:-1] + "ies"
        return word + ("es" if re.search("(s|x|z|ch|sh|o)$", word) else "s")
    if word[-1] == "e":
        return (word if word.endswith("ee") and ending == "ing" else word[:-1]) + ending
    if word[-1] == "y" and word[-2:-1] not in VOWELS and ending != "ing":
        return word[:-1] + "i" + ending
    if re.fullmatch("[^aeiouy]*[aeiouy][^aeiouywx]", word):  # one syllable with a short vowel
        word += word[-1]
    return word + ending


def forms(
    word: str, part: str, known: dict[tuple[str, str], set[str]], words: set[str]
) -> list[set[str]]:
    """Return the word, and one set of forms among `words` for each ending of its part of speech."""
    made, special = [{word}], known.get((part, word), set())
    for ending in ENDINGS[part]:
        if ending == "ed":
            own = {form for form in special if not form.endswith(("ing", "s"))}
        elif part == "n":
            own = special
        else:
            own = {form for form in special if form.endswith(ending[-1])}
        longer = part == "a" and len(re.findall("[aeiouy]+", word)) > 1 and word[-1] != "y"
        made.append(words & (own or (set() if longer else {inflected(word, ending)})))
    return made


def antonyms() -> set[tuple[str, str]]:
    """Return the pairs of words, each pair in the order of the alphabet."""
    wordnet = load_wordnet()
    known, pairs = irregular(wordnet), set()
    words = set(DICTIONARY.read_text("utf-8").lower().split())
    counts: dict[str, int] = defaultdict(int)
    for lemma in (lemma for synset in wordnet.all_synsets() for lemma in synset.lemmas()):
        counts[lemma.name().lower()] += lemma.count()
    for one, two, part in set(opposed(wordnet)):
        one, two = one.lower(), two.lower()
        usable = (word.isascii() and word.isalpha() and counts[word] for word in (one, two))
        if len(one) > 1 < len(two) and all(usable):
            for these, those in zip(forms(one, part, known, words), forms(two, part, known, words)):
                pairs |= {tuple(sorted((a, b))) for a in these for b in those if a != b}
    return pairs


def lines(pairs: set[tuple[str, str]]) -> list[str]:
    """Return lines that have each pair once. Words with many antonyms begin them, so that they are few."""
    others: dict[str, set[str]] = defaultdict(set)
    for one, two in pairs:
        others[one].add(two)
        others[two].add(one)
    found = []
    while others[word := max(sorted(others), key=lambda word: len(others[word]))]:
        found.append(" ".join([word, *sorted(others[word])]))
        for other in others.pop(word):
            others[other].discard(word)
    return sorted(found)


if __name__ == "__main__":
    found = antonyms()
    FILE.write_text("\n".join(lines(found)) + "\n", "utf-8", newline="\n")
    print(f"{len(found):,} pairs, {FILE.stat().st_size / 2**10:.0f} KB")
