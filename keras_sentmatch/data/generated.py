"""The embedded pairs: sentences of a small natural logic, labeled by what they mean.

- *Quantified* sentences ("most big dogs are not running outside") speak of sets. An individual has
  one value of each attribute (kind, size, mood, activity, place, …). A phrase is a set of values, so
  that "animals" holds "dogs", while "big" and "small", or two kinds of dogs, exclude each other. A
  quantifier counts. The sets are never empty.
- *Relational* sentences ("the nurse is being chased by the doctor") speak of two people: what the
  first does to the second, or how they compare ("taller", "shorter").

The label is entailment if the hypothesis holds in every world in which the premise holds,
contradiction if it holds in none, and otherwise neutral. The worlds are enumerated.

Each premise comes with one hypothesis per label, and among several hypotheses the one is taken whose
words have been least typical of that label so far. So neither the premise nor single words tell.
"""

import functools
import math
import random
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from keras_sentmatch.data.dataset import PairDataset
from keras_sentmatch.errors import InputError

LABELS = ("entailment", "neutral", "contradiction")

# Phrases as trees: the phrase of a set -> the phrases of its parts. "|" separates synonyms.
TREES: dict[str, dict[str, Any]] = {
    "kind": {
        "people": {"adults": {"men": {}, "women": {}}, "children|kids": {"boys": {}, "girls": {}}},
        "animals": {
            "dogs": {"poodles": {}, "terriers": {}},
            "birds": {"sparrows": {}, "eagles": {}},
            "horses": {"ponies": {}, "stallions": {}},
        },
    },
    "activity": {
        "moving": {"running": {}, "walking": {}, "jumping": {}},
        "resting": {"sleeping": {}, "sitting": {}},
        "eating food": {
            "eating fruit": {"eating apples": {}, "eating pears": {}},
            "eating vegetables": {"eating carrots": {}, "eating onions": {}},
        },
        "playing a game": {"playing football": {}, "playing chess": {}},
    },
    "place": {
        "indoors|inside": {
            "in the kitchen": {}, "in the bedroom": {}, "in the garage": {}, "in the library": {},
        },
        "outdoors|outside": {
            "in the park": {}, "in the garden": {}, "on the street": {}, "on the beach": {},
        },
    },
    "size": {"big|large": {}, "small|little": {}},
    "age": {"old": {}, "young": {}},
    "mood": {"happy|cheerful": {}, "sad|unhappy": {}},
    "state": {"clean": {}, "dirty": {}},
    "hunger": {"hungry": {}, "full": {}},
    # Relational phrases: "active/passive participle".
    "contact": {"touching/touched": {"hugging/hugged": {}, "kicking/kicked": {}}},
    "pursuit": {"following/followed": {"chasing/chased": {}, "tracking/tracked": {}}},
    "talk": {
        "addressing/addressed": {
            "praising/praised|applauding/applauded": {}, "insulting/insulted|mocking/mocked": {},
        }
    },
}  # fmt: skip
COMPARATIVES = [
    pair.split("/")
    for pair in "taller/shorter older/younger faster/slower heavier/lighter richer/poorer".split()
]
PEOPLE = (
    "doctor nurse teacher farmer lawyer singer baker pilot soldier judge painter waiter dancer "
    "sailor"
).split()
_ADJECTIVES = ("size", "age", "mood", "state", "hunger")
_VERBS = ("contact", "pursuit", "talk")
_NUMBERS = {2: "two", 3: "three", 4: "four"}
_QUANTIFIERS: dict[str, Callable[[Any, Any, int], Any]] = {
    "all": lambda x, y, n: y == 0,
    "every": lambda x, y, n: y == 0,
    "some": lambda x, y, n: x > 0,
    "no": lambda x, y, n: x == 0,
    "not all": lambda x, y, n: y > 0,
    "most": lambda x, y, n: x > y,
    "at least": lambda x, y, n: x >= n,
    "more than": lambda x, y, n: x > n,
    "exactly": lambda x, y, n: x == n,
    "fewer than": lambda x, y, n: x < n,
    "at most": lambda x, y, n: x <= n,
}  # truth of "Q A are B" from x = |A and B|, y = |A without B|
_PLAIN = ("all", "every", "some", "no", "not all", "most")
_COUNTED = ("at least", "more than", "exactly", "fewer than", "at most")
_NEGATED = ("some", "most", "at least", "exactly")  # quantifiers that take "are not"
_LARGEST = 6  # worlds with up to six individuals of each sort decide these sentences
_SINGULAR = {"people": "person", "men": "man", "women": "woman", "children": "child"}
_SINGULAR |= {"ponies": "pony", "kids": "kid"}


