"""The ten transformations of the DABERT paper (its Table 3), as seeded functions over pairs.

They are named after those of TextFlint, which the paper used; the rules here are this library's own.
"""

import difflib
import functools
import hashlib
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.robustness import phrases
from keras_sentmatch.robustness.lexicon import Lexicon
from keras_sentmatch.robustness.names import KIND_OF, KINDS, MONTHS
from keras_sentmatch.robustness.words import (
    FUNCTION_WORDS,
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

Translate = Callable[[list[str]], Sequence[str]]
Pair = tuple[str, str]

# Label names with which the first label no longer holds -> the label that holds then.
OPPOSITES = (
    (("entailment", "neutral", "contradiction"), ("entailment", "contradiction")),
    (("entailment", "not_entailment"), ("entailment", "not_entailment")),
    (("entailment", "neutral"), ("entailment", "neutral")),
    (("not_paraphrase", "paraphrase"), ("paraphrase", "not_paraphrase")),
    (("not_duplicate", "duplicate"), ("duplicate", "not_duplicate")),
)


@dataclass(frozen=True)
class _Situation:
    """What a rule may look at besides the pair."""

    task: str
    lexicon: Lexicon | None
    translations: dict[str, str]


Rule = Callable[[str, str, random.Random, _Situation], Pair | None]


@dataclass(frozen=True)
class Transformation:
    """One of `TRANSFORMATIONS`.

    Attributes:
        name: As in the paper.
        what: What it does to a pair.
        keeps_label: Whether the changed pair has the old label. Else it holds for pairs of the
            positive label only (entailment, paraphrase, duplicate), which become negative.
        needs: What must be given: `"antonyms"` or `"synonyms"` (of a lexicon), `"translate"`, or "".
        rule: Gives the changed pair, or `None` where the rule does not hold.
    """

    name: str
    what: str
    keeps_label: bool
    needs: str
    rule: Rule = field(repr=False)


@dataclass(frozen=True)
class Transformed:
    """What a transformation made of a data set.

    Attributes:
        name: Of the transformation.
        before: The pairs that it could change, as they were.
        after: The same pairs changed, with the labels that they have now.
        rows: Their row numbers in the data set.
        total: Pairs of the data set.
    """

    name: str
    before: PairDataset
    after: PairDataset
    rows: np.ndarray
    total: int

    @property
    def count(self) -> int:
        """How many pairs could be changed."""
        return len(self.rows)


def transform(
    dataset: PairDataset,
    name: str,
    *,
    seed: int = 0,
    lexicon: Lexicon | None = None,
    translate: Translate | None = None,
    opposite: tuple[str, str] | None = None,
) -> Transformed:
    """Changes every pair of a data set that a transformation can change.

    What becomes of a pair depends on the seed and on the pair alone, not on the others or their
    order. What is not changed keeps its characters and its spacing.

    Args:
        dataset: Pairs. `SwapAnt` and `NumWord` need labels.
        name: A name of `TRANSFORMATIONS`, in any case.
        seed: Of all that is drawn.
        lexicon: For `SwapAnt` (antonyms) and `SwapSyn` (synonyms).
        translate: For `BackTrans`: a function from sentences to as many sentences, there and back.
        opposite: `(positive, negative)` label names for `SwapAnt` and `NumWord`, where the label
            names are not among the usual ones.

    Raises:
        InputError: An unknown name, no lexicon or no `translate` where one is needed, or labels that
            say nothing about meaning.

    Example:

    >>> from keras_sentmatch.data import PairDataset
    >>> from keras_sentmatch.robustness import transform
    >>> pairs = PairDataset(
    ...     ["Two dogs run.", "It rains."],
    ...     ["Two dogs are running.", "The sky is wet."],
    ...     ["entailment", "neutral"],
    ...     label_names=["entailment", "neutral", "contradiction"],
    ... )
    >>> changed = transform(pairs, "NumWord", seed=1)
    >>> changed.count, changed.after.sentence2, changed.after.label_counts()["contradiction"]
    (1, ('Four dogs are running.',), 1)
    """
    known = get_transformation(name)
    check_needs(known, lexicon, translate)
    negative = -1
    candidates = np.arange(len(dataset))
    if not known.keeps_label:
        positive, negative = _opposite_labels(dataset, known.name, opposite)
        assert dataset.labels is not None
        candidates = np.flatnonzero(dataset.labels == positive)
    translations = {}
    if known.needs == "translate":
        assert translate is not None
        translations = _translations([dataset.sentence2[row] for row in candidates], translate)
    situation = _Situation(dataset.task, lexicon, translations)
    rows, first, second = [], [], []
    for row in candidates:
        pair = dataset.sentence1[row], dataset.sentence2[row]
        changed = known.rule(*pair, _random(seed, known.name, pair), situation)
        if changed is not None and changed != pair:
            rows.append(int(row))
            first.append(changed[0])
            second.append(changed[1])
    before = dataset.select(rows)
    after = before.to_dict() | {"sentence1": first, "sentence2": second}
    if not known.keeps_label:
        after["labels"] = np.full(len(rows), negative, "int32")
    return Transformed(
        known.name, before, PairDataset.from_dict(after), np.array(rows, int), len(dataset)
    )


def get_transformation(name: str) -> Transformation:
    """The transformation of a name, whatever its case."""
    by_lower = {known.lower(): known for known in TRANSFORMATIONS}
    if name.lower() not in by_lower:
        near = difflib.get_close_matches(name.lower(), by_lower, n=1)
        hint = f" Did you mean {by_lower[near[0]]}?" if near else ""
        raise InputError(
            f"There is no transformation {name!r}; there are {', '.join(TRANSFORMATIONS)}.{hint}"
        )
    return TRANSFORMATIONS[by_lower[name.lower()]]


def check_needs(
    known: Transformation, lexicon: Lexicon | None, translate: Translate | None
) -> None:
    """Refuses a transformation without the lexicon or the function that it needs."""
    if known.needs == "translate" and translate is None:
        raise InputError(
            "BackTrans needs a function that translates sentences there and back: pass translate=, "
            "a function from a list of strings to a list of strings."
        )
    if known.needs in ("antonyms", "synonyms") and (
        lexicon is None or known.needs not in lexicon.kinds
    ):
        came = "no lexicon came" if lexicon is None else f"the lexicon has no {known.needs}"
        raise InputError(
            f"{known.name} needs {known.needs}, but {came}: pass Lexicon.read({known.needs!r} + '=FILE') "
            "with two words a line, or Lexicon.wordnet() where NLTK is installed."
        )


def _opposite_labels(
    dataset: PairDataset, name: str, given: tuple[str, str] | None
) -> tuple[int, int]:
    """The index of the label that a pair must have, and of the one that it gets."""
    names = dataset.label_names or ()
    if dataset.labels is None or dataset.task != "classification":
        what = "no labels" if dataset.labels is None else f"{dataset.task} pairs"
        raise InputError(
            f"{name} turns one class into another, but {what} came: it needs pairs labelled with "
            "classes, such as entailment or paraphrase."
        )
    usual = dict((frozenset(known), found) for known, found in OPPOSITES)
    found = given or usual.get(frozenset(names))
    if found is None:
        raise InputError(
            f"{name} makes a positive pair negative, but which of the labels {', '.join(names)} is "
            "which? Pass opposite=(POSITIVE, NEGATIVE)."
        )
    if unknown := [label for label in found if label not in names]:
        raise InputError(
            f"opposite={found!r}: there is no label {unknown[0]!r}; the labels are {', '.join(names)}."
        )
    return names.index(found[0]), names.index(found[1])


def _random(seed: int, name: str, pair: Pair) -> random.Random:
    key = "\0".join((str(seed), name, *pair)).encode("utf-8", "surrogatepass")
    return random.Random(hashlib.sha256(key).digest())


def _translations(sentences: Sequence[str], translate: Translate) -> dict[str, str]:
    """Sentence -> translation there and back; each sentence is translated once."""
    asked = list(dict.fromkeys(sentence for sentence in sentences if sentence.strip()))
    answers = list(translate(asked)) if asked else []
    if len(answers) != len(asked) or not all(isinstance(text, str) for text in answers):
        raise InputError(
            f"translate was given {len(asked)} sentences and gave {len(answers)} answers; expected "
            "one string for each."
        )
    return dict(zip(asked, answers))


# --- those that make a positive pair negative ---


def _swap_ant(one: str, two: str, rng: random.Random, situation: _Situation) -> Pair | None:
    """A word that stands in both sentences becomes its antonym in the second.

    Not under a negation, in a choice (`or`) or in a condition, and not where an antonym stands in the
    pair already: there the meaning need not turn.
    """
    assert situation.lexicon is not None
    shared = lower_words(one) & lower_words(two)
    every = lower_words(one) | lower_words(two)
    if is_negated(one) or is_negated(two) or every & phrases.NO_OPPOSITE or _one_asks(one, two):
        return None
    choices = []
    for word in _replaceable(two):
        if word.lower not in shared or word.lower in phrases.NEVER_OPPOSED:
            continue
        others = situation.lexicon.antonyms(word.lower)
        fitting = [other for other in others if _fits(word.lower, other)]
        if fitting and not every & set(others):
            choices.append((word, fitting))
    if not choices:
        return None
    word, fitting = rng.choice(choices)
    return one, apply(two, replace(two, word, rng.choice(fitting)))


def _num_word(one: str, two: str, rng: random.Random, situation: _Situation) -> Pair | None:
    """A number that stands in both sentences becomes a greater one in the second.

    Greater, as `three dogs run` may be said to entail `two dogs run`. Not after `at least` and its
    like, and not under a negation.
    """
    if is_negated(one) or is_negated(two) or _one_asks(one, two):
        return None
    shared = lower_words(one) & lower_words(two)
    present = lower_words(one) | lower_words(two)
    found = words(two)
    choices = []
    for place, word in enumerate(found):
        bounded = any(near.lower in phrases.BOUNDS for near in found[max(0, place - 3) : place])
        if word.lower in shared and not bounded and stands_alone(two, word):
            near = {other.text for other in found[max(0, place - 1) : place + 2]}
            most = 28 if near & MONTHS else None  # a day of a month
            greater = [number for number in _greater(word.lower, most) if number not in present]
            if greater:
                choices.append((word, greater))
    if not choices:
        return None
    word, greater = rng.choice(choices)
    return one, apply(two, replace(two, word, rng.choice(greater)))


def _greater(number: str, most: int | None = None) -> list[str]:
    """Greater numbers, written in the same way: words for words, digits for digits."""
    if number in phrases.NUMBERS:
        place = phrases.NUMBERS.index(number)
        return list(phrases.NUMBERS[place + 1 : place + 9])
    if not re.fullmatch("[1-9][0-9]{0,8}", number):
        return []
    zeros = len(number) - len(number.rstrip("0"))
    if re.fullmatch("(19|20)[0-9]{2}", number) and zeros < 2:  # a year
        return [str(int(number) + years) for years in range(1, 13)]
    greater = [int(number) + 10**zeros * more for more in range(1, 10)]
    return [str(value) for value in greater if most is None or value <= most]


# --- those that keep the label ---


def _add_sent(one: str, two: str, rng: random.Random, situation: _Situation) -> Pair | None:
    """The second sentence gets something that is always true."""
    if not two.strip():
        return None
    addition = rng.choice(phrases.TAUTOLOGIES)
    body, space = _body_and_space(two)
    if body[-1] in ".?!…":
        addition = addition[0].upper() + addition[1:] + "."
    else:
        addition = "and " + addition
    return one, f"{body} {in_style_of(two, addition)}{space}"


def _insert_adv(one: str, two: str, rng: random.Random, situation: _Situation) -> Pair | None:
    """The first sentence gets an adverb that adds no condition, beside its verb."""
    place = _adverb_place(one)
    if place is None:
        return None
    known = phrases.ADVERBS_OF_QUESTIONS if _asks(one) else phrases.ADVERBS
    adverbs = [adverb for adverb in known if adverb not in lower_words(one)]
    if not adverbs:
        return None
    adverb = rng.choice(adverbs)
    return one[:place] + f" {adverb}" + one[place:], two


def _asks(text: str) -> bool:
    found = words(text)
    start = bool(found) and found[0].lower in phrases.QUESTION_WORDS
    return start or text.rstrip().endswith("?")


def _adverb_place(text: str) -> int | None:
    """Where an adverb may stand: after `is` or `can`, in a question after its pronoun."""
    found = words(text)
    asks = _asks(text)
    for place, word in enumerate(found[:-1]):
        then = found[place + 1]
        apart = text[word.end : then.start].strip() or (place and found[place - 1].lower == "to")
        if word.lower not in phrases.AUXILIARIES or apart or then.lower in phrases.NO_ADVERB_BEFORE:
            continue
        if not asks:
            past = form(then.lower) == "ed"
            if word.lower in phrases.BE | phrases.MODALS or (word.lower in phrases.HAVE and past):
                return word.end
            continue
        before = found[place - 1].lower if place else ""
        if before in phrases.SUBJECT_QUESTIONS and word.lower in phrases.BE:
            if then.lower in phrases.DETERMINERS:
                return word.end
        elif before in ("i", "you", "we", "they", "he", "she", "it", "there"):
            return word.end
        if then.lower in phrases.SUBJECTS and place + 2 < len(found):
            after = found[place + 2]
            together = not text[then.end : after.start].strip()
            if together and after.lower not in phrases.NO_ADVERB_BEFORE:
                return then.end
        return None
    return None


def _append_irr(one: str, two: str, rng: random.Random, situation: _Situation) -> Pair | None:
    """The first sentence (in ranking the second, the candidate) gets a neighbour about something else."""
    target = two if situation.task == "ranking" else one
    if not target.strip():
        return None
    present = lower_words(one) | lower_words(two)
    choices = [s for s in phrases.IRRELEVANT if not (lower_words(s) - FUNCTION_WORDS) & present]
    if not choices:
        return None
    addition = in_style_of(target, rng.choice(choices))
    body, space = _body_and_space(target)
    if rng.random() < 0.5:
        start = len(target) - len(target.lstrip())
        changed = f"{target[:start]}{addition} {target[start:]}"
    else:
        stop = "" if body[-1] in ".?!…" else "."
        changed = f"{body}{stop} {addition}{space}"
    return (one, changed) if situation.task == "ranking" else (changed, two)


def _add_punc(one: str, two: str, rng: random.Random, situation: _Situation) -> Pair | None:
    """The second sentence gets marks around it."""
    if not two.strip():
        return None
    opening, closing = rng.choice(phrases.BRACKETS)
    mark = rng.choice(phrases.MARKS)
    body, space = _body_and_space(two)
    start = len(two) - len(two.lstrip())
    return one, f"{two[:start]}{opening}{body[start:]}{mark}{closing}{space}"


def _back_trans(one: str, two: str, rng: random.Random, situation: _Situation) -> Pair | None:
    """The second sentence is translated there and back."""
    new = situation.translations.get(two, "")
    same = new.split() == two.split()
    return None if same or not new.strip() else (one, new)


def _twitter_type(one: str, two: str, rng: random.Random, situation: _Situation) -> Pair | None:
    """The second sentence is written as in a tweet: short forms, and a name, a tag or a link."""
    if not two.strip():
        return None

    def short(match: re.Match[str]) -> str:
        new = phrases.TWITTER[" ".join(match.group().lower().split())]
        return new[0].upper() + new[1:] if match.group()[0].isupper() else new

    start, body = len(two) - len(two.lstrip()), two.strip()
    changed = _twitter_pattern().sub(short, body)
    letters = "".join(rng.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(8))
    extra = rng.choice(("@" + letters, "#" + rng.choice(phrases.TAGS), "https://t.co/" + letters))
    before = extra.startswith("@") and rng.random() < 0.5
    changed = f"{extra} {changed}" if before else f"{changed} {extra}"
    return one, two[:start] + changed + two[start + len(body) :]


@functools.cache
def _twitter_pattern() -> re.Pattern[str]:
    """Whole words; the longest first; not beside an apostrophe or a hyphen."""
    longest = sorted(phrases.TWITTER, key=len, reverse=True)
    either = "|".join(re.escape(phrase).replace(r"\ ", r"\s+") for phrase in longest)
    return re.compile(rf"(?<![\w'’@#/.-])(?:{either})(?![\w'’@/-])", re.IGNORECASE)


def _swap_named_ent(one: str, two: str, rng: random.Random, situation: _Situation) -> Pair | None:
    """A name that stands in both sentences becomes another of its kind, the same one in both."""
    first, second = _names(one), _names(two)
    kinds = {KIND_OF[name] for name in (*first, *second)}
    if {"city", "country"} <= kinds:  # the one may lie in the other
        return None
    near = {
        word.text[:3] for text in (one, two) for word in words(text) if word.text not in KIND_OF
    }
    near |= {"Fra"} if {"Fre"} <= near else set()
    shared = [name for name in sorted(set(first) & set(second)) if name[:3] not in near]
    if not shared:
        return None
    old = rng.choice(shared)
    taken = set(first) | set(second)
    new = rng.choice([name for name in KINDS[KIND_OF[old]] if name not in taken])

    def swapped(text: str, places: list[Word]) -> str:
        return apply(text, [edit for word in places for edit in replace(text, word, new)])

    return swapped(one, first[old]), swapped(two, second[old])


@functools.cache
def _name_pattern() -> re.Pattern[str]:
    longest = sorted((name for names in KINDS.values() for name in names), key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest))})(?!\w)")


