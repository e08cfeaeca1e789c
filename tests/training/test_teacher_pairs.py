"""`training.teacher_pairs`: new pairs of the training pairs, which only a teacher labels."""

import re

import numpy as np
import pytest

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.training.teacher_pairs import LEAST, pairs_for_teacher
from keras_sentmatch.vectors import load_word_table
from tests.toys.training import tiny_recipe, tiny_run, tiny_splits

pytestmark = pytest.mark.once

ANIMALS = ("dog", "cat", "horse", "bird", "mouse")
PLACES = ("park", "garden", "house", "river", "street")
FIRST = [f"A small {animal} runs in the {place}." for animal in ANIMALS for place in PLACES]
SECOND = [f"The {animal} is near the {place}." for animal in ANIMALS for place in PLACES[::-1]]
TRAIN = PairDataset(FIRST, SECOND, [0, 1] * 12 + [0], label_names=("no", "yes"))


def both(pairs):
    return list(zip(pairs.sentence1, pairs.sentence2))


def test_they_are_new_and_of_both_kinds():
    made, kinds = pairs_for_teacher(TRAIN, 2.0, seed=0)
    assert len(made) == 50 == sum(kinds.values()) and kinds["near words"] > 5
    assert made.labels is None and made.label_names == TRAIN.label_names
    assert len({frozenset(pair) for pair in both(made)} | set(map(frozenset, both(TRAIN)))) == 75
    recombined, replaced = both(made)[: kinds["recombined"]], both(made)[kinds["recombined"] :]
    assert {one for one, _ in recombined} <= set(FIRST)
    assert {two for _, two in recombined} <= set(SECOND)
    table = load_word_table()
    changed = []
    for pair in replaced:
        same = [f"{a} {b}" for a, b in both(TRAIN)]
        words = re.findall(r"\w+|\.", " ".join(pair))
        olds = (re.findall(r"\w+|\.", text) for text in same)
        old = min(olds, key=lambda old: sum(a != b for a, b in zip(words, old)))
        changed += [(a.lower(), b.lower()) for a, b in zip(old, words) if a != b]
    assert len(changed) >= len(replaced), "each pair has another word"
    for one, two in changed:
        a, b = (table.lookup(word)[0].astype(float) for word in (one, two))
        assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) >= LEAST - 1e-6


def test_recombined_sentences_are_alike():
    made, kinds = pairs_for_teacher(TRAIN, 1.0, seed=0)
    shared = [
        any(word in one and word in two for word in ANIMALS + PLACES)
        for one, two in both(made)[: kinds["recombined"]]
    ]
    assert np.mean(shared) > 0.8, "of any two, 9 of 25 share the animal or the place"


def test_the_seed_decides():
    first, again, other = (both(pairs_for_teacher(TRAIN, 1.0, seed=s)[0]) for s in (0, 0, 1))
    assert first == again != other


def test_text_without_near_words_is_recombined():
    thai = PairDataset([f"สุนัข {i} วิ่ง" for i in range(9)], [f"แมว {i} นอน" for i in range(9)], None)
    _, kinds = pairs_for_teacher(thai, 1.0, seed=0)
    assert kinds == {"recombined": 9, "near words": 0}


def test_nothing_new_can_be_made():
    alone = PairDataset(["xyzzy"], ["plugh"], [0], label_names=("no", "yes"))
    with pytest.raises(InputError, match="no other pairs can be made of the 1 training pairs"):
        pairs_for_teacher(alone, 1.0, seed=0)


def test_a_run_learns_from_them(tmp_path):
    teacher = str(tiny_run(tmp_path / "teacher").folder)
    plain = tiny_run(tmp_path / "plain", teacher=(teacher,))
    more = tiny_run(tmp_path / "more", teacher=(teacher,), teacher_pairs=1.5)
    assert plain.metrics["teacher"]["made"] == {}
    assert sum(more.metrics["teacher"]["made"].values()) == 150
    assert more.metrics["teacher"]["unlabeled"] == 0
    assert more.metrics["rows"] == plain.metrics["rows"]  # the labeled pairs
    assert more.history["loss"] != plain.history["loss"]
    with pytest.raises(InputError, match="teacher_pairs is 1.0, but only a teacher can label"):
        tiny_run(tmp_path / "none", splits=tiny_splits(), recipe=tiny_recipe(teacher_pairs=1.0))
