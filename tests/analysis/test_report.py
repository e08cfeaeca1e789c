"""Categories by their rules, and the report of a matcher whose probabilities come from a table."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_sentmatch.analysis._categories import CATEGORIES, categorize, read_annotations
from keras_sentmatch.analysis.reporting import COLUMNS, report, report_sections, save_report, table
from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.base import BaseMatcher
from keras_sentmatch.transformations import Lexicon

LEXICON = Lexicon(antonyms=[("hot", "cold")])


def found_in(one, two):
    rows, _ = categorize(PairDataset([one], [two]), LEXICON)
    return {name for name, held in rows.items() if held}


# A category, and two sentences that fall into it, or (after !) do not.
RULES = """
Conditional | If it rains, we stay. | We stay.
Conditional | We stay. | We go unless it rains.
Word overlap | The dog saw a big cat | The dog saw a cat
! Word overlap | The dog saw a very big red cat | The dog
Word order | The dog saw the cat | The cat saw the dog
! Word order | the dog | The dog
Negation | He isn't here. | He is.
Negation | a | NO dog
! Negation | A note about a knot | nothings
Antonym | hot tea | cold tea
! Antonym | hot tea | hot tea
Tense difference | He is in | He was in
Tense difference | Dogs barked | Dogs will bark
! Tense difference | He was in and is out | He was in
! Tense difference | He has walked | He is in
Active/Passive | The cat was quickly chased. | A dog chases the cat.
Active/Passive | A car was driven. | Men drive a car.
! Active/Passive | The cat was chased | The cat was chased
! Active/Passive | The cat was chased | A dog sleeps
Quantity/Time | two dogs | dogs
Quantity/Time | dogs | 3rd dog
Quantity/Time | on Monday | later
! Quantity/Time | a dog may run in the march | a dog
Coreference | Tom ran. | He ran.
! Coreference | She ran | He ran
Quantifier | Some dogs | Dogs
Modal | It may rain | Rain
Belief | He thinks so | He knew it
"""


def test_rules():
    for line in RULES.strip().splitlines():
        name, one, two = line.removeprefix("! ").split(" | ")
        assert (name in found_in(one, two)) is not line.startswith("!"), line
    for one, two, long in ((31, 1, True), (1, 17, True), (30, 16, False)):
        assert ("Long sentence" in found_in("w " * one, "w " * two)) is long


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=30), st.text(max_size=30))
def test_rules_take_any_text(one, two):
    assert found_in(one, two) <= set(CATEGORIES)
    assert found_in("", "") == set()
    assert "Antonym" not in categorize(PairDataset(["hot"], ["cold"]))[0]


def test_annotations(tmp_path):
    path = tmp_path / "tags.tsv"
    path.write_text("\ufeff7\t#NEGATION\t#PARAPHRASE\n\n9\tlong sentence\nother\tmodal\n")
    found = read_annotations(path)
    assert found["7"] == {"Negation", "Paraphrase"}
    pairs = PairDataset(["a", "b", "not"], ["a", "b", "c"], ids=["9", "7", "8"])
    rows, rules = categorize(pairs, annotations=found)
    assert rows == {"Long sentence": [0], "Negation": [1], "Paraphrase": [1]}
    assert set(rules.values()) == {"annotated"}
    path.write_text("7\tnegation\n7\tmodal\n")  # several lines for one id, several pairs with it
    pairs = PairDataset(["a", "b", "c"], ["a", "b", "c"], ids=["7", "8", "7"])
    rows, _ = categorize(pairs, annotations=read_annotations(path))
    assert rows == {"Modal": [0, 2], "Negation": [0, 2]}
    with pytest.raises(InputError, match="None of the 3 annotated ids .* has no ids"):
        categorize(PairDataset(["a"], ["b"]), annotations=found)
    path.write_text("7\n")
    with pytest.raises(InputError, match="tags.tsv:1: expected an id, a tab"):
        read_annotations(path)
    path.write_text("\n")
    with pytest.raises(InputError, match="no annotations"):
        read_annotations(path)


# --- the report ---

NAMES = ("not_paraphrase", "paraphrase")
NLI = ("entailment", "neutral", "contradiction")
PAIRS = PairDataset(
    ["No dog | runs.", "A dog.", "Two dogs.", "No."], ["a", "b", "c", "d"], [0, 1, 1, 0],
    label_names=NAMES, ids=["p", "q", "r", "s"], name="paws",
)  # fmt: skip
SCORES = dict(zip(PAIRS.sentence1, ([0.1, 0.9], [0.2, 0.8], [0.7, 0.3], [0.6, 0.4])))


class Table(BaseMatcher):
    """Gives the probabilities that a function has for two sentences."""

    def __init__(self, scores, names=NAMES, threshold=None):
        super().__init__(names, "classification", 1.0, threshold)
        self.scores = scores

    def raw_scores(self, pairs, batch_size):
        both = zip(pairs.sentence1, pairs.sentence2)
        return np.array([self.scores(*pair) for pair in both]).reshape(-1, len(self.label_names))


def known(one, two):
    return SCORES[one]


def sure(label):
    return [float(name == label) for name in NLI]


@pytest.fixture
def pairs():
    one = ["Hot tea.", "Hot tea | pot.", "Cold tea.", "Rain."]
    two = ["Tea is hot.", "Hot tea.", "Tea.", "Sun."]
    labels = ["entailment", "entailment", "entailment", "neutral"]
    return PairDataset(one, two, labels, label_names=NLI, name="snli", split="test")


# Says neutral of rain, entailment of all else.
BELIEVER = Table(lambda one, two: sure("neutral" if "Rain" in one else "entailment"), NLI)


def test_accuracy_by_category_and_baselines(monkeypatch, tmp_path):
    seen = []

    def baseline(train, validation, test, sees):
        seen.append((len(train), len(validation), len(test), sees))
        return {"test": {"accuracy": 0.25}}

    monkeypatch.setattr("keras_sentmatch.analysis.reporting.bag_of_words_baseline", baseline)
    splits = {"train": PAIRS, "validation": PAIRS.select([0])}
    found = report(Table(known), PAIRS, splits=splits)
    assert (found["pairs"], found["right"], found["accuracy"]) == (4, 2, 0.5)
    assert seen == [(4, 1, 4, sees) for sees in ("all", "sentence2", "overlap")]
    baselines = {"bag of words", "second sentence only", "word overlap"}
    others = dict.fromkeys(baselines, {"accuracy": 0.25})
    assert found["baselines"] == {"majority": {"accuracy": 0.5}, **others}
    rows = {row["name"]: row for row in found["categories"]}
    assert (rows["Negation"]["pairs"], rows["Negation"]["right"]) == (2, 1)
    assert rows["Negation"]["low"] < 0.5 < rows["Negation"]["high"]
    assert rows["Quantity/Time"]["accuracy"] == 0 and "Modal" not in rows
    assert found["mean"] == np.mean([row["accuracy"] for row in rows.values()])
    above = report(Table(known, threshold=0.95), PAIRS)
    assert above["right"] == 2 and list(above["baselines"]) == ["majority"]
    (tmp_path / "tags.tsv").write_text("p\tmodal\n")
    tags = report(Table(known), PAIRS, annotations=tmp_path / "tags.tsv")
    assert [(row["name"], row["rule"]) for row in tags["categories"]] == [("Modal", "annotated")]


def test_the_most_confident_errors_come_first():
    errors = report(Table(known), PAIRS)["errors"]
    assert [(row["row"], row["id"], row["answer"]) for row in errors] == [
        (0, "p", "paraphrase"), (2, "r", "not_paraphrase"),
    ]  # fmt: skip
    assert [row["probability"] for row in errors] == [0.9, 0.7]
    sure = {"A dog.": [1.0, 1e-20], "Two dogs.": [1.0, 1e-30]}  # both round to 1
    certain = Table(lambda one, two: sure.get(one, [1.0, 0.0]))
    assert [row["row"] for row in report(certain, PAIRS)["errors"]] == [2, 1]
    assert len(report(Table(known), PAIRS, top=1)["errors"]) == 1


def test_before_and_after_transformations(pairs):
    found = report(
        BELIEVER, pairs, transformations=["SwapAnt", "addsent", "NumWord"], lexicon=LEXICON
    )
    swapped, added, numbers = found["transformations"]
    assert (swapped["name"], swapped["of"], swapped["pairs"]) == ("SwapAnt", 4, 2)
    assert (swapped["before"], swapped["accuracy"], swapped["right"]) == (1, 0, 0)
    assert swapped["flips"][1] == {
        "sentence1": "Hot tea | pot.", "sentence2": "Hot tea.", "label": "entailment",
        "changed1": "Hot tea | pot.", "changed2": "Cold tea.", "new_label": "contradiction",
        "answer": "entailment",
    }  # fmt: skip
    assert (added["pairs"], added["before"], added["accuracy"], added["flips"]) == (4, 1, 1, [])
    assert (numbers["pairs"], numbers["before"], numbers["accuracy"]) == (0, None, None)
    assert found["left_out"] == {} and json.loads(json.dumps(found)) == found
    every = report(BELIEVER, pairs, transformations="all", lexicon=LEXICON)
    assert set(every["left_out"]) == {"BackTrans", "SwapSyn"}
    assert len(every["transformations"]) == 8
    many = PairDataset(["Hot tea."] * 9, ["Hot tea."] * 9, ["entailment"] * 9, label_names=NLI)
    for examples, shown in ((5, 5), (0, 0), (20, 9)):
        found = report(
            BELIEVER, many, transformations=["SwapAnt"], lexicon=LEXICON, examples=examples
        )
        assert len(found["transformations"][0]["flips"]) == shown


def test_the_report_is_written(pairs, tmp_path):
    found = report(BELIEVER, pairs, transformations="all", lexicon=LEXICON, entries="held_out")
    folder = tmp_path / "new"
    save_report({"run": "runs/x", **found}, folder)
    assert json.loads((folder / "report.json").read_text())["right"] == 4
    lines = (folder / "report.csv").read_text().splitlines()
    assert lines[0] == ",".join(COLUMNS) and len(lines) == 1 + len(table(found))
    assert lines[1].startswith("all,all pairs,4,4,1.0,")
    page = (folder / "report.md").read_text()
    assert page.startswith("# Report of runs/x on snli test\n")
    for part in ("training.augment never uses", "| BackTrans | BackTrans needs", "## Not measured"):
        assert part in page
    swapped = report(BELIEVER, pairs, transformations=["SwapAnt"], lexicon=LEXICON)
    titles = [section.title for section in report_sections(swapped, short=True)]
    assert titles == ["Accuracy", "Baselines", "Changed pairs"]
    section = next(x for x in report_sections(swapped) if x.title == "SwapAnt")
    assert section.text == "A word of both sentences becomes its antonym in the second."
    row = ["Hot tea | pot.", "Cold tea.", "entailment", "contradiction", "entailment"]
    assert row in section.rows
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="Cannot write"):
        save_report(found, tmp_path / "file")


@pytest.mark.parametrize(
    "matcher, data, options, message",
    [
        (Table(known, None), PAIRS, {}, "returns scores.*Measure scores with `evaluate`"),
        (Table(known), PairDataset(["a"], ["b"]), {}, "no labels"),
        (Table(known), PAIRS, {"transformations": ["SwapSyn"]}, "SwapSyn needs synonyms"),
        (Table(known), PAIRS, {"transformations": ["SwapSin"]}, "Did you mean"),
    ],
)
def test_bad_input(matcher, data, options, message):
    with pytest.raises(InputError, match=message):
        report(matcher, data, **options)
