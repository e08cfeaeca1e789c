"""The embedded pairs: labels checked against explicit worlds, found from the text alone."""

import itertools
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from keras_sentmatch.data import leak_report, natural_logic_pairs
from keras_sentmatch.data.generated import COMPARATIVES, TREES
from keras_sentmatch.errors import InputError

NUMBERS = {"two": 2, "three": 3, "four": 4}
SINGULAR = {"person": "people", "man": "men", "woman": "women", "child": "children"}
SINGULAR |= {"pony": "ponies", "kid": "kids"}


def _paths(tree: dict, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """All that a thing can be: the phrases that are true of it, for each leaf and each "other"."""
    found = [above]
    for words, parts in tree.items():
        found += _paths(parts, (*above, *words.split("|")))
    return found


PATHS = {attribute: _paths(tree) for attribute, tree in TREES.items()}
ATTRIBUTE = {
    word: attribute for attribute, paths in PATHS.items() for path in paths for word in path
}


def _phrases(words: list[str]) -> tuple[str, ...]:
    """Cuts words into known phrases, longest first."""
    found = []
    while words:
        for size in (3, 2, 1):
            if " ".join(words[:size]) in ATTRIBUTE:
                found.append(" ".join(words[:size]))
                words = words[size:]
                break
        else:
            raise AssertionError(f"unknown words {words}")
    return tuple(found)


SENTENCE = re.compile(
    "(at least|more than|exactly|fewer than|at most|not all|all|every|some|no|most) "
    "(?:(two|three|four) )?(.*) (?:are|is) (not )?(.*)"
)


def _parse(text: str):
    """(test of x and y, phrases of the subject, negated, phrases of the predicate)."""
    quantifier, number, subject, negated, predicate = SENTENCE.fullmatch(text).groups()
    rest, n = subject.split(), NUMBERS.get(number, 0)
    if quantifier == "every":
        rest[-1] = SINGULAR.get(rest[-1], rest[-1] + "s")
    truth = {
        "all": lambda x, y: (y == 0) & (x > 0),
        "every": lambda x, y: (y == 0) & (x > 0),
        "some": lambda x, y: x >= 1,
        "no": lambda x, y: x == 0,
        "not all": lambda x, y: y >= 1,
        "most": lambda x, y: x > y,
        "at least": lambda x, y: x >= n,
        "more than": lambda x, y: x >= n + 1,
        "exactly": lambda x, y: x == n,
        "fewer than": lambda x, y: x <= n - 1,
        "at most": lambda x, y: x <= n,
    }[quantifier]
    return truth, _phrases(rest), bool(negated), _phrases(predicate.split())


def _worlds_of(first: str, second: str, rng: np.random.Generator, worlds: int = 4000):
    """Truth of both sentences in random worlds of up to 14 individuals."""
    sentences = [_parse(first), _parse(second)]
    attributes = sorted({ATTRIBUTE[p] for _, a, _, b in sentences for p in (*a, *b)})
    pool = {}  # one individual of each sort that the sentences can tell apart
    spoken = {p for _, a, _, b in sentences for p in (*a, *b)}
    paths = [{tuple(p for p in path if p in spoken) for path in PATHS[a]} for a in attributes]
    for individual in itertools.product(*paths):
        true = set(itertools.chain(*individual))
        key = []
        for _, subject, negated, predicate in sentences:
            key += [set(subject) <= true, (set(predicate) <= true) != negated]
        pool[tuple(key)] = individual
    sorts = np.array(list(pool), int)
    sorts = sorts[sorts[:, 0] + sorts[:, 2] > 0]
    share = rng.dirichlet(np.full(len(sorts), 0.3), worlds)
    counts = rng.multinomial(rng.integers(1, 15, worlds), share)
    truth = []
    for i, (holds, *_) in enumerate(sentences):
        a, b = sorts[:, 2 * i], sorts[:, 2 * i + 1]
        x, y = counts @ (a * b), counts @ (a * (1 - b))
        truth.append((holds(x, y), x + y > 0))
    (p, p_there), (h, h_there) = truth
    spoken_of = p_there & h_there
    return p[spoken_of], h[spoken_of]


RELATION = re.compile(
    r"the (\w+) is (not )?"
    r"(?:(\w+) than the (\w+)|being (\w+) by the (\w+)(?: (.*))?|(\w+) the (\w+)(?: (.*))?)"
)
KIND = {form: kind for words, kind in ATTRIBUTE.items() for form in words.split("/")}


def _relation(text: str):
    """((one, other), kind, test of the world) where the test takes what one does to the other."""
    found = RELATION.fullmatch(text).groups()
    one, negated, than, other, passive, agent, where, active, patient, active_where = found
    if than:
        which = next(i for i, pair in enumerate(COMPARATIVES) if than in pair)
        sign = 1 if than == COMPARATIVES[which][0] else -1
        if one > other:
            one, other, sign = other, one, -sign
        return (one, other), which, lambda order: (order == sign) != bool(negated)
    if passive:
        about, form = (agent, one), passive
    else:
        about, form, where = (one, patient), active, active_where
    place = set(_phrases((where or "").split()))

    def holds(world) -> bool:
        verbs, there = world
        done = any(form in verb.split("/") for verb in verbs)
        return (done and place <= set(there)) != bool(negated)

    return about, KIND[form], holds


def _relational_label(first: str, second: str) -> str:
    about1, kind1, holds1 = _relation(first)
    about2, kind2, holds2 = _relation(second)
    if (about1, kind1) != (about2, kind2):
        return "neutral"  # each may hold or not, whatever the other does
    if isinstance(kind1, int):
        worlds = [-1, 0, 1]
    else:
        worlds = list(itertools.product(PATHS[kind1], PATHS["place"]))
    hypothesis = {holds2(world) for world in worlds if holds1(world)}
    if len(hypothesis) == 2:
        return "neutral"
    return "entailment" if hypothesis == {True} else "contradiction"


@pytest.fixture(scope="module")
def pairs():
    return natural_logic_pairs(900, seed=5)


def test_labels_hold_in_explicit_worlds(pairs):
    rng = np.random.default_rng(0)
    checked = unseen = 0
    for first, second, label in zip(pairs.sentence1, pairs.sentence2, pairs.labels):
        if first.startswith("the ") or checked == 150:
            continue
        checked += 1
        premise, hypothesis = _worlds_of(first, second, rng)
        assert premise.any(), first
        true, false = (premise & hypothesis).any(), (premise & ~hypothesis).any()
        if label == 0:
            assert not false, (first, second)
        elif label == 2:
            assert not true, (first, second)
        else:
            unseen += not (true and false)  # random worlds may miss a rare witness
    assert checked == 150 and unseen <= 2


def test_relational_labels_hold_in_all_worlds(pairs):
    checked = 0
    for first, second, label in zip(pairs.sentence1, pairs.sentence2, pairs.labels):
        if first.startswith("the "):
            checked += 1
            assert _relational_label(first, second) == pairs.label_names[label], (first, second)
    assert checked > 150


@pytest.mark.parametrize(
    "premise, hypothesis, label",
    [
        ("all dogs are running", "all poodles are running", 0),
        ("all poodles are running", "all dogs are running", 1),
        ("some poodles are running", "some dogs are moving", 0),
        ("no dogs are moving", "no poodles are running", 0),
        ("no poodles are running", "no dogs are moving", 1),
        ("no dogs are running", "every dog is moving", 1),
        ("some dogs are running", "no animals are moving", 2),
        ("exactly two dogs are running", "at least three dogs are running", 2),
        ("more than two dogs are running", "at least three dogs are running", 0),
        ("at least three dogs are running", "more than two dogs are running", 0),
        ("some big dogs are happy", "some happy dogs are big", 0),
        ("all big dogs are happy", "all happy dogs are big", 1),
        ("most dogs are running", "most dogs are sleeping", 2),
        ("most dogs are running", "some dogs are running", 0),
        ("the nurse is chasing the judge", "the judge is being followed by the nurse", 0),
        ("the nurse is chasing the judge", "the judge is chasing the nurse", 1),
        ("the nurse is taller than the judge", "the judge is taller than the nurse", 2),
        ("the nurse is taller than the judge", "the judge is shorter than the nurse", 0),
    ],
)
def test_the_checker_itself_reads_these_as_people_do(premise, hypothesis, label):
    if premise.startswith("the "):
        found = ("entailment", "neutral", "contradiction").index(
            _relational_label(premise, hypothesis)
        )
    else:
        p, h = _worlds_of(premise, hypothesis, np.random.default_rng(0))
        true, false = (p & h).any(), (p & ~h).any()
        found = 1 if true and false else 0 if true else 2
    assert found == label


def test_balanced_disjoint_repeatable_and_quick():
    began = time.process_time()
    train = natural_logic_pairs(2000, seed=0)
    assert time.process_time() - began < 4
    assert train.label_names == ("entailment", "neutral", "contradiction")
    counts = sorted(train.label_counts().values())
    assert len(train) == 2000 and counts[-1] - counts[0] <= 1
    assert len(set(zip(train.sentence1, train.sentence2))) == 2000
    for split in ("validation", "test"):
        other = natural_logic_pairs(400, seed=0, split=split)
        assert leak_report(train, other)["shared_pairs"] == 0
        assert not set(train.sentence1) & set(other.sentence1)
        assert {w for s in other.sentence1 + other.sentence2 for w in s.split()} <= {
            w for s in train.sentence1 + train.sentence2 for w in s.split()
        }
    assert train.fingerprint() == natural_logic_pairs(2000, seed=0).fingerprint()
    assert train.fingerprint() != natural_logic_pairs(2000, seed=1).fingerprint()
    assert max(len(s.split()) for s in train.sentence1 + train.sentence2) <= 14


def test_the_same_in_every_process():
    code = "from keras_sentmatch.data import natural_logic_pairs as pairs\n"
    code += "print(pairs(900, seed=0).fingerprint())"
    here = natural_logic_pairs(900, seed=0).fingerprint()
    for seed in "12":  # of the hashes of strings, by which sets are ordered
        command, environment = [sys.executable, "-c", code], os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == here


def test_words_alone_do_not_tell():
    sklearn = pytest.importorskip("sklearn.feature_extraction")
    linear = pytest.importorskip("sklearn.linear_model")
    train = natural_logic_pairs(3000, seed=0)
    test = natural_logic_pairs(900, seed=0, split="test")

    def bags(data, hypothesis_only):
        for a, b in zip(data.sentence1, data.sentence2):
            a, b = set(a.split()), set(b.split())
            bag = {f"2{w}": 1 for w in b}
            if not hypothesis_only:
                bag |= {f"1{w}": 1 for w in a} | {f"={w}": 1 for w in a & b}
                bag |= {f"+{w}": 1 for w in b - a} | {f"-{w}": 1 for w in a - b}
            yield bag

    scores = []
    for hypothesis_only in (False, True):
        vectorizer = sklearn.DictVectorizer()
        x = vectorizer.fit_transform(bags(train, hypothesis_only))
        model = linear.LogisticRegression(C=0.1, max_iter=500).fit(x, train.labels)
        x = vectorizer.transform(bags(test, hypothesis_only))
        scores.append(model.score(x, test.labels))
    assert 0.4 < scores[0] < 0.62
    assert scores[1] < 0.48


def test_bad_arguments():
    for options, message in (({"n": 3, "split": "dev"}, "split='dev'"), ({"n": 0}, "n=0")):
        with pytest.raises(InputError, match=message):
            natural_logic_pairs(seed=0, **options)