class Phrase(NamedTuple):
    """A phrase, and its set of values as bits."""

    attribute: str
    words: str
    values: int


def _phrases() -> tuple[dict[str, tuple[Phrase, ...]], dict[str, int]]:
    """Return all phrases by attribute, and the set of all values of each attribute."""
    phrases: dict[str, list[Phrase]] = {name: [] for name in TREES}
    universe = {}
    for name, tree in TREES.items():
        count = 0

        def fill(tree: dict[str, Any], name: str = name) -> int:
            nonlocal count
            count += 1  # there is always a part without a name
            values = 1 << (count - 1)
            for words, parts in tree.items():
                below = fill(parts)
                phrases[name] += [Phrase(name, word, below) for word in words.split("|")]
                values |= below
            return values

        universe[name] = fill(tree)
    return {name: tuple(found) for name, found in phrases.items()}, universe


PHRASES, _UNIVERSE = _phrases()


class Quantified(NamedTuple):
    """ "Q [adjective] KIND are [not] SCOPE [place]"."""

    quantifier: str
    number: int
    adjective: Phrase | None
    kind: Phrase
    negated: bool
    scope: Phrase
    place: Phrase | None

    def text(self) -> str:
        """The sentence in words."""
        noun, verb = self.kind.words, "are"
        if self.quantifier == "every":
            noun, verb = _SINGULAR.get(noun, noun.removesuffix("s")), "is"
        adjective, place = (
            phrase.words if phrase else "" for phrase in (self.adjective, self.place)
        )
        parts = [self.quantifier, _NUMBERS.get(self.number, ""), adjective, noun, verb]
        parts += ["not" * self.negated, self.scope.words, place]
        return " ".join(filter(None, parts))

    @classmethod
    def sample(cls, rng: random.Random) -> "Quantified":
        """A random sentence."""
        quantifier, number = _quantifier(rng)
        adjective = _adjective(rng) if rng.random() < 0.5 else None
        scope = rng.choice(PHRASES["activity"]) if rng.random() < 0.75 else _adjective(rng)
        place = rng.choice(PHRASES["place"]) if rng.random() < 0.35 else None
        negated = quantifier in _NEGATED and rng.random() < 0.25
        kind = rng.choice(PHRASES["kind"])
        return cls(quantifier, number, adjective, kind, negated, scope, place)

    def edit(self, rng: random.Random) -> "Quantified":
        """The sentence with one thing changed."""
        what = rng.choice("quantifier quantifier kind scope adjective place not".split())
        if what == "quantifier":
            quantifier, number = _quantifier(rng)
            negated = self.negated and quantifier in _NEGATED
            return self._replace(quantifier=quantifier, number=number, negated=negated)
        if what == "not":
            if self.adjective and self.scope.attribute in _ADJECTIVES and rng.random() < 0.7:
                return self._replace(adjective=self.scope, scope=self.adjective)
            return self._replace(negated=not self.negated and self.quantifier in _NEGATED)
        old: Phrase | None = getattr(self, what)
        new: Phrase | None = None
        if old is None:
            new = _adjective(rng) if what == "adjective" else rng.choice(PHRASES["place"])
        elif what in ("kind", "scope") or rng.random() >= 0.5:
            new = _relative(old, rng)
        return self._replace(**{what: new})  # type: ignore[arg-type]  # which field is drawn

    def sets(self) -> tuple[tuple[Phrase, ...], tuple[Phrase, ...]]:
        """What the quantifier ranges over, and what is said of it, without the negation."""
        return _known(self.kind, self.adjective), _known(self.scope, self.place)

    def label(self, other: "Quantified") -> int | None:
        """Return the label of (self, other), or None if one of them says nothing."""
        flip = self.negated * 0b0100 | other.negated * 0b0001
        sorts = frozenset(sort ^ flip for sort in _sorts((*self.sets(), *other.sets())))
        return _quantified_label(sorts, self[:2], other[:2])