def _names(text: str) -> dict[str, list[Word]]:
    """Names that `KINDS` has and where they stand; not parts of longer ones (`Bank of India`)."""
    found: dict[str, list[Word]] = {}
    part = set()
    for match in _name_pattern().finditer(text):
        word = Word(match.group(), match.start(), match.end())
        before, after = words(text[: word.start]), words(text[word.end :])
        near = text[before[-1].end : word.start] if before else ""
        far = text[word.end : word.end + after[0].start] if after else ""
        of = (
            before and before[-1].lower == "of" and len(before) > 1 and before[-2].text[0].isupper()
        )
        capital = before and len(before) > 1 and before[-1].text[0].isupper() and near.isspace()
        follows = after and after[0].text[0].isupper() and far.isspace()
        if of or capital or follows or near.endswith("-") or far.startswith("-"):
            part.add(word.text)
        found.setdefault(word.text, []).append(word)
    return {name: places for name, places in found.items() if name not in part}


def _swap_syn(one: str, two: str, rng: random.Random, situation: _Situation) -> Pair | None:
    """Up to a fifth of the second sentence's words, at least one, become synonyms."""
    assert situation.lexicon is not None
    present = lower_words(one) | lower_words(two)
    choices = []
    for word in _replaceable(two):
        if word.lower in phrases.NEVER_RENAMED:
            continue
        others = [
            other
            for other in situation.lexicon.synonyms(word.lower)
            if _fits(word.lower, other) and other not in present and not _kindred(word.lower, other)
        ]
        if "antonyms" in situation.lexicon.kinds:
            opposed = set(situation.lexicon.antonyms(word.lower))
            others = [other for other in others if other not in opposed]
        if others:
            choices.append((word, others))
    if not choices:
        return None
    wanted = max(1, len(words(two)) // 5)
    chosen = rng.sample(choices, min(wanted, len(choices)))
    edits = [edit for word, others in chosen for edit in replace(two, word, rng.choice(others))]
    return one, apply(two, edits)


def _kindred(one: str, other: str) -> bool:
    """Whether a word is another with an ending: `north`, `northern`."""
    short, long = sorted((one, other), key=len)
    return long.startswith(short)


def _replaceable(text: str) -> list[Word]:
    """The words that carry meaning alone: no function words, numbers or names, no `give` in `give up`."""
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
        and word.lower not in phrases.NUMBERS
        and (place in sentence_starts or word.text.islower())
        and stands_alone(text, word)
        and (place + 1 == len(found) or found[place + 1].lower not in phrases.PARTICLES)
    ]


