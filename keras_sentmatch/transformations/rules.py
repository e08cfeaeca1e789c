"""The ten transformations of the DABERT paper (Table 3) as rules that change one pair.

The names are those of TextFlint, which the paper used. The rules are this library's own. `SwapAnt` and
`NumWord` can also give pairs of the form that TextFlint gives them.
"""

import hashlib
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from keras_sentmatch.transformations import english
from keras_sentmatch.transformations.english import (
    FUNCTION_WORDS,
    KIND_OF,
    LISTS,
    MONTHS,
    NAMES,
    SETS,
    Word,
    apply,
    form,
    in_style_of,
    is_negated,
    lower_words,
    replace,
    stands_alone,
    words,
)
from keras_sentmatch.transformations.lexicon import Lexicon

Pair = tuple[str, str]

ENTRIES = ("all", "train", "held_out")  # the words, numbers and sentences that rules may write
FORMS = ("own", "textflint")
YEARS = range(1000, 2021)  # numbers that TextFlint leaves
HELD_OUT = 0.3  # share of them that training never uses


def _any_of(phrases: Iterable[str]) -> str:
    """Return a pattern of phrases, the longest first."""
    return f"(?:{'|'.join(map(re.escape, sorted(phrases, key=len, reverse=True)))})"


_SHORTENED = re.compile(  # whole words, not next to an apostrophe or a hyphen
    rf"(?<![\w'’@#/.-]){_any_of(english.TWITTER)}(?![\w'’@/-])".replace(r"\ ", r"\s+"), re.I
)
_NAME = re.compile(rf"(?<!\w){_any_of(KIND_OF)}(?!\w)")


@dataclass(frozen=True)
class Context:
    """Data that a rule may use in addition to the pair."""

    task: str
    lexicon: Lexicon | None
    translations: dict[str, str]
    entries: str = "all"
    form: str = "own"
    inference: bool = False  # whether the first sentence may entail the second

    def may(self, *entry: str) -> bool:
        """Return whether an entry (a pair of antonyms, a number, a sentence) may be used."""
        if self.entries == "all":
            return True
        text = "\0".join(sorted(entry)).encode("utf-8", "surrogatepass")
        held_out = hashlib.sha256(text).digest()[0] < HELD_OUT * 256
        return held_out == (self.entries == "held_out")


Rule = Callable[[str, str, random.Random, Context], Pair | None]


@dataclass(frozen=True)
class Transformation:
    """One of `TRANSFORMATIONS`.

    Attributes:
        name: Name in the paper.
        what: Description of the change.
        keeps_label: Whether the changed pair keeps its label. Otherwise the transformation applies only
            to pairs with the positive label (entailment, paraphrase, duplicate) and makes them negative.
        needs: `"antonyms"` or `"synonyms"` (a lexicon), `"translate"`, or "".
        rule: Function that returns the changed pair, or `None` if it does not apply.
    """

    name: str
    what: str
    keeps_label: bool
    needs: str
    rule: Rule = field(repr=False)


TRANSFORMATIONS: dict[str, Transformation] = {}


def _transformation(
    name: str, what: str, keeps_label: bool = True, needs: str = ""
) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        TRANSFORMATIONS[name] = Transformation(name, what, keeps_label, needs, rule)
        return rule

    return register


# --- Rules that make a positive pair negative ---


@_transformation(
    "SwapAnt", "a word of both sentences becomes its antonym in the second", False, "antonyms"
)
def _swap_ant(one: str, two: str, rng: random.Random, context: Context) -> Pair | None:
    """Swap an antonym, but not in a negation, a choice (`or`), a condition or next to an antonym.

    In these places the opposite word need not give the opposite meaning.
    """
    assert context.lexicon is not None
    shared, every = lower_words(one) & lower_words(two), lower_words(one) | lower_words(two)
    if _cannot_contradict(one, two) or every & SETS["NO_OPPOSITE"]:
        return None
    choices = []
    for word in _replaceable(two):
        if word.lower not in shared or word.lower in SETS["NEVER_OPPOSED"]:
            continue
        others = context.lexicon.antonyms(word.lower)
        fitting = [
            other for other in others if _fits(word.lower, other) and context.may(word.lower, other)
        ]
        if fitting and not every & set(others):
            choices.append((word, fitting))
    changed = _replace_one(one, two, choices, rng)
    if changed is not None and context.form == "textflint":
        return changed[1], two
    return changed


