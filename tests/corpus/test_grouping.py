"""Groups: one bad pair joins nothing, copies stay together, and the page shows them."""

import pytest

from keras_sentmatch.corpus import group, mine, save_groups
from keras_sentmatch.corpus._grouping import join
from tests.corpus.test_mining import matcher as matcher

pytest.importorskip("bm25s")
pytest.importorskip("faiss")
pytestmark = pytest.mark.once

# Two groups of four, and a bridge that has half its words in common with one of each.
LEFT = [f"red green blue {w}" for w in ("one", "two", "three", "four")]
RIGHT = [f"oak elm ash {w}" for w in ("five", "six", "seven", "eight")]
BRIDGE = ["red green blue oak elm ash"]


def sets(found):
    return [sorted(member["index"] for member in one.members) for one in found]


def test_groups_are_cut_where_the_mean_score_is_low(matcher):
    sentences = [*LEFT, *BRIDGE, *RIGHT]
    pairs = mine(matcher, sentences, threshold=0.42)
    parts = join(range(9), [(p.index1, p.index2) for p in pairs]).parts
    assert [sorted(part) for part in parts] == [[*range(9)]]  # all are connected
    found = group(matcher, sentences, threshold=0.42)
    assert sets(found)[1] in ([0, 1, 2, 3], [5, 6, 7, 8])
    assert not {0, 8} <= set(sets(found)[0])
    assert [one.group for one in found] == [1, 2]


def test_a_group_has_a_representative_and_the_pair_that_holds_it(matcher):
    sentences = ["x a b c", "lonely", "x a b c d", "x a b c d", "x a b c d e"]
    (one,) = group(matcher, sentences, threshold=0.5)
    assert (one.size, one.representative) == (4, "x a b c d")
    assert [m["index"] for m in one.members] == [2, 3, 4, 0] or [
        m["index"] for m in one.members
    ] == [2, 3, 0, 4]
    assert [m["score"] for m in one.members][:2] == [None, None]
    assert one.held_by["score"] == pytest.approx(3 / 4)  # "a" counts for nothing
    assert (one.held_by["index1"], one.held_by["index2"]) == (0, 2)


def test_copies_of_one_sentence_are_a_group(matcher):
    (one,) = group(matcher, ["two cats sleep"] * 1000 + ["it rains"])
    assert (one.size, one.held_by) == (1000, None)
    assert group(matcher, ["two cats", "it rains"]) == []


def test_no_group_is_larger_than_allowed(matcher, caplog):
    sentences = [f"red green blue {i}" for i in range(12)]
    with caplog.at_level("INFO", "keras_sentmatch"):
        found = group(matcher, sentences, threshold=0.5, largest=5, candidates=11)
    assert max(one.size for one in found) == 5
    assert "do not join groups" in caplog.text
    assert [one.size for one in group(matcher, sentences, threshold=0.5, candidates=11)] == [12]


def test_join_takes_edges_in_order():
    joined = join(range(5), [(0, 1), (1, 0), (3, 4), (1, 4), (2, 0)], largest=3)
    assert sorted(map(sorted, joined.parts)) == [[0, 1, 2], [3, 4]]
    assert joined.joins == [0, 2, 4] and joined.refused == 1


def test_the_page_lists_the_groups(matcher, tmp_path):
    found = group(matcher, ["<b>bold</b>", *LEFT, "<b>bold</b>"], threshold=0.5)
    for one in found:
        one["members"] = [{"line": m["index"] + 1, **m} for m in one.members]
    save_groups(tmp_path / "new" / "page.html", found, "Groups", 6)
    text = (tmp_path / "new" / "page.html").read_text("utf-8")
    assert "2 groups hold 6 of 6" in text.replace("\n", " ") and "<b>bold" not in text
    assert "red green blue three" in text and "Held together by" in text
