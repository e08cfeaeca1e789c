"""Mining: what retrievers find, which pairs match, sizes, and what is refused."""

import json
import time

import numpy as np
import pytest

from keras_sentmatch.applications import ESIM
from keras_sentmatch.corpus import _mining, _retrieval, group, mine
from keras_sentmatch.corpus._retrieval import Bm25, Dense, embed
from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference import Matcher
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from tests.case import randomize

pytest.importorskip("faiss")
SENTENCES = [
    "a dog runs in the park",
    "it is raining",
    "the dog is running in a park",
    "two cats sleep",
    "rain falls today",
    "a dog runs in the park",
    "two cats are asleep",
    "",
]


class Overlap(Matcher):
    """Answers with the share of words that two sentences have in common."""

    asked = 0

    def raw_scores(self, pairs, batch_size):
        self.asked += len(pairs)
        shares = []
        for one, two in zip(pairs.sentence1, pairs.sentence2):
            words = [set(s.split()) - {"a", "the", "is", "in"} for s in (one, two)]
            shares.append(len(words[0] & words[1]) / max(1, len(words[0] | words[1])))
        return np.stack([1 - np.array(shares), shares], axis=1).astype("float32")


def make_matcher():
    encoder = PairEncoder.fit(PairDataset(SENTENCES, SENTENCES), features=("word",))
    model = ESIM(vocabulary_size=encoder.vocabulary_size, num_classes=2, embedding_dim=4, units=3)
    model.jit_compile = False
    return Overlap(randomize(model), encoder, ("no", "yes"), task="classification")


@pytest.fixture(scope="module")
def matcher():
    return make_matcher()


def places(found):
    return {(pair.index1, pair.index2) for pair in found}


def test_matching_pairs_are_found_best_first(matcher):
    matcher.asked = 0
    found = mine(EnsembleMatcher([matcher, matcher]), SENTENCES, threshold=0.3)
    assert (found[0].index1, found[0].index2) == (0, 5)
    assert places(found) == {(0, 5), (0, 2), (3, 6)}
    assert [p.score for p in found] == sorted((p.score for p in found), reverse=True)
    assert all(p.sentence1 == SENTENCES[p.index1] for p in found)
    assert all(p.sentence2 == SENTENCES[p.index2] for p in found)


def test_each_retriever_finds_the_nearest():
    """Each alone: what is mined joins both."""
    asked = ["two cats are asleep", "🙂🙂🙂"]
    dense = Dense(embed(SENTENCES)).search(embed(asked), 3)
    for ranking in (dense, Bm25.of(SENTENCES).search(asked, 3)):
        assert ranking[0, 0] == 6 and (ranking[1] == -1).all()


def test_bm25_is_lucenes():
    """Robertson and Zaragoza (2009), with k1 = 1.5, b = 0.75 and idf as in Lucene."""
    found = Bm25.of(["a a b", "b c", "c c c c"])
    scores = found.scores.toarray()[[found.words.index(word) for word in "abc"]]
    counts = np.array([[2, 0, 0], [1, 1, 0], [0, 1, 4]])
    holds = (counts > 0).sum(axis=1, keepdims=True)
    rarity = np.log(1 + (3 - holds + 0.5) / (holds + 0.5))
    norms = 1.5 * (0.25 + 0.75 * counts.sum(axis=0) / 3)
    np.testing.assert_allclose(scores, rarity * counts / (counts + norms), rtol=1e-6)


def test_only_candidates_are_scored(matcher):
    words = [f"w{i} x{i % 50} y{i % 40}" for i in range(400)]
    matcher.asked = 0
    mine(matcher, words, candidates=3)
    assert 0 < matcher.asked <= 1200 + 400


def test_two_corpora(matcher):
    found = mine(matcher, SENTENCES[:4], SENTENCES[4:] * 2, threshold=0.3)
    assert places(found) == {(0, 1), (0, 5), (2, 1), (2, 5), (3, 2), (3, 6)}
    assert mine(matcher, ["it rains"], ["snow"]) == []


def test_equal_sentences_match_whatever_their_score(matcher):
    """The score of sentences without words is 0 here."""
    equal = mine(matcher, ["a the", "two cats"], ["rain", "a the", "a the"], threshold=0.5)
    assert places(equal) == {(0, 1), (0, 2)} and equal[0].score < 1e-6
    assert places(mine(matcher, ["a the", "two cats", "a the"], threshold=0.5)) == {(0, 2)}


def test_a_temperature_keeps_the_order_where_probabilities_are_one():
    matcher = make_matcher()
    matcher.temperature = 0.005
    found = mine(matcher, ["x y z v", "x y z w", "k l m n", "k l m n o"])
    assert [(p.index1, p.index2) for p in found] == [(2, 3), (0, 1)]
    assert found[1].score > 1 - 1e-9


