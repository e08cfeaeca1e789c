"""The scorer of tables that worker processes take."""

import json
import pickle
import shutil

import numpy as np
import pytest

from keras_sentmatch.inference import BatchScorer, Matcher, _batch_scorer
from keras_sentmatch.inference.run_folder import write_json
from tests.inference.test_matcher import FIRST, NAMES, PAIRS, SECOND, make_encoder, make_model


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
    gold = BatchScorer(run)({**table(), "label": ["mine"] * 13, "probability_neutral": [9] * 13})
    assert gold["label"] == ["mine"] * 13 and gold["probability_neutral"] == [9] * 13
    assert list(gold["predicted_label"]) == list(answers["label"])
    shares = [[answers[f"probability_{name}"][i] for name in NAMES] for i in range(13)]
    np.testing.assert_allclose(shares, matcher.predict_proba(PAIRS), atol=1e-6)


def test_a_run_that_changes_is_loaded_again(run, tmp_path):
    """It is calibrated, and then gone: what is loaded answers on."""
    shutil.copytree(run, tmp_path / "run")
    scorer = BatchScorer(tmp_path / "run")
    before = scorer(table())
    card = json.loads((tmp_path / "run/matcher.json").read_text())
    write_json(tmp_path / "run/matcher.json", card | {"temperature": 9.0})
    after = scorer(table())
    name = f"probability_{NAMES[0]}"
    assert np.ptp(after[name]) < np.ptp(before[name]) / 2
    shutil.rmtree(tmp_path / "run")
    np.testing.assert_array_equal(scorer(table())[name], after[name])
    assert BatchScorer("similarity").run == "similarity"


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
