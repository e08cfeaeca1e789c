"""Calls that inference refuses, and words that their messages must contain."""

import pytest

from keras_sentmatch import Matcher
from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference import BatchScorer
from keras_sentmatch.inference.ensemble import EnsembleMatcher, load_run
from tests.inference.test_matcher import NAMES, make_encoder, make_model

TEXTS = ["a dog runs", "two cats"]
TASK, SCORE = {"task": "classification"}, {"task": "regression"}


class Many:
    """Matchers of three classes, of two, and of scores."""

    def __init__(self):
        self.encoder = make_encoder()
        three, two, one = (make_model(self.encoder, n) for n in (3, 2, 1))
        self.three = Matcher(three, self.encoder, NAMES, **TASK)
        self.two = Matcher(two, self.encoder, ("no", "yes"), **TASK)
        self.one = Matcher(one, self.encoder, None, **SCORE)
        self.both = EnsembleMatcher([self.two])

    def make(self, names=NAMES, encoder=None, task="classification", **options):
        return Matcher(self.three.model, encoder or self.encoder, names, task=task, **options)


@pytest.fixture(scope="module")
def m():
    return Many()


PAIRS = [
    ({"pairs": ("a dog", "a cat")}, "two ways.*sentence1=a, sentence2=b.*sentence1=.a, …."),
    ({"pairs": ["a dog", "a cat"]}, "read in two ways"),
    ({"pairs": [("a dog", None)]}, r"Pair 0 is \('a dog', None\). Expected two strings"),
    ({"pairs": [["a dog", "a cat"], ["two", "cats"]]}, "read in two ways"),
    ({"pairs": [("a dog", "a cat", "yes")]}, "read in two ways"),
    ({"pairs": "a dog"}, "not a pair"),
    ({"pairs": [1]}, "Pair 0 is a int. Expected a dict"),
    ({"pairs": [("a", "b"), {"sentence1": "a"}]}, "Pair 1 has the keys sentence1"),
    ({"pairs": [{"sentence1": "a", "sentence2": None}]}, r"sentence2\[0\] is None"),
    ({"pairs": {"sentence1": "a"}}, "Expected 'sentence1' and 'sentence2'"),
    ({"sentence1": "a"}, "sentence1 or sentence2 is missing"),
    ({}, "sentence1 or sentence2 is missing"),
    ({"sentence1": "a", "sentence2": ["b"]}, "two strings, or two lists"),
    ({"sentence1": "a", "sentence2": 3}, "two strings, or two lists"),
    ({"sentence1": ["a"], "sentence2": ["b", "c"]}, "columns of equal length"),
    ({"sentence1": ["a", None], "sentence2": ["b", "c"]}, r"sentence1\[1\] is None"),
    ({"pairs": [{"sentence1": "a", "sentence2": "b"}], "sentence1": "a"}, "Pass one of them"),
    *(
        ({"sentence1": "a", "sentence2": "b", "batch_size": size}, f"batch_size={size!r}")
        for size in (0, 1.5, True, "8")
    ),
]
CALLS = [
    (lambda m: m.two.rank(["q"], TEXTS), "Expected one string"),
    (lambda m: m.two.rank("q", "one"), "Expected a list of strings"),
    (lambda m: m.two.rank("q", TEXTS, top_k=0), "top_k=0 .*Expected an integer"),
    (lambda m: m.two.rank("q", TEXTS, top_k=1.5), "top_k=1.5 .*Expected an integer"),
    (lambda m: m.two.rank("q", TEXTS, label="x"), "'x' is not a label.*one of no, yes"),
    (lambda m: m.three.rank("q", TEXTS), "Name one of .*with label="),
    (lambda m: m.one.rank("q", TEXTS, label="yes"), "label='yes' is not possible.*returns a score"),
    (lambda m: m.three.evaluate(PairDataset(["a"], ["b"])), "no labels"),
    (lambda m: m.three.evaluate(PairDataset([], [], [])), "no pairs"),
    (lambda m: m.three.evaluate(PairDataset(["a"], ["b"], ["yes"])), "unknown: yes.*THEIRS"),
    (lambda m: m.three.evaluate(PairDataset(["a"], ["b"], [0.5])), "are numbers"),
    (lambda m: m.one.evaluate(PairDataset(TEXTS, TEXTS, [0, 1])), "returns a score"),
    (lambda m: m.one.calibrate(PairDataset(["a"], ["b"], [0.5])), "Only matchers .*calibrated"),
    (lambda m: m.make(encoder=PairEncoder(["a"], features=("char",))), "needs word_ids_1, word"),
    (lambda m: m.make(("no", "yes")), "has 3 classes"),
    (lambda m: m.make(None), "has 3 classes, but the label names are none"),
    (lambda m: m.make(("no", "no", "yes")), "Give each class a different name"),
    (lambda m: m.make(threshold=0.5), "threshold=0.5"),
    (lambda m: m.make(task="classify"), "'classify' is not a task.*one of 'classification'"),
    (lambda m: Matcher(m.one.model, m.encoder, None, **SCORE, temperature=2.0), "a score"),
    (lambda m: EnsembleMatcher([]), "needs members"),
    (lambda m: EnsembleMatcher([m.two, m.three]), "Member 1 .*same labels"),
    (lambda m: EnsembleMatcher([m.two], abstain_below=(0.5,)), "one probability per label .no, y"),
    (
        lambda m: EnsembleMatcher([m.two], abstain_below=(0.5, 2)),
        "one probability per label .no, y",
    ),
    (lambda m: load_run("x", engine="openvino"), "'openvino'.*'keras', 'onnx'"),
    (lambda m: BatchScorer("x")({"sentence1": ["a"]}), "columns sentence1. .* 'sentence2'"),
    (lambda m: BatchScorer("x")([("a", "b")]), "got a list. Expected a pandas DataFrame"),
]


@pytest.mark.parametrize(
    "call, words",
    [(lambda m, given=given: m.three.predict(**given), words) for given, words in PAIRS] + CALLS,
)
def test_it_is_refused_in_these_words(m, call, words):
    with pytest.raises(InputError, match=words):
        call(m)


def test_a_prediction_says_what_it_has(m):
    with pytest.raises(AttributeError, match="This prediction has no 'label'. It has score"):
        _ = m.one.predict(*TEXTS).label


def test_a_message_is_never_long():
    long = str(InputError("x" * 5_000_000 + " Give another file."))
    assert len(long) < 5000 and long.endswith("Give another file.")