@_transformation("NumWord", "a number of both sentences becomes a greater one in the second", False)
def _num_word(one: str, two: str, rng: random.Random, context: Context) -> Pair | None:
    """Write a greater number, but not after `at least` or a negation.

    A smaller number would not do: `three dogs run` may entail `two dogs run`.
    """
    if context.form == "textflint":
        return _change_digits(one, two, rng, context)
    if _cannot_contradict(one, two):
        return None
    shared, every = lower_words(one) & lower_words(two), lower_words(one) | lower_words(two)
    found, choices = words(two), []
    for place, word in enumerate(found):
        bounded = any(near.lower in SETS["BOUNDS"] for near in found[max(0, place - 3) : place])
        if word.lower in shared and not bounded and stands_alone(two, word):
            near = {other.text for other in found[max(0, place - 1) : place + 2]}
            most = 28 if near & MONTHS else None  # a day of a month
            greater = [n for n in _greater(word.lower, most) if n not in every and context.may(n)]
            if greater:
                choices.append((word, greater))
    return _replace_one(one, two, choices, rng)


def _change_digits(one: str, two: str, rng: random.Random, context: Context) -> Pair | None:
    """Change the first number in digits of the second sentence, in inference of the first.

    It becomes another number of this length, or `more than` or `less than` it. The other sentence need
    not have it.
    """
    text = one if context.inference else two
    for word in words(text):
        digits = re.fullmatch("[0-9]{1,18}", word.text) and stands_alone(text, word)
        if digits and int(word.text) not in YEARS:
            first = rng.choice([digit for digit in "12345678" if digit != word.text[0]])
            bounds = [f"more than {word.text}", f"less than {word.text}"]
            new = rng.choice([first + word.text[1:], rng.choice(bounds)])
            changed = apply(text, replace(text, word, new))
            return (changed, two) if context.inference else (one, changed)
    return None


def _cannot_contradict(one: str, two: str) -> bool:
    """Return whether a sentence is negated, or only one of them is a question."""
    asks = one.rstrip().endswith("?") != two.rstrip().endswith("?")
    return is_negated(one) or is_negated(two) or asks


def _replace_one(
    one: str, two: str, choices: list[tuple[Word, list[str]]], rng: random.Random
) -> Pair | None:
    if not choices:
        return None
    word, others = rng.choice(choices)
    return one, apply(two, replace(two, word, rng.choice(others)))


def _greater(number: str, most: int | None = None) -> list[str]:
    """Return greater numbers, written in the same way (words or digits)."""
    if number in english.NUMBERS:
        place = english.NUMBERS.index(number)
        return list(english.NUMBERS[place + 1 : place + 9])
    if not re.fullmatch("[1-9][0-9]{0,8}", number):
        return []
    zeros = len(number) - len(number.rstrip("0"))
    if re.fullmatch("(19|20)[0-9]{2}", number) and zeros < 2:  # a year
        return [str(int(number) + years) for years in range(1, 13)]
    greater = [int(number) + 10**zeros * more for more in range(1, 10)]
    return [str(value) for value in greater if most is None or value <= most]


# --- Rules that keep the label ---


@_transformation("AddSent", "a tautology after the second sentence")
def _add_sent(one: str, two: str, rng: random.Random, context: Context) -> Pair | None:
    start, body, end = _strip(two)
    if not body:
        return None
    addition = rng.choice([t for t in LISTS["TAUTOLOGIES"] if context.may(t)])
    addition = f"{addition.capitalize()}." if body[-1] in ".?!…" else f"and {addition}"
    return one, f"{start}{body} {in_style_of(two, addition)}{end}"


@_transformation("InsertAdv", "an adverb next to the verb of the first sentence")
def _insert_adv(one: str, two: str, rng: random.Random, context: Context) -> Pair | None:
    place = _adverb_place(one)
    if place is None:
        return None
    known = english.ADVERBS_OF_QUESTIONS if _asks(one) else english.ADVERBS
    adverbs = [adverb for adverb in known if adverb not in lower_words(one)]
    return (f"{one[:place]} {rng.choice(adverbs)}{one[place:]}", two) if adverbs else None


