"""Ranking: the scores of pairs, the best first, in the same order at any temperature."""

import pickle

import numpy as np
import pytest

from keras_sentmatch.applications import DRCN, ESIM
from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from keras_sentmatch.inference.matcher import Matcher
from tests.case import randomize

CANDIDATES = [
    "a dog runs",
    "no dog runs in the park today",
    "",
    "two cats",
    "the " * 20 + "end",
] * 3
QUERY = "a dog runs in the park"


def make_matcher(cls=ESIM, names=("no", "yes"), **config):
    encoder = PairEncoder.fit(PairDataset(CANDIDATES, CANDIDATES), features=("word",))
    size = len(encoder.vocabulary)
    model = cls(vocabulary_size=size, num_classes=len(names), embedding_dim=4, units=3, **config)
    model.jit_compile = False
    return Matcher(randomize(model), encoder, names, task="classification")


@pytest.fixture(scope="module")
def matcher():
    return make_matcher()


def scores_of(matcher, candidates=CANDIDATES, query=QUERY, **options):
    """The scores of a ranking, in the order of the candidates."""
    ranked = matcher.rank(query, candidates, **options)
    return np.array([row.score for row in sorted(ranked, key=lambda row: row.index)])


def test_scores_are_those_of_pairs(matcher, monkeypatch):
    pairs = matcher.predict_proba([QUERY] * len(CANDIDATES), CANDIDATES)[:, 1]
    assert np.ptp(pairs) > 0.01 and np.abs(scores_of(matcher) - pairs).max() <= 1e-6
    monkeypatch.setattr(matcher, "temperature", 3.0)
    odds = (pairs / (1 - pairs)) ** (1 / 3)
    np.testing.assert_allclose(scores_of(matcher), odds / (1 + odds), atol=1e-5)
    once = matcher.rank(QUERY, (sentence for sentence in CANDIDATES))
    assert once == matcher.rank(QUERY, CANDIDATES)


def test_no_temperature_changes_the_order(matcher, monkeypatch):
    """At 0.001 all probabilities are 0 or 1."""
    before = [row.index for row in matcher.rank(QUERY, CANDIDATES)]
    for temperature in (0.001, 0.05, 30.0):
        monkeypatch.setattr(matcher, "temperature", temperature)
        assert [row.index for row in matcher.rank(QUERY, CANDIDATES)] == before
    assert scores_of(matcher).max() > 0
    sure = np.array([[1e-9, 1], [1e-7, 1], [1e-8, 1], [1, 0]], "float32")  # of a model
    found = matcher.best_first(sure, ["a", "b", "c", "d"], label="yes", top_k=3)
    assert [row.sentence for row in found] == ["a", "c", "b"]


def test_best_first_and_ties_in_order(matcher):
    best = matcher.rank(QUERY, CANDIDATES)
    scores = [row["score"] for row in best]
    assert scores == sorted(scores, reverse=True)
    assert sorted(row.index for row in best) == list(range(15))
    for row in best:
        assert row.sentence == CANDIDATES[row.index]
    places = {row["index"]: place for place, row in enumerate(best)}
    assert places[0] < places[5] < places[10]  # the same sentence three times
    worst = matcher.rank(QUERY, CANDIDATES, label="no")
    assert worst[0]["sentence"] == best[-1]["sentence"]
    assert matcher.rank(QUERY, CANDIDATES, top_k=2) == best[:2]


def test_ensemble_ranks_by_the_mean(matcher):
    other = make_matcher()
    other.model.set_weights([0.5 * w for w in matcher.model.get_weights()])
    best = EnsembleMatcher([matcher, other]).rank(QUERY, CANDIDATES, top_k=3)
    scores = (scores_of(matcher) + scores_of(other)) / 2
    assert best[0]["index"] == int(scores.argmax())
    assert best[0]["score"] == pytest.approx(scores.max())


def test_the_evaluators_of_sentence_transformers(matcher):
    evaluation = pytest.importorskip("sentence_transformers.cross_encoder.evaluation")
    pairs = [[QUERY, sentence] for sentence in CANDIDATES]
    scores = matcher.predict_proba([QUERY] * 15, CANDIDATES)
    best = scores[:, 1] > np.median(scores[:, 1])
    adapter = matcher.as_cross_encoder()
    options: dict = {"write_csv": False, "show_progress_bar": False}
    found = evaluation.CrossEncoderClassificationEvaluator(pairs, best.astype(int), **options)
    assert found(adapter)["average_precision"] == 1
    found = evaluation.CrossEncoderCorrelationEvaluator(pairs, scores[:, 1], **options)
    assert found(adapter)["spearman"] == pytest.approx(1)
    sample = {"query": QUERY, "positive": [CANDIDATES[int(scores[:, 1].argmax())]]}
    sample["negative"] = [CANDIDATES[int(scores[:, 1].argmin())]]
    assert evaluation.CrossEncoderRerankingEvaluator([sample], **options)(adapter)["map"] == 1
    three = make_matcher(names=("a", "b", "c"))
    labels = three.predict_proba([QUERY] * 15, CANDIDATES).argmax(-1)
    found = evaluation.CrossEncoderClassificationEvaluator(pairs, labels, **options)
    assert found(three.as_cross_encoder())["f1_macro"] == 1
    assert three.as_cross_encoder("b").num_labels == 1


@pytest.mark.each_backend
def test_cached_encodings_score_as_pairs_do(matcher):
    corpus = matcher.encode(CANDIDATES, batch_size=4)
    kept, pairs = scores_of(matcher, corpus), scores_of(matcher)
    assert len(corpus) == 15 and np.abs(kept - pairs).max() <= 1e-5
    assert np.abs(scores_of(matcher, corpus, "") - kept).max() > 1e-3
    assert matcher.encoder.report.truncated == 0
    other = make_matcher()
    with pytest.raises(InputError, match="Another matcher encoded these"):
        other.rank(QUERY, corpus)
    with pytest.raises(InputError, match="DRCN cannot encode a sentence alone"):
        make_matcher(DRCN, depth=1, hidden_units=4).encode(CANDIDATES)


@pytest.mark.once
def test_the_adapter_takes_one_pair_and_can_be_pickled(matcher):
    """Two strings are a pair, also if each of them has two characters."""
    adapter = matcher.as_cross_encoder()
    (want,) = adapter.predict([("ab", "cd")])
    assert adapter.predict(("ab", "cd")) == want == adapter.predict(["ab", "cd"])
    assert pickle.loads(pickle.dumps(adapter)).predict([("ab", "cd")]) == pytest.approx([want])
