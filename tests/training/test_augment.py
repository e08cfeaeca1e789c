"""Training pairs made by rule: which, how many, with which labels, and that only training sees them."""

import numpy as np
import pytest

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.training import Recipe
from keras_sentmatch.training.augment import made_pairs
from keras_sentmatch.training.config import TrainingConfig
from keras_sentmatch.training.distillation import with_labels
from keras_sentmatch.training.folds import joined
from tests.toys.training import tiny_run

pytestmark = pytest.mark.once

NAMES = ("not_paraphrase", "paraphrase")
THINGS = [f"thing{letter}" for letter in "abcdefghijklmnopqrst"]


@pytest.fixture
def words(tmp_path):
    file = tmp_path / "antonyms.txt"
    file.write_text("\n".join(map(" ".join, zip(THINGS[::2], THINGS[1::2]))), "utf-8")
    return f"antonyms={file}"


def pairs(rows, split="train"):
    texts = [
        f"The {THINGS[i % 20]} saw {'two three four'.split()[i % 3]} dogs." for i in range(rows)
    ]
    seconds = [text if i % 4 else "Nothing here." for i, text in enumerate(texts)]
    labels = [int(i % 4 > 0) for i in range(rows)]
    return PairDataset(texts, seconds, labels, label_names=NAMES, name="own", split=split)


def test_each_rule_makes_its_share_with_its_label(words):
    train = pairs(100)
    settings = TrainingConfig(augment=["SwapAnt", "NumWord", "AppendIrr"], lexicon=[words])
    made, counts = made_pairs(train, settings)
    assert counts == {"SwapAnt": 10, "NumWord": 10, "AppendIrr": 10} and len(made) == 30
    assert set(np.array(made.labels[:20])) == {0}  # they were paraphrases
    assert len(set(zip(made.sentence1, made.sentence2))) == 30
    assert not set(zip(made.sentence1, made.sentence2)) & set(zip(train.sentence1, train.sentence2))
    again, _ = made_pairs(train, settings)
    assert again.fingerprint() == made.fingerprint()


def test_a_rule_that_finds_less_makes_less(words):
    few = pairs(4)
    others = [f"Nothing {number}." for number in range(40)]
    many = PairDataset(others, others, [1] * 40, label_names=NAMES, name="own")
    made, counts = made_pairs(
        joined(many, few), TrainingConfig(augment=["SwapAnt"], lexicon=[words])
    )
    assert 0 < counts["SwapAnt"] == len(made) <= 3


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"augment": ["SwapWords"]}, "no transformation 'SwapWords'"),
        ({"augment": ["SwapNamedEnt"]}, "SwapNamedEnt can change none of the 20 training pairs"),
        ({"augment": ["NumWord"], "augment_labels": ["yes", "no"]}, "no label 'yes'"),
    ],
)
def test_clear_errors(settings, message):
    with pytest.raises(InputError, match=message):
        made_pairs(pairs(20), TrainingConfig(**settings))


def test_a_lexicon_without_the_words_of_the_data(tmp_path):
    (tmp_path / "antonyms.txt").write_text("hot cold", "utf-8")
    settings = TrainingConfig(augment=["SwapAnt"], lexicon=[str(tmp_path / "antonyms.txt")])
    with pytest.raises(InputError, match="none of the 20 .*antonyms.txt.*another lexicon"):
        made_pairs(pairs(20), settings)


def test_the_convention_of_sick_is_neutral():
    names = ("entailment", "neutral", "contradiction")
    two = "Two dogs run.", "Two dogs run."
    for name, label in (("sick", "neutral"), ("snli", "contradiction")):
        data = PairDataset(*zip(two), ["entailment"], label_names=names, name=name)
        made, _ = made_pairs(data, TrainingConfig(augment=["NumWord"]))
        assert names[made.labels[0]] == label


def test_only_training_sees_made_pairs(tmp_path):
    splits = {role: pairs(n, role) for role, n in (("train", 60), ("validation", 20), ("test", 20))}
    recipe = Recipe.from_tables(
        "tiny", vectors={"source": "none", "dim": 8}, training={"epochs": 1}
    )
    plain = tiny_run(tmp_path / "plain", splits=splits, recipe=recipe).metrics
    recipe = recipe.with_training(augment=("NumWord",))
    result = tiny_run(tmp_path / "more", splits=splits, recipe=recipe)
    assert plain["made_pairs"] == {} and result.metrics["made_pairs"] == {"NumWord": 18}
    assert plain["rows"] == result.metrics["rows"] == {"train": 60, "validation": 20, "test": 20}
    assert plain["encoding"] != result.metrics["encoding"]  # they were read
    numbers = "eight nine ten eleven twelve".split()
    words = result.matcher.encoder.vocabulary.words
    assert any(number in words for number in numbers)


def test_a_teacher_is_not_asked_about_made_pairs():
    targets = np.array([[1, 0.3, 0.7]], "float32")
    more = PairDataset(["a"], ["b"], [0], label_names=NAMES)
    np.testing.assert_allclose(with_labels(targets, more), [[1, 0.3, 0.7], [0, 1, 0]], rtol=1e-6)
    scores = PairDataset(["a"], ["b"], [2.5])
    got = with_labels(np.array([[4, 3.5]]), scores)
    np.testing.assert_allclose(got, [[4, 3.5], [2.5, 2.5]])
