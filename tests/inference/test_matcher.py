"""Matcher: its predictions, tables, calibration, and run folders that are saved, loaded or broken."""

import json
import os
import pickle
import subprocess
import sys
from importlib.util import find_spec

import keras
import numpy as np
import pytest

from keras_sentmatch import explain
from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.frames import columns_of
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference import BatchScorer
from keras_sentmatch.inference.ensemble import EnsembleMatcher, load_run
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.metrics.calibration import apply_temperature, fit_temperature
from tests.toys.frames import KINDS
from tests.toys.training import build_tiny

NAMES = ("entailment", "neutral", "contradiction")
SENTENCES = ["a dog runs", "no dog runs in the park today", "two cats", "", "the " * 30 + "end"]
FIRST = [SENTENCES[i % 5] for i in range(13)]
SECOND = [SENTENCES[(i * 3 + 1) % 5] for i in range(13)]
PAIRS = list(zip(FIRST, SECOND))


def make_encoder() -> PairEncoder:
    return PairEncoder.fit(PairDataset(FIRST, SECOND), max_length=24)


def make_model(encoder: PairEncoder, outputs: int = 3) -> keras.Model:
    size = {"vocabulary_size": len(encoder.vocabulary), "embedding_dim": 8}
    model = build_tiny("tiny", num_classes=outputs, dropout=0.0, **size)
    rng = np.random.default_rng(12)  # the same weights on every backend
    *weights, bias = model.get_weights()
    model.set_weights([*(rng.normal(size=weight.shape) for weight in weights), 0 * bias])
    return model


@pytest.fixture(scope="module")
def matcher() -> Matcher:
    encoder = make_encoder()
    return Matcher(make_model(encoder), encoder, NAMES, task="classification", info={"seed": 3})


@pytest.fixture
def two() -> Matcher:
    """A matcher of two classes."""
    encoder = make_encoder()
    return Matcher(make_model(encoder, 2), encoder, ("no", "yes"), task="classification")


