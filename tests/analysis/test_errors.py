"""Categories by their rules, and the report of errors from probabilities out of a table."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_sentmatch.analysis._categories import CATEGORIES, categorize, read_annotations
from keras_sentmatch.analysis.errors import (
    error_report,
    save_report,
    symmetric_labels,
    table,
    to_markdown,
)  # fmt: skip
from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.transformations import Lexicon

LEXICON = Lexicon(antonyms=[("hot", "cold")])


def found_in(one, two):
    rows, _ = categorize(PairDataset([one], [two]), LEXICON)
    return {name for name, held in rows.items() if held}


@pytest.mark.parametrize(
    "name, one, two",
    [
        ("Conditional", "If it rains, we stay.", "We stay."),
        ("Conditional", "We stay.", "We go unless it rains."),
        ("Word overlap", "The dog saw a big cat", "The dog saw a cat"),
        ("Word order", "The dog saw the cat", "The cat saw the dog"),
        ("Negation", "He isn't here.", "He is."),
        ("Negation", "a", "NO dog"),
        ("Antonym", "hot tea", "cold tea"),
        ("Long sentence", "w " * 31, "a"),
        ("Long sentence", "a", "w " * 17),
        ("Tense difference", "He is in", "He was in"),
        ("Tense difference", "Dogs barked", "Dogs will bark"),
        ("Active/Passive", "The cat was quickly chased.", "A dog chases the cat."),
        ("Active/Passive", "A car was driven.", "Men drive a car."),
        ("Quantity/Time", "two dogs", "dogs"),
        ("Quantity/Time", "dogs", "3rd dog"),
        ("Quantity/Time", "on Monday", "later"),
        ("Coreference", "Tom ran.", "He ran."),
        ("Quantifier", "Some dogs", "Dogs"),
        ("Modal", "It may rain", "Rain"),
        ("Belief", "He thinks so", "He knew it"),
    ],
)
def test_rules(name, one, two):
    assert name in found_in(one, two)


@pytest.mark.parametrize(
    "name, one, two",
    [
        ("Word overlap", "The dog saw a very big red cat", "The dog"),
        ("Word order", "the dog", "The dog"),
        ("Negation", "A note about a knot", "nothings"),
        ("Antonym", "hot tea", "hot tea"),
        ("Long sentence", "w " * 30, "w " * 16),
        ("Tense difference", "He was in and is out", "He was in"),
        ("Tense difference", "He has walked", "He is in"),
        ("Active/Passive", "The cat was chased", "The cat was chased"),
        ("Active/Passive", "The cat was chased", "A dog sleeps"),
        ("Quantity/Time", "a dog may run in the march", "a dog"),
        ("Coreference", "She ran", "He ran"),
    ],
)
def test_rules_do_not_hold(name, one, two):
    assert name not in found_in(one, two)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=30), st.text(max_size=30))
def test_rules_take_any_text(one, two):
    assert found_in(one, two) <= {category.name for category in CATEGORIES}
    assert found_in("", "") == set()


def test_without_antonyms_that_category_is_left_out():
    rows, rules = categorize(PairDataset(["hot"], ["cold"]))
    assert "Antonym" not in rows and rows.keys() == rules.keys()


def test_annotations(tmp_path):
    path = tmp_path / "tags.tsv"
    path.write_text("7\t#NEGATION\t#PARAPHRASE\n\n9\tlong sentence\nother\tmodal\n")
    found = read_annotations(path)
    assert found["7"] == {"Negation", "Paraphrase"}
    pairs = PairDataset(["a", "b", "not"], ["a", "b", "c"], ids=["9", "7", "8"])
    rows, rules = categorize(pairs, annotations=found)
    assert rows == {"Long sentence": [0], "Negation": [1], "Paraphrase": [1]}
    assert set(rules.values()) == {"annotated"}
    with pytest.raises(InputError, match="None of the 3 annotated ids .*no ids"):
        categorize(PairDataset(["a"], ["b"]), annotations=found)
    path.write_text("7\n")
    with pytest.raises(InputError, match="tags.tsv:1: expected an id, a tab"):
        read_annotations(path)
    path.write_text("\n")
    with pytest.raises(InputError, match="no annotations"):
        read_annotations(path)


# --- the report ---

NAMES = ("not_paraphrase", "paraphrase")
PAIRS = PairDataset(
    ["No dog | runs.", "A dog.", "Two dogs.", "No."], ["a", "b", "c", "d"], [0, 1, 1, 0],
    label_names=NAMES, ids=["p", "q", "r", "s"],
)  # fmt: skip
SCORES = np.array([[0.1, 0.9], [0.2, 0.8], [0.7, 0.3], [0.6, 0.4]])


def test_figures_of_categories_and_baselines():
    report = error_report(PAIRS, SCORES, baselines={"mine": {"accuracy": 0.25}})
    assert (report["pairs"], report["right"], report["accuracy"]) == (4, 2, 0.5)
    assert report["baselines"] == {"majority": {"accuracy": 0.5}, "mine": {"accuracy": 0.25}}
    rows = {row["name"]: row for row in report["categories"]}
    assert (rows["Negation"]["pairs"], rows["Negation"]["right"]) == (2, 1)
    assert rows["Negation"]["low"] < 0.5 < rows["Negation"]["high"]
    assert rows["Quantity/Time"]["accuracy"] == 0 and "Modal" not in rows
    assert report["mean"] == np.mean([row["accuracy"] for row in rows.values()])
    assert error_report(PAIRS, SCORES, threshold=0.95)["right"] == 2


def test_the_most_confident_errors_come_first():
    errors = error_report(PAIRS, SCORES)["errors"]
    assert [(row["row"], row["id"], row["answer"]) for row in errors] == [
        (0, "p", "paraphrase"), (2, "r", "not_paraphrase"),
    ]  # fmt: skip
    assert [row["probability"] for row in errors] == [0.9, 0.7]
    assert len(error_report(PAIRS, SCORES, top=1)["errors"]) == 1


def test_swapping():
    swapped = SCORES.copy()
    swapped[0] = [0.9, 0.1]
    swap = error_report(PAIRS, SCORES, swapped=swapped, symmetric=NAMES)["swap"]
    assert (swap["pairs"], swap["right"]) == (4, 3)
    assert swap["mean_difference"] == pytest.approx(0.2)
    swap = error_report(PAIRS, SCORES, swapped=swapped, symmetric=NAMES[1:])["swap"]
    assert (swap["pairs"], swap["right"]) == (2, 1)
    assert swap["mean_difference"] == pytest.approx(0.4)
    assert error_report(PAIRS, SCORES, swapped=swapped)["swap"] is None
    assert symmetric_labels(NAMES) == NAMES and symmetric_labels(("no", "yes")) == ()


def test_the_report_is_written(tmp_path):
    never = error_report(
        PAIRS.select([2, 3]), SCORES[2:], swapped=SCORES[2:], symmetric=["paraphrase"]
    )
    assert "No pair was answered paraphrase." in to_markdown(never)
    report = error_report(PAIRS, SCORES, swapped=SCORES, symmetric=NAMES)
    report = {"run": "runs/x", "data": "paws", "split": "", "left_out": {"b": "why"}, **report}
    save_report(report, tmp_path)
    assert json.loads((tmp_path / "errors.json").read_text())["right"] == 2
    lines = (tmp_path / "errors.csv").read_text().splitlines()
    assert lines[1].startswith("all pairs,4,2,0.5,") and len(lines) == 1 + len(table(report))
    assert (tmp_path / "errors.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "errors.md").read_text()
    assert page.startswith("# Errors of runs/x on paws\n") and "No dog \\| runs." in page
    assert "Of 4 pairs answered not_paraphrase or paraphrase, 4 (100.0%" in page


def test_bad_input():
    with pytest.raises(InputError, match="answers of classes"):
        error_report(PairDataset(["a"], ["b"]), SCORES[:1])
    with pytest.raises(InputError, match="4 answers for 1 pairs"):
        error_report(PAIRS.select([0]), SCORES)
