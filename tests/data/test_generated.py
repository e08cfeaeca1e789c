"""The embedded pairs: labels as people read the sentences, balance, splits, and no tell-tale words."""

import os
import subprocess
import sys

import pytest

from keras_sentmatch.data import leak_report, natural_logic_pairs
from keras_sentmatch.data.generated import COMPARATIVES, LABELS, PHRASES, Quantified, Relational
from keras_sentmatch.errors import InputError

NUMBERS = {"two": 2, "three": 3, "four": 4}
ALL = {phrase.words: phrase for phrases in PHRASES.values() for phrase in phrases}
FORMS = {form: p for p in ALL.values() for form in p.words.split("/")}


def parsed(text: str):
    """The sentence, read from its words: "Q [N] [adjective] kind are|is [not] scope [place]", or
    "the A is [not] verb the B [place]", "the B is [not] being verb by the A", "the A is taller than the B"."""
    words = text.split()
    if words[0] != "the":
        at = next(i for i, word in enumerate(words) if word in ("are", "is"))
        count = next(i for i in (2, 1) if " ".join(words[:i]) in QUANTIFIERS)
        quantifier, rest = " ".join(words[:count]), words[count:at]
        number = NUMBERS.get(rest[0], 0)
        *adjective, kind = rest[bool(number) :]
        kind = kind if quantifier != "every" else {"man": "men"}.get(kind, f"{kind}s")
        negated = words[at + 1] == "not"
        scope, place = cut(words[at + 1 + negated :])
        first = FORMS[adjective[0]] if adjective else None
        return Quantified(quantifier, number, first, FORMS[kind], negated, scope, place)
    negated = words[3] == "not"
    one, rest = words[1], words[3 + negated :]
    if rest[1] == "than":
        which = next(i for i, pair in enumerate(COMPARATIVES) if rest[0] in pair)
        side = COMPARATIVES[which].index(rest[0])
        return Relational(one, rest[3], negated, None, False, None, (which, side))
    if passive := rest[0] == "being":
        rest = [*rest[1:2], *rest[3:]]  # without "being" and "by"
    place = cut(rest[3:])[0] if rest[3:] else None
    subject, object_ = (rest[2], one) if passive else (one, rest[2])
    return Relational(subject, object_, negated, FORMS[rest[0]], passive, place)


def cut(words: list[str]):
    """The phrase at the start, and the one after it."""
    size = next(n for n in (3, 2, 1) if " ".join(words[:n]) in FORMS)
    rest = " ".join(words[size:])
    return FORMS[" ".join(words[:size])], FORMS[rest] if rest else None


QUANTIFIERS = "all|every|some|no|not all|most|at least|more than|exactly|fewer than|at most".split(
    "|"
)


@pytest.mark.parametrize(
    "premise, hypothesis, label",
    [
        ("all dogs are running", "all poodles are running", 0),
        ("all poodles are running", "all dogs are running", 1),
        ("every man is running", "some people are moving", 0),
        ("some poodles are running", "some dogs are moving", 0),
        ("no dogs are moving", "no poodles are running", 0),
        ("no poodles are running", "no dogs are moving", 1),
        ("no dogs are running", "every dog is moving", 1),
        ("some dogs are not running", "all dogs are running", 2),
        ("not all dogs are running", "some dogs are not running", 0),
        ("some dogs are running", "no animals are moving", 2),
        ("exactly two dogs are running", "at least three dogs are running", 2),
        ("more than two dogs are running", "at least three dogs are running", 0),
        ("at least three dogs are running", "more than two dogs are running", 0),
        ("fewer than three dogs are running", "at most two dogs are running", 0),
        ("at most three dogs are running", "fewer than three dogs are running", 1),
        ("some big dogs are happy", "some happy dogs are big", 0),
        ("all big dogs are happy", "all happy dogs are big", 1),
        ("some large dogs are happy outside", "some big dogs are cheerful", 0),
        ("all big dogs are happy", "some small dogs are happy", 1),
        ("some dogs are big", "some dogs are small", 1),
        ("all dogs are big", "some dogs are small", 2),
        ("most dogs are running", "most dogs are sleeping", 2),
        ("most dogs are running", "some dogs are running", 0),
        ("all dogs are running in the park", "no dogs are running inside", 0),
        ("the nurse is chasing the judge", "the judge is being followed by the nurse", 0),
        ("the nurse is chasing the judge", "the judge is chasing the nurse", 1),
        ("the nurse is not following the judge", "the nurse is chasing the judge", 2),
        ("the nurse is chasing the judge in the park", "the nurse is chasing the judge", 0),
        ("the nurse is chasing the judge inside", "the nurse is not tracking the judge", 0),
        ("the nurse is chasing the judge", "the nurse is hugging the judge", 1),
        ("the nurse is taller than the judge", "the judge is taller than the nurse", 2),
        ("the nurse is taller than the judge", "the judge is shorter than the nurse", 0),
        ("the nurse is not taller than the judge", "the nurse is shorter than the judge", 1),
        ("the nurse is taller than the judge", "the nurse is older than the judge", 1),
    ],
)
def test_labels_are_those_of_people(premise, hypothesis, label):
    one, two = parsed(premise), parsed(hypothesis)
    assert (one.text(), two.text()) == (premise, hypothesis)
    assert one.label(two) == label


def test_balanced_disjoint_and_repeatable():
    train = natural_logic_pairs(2000, seed=0)
    counts = sorted(train.label_counts().values())
    assert train.label_names == LABELS and counts[-1] - counts[0] <= 1
    assert len(set(zip(train.sentence1, train.sentence2))) == len(train) == 2000
    words = {w for s in train.sentence1 + train.sentence2 for w in s.split()}
    for split in ("validation", "test"):
        other = natural_logic_pairs(400, seed=0, split=split)
        assert leak_report(train, other)["shared_pairs"] == 0
        assert not set(train.sentence1) & set(other.sentence1)
        assert {w for s in other.sentence1 + other.sentence2 for w in s.split()} <= words
    code = "from keras_sentmatch.data import natural_logic_pairs as pairs\n"
    code += "print(pairs(2000, seed=0).fingerprint())"
    environment = os.environ | {"PYTHONHASHSEED": "1"}  # by which sets of strings are ordered
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == train.fingerprint()
    assert train.fingerprint() != natural_logic_pairs(2000, seed=1).fingerprint()


def test_words_alone_do_not_tell():
    sklearn = pytest.importorskip("sklearn.feature_extraction")
    linear = pytest.importorskip("sklearn.linear_model")
    parts = natural_logic_pairs(2000, seed=0), natural_logic_pairs(900, seed=0, split="test")
    for both, most in ((True, 0.62), (False, 0.48)):
        bags = []
        for a, b in ((set(a.split()), set(b.split())) for d in parts for a, b in zip(*sides(d))):
            marked = {"1": a, "=": a & b, "+": b - a, "-": a - b} if both else {}
            bags.append({mark + w: 1 for mark, s in {**marked, "2": b}.items() for w in s})
        x = sklearn.DictVectorizer().fit_transform(bags)
        model = linear.LogisticRegression(C=0.1, max_iter=500).fit(x[:2000], parts[0].labels)
        assert 0.33 < model.score(x[2000:], parts[1].labels) < most


def sides(data):
    return data.sentence1, data.sentence2


def test_bad_arguments():
    for options, message in (({"n": 3, "split": "dev"}, "split='dev'"), ({"n": 0}, "n=0")):
        with pytest.raises(InputError, match=message):
            natural_logic_pairs(seed=0, **options)