class Relational(NamedTuple):
    """ "the SUBJECT is [not] VERB the OBJECT [place]", active or passive, or a comparison."""

    subject: str
    object: str
    negated: bool
    verb: Phrase | None
    passive: bool
    place: Phrase | None
    comparison: tuple[int, int] = (0, 0)  # which pair of COMPARATIVES, which of the two

    def text(self) -> str:
        """The sentence in words."""
        is_ = "is not" if self.negated else "is"
        if self.verb is None:
            than = COMPARATIVES[self.comparison[0]][self.comparison[1]]
            return f"the {self.subject} {is_} {than} than the {self.object}"
        active, passive = self.verb.words.split("/")
        place = f" {self.place.words}" if self.place else ""
        if self.passive:
            return f"the {self.object} {is_} being {passive} by the {self.subject}{place}"
        return f"the {self.subject} {is_} {active} the {self.object}{place}"

    @classmethod
    def sample(cls, rng: random.Random) -> "Relational":
        """A random sentence."""
        subject, object_ = rng.sample(PEOPLE, 2)
        negated = rng.random() < 0.35
        if rng.random() < 0.35:
            comparison = (rng.randrange(len(COMPARATIVES)), rng.randrange(2))
            return cls(subject, object_, negated, None, False, None, comparison)
        verb = rng.choice(PHRASES[rng.choice(_VERBS)])
        place = rng.choice(PHRASES["place"]) if rng.random() < 0.35 else None
        return cls(subject, object_, negated, verb, rng.random() < 0.5, place)

    def edit(self, rng: random.Random) -> "Relational":
        """The sentence with one thing changed."""
        what = rng.choice("swap swap not verb verb place voice person".split())
        if what == "swap":
            return self._replace(subject=self.object, object=self.subject)
        if what == "not":
            return self._replace(negated=not self.negated)
        if what == "person":
            others = [person for person in PEOPLE if person not in (self.subject, self.object)]
            role = rng.choice(("subject", "object"))
            return self._replace(**{role: rng.choice(others)})  # type: ignore[arg-type]  # drawn
        if self.verb is None:
            which, side = self.comparison
            if rng.random() < 0.3:
                which = rng.randrange(len(COMPARATIVES))
            return self._replace(comparison=(which, 1 - side))
        if what == "verb":
            return self._replace(verb=_relative(self.verb, rng))
        if what == "voice":
            return self._replace(passive=not self.passive)
        place = None if self.place and rng.random() < 0.5 else rng.choice(PHRASES["place"])
        return self._replace(place=place)

    def label(self, other: "Relational") -> int | None:
        """Return the label of (self, other); sentences about different things are neutral."""
        neutral = LABELS.index("neutral")
        if (self.verb is None) != (other.verb is None):
            return neutral
        if self.verb is None or other.verb is None:
            same = {self.subject, self.object} == {other.subject, other.object}
            if not same or self.comparison[0] != other.comparison[0]:
                return neutral
            reverse = self.subject != other.subject
            # The first may be ahead of, behind or level with the second.
            sides = (self.comparison[1], other.comparison[1] ^ reverse)
            worlds = {(order == sides[0]) << 1 | (order == sides[1]) for order in (0, 1, 2)}
        else:
            same = (self.subject, self.object) == (other.subject, other.object)
            if not same or self.verb.attribute != other.verb.attribute:
                return neutral
            sets = ((), _known(self.verb, self.place), (), _known(other.verb, other.place))
            worlds = {world >> 1 & 2 | world & 1 for world in _sorts(sets)}
        flip = self.negated << 1 | other.negated
        worlds = {world ^ flip for world in worlds}
        return 0 if 0b10 not in worlds else neutral if 0b11 in worlds else 2


def _quantifier(rng: random.Random) -> tuple[str, int]:
    if rng.random() < 0.65:
        return rng.choice(_PLAIN), 0
    return rng.choice(_COUNTED), rng.choice((2, 3, 4))