def _fits(word: str, other: str) -> bool:
    """Whether `other` can stand where `word` stands."""
    unfit = other in FUNCTION_WORDS or other in phrases.NUMBERS or other in phrases.UNWANTED
    return other.isalpha() and not unfit and other != word and form(other) == form(word)


def _one_asks(one: str, two: str) -> bool:
    """Whether one sentence is a question and the other is not: then neither can contradict."""
    return one.rstrip().endswith("?") != two.rstrip().endswith("?")


def _body_and_space(text: str) -> tuple[str, str]:
    body = text.rstrip()
    return body, text[len(body) :]


TRANSFORMATIONS: dict[str, Transformation] = {
    known.name: known
    for known in (
        Transformation(
            "SwapAnt", "a word of both sentences becomes its antonym in the second", False,
            "antonyms", _swap_ant,
        ),
        Transformation(
            "NumWord", "a number of both sentences becomes a greater one in the second", False, "",
            _num_word,
        ),
        Transformation(
            "AddSent", "a tautology after the second sentence", True, "", _add_sent
        ),
        Transformation(
            "InsertAdv", "an adverb beside the verb of the first sentence", True, "", _insert_adv
        ),
        Transformation(
            "AppendIrr", "an irrelevant sentence before or after the first", True, "", _append_irr
        ),
        Transformation("AddPunc", "marks around the second sentence", True, "", _add_punc),
        Transformation(
            "BackTrans", "the second sentence translated there and back", True, "translate",
            _back_trans,
        ),
        Transformation(
            "TwitterType", "the second sentence as in a tweet", True, "", _twitter_type
        ),
        Transformation(
            "SwapNamedEnt", "a name of both sentences becomes another one in both", True, "",
            _swap_named_ent,
        ),
        Transformation(
            "SwapSyn", "words of the second sentence become synonyms", True, "synonyms", _swap_syn
        ),
    )
}  # fmt: skip
