"""SavedModels: what they answer, what they refuse, and that nothing is left of a failure."""

import json
import os
import platform
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_sentmatch import export
from keras_sentmatch.applications import ESIM, build_model
from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairEncoder, SubwordPairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.exports import exporting
from keras_sentmatch.exports._examples import (
    DIFFICULT,
    TOLERANCE,
    Examples,
    group_by_encoder,
    own_words,
)
from keras_sentmatch.inference import EnsembleMatcher
from keras_sentmatch.inference.matcher import Matcher
from tests.inference.test_matcher import make_model
from tests.toys.matchers import make
from tests.toys.training import WORDS

on_tensorflow = pytest.mark.backend("tensorflow")
needs_tensorflow = pytest.mark.skipif(
    not find_spec("tensorflow"), reason="TensorFlow is not installed"
)

tf = pytest.importorskip("tensorflow") if keras.backend.backend() == "tensorflow" else None
NAMES = ("entailment", "neutral", "contradiction")
FIRST = ["w1 w2", "w3", "", "w5 " * 30, "🙂 w7 w8"]
SECOND = ["w2", "w3 w4 w5", "w1", "", "w8"]


def word_encoder(words=WORDS, **options) -> PairEncoder:
    return PairEncoder(words, **{"features": ("word",), "max_length": 20, **options})


def tiny(seed=0, outputs=2, words=WORDS, **options) -> Matcher:
    encoder = word_encoder(words)
    model = make_model(encoder, outputs)
    model.set_weights([weight + 0.1 * seed for weight in model.get_weights()])
    model.jit_compile = keras.backend.backend() == "jax"  # XLA takes long to compile on TensorFlow
    names, task = (None, "ranking") if outputs == 1 else (("no", "yes"), "classification")
    return Matcher(model, encoder, names, task=task, **options)


def ask(folder, signature="serving_default", **inputs) -> dict[str, np.ndarray]:
    function = tf.saved_model.load(str(folder)).signatures[signature]
    return {name: x.numpy() for name, x in function(**inputs).items()}


