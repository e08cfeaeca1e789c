"""Ranking: kept encodings give what the pairs give, best first, and the command prints it."""

import numpy as np
import pytest

from keras_sentmatch.applications import DRCN, ESIM
from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference import EnsembleMatcher
from keras_sentmatch.inference.matcher import Matcher
from tests.harness import randomize

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


def test_kept_encodings_score_as_pairs_do(matcher):
    corpus = matcher.encode(CANDIDATES, batch_size=4)
    kept = matcher.rank_scores(QUERY, corpus)
    pairs = matcher.predict_proba(sentence1=[QUERY] * len(CANDIDATES), sentence2=CANDIDATES)[:, 1]
    assert np.ptp(pairs) > 0.01 and np.abs(kept - pairs).max() <= 1e-5
    assert len(corpus) == 15 and corpus.nbytes > 0
    empty = matcher.rank_scores("", corpus)
    assert np.isfinite(empty).all() and np.abs(empty - kept).max() > 1e-3
    assert matcher.encoder.report.truncated == 0
    matcher.temperature = 3.0
    softer = matcher.rank_scores(QUERY, corpus)
    matcher.temperature = 1.0
    odds = (pairs / (1 - pairs)) ** (1 / 3)
    np.testing.assert_allclose(softer, odds / (1 + odds), atol=1e-5)
    once = matcher.rank(QUERY, (sentence for sentence in CANDIDATES))
    assert once == matcher.rank(QUERY, CANDIDATES)
    assert len(matcher.encode(sentence for sentence in CANDIDATES)) == 15


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
    assert [r["index"] for r in matcher.rank(QUERY, matcher.encode(CANDIDATES), top_k=2)] == [
        r["index"] for r in best[:2]
    ]


def test_a_model_of_both_sentences_at_once_ranks_by_pairs():
    matcher = make_matcher(DRCN, depth=1, hidden_units=4)
    assert not matcher.can_cache_encodings
    pairs = matcher.predict_proba(sentence1=[QUERY] * 4, sentence2=CANDIDATES[:4])[:, 1]
    assert np.abs(matcher.rank_scores(QUERY, CANDIDATES[:4]) - pairs).max() == 0
    with pytest.raises(InputError, match="can't encode a sentence alone: "):
        matcher.encode(CANDIDATES)


def test_ensemble_ranks_by_the_mean(matcher):
    other = make_matcher()
    other.model.set_weights([0.5 * w for w in matcher.model.get_weights()])
    best = EnsembleMatcher([matcher, other]).rank(QUERY, CANDIDATES, top_k=3)
    scores = (matcher.rank_scores(QUERY, CANDIDATES) + other.rank_scores(QUERY, CANDIDATES)) / 2
    assert best[0]["index"] == int(scores.argmax())
    assert best[0]["score"] == pytest.approx(scores.max())


def test_a_corpus_belongs_to_its_matcher(matcher):
    corpus = matcher.encode(CANDIDATES)
    for other, words in (
        (make_matcher(), "Another matcher encoded this corpus"),
        (EnsembleMatcher([matcher]), "no cached encodings"),
    ):
        with pytest.raises(InputError, match=words):
            other.rank(QUERY, corpus)
