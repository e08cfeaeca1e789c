"""Linguistic categories of pairs: those of the DRCN paper's Table 7, by rules about words.

The paper counts annotated pairs of MultiNLI. These rules are used if a pair has no annotations. They
are rough, and a pair may fall into several categories or none. Only annotations name paraphrases.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.text.tokens import read_list
from keras_sentmatch.transformations import Lexicon
from keras_sentmatch.transformations.english import (
    MONTHS,
    NUMBERS,
    form,
    is_negated,
    lower_words,
    words,
)

LONG = (30, 16)  # words of the first and of the second sentence above which it is long
OVERLAP = 0.7
CONDITIONS = frozenset("if unless whether provided otherwise".split())
QUANTIFIERS = frozenset(
    "much enough more most less least no none some any all every each many few several almost nearly both half "
    "either neither only".split()
)
MODALS = frozenset("can could may might must will would shall should ought cannot".split())
BELIEFS = (
    "know believe understand doubt think suppose recognize recognise forget remember imagine mean agree disagree "
    "deny promise consider expect guess hope feel seem"
).split()
_IRREGULAR = "knew known understood thought forgot forgotten meant felt denied denies".split()
BELIEF_FORMS = frozenset(
    [word + ending for word in BELIEFS for ending in ("", "s", "d", "ed", "ing")] + _IRREGULAR
)
TIMES = frozenset(
    "year years month months week weeks day days hour hours minute minutes second seconds century centuries decade "
    "decades today tomorrow yesterday tonight morning evening afternoon night noon midnight ago before after later "
    "earlier since until hundred thousand million billion dozen percent once twice".split()
)
CALENDAR = frozenset(month.lower() for month in MONTHS - {"May", "March"}) | frozenset(
    "monday tuesday wednesday thursday friday saturday sunday".split()
)
PRONOUNS = frozenset("he him his she her hers it its they them their theirs".split())
BE = frozenset("is are was were be been being am".split())
PAST = frozenset("was were did had".split())
PRESENT = frozenset("is are am do does has have".split())
FUTURE = frozenset("will shall won't".split())
_STEM = 4  # letters that two forms of a verb share


Rule = Callable[[str, str, Lexicon | None], bool]


def _either(known: frozenset[str]) -> Rule:
    return lambda one, two, lexicon: bool(known & (lower_words(one) | lower_words(two)))


def _negation(one: str, two: str, lexicon: Lexicon | None) -> bool:
    return is_negated(one) or is_negated(two)


def _overlap(one: str, two: str, lexicon: Lexicon | None) -> bool:
    first, second = lower_words(one), lower_words(two)
    return len(first & second) > OVERLAP * max(len(first), len(second), 1)


def _order(one: str, two: str, lexicon: Lexicon | None) -> bool:
    first, second = ([word.lower for word in words(text)] for text in (one, two))
    return first != second and sorted(first) == sorted(second)


def _long(one: str, two: str, lexicon: Lexicon | None) -> bool:
    return len(words(one)) > LONG[0] or len(words(two)) > LONG[1]


def _antonym(one: str, two: str, lexicon: Lexicon | None) -> bool:
    second = lower_words(two)
    return lexicon is not None and any(
        second.intersection(lexicon.antonyms(word)) for word in lower_words(one)
    )


def _quantity(one: str, two: str, lexicon: Lexicon | None) -> bool:
    both = lower_words(one) | lower_words(two)
    digits = any(char.isdigit() for word in both for char in word)
    return digits or bool(both & (TIMES | CALENDAR | set(NUMBERS)))


def _tense(text: str) -> frozenset[str]:
    """Return the tenses that the words of a sentence show."""
    known = [word.lower for word in words(text)]
    found = set()
    for place, word in enumerate(known):
        before = set(known[max(0, place - 2) : place])
        if word in FUTURE or word.endswith("'ll"):
            found.add("future")
        elif word in PAST or (form(word) == "ed" and not before & (BE | {"have", "has", "'ve"})):
            found.add("past")
        elif word in PRESENT or word.endswith(("'re", "'m")):
            found.add("present")
    return frozenset(found)


def _tenses_differ(one: str, two: str, lexicon: Lexicon | None) -> bool:
    first, second = _tense(one), _tense(two)
    return bool(first and second and not first & second)


def _passives(text: str) -> set[str]:
    """Return the stems of participles after a form of `be`, with or without an adverb between."""
    known = [word.lower for word in words(text)]
    return {
        word[:_STEM]
        for place, word in enumerate(known)
        if form(word) == "ed" and BE & set(known[max(0, place - 2) : place])
    }


def _active_passive(one: str, two: str, lexicon: Lexicon | None) -> bool:
    first, second = _passives(one), _passives(two)
    if bool(first) == bool(second):
        return False
    others = {word[:_STEM] for word in lower_words(two if first else one)}
    return bool((first or second) & others)


def _coreference(one: str, two: str, lexicon: Lexicon | None) -> bool:
    return bool(PRONOUNS & lower_words(one)) != bool(PRONOUNS & lower_words(two))


# The rule of each category, in words and as a function.
CATEGORIES: dict[str, tuple[str, Rule]] = {
    "Conditional": ("if, unless, whether, … in either sentence", _either(CONDITIONS)),
    "Word overlap": (f"over {OVERLAP:.0%} of each sentence's words are in the other", _overlap),
    "Word order": ("the same words in another order", _order),
    "Negation": ("not, n't, no, never, … in either sentence", _negation),
    "Antonym": ("a word, and its antonym in the other sentence", _antonym),
    "Long sentence": (f"over {LONG[0]} words in the first or {LONG[1]} in the second", _long),
    "Tense difference": ("words show different tenses in the two sentences", _tenses_differ),
    "Active/Passive": (
        "be and a participle in one sentence, that verb without in the other", _active_passive,
    ),
    "Quantity/Time": ("a number, a date, a unit of time in either sentence", _quantity),
    "Coreference": ("he, she, it, they, … in one of the sentences only", _coreference),
    "Quantifier": ("some, all, many, most, … in either sentence", _either(QUANTIFIERS)),
    "Modal": ("can, may, must, would, … in either sentence", _either(MODALS)),
    "Belief": ("know, think, agree, … in either sentence", _either(BELIEF_FORMS)),
}  # fmt: skip


def categorize(
    dataset: PairDataset,
    lexicon: Lexicon | None = None,
    annotations: Mapping[str, frozenset[str]] | None = None,
) -> tuple[dict[str, list[int]], dict[str, str]]:
    """Return the rows of each category, in the order of the paper's table, and its rule in words.

    Args:
        dataset: Pairs.
        lexicon: Antonyms. Without them, that category is left out.
        annotations: Names of categories by id. If given, they replace the rules.

    Example:

    >>> from keras_sentmatch.data import PairDataset
    >>> rows, rules = categorize(
    ...     PairDataset(["Two dogs run.", "It is so."], ["No dog.", "It was so."])
    ... )
    >>> rows["Negation"], rows["Tense difference"]
    ([0], [1])
    """
    if annotations is not None:
        return _annotated(dataset, annotations)
    pairs = list(zip(dataset.sentence1, dataset.sentence2))
    known = dict(CATEGORIES)
    if lexicon is None or "antonyms" not in lexicon.kinds:
        del known["Antonym"]
    rows = {
        name: [row for row, pair in enumerate(pairs) if holds(*pair, lexicon)]
        for name, (_, holds) in known.items()
    }
    return rows, {name: rule for name, (rule, _) in known.items()}


def _annotated(
    dataset: PairDataset, annotations: Mapping[str, frozenset[str]]
) -> tuple[dict[str, list[int]], dict[str, str]]:
    found = [
        (row, annotations[name])
        for row, name in enumerate(dataset.ids or ())
        if name in annotations
    ]
    if not found:
        first = repr(dataset.ids[0]) if dataset.ids else "no ids"
        raise InputError(
            f"None of the {len(annotations)} annotated ids is an id of the data, which has {first}. "
            "Use the annotations of these pairs, and pairs with ids."
        )
    rows: dict[str, list[int]] = {}
    for row, categories in found:
        for category in sorted(categories):
            rows.setdefault(category, []).append(row)
    return rows, dict.fromkeys(rows, "annotated")


def read_annotations(path: str | Path) -> dict[str, frozenset[str]]:
    """Read annotated categories: each line has a pair's id, a tab, and names between tabs.

    Names may start with `#` and have `_` for spaces, in any case.
    """
    usual = {_plain(name): name for name in CATEGORIES}
    found: dict[str, frozenset[str]] = {}
    for number, line in enumerate(read_list(path), 1):
        if not line.strip():
            continue
        name, *tags = (field.strip() for field in line.split("\t"))
        tags = [tag.lstrip("#").replace("_", " ") for tag in tags if tag]
        if not tags:
            raise InputError(f"{path}:{number}: expected an id, a tab and names of categories.")
        known = {usual.get(_plain(tag), tag.capitalize()) for tag in tags}
        found[name] = found.get(name, frozenset()) | known
    if not found:
        raise InputError(f"{path} has no annotations. Expected lines with an id, a tab and names.")
    return found


def _plain(name: str) -> str:
    return "".join(char for char in name.lower() if char.isalpha())
