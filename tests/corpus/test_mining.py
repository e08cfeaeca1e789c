"""Mining: what retrievers find, which pairs match, sizes, and what is refused."""

import contextlib
import json
import time

import numpy as np
import pytest

from keras_sentmatch.applications import ESIM
from keras_sentmatch.corpus import _cells, _mining, group, mine
from keras_sentmatch.corpus._bm25 import Bm25
from keras_sentmatch.corpus._cells import Cells
from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference import Matcher, load
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from tests.case import randomize

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


def test_rare_words_find_the_nearest():
    found = Bm25.of(SENTENCES)
    assert found.search("two cats are asleep", 3)[0] == 6 and not len(found.search("🙂🙂🙂", 3))


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
    assert 0 < matcher.asked <= 1200


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


@pytest.mark.parametrize("language", ["english", "greek"])
def test_all_pairs_of_a_small_corpus_are_found(matcher, language):
    """Compared with the scores of all pairs; words without a vector find each other too."""
    texts = [f"{a} {b} {c}" for a in ("dog", "cat") for b in ("runs", "eats") for c in "xyz"]
    if language == "greek":
        texts = [text.translate({i: i + 0x350 for i in range(97, 123)}) for text in texts]
    rows = np.array([(i, j) for j in range(len(texts)) for i in range(j)])
    some = PairDataset([texts[i] for i, _ in rows], [texts[j] for _, j in rows])
    wanted = matcher.raw_scores(some, 64)[:, 1] >= 0.4
    assert 0 < wanted.sum() < len(rows)
    for count in (11, 5):  # more than enough, and the matching ones alone
        found = places(mine(matcher, texts, threshold=0.4, candidates=count))
        assert found == {(i, j) for i, j in rows[wanted].tolist()}


def test_case_spacing_and_final_punctuation_do_not_count(matcher):
    texts = ["Two cats sleep.", "rain", "two  cats sleep", "TWO CATS SLEEP?!", "What is C++?"]
    matcher.asked = 0
    found = mine(matcher, [*texts, "What is C#?"], threshold=0.99)
    assert places(found) == {(0, 2), (0, 3)} and found[0].sentence2 == "two  cats sleep"
    assert matcher.asked == 6 + 1
    assert places(mine(matcher, texts[:2], texts[2:4], threshold=0.99)) == {(0, 0), (0, 1)}


def of_vectors(one, two, rarity):
    (one, _), (two, _) = one, two
    return 20 * (np.dot(one.astype("float32"), two.astype("float32")) - 0.8)


def of_common_words(one, two, rarity):
    (_, one), (_, two) = one, two
    return 40 * (sum(map(rarity.get, one & two)) / sum(map(rarity.get, one | two)) - 0.6)


@pytest.mark.parametrize(("score", "least"), [(of_vectors, 1 / 8), (of_common_words, 1 / 2)])
def test_candidates_that_promise_no_match_are_not_scored(
    score, least, matcher, monkeypatch, caplog
):
    rng = np.random.default_rng(0)
    words = "red green blue dog cat bird runs eats sleeps park house street".split()
    texts = [*dict.fromkeys(" ".join(rng.choice(words, 5)) for _ in range(400))]
    asked = []
    texts_with = {word: sum(word in text.split() for text in texts) for word in words}
    rarity = {word: np.log((1 + len(texts)) / count) for word, count in texts_with.items()}

    def scores(self, pairs):
        asked.append(len(pairs))
        known = [(v, set(self.first[i].split())) for i, v in enumerate(self.first.vectors)]
        return np.array([score(known[i], known[j], rarity) for i, j in pairs])

    monkeypatch.setattr(_mining.Miner, "_score", scores)
    every = mine(matcher, texts, threshold=0.7, candidates=20)
    monkeypatch.setattr(_mining, "_EXAMPLES", 1000)
    monkeypatch.setattr(_mining, "_WINDOW", 512)
    asked.clear()
    caplog.clear()  # another test may have turned these messages on
    with caplog.at_level("INFO", "keras_sentmatch"):
        some = mine(matcher, texts, threshold=0.7, candidates=20)
    (total,) = [r.args[0] for r in caplog.records if "candidate pairs" in r.msg]
    (skipped,) = [r.args[0] for r in caplog.records if "are not scored" in r.msg]
    total, skipped = (int(number.replace(",", "")) for number in (total, skipped))
    assert sum(asked) == total - skipped and skipped > least * total
    assert places(some) <= places(every) and len(some) > 0.9 * len(every)