def test_an_interrupted_call_continues(matcher, tmp_path, monkeypatch):
    monkeypatch.setattr(_mining, "_WINDOW", 8)
    score, kept = _mining.Miner._score, tmp_path / "kept"
    calls = []

    def interrupted(self, pairs):
        calls.append(pairs)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return score(self, pairs)

    monkeypatch.setattr(_mining.Miner, "_score", interrupted)
    with pytest.raises(KeyboardInterrupt):
        mine(matcher, SENTENCES, threshold=0, partial=kept)
    monkeypatch.setattr(_mining.Miner, "_score", score)
    with pytest.raises(InputError, match="written with another --candidates"):
        mine(matcher, SENTENCES, threshold=0, partial=kept, candidates=5)
    with pytest.raises(InputError, match="written with another corpus"):
        mine(matcher, SENTENCES[1:], threshold=0, partial=kept)
    monkeypatch.setattr(_mining.Miner, "_score", lambda *arguments: score(*arguments) + 1)
    with pytest.raises(InputError, match="has the scores of another run"):
        mine(matcher, SENTENCES, threshold=0, partial=kept)
    monkeypatch.setattr(_mining.Miner, "_score", score)
    total = len(_mining.Miner(matcher, SENTENCES, None, None, 10, 64, None).candidates())
    for find, late in ((mine, "_mining.Miner._copies"), (group, "_grouping.join")):
        with monkeypatch.context() as patch, pytest.raises(TypeError):
            patch.setattr(f"keras_sentmatch.corpus.{late}", None)
            find(matcher, SENTENCES, threshold=0, partial=kept)
        assert kept.with_name("kept.partial").exists(), "until the end"
        matcher.asked = 0
        found = find(matcher, SENTENCES, threshold=0, partial=kept)
        assert found == find(make_matcher(), SENTENCES, threshold=0)
        assert matcher.asked <= total or find is group
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damaged", ["1.0\n{}", "nan\n", "x"])
def test_damaged_scores_are_one_error(matcher, tmp_path, monkeypatch, damaged):
    with monkeypatch.context() as patch, pytest.raises(TypeError):
        patch.setattr("keras_sentmatch.corpus._mining.Miner._copies", None)
        mine(matcher, SENTENCES, threshold=0, partial=tmp_path / "kept")
    kept = tmp_path / "kept.partial"
    text = kept.read_text()
    kept.write_text(damaged.format(text) if "{" in damaged else damaged * len(text))
    note = json.loads((tmp_path / "kept.partial.json").read_text())
    note["size"] = kept.stat().st_size
    (tmp_path / "kept.partial.json").write_text(json.dumps(note))
    with pytest.raises(InputError, match="partial is damaged"):
        mine(matcher, SENTENCES, threshold=0, partial=tmp_path / "kept")


def test_scores_of_another_run_or_corpora_are_not_taken(tmp_path, monkeypatch):
    """Both runs are sure that nothing matches, which differs in the log odds alone."""
    matcher, other = make_matcher(), make_matcher()
    matcher.raw_scores = lambda pairs, size: np.tile([1 - 1e-4, 1e-4], (len(pairs), 1))
    other.raw_scores = lambda pairs, size: np.tile([1 - 2e-4, 2e-4], (len(pairs), 1))
    with monkeypatch.context() as patch, pytest.raises(TypeError):
        patch.setattr("keras_sentmatch.corpus._mining.Miner._copies", None)
        mine(matcher, SENTENCES, partial=tmp_path / "kept")
    with pytest.raises(InputError, match="has the scores of another run"):
        mine(other, SENTENCES, partial=tmp_path / "kept")
    with pytest.raises(InputError, match="written with another --against"):
        mine(matcher, SENTENCES, SENTENCES, partial=tmp_path / "kept")


def test_the_threshold_of_the_other_label_is_what_is_left():
    """A pair that the matcher predicts as "yes" is not mined as "no"."""
    matcher = make_matcher()
    matcher.threshold = 0.2
    pairs = [("a dog", "red dog"), ("a dog", "cat")]
    assert [answer.label for answer in matcher.predict(pairs)] == ["yes", "no"]
    found = mine(matcher, ["a dog", "red dog", "cat"], label="no")
    assert (0, 1) not in places(found)


def test_equal_sentences_are_a_star_and_are_scored_once(matcher):
    matcher.asked = 0
    found = mine(matcher, ["two cats sleep"] * 1_000)
    assert matcher.asked == 1
    assert [(p.index1, p.index2) for p in found] == [(0, i) for i in range(1, 1_000)]


def test_long_sentences_and_many_copies_take_no_quadratic_time(matcher):
    """About a second here; 45 billion comparisons would take minutes."""
    long = " ".join(f"word{i}" for i in range(10_000))
    assert places(mine(matcher, [long, long + " more", "two cats"], threshold=0.9)) == {(0, 1)}
    known = " ".join(["dog", "runs", "park"] * 3_500)
    assert places(mine(matcher, [known, "a dog runs", "rain"])) == {(0, 1)}
    copies, start = ["two cats sleep"] * 100_000, time.process_time()
    (one,) = group(matcher, copies)
    assert len(mine(matcher, copies)) == 99_999 and one.size == 100_000
    assert time.process_time() - start < 10


def test_many_vectors_are_looked_up_in_lists(monkeypatch):
    """Above `EXACT`, faiss looks through some of many lists."""
    monkeypatch.setattr(_retrieval, "EXACT", 5_000)
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(5_001, 4)).astype("float32")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    found = Dense(vectors)
    assert found.index.nlist > 200
    asked = rng.integers(0, 5_000, 50)
    nearest = np.argsort(-(vectors[asked] @ vectors.T), axis=1)[:, :10]
    got = found.search(vectors[asked], 10)
    assert (got[:, 0] == asked).all()
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(nearest, got)]) > 0.9


@pytest.mark.parametrize(
    "sentences, options, message",
    [
        ([], {}, "corpus has 0 sentences. Expected at least 2"),
        ("a b", {}, "is one string"),
        (["a", None], {}, r"corpus\[1\] is None. Expected a string"),
        (["a", "b"], {"candidates": 0}, "candidates"),
        (["a", "b"], {"label": "maybe"}, "'maybe' is not a label"),
        (["a", "b"], {"threshold": 80}, "threshold=80 is out of range. Expected a probability"),
        (["a", "b"], {"threshold": float("nan")}, "threshold=nan is out of range"),
        (["a", "b"], {"threshold": "0.5"}, "threshold='0.5' is out of range"),
    ],
)
def test_bad_input(matcher, sentences, options, message):
    with pytest.raises(InputError, match=message):
        mine(matcher, sentences, **options)