def texts(values) -> list[str]:
    return [value.decode() for value in values.tolist()]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A matcher that can be split, its folder, and the report of its export."""
    encoder = word_encoder()
    model = ESIM(encoder.vocabulary_size, num_classes=3, embedding_dim=8, units=4)
    model.jit_compile = keras.backend.backend() == "jax"
    matcher = Matcher(model, encoder, NAMES, task="classification")
    folder = tmp_path_factory.mktemp("export") / "deep" / "er"
    pairs = [{"sentence1": a, "sentence2": b} for a, b in zip(FIRST, SECOND)]
    return matcher, folder, export(matcher, folder, pairs=pairs)


@on_tensorflow
def test_the_report_and_the_folder(exported):
    matcher, folder, report = exported
    names = "serving_default ids encode_sentence1 encode_sentence2 score_encoded"
    assert list(report["signatures"]) == names.split()
    assert report["left_out"] == {}
    assert list(report["signatures"]["serving_default"]["inputs"]) == ["sentence1", "sentence2"]
    assert report["signatures"]["serving_default"]["outputs"]["label"]["dtype"] == "string"
    assert report["signatures"]["ids"]["inputs"]["word_ids_1"]["shape"] == [None, None]
    assert report["pairs"] > len(DIFFICULT) + len(FIRST)
    assert 0 <= report["largest_difference"] <= TOLERANCE
    json.dumps(report)
    card = (folder / "README.md").read_text("utf-8")
    for word in ("`entailment`, `neutral`", "`score_encoded`", "[B, any]", "most probable"):
        assert word in card
    assert [path.name for path in folder.parent.iterdir()] == ["er"], "nothing else is left"
    assert matcher.encoder.report.sentences == 0, "the examples are not counted"


@on_tensorflow
def test_sentences_ids_and_encodings(exported):
    matcher, folder, _ = exported
    want = matcher.predict_proba(sentence1=FIRST, sentence2=SECOND)
    got = ask(folder, sentence1=tf.constant(FIRST), sentence2=tf.constant(SECOND))
    np.testing.assert_allclose(got["probabilities"], want, atol=TOLERANCE)
    assert texts(got["label_names"]) == list(NAMES)
    answers = matcher.predict(sentence1=FIRST, sentence2=SECOND)
    assert texts(got["label"]) == [answer.label for answer in answers]
    none = ask(folder, sentence1=tf.constant([], tf.string), sentence2=tf.constant([], tf.string))
    assert none["probabilities"].shape == (0, 3)

    arrays = matcher.encoder.encode(FIRST, SECOND, length=13)
    got = ask(folder, "ids", **{name: tf.constant(x) for name, x in arrays.items()})
    cut = [f"{' '.join(text.split()[:13])}" for text in FIRST]
    want_13 = matcher.predict_proba(sentence1=cut, sentence2=SECOND)
    np.testing.assert_allclose(got["probabilities"], want_13, atol=TOLERANCE)

    one = ask(folder, "encode_sentence1", sentence1=tf.constant(FIRST[:1]))
    many = ask(folder, "encode_sentence2", sentence2=tf.constant(SECOND))
    got = ask(folder, "score_encoded", **one, **many)  # one query, many candidates
    want = matcher.predict_proba(sentence1=FIRST[:1] * 5, sentence2=SECOND)
    np.testing.assert_allclose(got["probabilities"], want, atol=TOLERANCE)


@on_tensorflow
def test_an_ensemble_with_a_temperature_and_a_threshold(tmp_path):
    members = [tiny(0, temperature=2.0), tiny(1), tiny(2, words=WORDS[:6], threshold=0.2)]
    limits = {"threshold": 0.9, "abstain_below": (0.2, 0.95)}
    ensemble = EnsembleMatcher(members, temperature=0.3, **limits)
    report = export(ensemble, tmp_path / "out", pairs={"sentence1": FIRST, "sentence2": SECOND})
    got = ask(tmp_path / "out", sentence1=tf.constant(FIRST), sentence2=tf.constant(SECOND))
    scores = ensemble.predict_proba(sentence1=FIRST, sentence2=SECOND)
    np.testing.assert_allclose(got["probabilities"], scores, atol=TOLERANCE)
    answers = ensemble.predict(sentence1=FIRST, sentence2=SECOND)
    assert texts(got["label"]) == [answer["label"] or "" for answer in answers]
    assert got["abstained"].tolist() == [answer["abstained"] for answer in answers]
    assert len({answer["label"] for answer in answers}) > 1
    assert "different encoders" in report["left_out"]["ids"]
    assert "an ensemble" in report["left_out"]["encode_sentence1"]
    assert "above 0.9" in (tmp_path / "out" / "README.md").read_text("utf-8")


@on_tensorflow
def test_scores_of_an_encoder_that_has_no_graph(tmp_path, monkeypatch):
    def refuse(encoder):
        raise InputError("This encoder has the feature 'pos'.")

    matcher = tiny(outputs=1)
    monkeypatch.setattr(PairEncoder, "check_graph", refuse)  # export makes an encoder of its own
    report = export(matcher, tmp_path / "out")
    assert list(report["signatures"]) == ["ids"]
    assert "the feature 'pos'" in report["left_out"]["serving_default"]
    arrays = matcher.encoder.encode(FIRST, SECOND)
    got = ask(tmp_path / "out", "ids", **{name: tf.constant(x) for name, x in arrays.items()})
    want = matcher.predict_proba(sentence1=FIRST, sentence2=SECOND)
    np.testing.assert_allclose(got["score"], want, atol=TOLERANCE)
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert "There is no `serving_default`" in card and "a score" in card


@needs_tensorflow
def test_a_matcher_that_answers_nothing_is_refused(tmp_path):
    matcher = tiny()
    matcher.model.set_weights([np.nan * weight for weight in matcher.model.get_weights()])
    with pytest.raises(InputError, match=r"returned \[nan, nan\] for pair 0"):
        export(matcher, tmp_path / "out")


@on_tensorflow
def test_nothing_is_left_of_an_export_that_answers_otherwise(tmp_path, monkeypatch):
    written = []

    def read(folder, examples, work):
        written.extend(path.name for path in folder.iterdir())
        return {"ids": {"probabilities": examples.scores + 1e-3}}

    monkeypatch.setattr(exporting, "ask_artifact", read)
    with pytest.raises(InputError, match=r"the pair '.*ids returns .*a difference of 0\.001"):
        export(tiny(), tmp_path / "out")
    assert "saved_model.pb" in written and list(tmp_path.iterdir()) == []


SLOW = """
import os, sys, time
from keras_sentmatch.cli import main
from keras_sentmatch.exports import exporting