@pytest.fixture
def folder(matcher, tmp_path):
    matcher.save(tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.each_backend
def test_one_pair_and_many_in_every_form(matcher):
    answer = matcher.predict(sentence1="a dog runs", sentence2="two cats")
    assert list(answer["probabilities"]) == list(NAMES)
    assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    assert answer.label == max(answer["probabilities"], key=answer["probabilities"].get)
    assert matcher.predict({"sentence1": "a dog runs", "sentence2": "two cats"}) == answer
    assert matcher.predict("a dog runs", "two cats") == answer
    assert matcher.predict("two cats", "a dog runs") != answer
    json.dumps(answer)
    one_by_one = [[*matcher.predict(*pair)["probabilities"].values()] for pair in PAIRS]
    assert np.ptp(one_by_one, axis=0).min() > 0.01, "the rows must differ"
    for batch_size in (1, 3, 64):
        scores = matcher.predict_proba(FIRST, SECOND, batch_size=batch_size)
        assert scores.dtype == np.float32 and scores.shape == (13, 3)
        np.testing.assert_allclose(scores, one_by_one, atol=1e-5)
    assert matcher.predict([]) == []
    assert matcher.predict_proba(sentence1=[], sentence2=[]).shape == (0, 3)
    dicts = [{"sentence1": a, "sentence2": b} for a, b in PAIRS]
    for pairs in (dicts, PAIRS, PairDataset(FIRST, SECOND)):
        got = [list(answer["probabilities"].values()) for answer in matcher.predict(pairs)]
        np.testing.assert_allclose(got, one_by_one, atol=1e-5)


def test_a_score_has_no_label():
    encoder = make_encoder()
    scorer = Matcher(make_model(encoder, 1), encoder, None, task="regression")
    assert set(scorer.predict("a dog", "two cats")) == {"score"}
    scores = scorer.predict_proba(FIRST, SECOND)
    assert scores.shape == (13,)
    table = KINDS["arrow"]({"sentence1": FIRST, "sentence2": SECOND})
    answered = columns_of(scorer.predict(table))
    assert list(answered) == ["sentence1", "sentence2", "score"]
    np.testing.assert_allclose(answered["score"], scores, atol=1e-6)
    data = PairDataset(FIRST, SECOND, np.linspace(0, 5, 13))
    assert scorer.evaluate(data)["primary"] == "pearson"


def test_the_threshold_decides_between_two_classes(two):
    yes = two.predict_proba(FIRST, SECOND)[:, 1]
    two.threshold = float(np.median(yes)) + 1e-4
    labels = ["yes" if p > two.threshold else "no" for p in yes]
    assert len(set(labels)) == 2
    assert [a.label for a in two.predict(FIRST, SECOND)] == labels
    data = PairDataset(FIRST, SECOND, labels, label_names=("no", "yes"))
    assert two.evaluate(data)["accuracy"] == 1.0


def test_evaluate_matches_labels_by_name(matcher):
    labels = [answer.label for answer in matcher.predict(PairDataset(FIRST, SECOND))]
    assert len(set(labels)) > 1
    right = PairDataset(FIRST, SECOND, labels, label_names=NAMES)
    other_order = PairDataset(FIRST, SECOND, labels, label_names=NAMES[::-1])
    assert matcher.evaluate(right)["accuracy"] == matcher.evaluate(other_order)["accuracy"] == 1.0
    assert matcher.evaluate(right)["rows"] == 13


@pytest.mark.parametrize("kind", ["pandas", "arrow", "polars", "datasets"])
def test_a_table_comes_back_with_its_answers(two, kind):
    columns = {"n": list(range(13)), "question1": FIRST, "question2": SECOND, "label": ["old"] * 13}
    given = KINDS[kind](columns)
    found = two.predict(given)
    assert type(found) is type(given)
    answered = columns_of(found)
    new = ["predicted_label", "probability_no", "probability_yes"]
    assert sorted(answered) == sorted([*columns, *new])
    assert {name: answered[name] for name in columns} == columns, "nothing of the user's changes"
    want = two.predict(FIRST, SECOND)
    assert answered["predicted_label"] == [answer.label for answer in want]
    shares = [answer["probabilities"]["yes"] for answer in want]
    np.testing.assert_allclose(answered["probability_yes"], shares, atol=1e-6)
    np.testing.assert_allclose(two.predict_proba(given)[:, 1], shares, atol=1e-6)
    twice = columns_of(two.predict(found))
    assert {name: twice[name] for name in answered} == answered
    assert set(twice) - set(answered) == {f"predicted_{name}" for name in new}
    swapped = two.predict(given, sentence1="question2", sentence2="question1")
    want = two.predict_proba(SECOND, FIRST)[:, 1]
    np.testing.assert_allclose(columns_of(swapped)["probability_yes"], want, atol=1e-6)
    with pytest.raises(InputError, match="has the columns n, .*Name the two columns of sentences"):
        two.predict(given, sentence1="n", sentence2="nosuch")


def test_what_abstains_does_so_everywhere(two, tmp_path):
    matcher = two
    pairs = PairDataset(FIRST, SECOND, [0, 1] * 6 + [0], label_names=("no", "yes"))
    p = matcher.predict_proba(pairs)
    cut = float(np.unique(p.max(-1))[4:6].mean())
    matcher.abstain_below = (cut, cut)
    matcher.save(tmp_path / "run")
    ensemble = EnsembleMatcher([matcher], abstain_below=(cut, cut))
    ensemble.save(tmp_path / "both")
    loaded = load_run(tmp_path / "both")
    assert type(loaded) is EnsembleMatcher
    names = [None if top < cut else ("no", "yes")[i] for top, i in zip(p.max(-1), p.argmax(-1))]
    for one in (matcher, Matcher.load(tmp_path / "run"), ensemble, loaded):
        answers = one.predict(pairs)
        assert [answer.label for answer in answers] == names
        assert [answer.abstained for answer in answers] == [name is None for name in names]
        figures = one.evaluate(pairs)
        assert 0 < figures["coverage"] == np.mean([name is not None for name in names]) < 1
        right = [name == pairs.label_names[y] for name, y in zip(names, pairs.labels) if name]
        assert figures["answered_accuracy"] == np.mean(right)
    assert [answer.label for answer in matcher.answers(p, abstain=False)].count(None) == 0
    unsure = names.index(None)
    assert (
        explain(matcher, FIRST[unsure], SECOND[unsure]).label == ("no", "yes")[p[unsure].argmax()]
    )
    table = BatchScorer(tmp_path / "run")({"sentence1": FIRST, "sentence2": SECOND})
    assert list(table["label"]) == names
    report = matcher.calibrate(pairs)
    assert report["abstain_below"] is matcher.abstain_below is None and report["coverage"] == 1
    matcher.save(tmp_path / "run")
    assert "abstained" not in Matcher.load(tmp_path / "run").predict(pairs)[0]


def test_calibration_is_in_every_answer_and_on_disk(two, tmp_path):
    matcher = two
    raw = matcher.predict_proba(PairDataset(FIRST, SECOND))
    labels = ["yes" if i % 3 else "no" for i in range(13)]
    data = PairDataset(FIRST, SECOND, labels, label_names=("yes", "no"))  # not the matcher's order
    report = matcher.calibrate(data, threshold="f1")
    fitted = fit_temperature([i % 3 > 0 for i in range(13)], raw)
    assert report["temperature"] == matcher.temperature == pytest.approx(fitted) != 1
    expected = apply_temperature(raw, matcher.temperature)
    assert np.abs(expected - raw).max() > 1e-3
    matcher.save(tmp_path / "run")
    for one in (matcher, Matcher.load(tmp_path / "run")):
        assert (one.temperature, one.threshold) == (report["temperature"], report["threshold"])
        np.testing.assert_allclose(one.predict_proba(data), expected, atol=1e-6)
        answers = one.predict(data)
        shown = [answer["probabilities"]["yes"] for answer in answers]
        np.testing.assert_allclose(shown, expected[:, 1], atol=1e-6)
        assert [a.label == "yes" for a in answers] == (expected[:, 1] > one.threshold).tolist()
        ranked = {row.index: row.score for row in one.rank(FIRST[0], SECOND)}
        wanted = one.predict_proba([FIRST[0]] * 13, SECOND)[:, 1]
        np.testing.assert_allclose([ranked[i] for i in range(13)], wanted, atol=1e-6)
        figures = one.evaluate(data)
        for name in ("nll", "ece", "accuracy"):
            assert figures[name] == pytest.approx(report["after"][name], abs=1e-5)
    again = matcher.calibrate(data)
    assert again["temperature"] == report["temperature"], "it starts from the bare model"
    assert matcher.threshold is None
    matcher.calibrate(data, temperature=False)
    assert matcher.temperature == 1
    np.testing.assert_array_equal(matcher.predict_proba(data), raw)


@pytest.mark.each_backend
def test_save_and_load_give_the_same_answers(matcher, folder):
    again = Matcher.load(folder)
    assert (again.label_names, again.task, again.threshold) == (NAMES, "classification", None)
    assert again.info["seed"] == 3
    want = matcher.predict_proba(FIRST, SECOND)
    pickled = pickle.loads(pickle.dumps(matcher))
    for other in (again, pickled):
        np.testing.assert_allclose(other.predict_proba(FIRST, SECOND), want, atol=1e-6)
    card = json.loads((folder / "matcher.json").read_text())
    assert card["format"] == 2 and card["seed"] == 3
    assert card["versions"]["backend"] == keras.config.backend()


def test_saving_again_keeps_other_files_and_leaves_nothing_behind(matcher, folder):
    (folder / "history.csv").write_text("epoch\n")
    (folder / "encoder" / "stale.txt").write_text("old")
    matcher.save(folder)
    assert sorted(path.name for path in folder.iterdir()) == [
        "encoder", "history.csv", "matcher.json", "model.keras",
    ]  # fmt: skip
    assert not (folder / "encoder" / "stale.txt").exists()
    assert [path.name for path in folder.parent.iterdir()] == ["run"]
    Matcher.load(folder)


def test_a_folder_of_somebody_else_is_not_replaced(matcher, tmp_path):
    source = tmp_path / "encoder" / "mine.py"
    source.parent.mkdir()
    source.write_text("mine")
    with pytest.raises(InputError, match="encoder is not an encoder's, and would be replaced"):
        matcher.save(tmp_path)
    assert source.read_text() == "mine" and [p.name for p in tmp_path.iterdir()] == ["encoder"]


def test_a_failed_save_leaves_the_old_run_whole(matcher, folder, monkeypatch):
    monkeypatch.setattr(matcher.encoder, "save", lambda path: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        matcher.save(folder)
    assert [path.name for path in folder.parent.iterdir()] == ["run"]
    Matcher.load(folder)


def test_a_file_of_a_run_is_no_run(folder):
    with pytest.raises(InputError, match=f"is a file.*Give its folder, {folder}.$"):
        Matcher.load(folder / "model.keras")
    with pytest.raises(InputError, match="is a file.*Give the folder that training wrote"):
        Matcher.load(folder / "encoder" / "vocabulary.txt")


def test_a_trained_model_is_saved_without_its_optimizer(tmp_path):
    encoder = make_encoder()
    model = make_model(encoder)
    trained = Matcher(model, encoder, NAMES, task="classification")
    trained.save(tmp_path / "fresh")
    model.compile("adam", "sparse_categorical_crossentropy")
    inputs = encoder.encode(FIRST, SECOND)
    model.fit({k: inputs[k] for k in model.input}, np.zeros(13), verbose=0)
    trained.save(tmp_path / "trained")
    sizes = [(tmp_path / name / "model.keras").stat().st_size for name in ("fresh", "trained")]
    assert sizes[1] < 1.1 * sizes[0]
    want = trained.predict_proba(FIRST, SECOND)
    got = Matcher.load(tmp_path / "trained").predict_proba(FIRST, SECOND)
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_the_folder_loads_in_another_process_on_another_backend(matcher, folder):
    """Every other backend that is installed gives the same probabilities."""
    expected = matcher.predict_proba(sentence1=FIRST[:5], sentence2=SECOND[:5])
    code = (
        "import sys, json; from keras_sentmatch import Matcher; m = Matcher.load(sys.argv[1]);"
        "a, b = json.loads(sys.argv[2]);"
        "print(json.dumps(m.predict_proba(sentence1=a, sentence2=b).tolist()))"
    )
    names = {"jax", "torch", "tensorflow"} - {keras.config.backend()}
    others = sorted(name for name in names if find_spec(name))
    if not others:
        pytest.skip("only one backend is installed")
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), json.dumps([FIRST[:5], SECOND[:5]])],
        env=os.environ | {"KERAS_BACKEND": others[0]},
        capture_output=True,
        text=True,
        check=True,
    )
    np.testing.assert_allclose(json.loads(done.stdout.splitlines()[-1]), expected, atol=1e-5)


