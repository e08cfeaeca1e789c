"""Negatives for matching pairs: never a known match, hard and easy ones in the ratio asked for."""

import numpy as np
import pytest

from keras_sentmatch.corpus import from_positives
from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.splits import sentence_groups
from keras_sentmatch.errors import InputError

pytest.importorskip("bm25s")
pytestmark = pytest.mark.once


def matches(topics=60, chain=3):
    """Each topic: sentences that match in a chain, a1-a2, a2-a3; all topics have words in common."""
    first, second = [], []
    for topic in range(topics):
        texts = [
            f"topic{topic} common{topic % 6} way number v{topic}x{i}" for i in range(chain + 1)
        ]
        first += texts[:-1]
        second += texts[1:]
    return PairDataset(first, second, name="matches")


def test_no_negative_is_a_known_match_even_through_others():
    pairs = matches()
    parts, counts = from_positives(pairs, negatives=3, hard=0.5, seed=1)
    group = dict(zip(pairs.sentence1 + pairs.sentence2, [*sentence_groups(pairs)] * 2))
    seen = []
    for name, part in parts.items():
        made = [
            (one, two)
            for one, two, label in zip(part.sentence1, part.sentence2, part.labels)
            if label == 0
        ]
        assert made and len(set(made)) == len(made)
        assert all(group[one] != group[two] for one, two in made)
        found = counts[name]
        assert found["match"] == part.label_counts()["match"]
        assert found["hard"] + found["easy"] == part.label_counts()["no_match"] == len(made)
        seen.append({group[text] for text in (*part.sentence1, *part.sentence2)})
    assert counts["train"]["known"] > 0, "BM25 finds them first"
    assert counts["train"]["hard"] == round(1.5 * counts["train"]["match"])
    assert not (seen[0] & seen[1] or seen[0] & seen[2] or seen[1] & seen[2])
    again, _ = from_positives(pairs, negatives=3, hard=0.5, seed=1)
    other, _ = from_positives(pairs, negatives=3, hard=0.5, seed=2)
    assert again["train"].fingerprint() == parts["train"].fingerprint()
    assert other["train"].fingerprint() != parts["train"].fingerprint()


def test_hard_negatives_share_more_words():
    def shared(hard):
        part = from_positives(matches(), hard=hard)[0]["train"]
        rows = np.flatnonzero(part.labels == 0)
        both = [{*part.sentence1[r].split()} & {*part.sentence2[r].split()} for r in rows]
        return np.mean([len(words) for words in both])

    assert shared(1.0) > shared(0.0) + 0.5


def test_near_copies_are_passed_over():
    """Every second topic says the same as the one before, with a mark."""
    first = [f"how do i cook meal{i // 2} well today{'!' * (i % 2)}" for i in range(40)]
    second = [f"cooking meal{i // 2} well today {'really' * (i % 2)}" for i in range(40)]
    part, counts = from_positives(PairDataset(first, second), hard=1.0)
    assert counts["train"]["copies"] > 0
    train = part["train"]
    for one, two, label in zip(train.sentence1, train.sentence2, train.labels):
        meal = [word for word in one.split() if word.startswith("meal")][0]
        assert label == 1 or meal not in two.split()


@pytest.mark.parametrize(
    "pairs, options, message",
    [
        (
            PairDataset(["a"], ["b"], name="one"),
            {},
            "connect all 1 matching pairs of one, so",
        ),
        (PairDataset(["a", "b"], ["b", "c"]), {}, "connect all 2 matching pairs, so"),
        (PairDataset(["a", "c"], ["b", "d"]), {}, "too few for parts"),
        (matches(), {"negatives": 0}, "negatives=0 is out of range. Expected a number above 0"),
        (matches(), {"hard": 2}, "hard=2 is out of range. Expected a share from 0 to 1"),
    ],
)
def test_what_cannot_be_made_is_refused(pairs, options, message):
    with pytest.raises(InputError, match=message):
        from_positives(pairs, **options)