def write_slowly(format, ensemble, folder, work):
    folder.mkdir()
    (folder / "half").write_text("x")
    print("writing", flush=True)
    time.sleep(60)

exporting._write_elsewhere = write_slowly
exporting._tensorflow_on_cpu = lambda: False
main(sys.argv[1:])
"""


@needs_tensorflow
@pytest.mark.backend("torch")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_an_export_that_is_stopped(tmp_path, monkeypatch, number):
    tiny().save(tmp_path / "run")
    command = ["export", tmp_path / "run", "--out", tmp_path / "out"]
    started = [sys.executable, "-c", SLOW, *map(str, command)]
    with subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"writing\n", process.stderr.read().decode()
        process.send_signal(number)
        errors = process.communicate(timeout=30)[1].decode()
    assert process.returncode == {15: 143, 9: -9}[number] and "Traceback" not in errors
    if number == signal.SIGKILL:  # the next one cleans up
        assert len(list(tmp_path.glob(".out-*"))) == 1
        running = tmp_path / f".out-{platform.node()}-{os.getpid()}-x"
        running.mkdir()
        monkeypatch.setattr(exporting, "_tensorflow_on_cpu", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            export(tiny(), tmp_path / "out")
        running.rmdir()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.slow
@pytest.mark.backend("jax", "torch")
def test_from_other_backends(tmp_path):
    matcher = tiny(threshold=0.3, temperature=0.5, abstain_below=(0.6, 0.6))
    report = export(matcher, tmp_path / "out", pairs={"sentence1": FIRST, "sentence2": SECOND})
    assert list(report["signatures"]) == ["serving_default", "ids"]
    assert report["largest_difference"] <= TOLERANCE
    assert keras.backend.backend() in (tmp_path / "out" / "README.md").read_text("utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@needs_tensorflow
@pytest.mark.parametrize(
    "works, message", [(True, "holds no matcher.json"), (False, "the last words")]
)
def test_errors_of_the_other_process_come_back(tmp_path, monkeypatch, works, message):
    def answer(*command, **environment):
        assert environment == {"KERAS_BACKEND": "tensorflow"}
        job = Path(command[-1])
        (Path(json.loads(job.read_text())["runs"][0]) / "matcher.json").unlink()
        if works:
            exporting.main(str(job))
        return subprocess.CompletedProcess(command, -9, "", "the last words")

    monkeypatch.setattr(exporting, "run_python", answer)
    monkeypatch.setattr(exporting, "_tensorflow_on_cpu", lambda: False)
    with pytest.raises(InputError, match=message):
        export(tiny(), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.once
@needs_tensorflow
@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"format": "pickle"}, "Expected one of 'saved_model'"),
        ({"tolerance": float("nan")}, "above 0, at most 0.1"),
        (
            {"int8": PairDataset(["a"], ["b"], [1])},
            "needs format='onnx', but the format is 'saved_model'",
        ),
        ({"format": "onnx", "max_drop": 101}, "Expected points from 0 to 100"),
        ({"pairs": [{"sentence1": "\ud800", "sentence2": ""}]}, "cannot be compared"),
        ({"pairs": ["a", "b"]}, "read in two ways"),
    ],
)
def test_bad_arguments(tmp_path, arguments, message):
    with pytest.raises(InputError, match=message):
        export(tiny(), tmp_path / "out", **arguments)
    (tmp_path / "file").write_text("x")
    for taken in (tmp_path, tmp_path / "file"):
        with pytest.raises(InputError, match="exists already"):
            export(tiny(), taken)


@pytest.mark.once
def test_exporting_needs_tensorflow(tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r'pip install "keras-sentmatch\[tensorflow\]"'):
        export(tiny(), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_differences_and_labels_are_seen():
    scores = np.array([[0.2, 0.8], [0.5, 0.5]], "float32")
    examples = Examples(["a", "b"], ["c", "d"], {}, scores, ["yes", "no"], None)
    right = {"probabilities": scores + 4e-6, "label": np.array(["yes", "yes"])}  # a tie
    assert 3e-6 < examples.compare({"x": right}) < 5e-6
    for outputs, message in (
        ({**right, "label": np.array(["no", "no"])}, "'a', 'c'.*chooses 'no'"),
        ({**right, "probabilities": scores + np.array([[0, 0], [0, 2e-5]])}, "'b', 'd'.*2e-05"),
        ({**right, "probabilities": scores * np.array([[1], [np.nan]])}, "'b', 'd'.*nan"),
        ({**right, "probabilities": scores[:1]}, r"shape \(1, 2\)"),
    ):
        with pytest.raises(InputError, match=message):
            examples.compare({"x": outputs})
    one_off = {**right, "probabilities": scores + np.array([[0, 0], [0, 2e-5]])}
    assert 1e-5 < examples.compare({"x": one_off}, tolerance=3e-5) < 3e-5
    large = Examples(["a"], ["b"], {}, np.array([1000.0]), None, None)
    assert large.compare({"x": {"score": np.array([1000.005])}}) < TOLERANCE


@pytest.mark.once
@pytest.mark.parametrize(
    "threshold, abstain_below, seen",
    [
        (0.7, None, True),
        (0.8 + 5e-6, None, False),  # on the edge: rounding decides
        (0.7, (0.5, 0.8 - 5e-6), False),
        (None, (0.5, 0.7), True),
    ],
)
def test_another_label_counts_where_no_rounding_explains_it(threshold, abstain_below, seen):
    scores = np.array([[0.2, 0.8]])
    examples = Examples(["a"], ["b"], {}, scores, ["yes"], threshold, abstain_below)
    found = {"x": {"probabilities": scores, "label": np.array(["no"])}}
    if seen:
        with pytest.raises(InputError, match="'a', 'b'.*chooses 'no' and the matcher 'yes'"):
            examples.compare(found)
    else:
        assert examples.compare(found) == 0


@pytest.mark.once
def test_members_of_equal_encoders_share_the_inputs():
    alike = [tiny(0), tiny(1)]
    examples = Examples.of(EnsembleMatcher(alike))
    assert examples.arrays.keys() == {"word_ids_1", "word_ids_2"}
    other = tiny(2, words=WORDS[:6])
    assert [len(group) for group in group_by_encoder([alike[0], other, alike[1]])] == [2, 1]
    assert Examples.of(EnsembleMatcher([*alike, other])).arrays == {}
    pytest.importorskip("keras_hub")
    pieces = [make("cross_encoder"), make("dabert")]
    assert [len(group) for group in group_by_encoder([*pieces, other])] == [2, 1]
    apart = SubwordPairEncoder(pieces[0].encoder.tokenizer, max_length=50)
    pieces[1:] = [Matcher(pieces[1].model, apart, NAMES, task="classification")]
    assert [len(group) for group in group_by_encoder(pieces)] == [1, 1]


@pytest.mark.once
def test_examples_have_tags_where_the_encoder_reads_them():
    encoder = word_encoder(features=("word", "pos"), tags=["NN", "VB"])
    sizes = {"vocabulary_size": encoder.vocabulary_size, "pos_tags": len(encoder.tags)}
    model = build_model("drr_net", **sizes, embedding_dim=4, units=3, depth=1, steps=2)
    examples = Examples.of(EnsembleMatcher([Matcher(model, encoder, NAMES, task="classification")]))
    assert np.isfinite(examples.scores).all() and len(examples.scores) == len(examples.sentence2)
    tags = examples.arrays["pos_2"]
    assert {encoder.tags.words[i] for i in np.unique(tags)} == {"[PAD]", "NN", "VB"}
    assert ((tags > 0) == (examples.arrays["word_ids_2"] > 0)).all(), "a tag for each token"


def test_words_of_the_vocabulary_are_among_the_examples():
    pairs = own_words(word_encoder())
    assert {word for pair in pairs for word in " ".join(pair).split()} == set(WORDS)
    assert own_words(word_encoder([])) == [("", "")] * 6
