"""Streams of pairs, and the scorer of tables that worker processes take."""

import pickle
from itertools import count, islice

import numpy as np
import pytest

from keras_sentmatch.errors import InputError
from keras_sentmatch.inference import BatchScorer, Matcher, _batch_scorer
from tests.inference.test_matcher import FIRST, NAMES, SECOND, make_encoder, make_model

pytestmark = pytest.mark.once
PAIRS = list(zip(FIRST, SECOND))


@pytest.fixture(scope="module")
def matcher() -> Matcher:
    encoder = make_encoder()
    return Matcher(make_model(encoder), encoder, NAMES, task="classification")


@pytest.fixture(scope="module")
def run(matcher, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stream") / "run"
    matcher.save(folder)
    return folder


def table() -> dict:
    return {"id": np.arange(13), "sentence1": np.array(FIRST), "sentence2": np.array(SECOND)}


@pytest.mark.parametrize("window", [1, 5, 13, 100])
def test_a_stream_answers_as_predict_does(matcher, window):
    answers = list(matcher.predict_stream(iter(PAIRS), window=window))
    expected = matcher.predict(PAIRS)
    assert [a.label for a in answers] == [e.label for e in expected]
    for answer, other in zip(answers, expected):
        assert answer.probabilities == pytest.approx(other.probabilities, abs=1e-6)


def test_an_endless_stream_is_read_one_window_at_a_time(matcher):
    read = []
    endless = (read.append(i) or PAIRS[i % 13] for i in count())
    assert len(list(islice(matcher.predict_stream(endless, window=4), 6))) == 6
    assert len(read) == 8
    assert list(matcher.predict_stream([])) == []


def test_a_bad_pair_is_named_by_its_place_in_the_stream(matcher):
    stream = matcher.predict_stream([*PAIRS, {"sentence1": "a"}], window=4)
    assert len(list(islice(stream, 12))) == 12
    with pytest.raises(InputError, match="Pair 13 has the keys sentence1"):
        next(stream)
    with pytest.raises(InputError, match=r"sentence2\[6\] is None"):
        bad = {"sentence1": "a", "sentence2": None}
        list(matcher.predict_stream([*PAIRS[:6], bad], window=4))


def test_a_scorer_is_pickled_small_and_loads_its_run_once(matcher, run, monkeypatch):
    monkeypatch.setattr(_batch_scorer, "_loaded", {})
    loads = []
    load = Matcher.load
    monkeypatch.setattr(Matcher, "load", lambda *a, **k: loads.append(a) or load(*a, **k))
    packed = pickle.dumps(BatchScorer(run))
    assert len(packed) < 1000 and not loads
    for _ in range(2):
        answers = pickle.loads(packed)(table())
    assert len(loads) == 1
    np.testing.assert_array_equal(answers["id"], np.arange(13))
    expected = matcher.predict(PAIRS)
    assert list(answers["label"]) == [answer.label for answer in expected]
    shares = [[answers[f"probability_{name}"][i] for name in NAMES] for i in range(13)]
    np.testing.assert_allclose(shares, matcher.predict_proba(PAIRS), atol=1e-6)


def test_a_scorer_takes_frames_and_arrow(run):
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    scorer = BatchScorer(run)
    expected = scorer(table())
    whole = arrow.table(table())
    frame = pandas.DataFrame(table())
    answered = [frame, whole, whole.to_batches()[0]]
    for given, answer in zip(answered, scorer.tables(answered)):
        assert type(answer) is type(given)
        rows = answer.to_dict("list") if given is frame else answer.to_pydict()
        assert list(rows) == list(expected)
        assert rows["label"] == list(expected["label"])
        empty = scorer(given[:0])
        assert len(empty) == 0 and type(empty) is type(given)