@pytest.mark.each_backend
def test_nothing_is_compiled_after_the_first_shapes(matcher):
    """Many pairs of random lengths, one by one and in batches, and new weights in between."""
    rng = np.random.default_rng(0)
    matcher = Matcher(matcher.model, matcher.encoder, NAMES, task="classification")
    columns = [["dog " * n for n in rng.integers(0, 40, 2000)] for _ in "12"]
    want = matcher.predict_proba(*columns)
    single = [matcher.predict_proba([a], [b])[0] for a, b in zip(*(c[:200] for c in columns))]
    np.testing.assert_allclose(single, want[:200], atol=1e-5)
    compiled = matcher._compiled
    # lengths 8, 16 and 24; 1, 8 or 64 rows
    assert 1 <= compiled.traces <= (1 if keras.config.backend() == "tensorflow" else 9)
    before, old = compiled.traces, matcher.model.get_weights()
    matcher.model.set_weights([0 * weight for weight in old])
    np.testing.assert_allclose(matcher.predict_proba(["dog"], ["dog"]), [[1 / 3] * 3], atol=1e-6)
    matcher.model.set_weights(old)
    np.testing.assert_allclose(
        matcher.predict_proba(*(c[:64] for c in columns)), want[:64], atol=1e-5
    )
    assert compiled.traces == before