def _adjective(rng: random.Random) -> Phrase:
    return rng.choice(PHRASES[rng.choice(_ADJECTIVES)])


def _known(*phrases: Phrase | None) -> tuple[Phrase, ...]:
    return tuple(phrase for phrase in phrases if phrase)


@cache
def _related(phrase: Phrase) -> tuple[Phrase, ...]:
    """Return phrases of sets above, below or beside (with a common set above, or antonyms)."""
    others = [other for other in PHRASES[phrase.attribute] if other.words != phrase.words]
    above = [other for other in others if other.values & phrase.values == phrase.values]
    below = [other for other in others if other.values & phrase.values == other.values]
    # The smallest set above holds the nearest sisters.
    strict = [other.values for other in above if other.values != phrase.values]
    family = min(strict, key=int.bit_count) if strict else _UNIVERSE[phrase.attribute]
    apart = [other for other in others if not other.values & phrase.values]
    beside = [other for other in apart if not other.values & ~family]
    return (*above, *below, *beside)


def _relative(phrase: Phrase, rng: random.Random) -> Phrase:
    return rng.choice(_related(phrase))


@cache
def _overlaps(universe: int, masks: tuple[int, ...]) -> frozenset[int]:
    """Return the memberships in the four sets that a value can have: bit i from the left for set i."""

    def left(pattern: int) -> int:
        sides = (m if pattern >> (3 - i) & 1 else ~m for i, m in enumerate(masks))
        return functools.reduce(int.__and__, sides, universe)

    return frozenset(filter(left, range(16)))


def _sorts(sets: Iterable[tuple[Phrase, ...]]) -> frozenset[int]:
    """Return the possible sorts of individuals, by membership in four intersections of phrases."""
    masks: dict[str, list[int]] = {}
    for i, phrases in enumerate(sets):
        for phrase in phrases:
            if phrase.attribute not in masks:
                masks[phrase.attribute] = [_UNIVERSE[phrase.attribute]] * 4
            masks[phrase.attribute][i] &= phrase.values
    sorts = frozenset([15])
    for attribute, four in masks.items():
        sorts = _meet(sorts, _overlaps(_UNIVERSE[attribute], tuple(four)))
    return sorts


@cache
def _meet(one: frozenset[int], two: frozenset[int]) -> frozenset[int]:
    return frozenset(a & b for a in one for b in two)


@cache
def _worlds(sorts: frozenset[int]) -> np.ndarray:
    """Return whether |A1 B1|, |A1 - B1|, |A2 B2|, |A2 - B2| can be x1, y1, x2, y2 together."""
    worlds = np.zeros([_LARGEST + 1] * 4, bool)
    worlds[0, 0, 0, 0] = True
    for sort in sorts:
        a1, b1, a2, b2 = (sort >> 3 & 1, sort >> 2 & 1, sort >> 1 & 1, sort & 1)
        step = (a1 & b1, a1 & ~b1, a2 & b2, a2 & ~b2)
        if any(step):
            to = tuple(slice(s, None) for s in step)
            source = tuple(slice(None, -1) if s else slice(None) for s in step)
            for _ in range(_LARGEST):
                worlds[to] |= worlds[source].copy()
    worlds[0, 0] = worlds[:, :, 0, 0] = False
    return worlds


@cache
def _quantified_label(
    sorts: frozenset[int], first: tuple[str, int], second: tuple[str, int]
) -> int | None:
    worlds, (x, y) = _worlds(sorts), np.indices([_LARGEST + 1] * 2)
    premise, hypothesis = (_QUANTIFIERS[name](x, y, number) for name, number in (first, second))
    premise = premise[:, :, None, None]
    true = (worlds & premise & hypothesis).any()
    false = (worlds & premise & ~hypothesis).any()
    says_something = (worlds & hypothesis).any() and (worlds & ~hypothesis).any()
    if not says_something or not (true or false) or not (worlds & ~premise).any():
        return None
    return 1 if true and false else 0 if true else 2


Part = Literal["train", "validation", "test"]
_SPLITS: dict[Part, range] = {"train": range(8), "validation": range(8, 9), "test": range(9, 10)}
_TRIES = 12  # hypotheses drawn per premise
# How often a feature was seen with each label, and how much that differs from an even share.
_Votes = defaultdict[str, tuple[list[int], list[float]]]