def test_static_similarity_needs_no_model():
    static = load("static")
    found = mine(static, SENTENCES, threshold=0.7)
    assert {(0, 2), (0, 5), (3, 6)} <= places(found) and found[0].score == pytest.approx(1)
    predicted = static.predict_proba(
        PairDataset(*zip(*((f.sentence1, f.sentence2) for f in found)))
    )
    assert [f.score for f in found] == pytest.approx(list(predicted), abs=1e-6)
    score = static.predict("a dog runs", "two cats sleep").score
    assert score == pytest.approx(static.predict("two cats sleep", "runs dog a").score)
    assert static.predict("", "a dog").score == 0
    with pytest.raises(InputError, match="needs a model, and static similarity has none"):
        load("static", engine="onnx")


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
    with pytest.raises(InputError, match="written with another --threshold"):
        mine(matcher, SENTENCES, threshold=0.1, partial=kept)
    for find in (mine, group):
        undisturbed = find(make_matcher(), SENTENCES, threshold=0)
        assert find(matcher, SENTENCES, threshold=0, partial=kept) == undisturbed
        matcher.asked = 0
        assert find(matcher, SENTENCES, threshold=0, partial=kept) == undisturbed
        assert matcher.asked <= _mining._COMPARED + 1 or find is group


def test_an_interrupted_call_skips_the_same_candidates(matcher, tmp_path, monkeypatch):
    monkeypatch.setattr(_mining, "_EXAMPLES", 100)
    monkeypatch.setattr(_mining, "_FEWEST", 5)
    monkeypatch.setattr(_mining, "_WINDOW", 32)
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice("red green blue dog cat bird runs".split(), 4)) for _ in range(80)]
    undisturbed = mine(make_matcher(), texts, threshold=0.5)
    score, calls = _mining.Miner._score, []

    def interrupted(self, pairs):
        calls.append(pairs)
        if len(calls) % 5 == 0:
            raise KeyboardInterrupt
        return score(self, pairs)

    monkeypatch.setattr(_mining.Miner, "_score", interrupted)
    for attempt in range(100):  # noqa: B007
        with contextlib.suppress(KeyboardInterrupt):
            found = mine(matcher, texts, threshold=0.5, partial=tmp_path / "kept")
            break
    assert attempt > 3 and found == undisturbed


@pytest.mark.parametrize("damaged", ["1.0\n{}", "nan\n", "x"])
def test_damaged_scores_are_one_error(matcher, tmp_path, monkeypatch, damaged):
    with monkeypatch.context() as patch, pytest.raises(TypeError):
        patch.setattr("keras_sentmatch.corpus._mining.Miner.shown", None)
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
        patch.setattr("keras_sentmatch.corpus._mining.Miner.shown", None)
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


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_many_vectors_are_looked_up_in_cells(monkeypatch, dtype):
    """Above `EXACT`, a vector is compared with those of the nearest cells alone."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(5_000, 4)).astype("float32")
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(dtype)
    cosines = vectors.astype("float32") @ vectors.T.astype("float32")
    nearest = np.sort(cosines, axis=1)[:, :-11:-1]
    for exact, least in ((5_000, 1), (4_000, 0.9)):
        monkeypatch.setattr(_cells, "EXACT", exact)
        found = Cells(vectors)
        assert len(found.centroids) == (1 if exact == 5_000 else 70)
        got = np.take_along_axis(cosines, found.search(vectors, 10), axis=1)
        assert np.mean(np.isclose(got, nearest, atol=1e-6)) >= least


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