def _asks(text: str) -> bool:
    starts = [word.lower in SETS["QUESTION_WORDS"] for word in words(text)[:1]]
    return any(starts) or text.rstrip().endswith("?")


def _adverb_place(text: str) -> int | None:
    """Return where an adverb may stand: after `is` or `can`, or in a question after its pronoun."""
    found = words(text)
    asks = _asks(text)
    for place, word in enumerate(found[:-1]):
        then = found[place + 1]
        apart = text[word.end : then.start].strip() or (place and found[place - 1].lower == "to")
        if word.lower not in english.AUXILIARIES or apart or then.lower in SETS["NO_ADVERB_BEFORE"]:
            continue
        if not asks:
            past = form(then.lower) == "ed"
            if word.lower in english.BE | english.MODALS or (word.lower in english.HAVE and past):
                return word.end
            continue
        before = found[place - 1].lower if place else ""
        if before in SETS["SUBJECT_QUESTIONS"] and word.lower in english.BE:
            if then.lower in SETS["DETERMINERS"]:
                return word.end
        elif before in ("i", "you", "we", "they", "he", "she", "it", "there"):
            return word.end
        if then.lower in SETS["SUBJECTS"] and place + 2 < len(found):
            after = found[place + 2]
            together = not text[then.end : after.start].strip()
            if together and after.lower not in SETS["NO_ADVERB_BEFORE"]:
                return then.end
        return None
    return None


@_transformation("AppendIrr", "an irrelevant sentence before or after the first")
def _append_irr(one: str, two: str, rng: random.Random, context: Context) -> Pair | None:
    """Add a sentence to the first sentence, or in ranking to the candidate."""
    start, body, end = _strip(two if context.task == "ranking" else one)
    present = lower_words(one) | lower_words(two)
    choices = [
        sentence
        for sentence in LISTS["IRRELEVANT"]
        if not (lower_words(sentence) - FUNCTION_WORDS) & present and context.may(sentence)
    ]
    if not body or not choices:
        return None
    addition = in_style_of(body, rng.choice(choices))
    if rng.random() < 0.5:
        changed = f"{start}{addition} {body}{end}"
    else:
        stop = "" if body[-1] in ".?!…" else "."
        changed = f"{start}{body}{stop} {addition}{end}"
    return (one, changed) if context.task == "ranking" else (changed, two)


@_transformation("AddPunc", "marks around the second sentence")
def _add_punc(one: str, two: str, rng: random.Random, context: Context) -> Pair | None:
    start, body, end = _strip(two)
    if not body:
        return None
    brackets = rng.choice(LISTS["BRACKETS"])
    return one, f"{start}{brackets[0]}{body}{rng.choice(LISTS['MARKS'])}{brackets[1]}{end}"


@_transformation("BackTrans", "the second sentence translated there and back", needs="translate")
def _back_trans(one: str, two: str, rng: random.Random, context: Context) -> Pair | None:
    new = context.translations.get(two, "")
    return (one, new) if new.strip() and new.split() != two.split() else None


@_transformation("TwitterType", "the second sentence as in a tweet")
def _twitter_type(one: str, two: str, rng: random.Random, context: Context) -> Pair | None:
    """Write short forms, and a name, a tag or a link."""

    def shorten(match: re.Match[str]) -> str:
        new = english.TWITTER[" ".join(match.group().lower().split())]
        return new[0].upper() + new[1:] if match.group()[0].isupper() else new

    start, body, end = _strip(two)
    if not body:
        return None
    body = _SHORTENED.sub(shorten, body)
    letters = "".join(rng.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(8))
    extra = rng.choice(("@" + letters, "#" + rng.choice(LISTS["TAGS"]), "https://t.co/" + letters))
    first = extra.startswith("@") and rng.random() < 0.5
    return one, start + (f"{extra} {body}" if first else f"{body} {extra}") + end