def _generate(n: int, seed: int, split: Part) -> Iterator[tuple[str, str, int]]:
    """Yield pairs in threes: a premise with one hypothesis per label."""
    rng = random.Random(f"{seed} {split}")
    votes: _Votes = defaultdict(lambda: ([0, 0, 0], [0.0, 0.0, 0.0]))
    seen: set[str] = set()
    while n > 0:
        kind: Any = Quantified if rng.random() < 0.65 else Relational
        premise = kind.sample(rng)
        text = premise.text()
        if text in seen or _code(text) % 10 not in _SPLITS[split]:
            continue
        hypotheses = _hypotheses(premise, text, split, rng, votes)
        if len(hypotheses) < len(LABELS):
            continue
        seen.add(text)
        rows = [(text, hypothesis, label) for label, hypothesis in hypotheses.items()]
        rng.shuffle(rows)
        yield from rows[:n]
        n -= len(rows)


def _code(text: str) -> int:
    return zlib.crc32(text.encode())


def _hypotheses(
    premise: Any, text: str, split: Part, rng: random.Random, votes: _Votes
) -> dict[int, str]:
    """Return, per label, the hypothesis whose words have been least typical of that label."""
    best: dict[int, tuple[float, str, set[str]]] = {}
    words = set(text.split())
    for _ in range(_TRIES):
        form = premise
        for _ in range(rng.choice((1, 1, 2, 2, 3))):
            form = form.edit(rng)
        hypothesis = form.text()
        label = premise.label(form)
        if label is None or hypothesis == text:
            continue
        # If a pair and its reverse fall in different splits, only one of them is kept.
        code = _code(hypothesis)
        if code % 10 not in _SPLITS[split] and code < _code(text):
            continue
        features = _features(words, set(hypothesis.split()))
        # The sum is exact, because the order of the set differs between processes.
        bias = math.fsum([votes[feature][1][label] for feature in features])
        if label not in best or bias < best[label][0]:
            best[label] = (bias, hypothesis, features)
    if len(best) == len(LABELS):
        for label, (_, _, features) in best.items():
            for feature in features:
                counts, bias_of = votes[feature]
                counts[label] += 1
                total = sum(counts)
                bias_of[:] = [(3 * count - total) / (total + 10) for count in counts]
    return {label: hypothesis for label, (_, hypothesis, _) in best.items()}


def _features(premise: set[str], hypothesis: set[str]) -> set[str]:
    """Return what a bag of words sees of the pair, except for the premise alone."""
    sets = {"+": hypothesis - premise, "-": premise - hypothesis, "=": premise & hypothesis}
    return {mark + word for mark, words in sets.items() for word in words} | hypothesis


def natural_logic_pairs(n: int, *, seed: int, split: Part = "train") -> PairDataset:
    """Generate sentence pairs labeled entailment, neutral or contradiction.

    The numbers of the labels differ by at most one. No premise of one split is a premise of another.
    The same arguments always give the same pairs.

    Args:
        n: Number of pairs.
        seed: Seed of the generator.
        split: Part of all premises to draw from: `"train"` (80%), `"validation"` or `"test"`. Defaults
            to `"train"`.

    Returns:
        A `PairDataset` with `label_names=("entailment", "neutral", "contradiction")`.

    Raises:
        InputError: If the split is unknown, or `n` is below 1.

    Example:

    >>> natural_logic_pairs(6, seed=0).label_counts()
    {'entailment': 2, 'neutral': 2, 'contradiction': 2}
    """
    if split not in _SPLITS:
        raise InputError(f"split={split!r} does not exist. Use {', '.join(_SPLITS)}.")
    if n < 1:
        raise InputError(f"n={n} is too small. Ask for at least one pair.")
    first, second, labels = _columns(n, seed, split)
    return PairDataset(first, second, labels, label_names=LABELS, name="embedded", split=split)


@lru_cache(maxsize=4)  # ten thousand pairs take 2 s
def _columns(n: int, seed: int, split: Part) -> tuple[tuple[Any, ...], ...]:
    return tuple(zip(*_generate(n, seed, split)))
