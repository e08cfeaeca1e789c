"""Groups: one bad pair joins nothing, and copies stay together."""

from keras_sentmatch.corpus import _grouping, group, mine
from keras_sentmatch.corpus._grouping import join
from tests.corpus.test_mining import matcher as matcher

# Two groups of four, and a bridge that has half its words in common with one of each.
LEFT = [f"red green blue {w}" for w in ("one", "two", "three", "four")]
RIGHT = [f"oak elm ash {w}" for w in ("five", "six", "seven", "eight")]
BRIDGE = ["red green blue oak elm ash"]


def sets(found):
    return [sorted(member["index"] for member in one.members) for one in found]


def test_groups_are_cut_where_the_mean_score_is_low(matcher):
    sentences = [*LEFT, *BRIDGE, *RIGHT]
    pairs = mine(matcher, sentences, threshold=0.42)
    edges = [(pair.index1, pair.index2) for pair in pairs]
    assert join(9, edges, 200) == ([[*range(9)]], 0)  # all are connected
    found = group(matcher, sentences, threshold=0.42)
    assert sets(found)[1] in ([0, 1, 2, 3], [5, 6, 7, 8])
    assert not {0, 8} <= set(sets(found)[0])
    assert [one.group for one in found] == [1, 2]


def test_a_group_has_a_representative(matcher):
    sentences = ["x a b c", "lonely", "x a b c d", "x a b c d", "x a b c d e"]
    (one,) = group(matcher, sentences, threshold=0.5)
    assert (one.size, one.representative) == (4, "x a b c d")
    indices = [member["index"] for member in one.members]
    assert indices[:2] == [2, 3] and sorted(indices[2:]) == [0, 4]
    assert [m["score"] for m in one.members][:2] == [None, None]


def test_copies_of_one_sentence_are_a_group(matcher):
    (one,) = group(matcher, ["two cats sleep"] * 1000 + ["it rains"])
    assert one.size == 1000
    assert group(matcher, ["two cats", "it rains"]) == []


def test_no_group_is_larger_than_allowed(matcher, caplog, monkeypatch):
    sentences = [f"red green blue {i}" for i in range(12)]
    assert [one.size for one in group(matcher, sentences, threshold=0.5, candidates=11)] == [12]
    monkeypatch.setattr(_grouping, "LARGEST", 5)
    with caplog.at_level("INFO", "keras_sentmatch"):
        found = group(matcher, sentences, threshold=0.5, candidates=11)
    assert max(one.size for one in found) == 5 and "would join groups of more" in caplog.text
    edges = [(0, 1), (1, 0), (3, 4), (1, 4), (2, 0)]
    assert sorted(join(5, edges, largest=3)[0]) == [[0, 1, 2], [3, 4]]
    assert join(5, edges, largest=3)[1] == 1