@_transformation("SwapNamedEnt", "a name of both sentences becomes another one in both")
def _swap_named_ent(one: str, two: str, rng: random.Random, context: Context) -> Pair | None:
    """Write another name of the same kind, such as a city."""
    first, second = _names(one), _names(two)
    kinds = {KIND_OF[name] for name in (*first, *second)}
    if {"city", "country"} <= kinds:  # the city may lie in the country
        return None
    near = {word.text[:3] for word in words(one) + words(two) if word.text not in KIND_OF}
    near |= {"Fra"} if "Fre" in near else set()
    shared = [name for name in sorted(set(first) & set(second)) if name[:3] not in near]
    if not shared:
        return None
    old = rng.choice(shared)
    taken = set(first) | set(second)
    new = rng.choice([name for name in NAMES[KIND_OF[old]] if name not in taken])

    def swapped(text: str, places: list[Word]) -> str:
        return apply(text, [edit for word in places for edit in replace(text, word, new)])

    return swapped(one, first[old]), swapped(two, second[old])


def _names(text: str) -> dict[str, list[Word]]:
    """Return the places of the names in `NAMES`, but not within longer names (`Bank of India`)."""
    found: dict[str, list[Word]] = {}
    part = set()
    for match in _NAME.finditer(text):
        word = Word(match.group(), match.start(), match.end())
        before, after = words(text[: word.start]), words(text[word.end :])
        near = text[before[-1].end : word.start] if before else ""
        far = text[word.end : word.end + after[0].start] if after else ""
        follows = after and after[0].text[0].isupper() and far.isspace()
        if len(before) > 1:
            of = before[-1].lower == "of" and before[-2].text[0].isupper()
            follows = follows or of or (before[-1].text[0].isupper() and near.isspace())
        if follows or near.endswith("-") or far.startswith("-"):
            part.add(word.text)
        found.setdefault(word.text, []).append(word)
    return {name: places for name, places in found.items() if name not in part}


@_transformation("SwapSyn", "words of the second sentence become synonyms", needs="synonyms")
def _swap_syn(one: str, two: str, rng: random.Random, context: Context) -> Pair | None:
    """Replace at least one word, and at most a fifth of the words."""
    assert context.lexicon is not None
    lexicon, present, choices = context.lexicon, lower_words(one) | lower_words(two), []
    for word in _replaceable(two):
        if word.lower in SETS["NEVER_RENAMED"]:
            continue
        opposed = lexicon.antonyms(word.lower) if "antonyms" in lexicon.kinds else ()
        others = [
            other
            for other in lexicon.synonyms(word.lower)
            if _fits(word.lower, other) and other not in present and other not in opposed
            and context.may(word.lower, other)
            # neither word begins with the other, as `northern` does with `north`
            and not (other.startswith(word.lower) or word.lower.startswith(other))
        ]  # fmt: skip
        if others:
            choices.append((word, others))
    if not choices:
        return None
    wanted = max(1, len(words(two)) // 5)
    chosen = rng.sample(choices, min(wanted, len(choices)))
    edits = [edit for word, others in chosen for edit in replace(two, word, rng.choice(others))]
    return one, apply(two, edits)


def _replaceable(text: str) -> list[Word]:
    """Return the content words: no function words, numbers, names, or `give` in `give up`."""
    found = words(text)
    sentence_starts = {
        place
        for place, word in enumerate(found)
        if place == 0 or re.search(r"[.?!]", text[found[place - 1].end : word.start])
    }
    return [
        word
        for place, word in enumerate(found)
        if word.lower not in FUNCTION_WORDS
        and word.text.isalpha()
        and len(word.text) > 2
        and word.lower not in english.NUMBERS
        and (place in sentence_starts or word.text.islower())
        and stands_alone(text, word)
        and (place + 1 == len(found) or found[place + 1].lower not in SETS["PARTICLES"])
    ]


def _fits(word: str, other: str) -> bool:
    """Return whether `other` can stand where `word` stands."""
    unfit = other in FUNCTION_WORDS or other in english.NUMBERS or other in SETS["UNWANTED"]
    return other.isalpha() and not unfit and other != word and form(other) == form(word)


def _strip(text: str) -> tuple[str, str, str]:
    """Split off the spaces before and after a text."""
    body = text.strip()
    start = len(text) - len(text.lstrip())
    return text[:start], body, text[start + len(body) :]
