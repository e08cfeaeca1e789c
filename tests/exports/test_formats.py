"""ONNX and LiteRT models: what they answer, and how they are asked."""

import json
import runpy
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_sentmatch import export
from keras_sentmatch.errors import InputError
from keras_sentmatch.exports import _portable, exporting
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from keras_sentmatch.inference.examples import TOLERANCE
from keras_sentmatch.inference.matcher import Matcher
from tests.exports.test_engine import hybrid
from tests.exports.test_saved_model import FIRST, SECOND, tiny, word_encoder
from tests.inference.test_matcher import make_model
from tests.toys.matchers import make

on_tensorflow = pytest.mark.backend("tensorflow")


def read_here(folder, examples, work):
    """In this process, which has TensorFlow already; the other tests read in a fresh one."""
    scorer = runpy.run_path(str(folder / "score.py"))["Scorer"](folder)
    scores = scorer.scores(list(zip(examples.sentence1, examples.sentence2)))
    return [{"probabilities": scores, "label": np.array(examples.labels)}]


def test_onnx(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    matcher, out = tiny(threshold=0.3, abstain_below=(1.0, 1.0)), tmp_path / "out"
    report = export(matcher, out, "onnx", pairs={"sentence1": FIRST, "sentence2": SECOND})
    assert report["largest_difference"] <= TOLERANCE
    assert report["inputs"]["word_ids_1"]["shape"] == [None, None]
    session = runtime.InferenceSession(out / "model.onnx", providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == ["probabilities"]
    for rows, length in ((1, 1), (5, 20)):  # whatever the shape
        arrays = matcher.encoder.encode(FIRST[:rows], SECOND[:rows], length=length)
        (got,) = session.run(None, arrays)
        want = matcher.model.predict_on_batch(arrays)
        np.testing.assert_allclose(got, want, atol=TOLERANCE)
    command = [sys.executable, "-P", str(out / "score.py"), FIRST[0], SECOND[0]]
    answer = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    want = matcher.predict(sentence1=FIRST[0], sentence2=SECOND[0])
    assert answer["label"] is want.label is None and answer["abstained"] is want.abstained is True
    assert answer["probabilities"] == pytest.approx(want["probabilities"], abs=TOLERANCE)
    card = (out / "README.md").read_text("utf-8")
    for word in (
        "python score.py",
        "`model.onnx`",
        "above 0.3",
        "is below 1 (`no`)",
        "onnxruntime 1.",
    ):
        assert word in card


@on_tensorflow
@pytest.mark.parametrize("name", ["re2", "esim", "hybrid", "ensemble"])
def test_litert(tmp_path, monkeypatch, name):
    if name != "ensemble":  # which is read in a fresh process
        monkeypatch.setattr(exporting, "ask", read_here)
    known = {"hybrid": hybrid(spare=5), "ensemble": EnsembleMatcher([tiny(0), tiny(1)])}
    report = export(known.get(name) or make(name), tmp_path / "out", "litert")
    assert report["largest_difference"] <= 1e-6
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert ("Words outside the vocabulary have no vectors" in card) == (name == "hybrid")


@on_tensorflow
def test_litert_of_a_fixed_shape(tmp_path, monkeypatch):
    """A model that LiteRT takes only with a fixed shape: pairs go in one by one, padded."""
    right = _portable._litert

    def refuse(served, path, shape):
        if None in shape:
            raise ValueError("'tf.While' op requires a static shape\nand more")
        return right(served, path, shape)

    monkeypatch.setattr(_portable, "_litert", refuse)
    monkeypatch.setattr(exporting, "ask", read_here)
    report = export(tiny(), tmp_path / "out", "litert")
    assert report["inputs"]["word_ids_1"]["shape"] == [1, 20]
    monkeypatch.setattr(_portable, "_litert", lambda served, path, shape: refuse(0, 0, [None]))
    with pytest.raises(
        InputError, match="this Functional: 'tf.While' op requires a static shape. Ex"
    ):
        export(tiny(), tmp_path / "not", "litert")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_members_that_read_different_ids(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    encoder = word_encoder(features=("word", "char"))
    words = make_model(word_encoder(), 2)
    chars = keras.Input((None, encoder.max_word_length), dtype="int32", name="char_ids_1")
    first = keras.ops.cast(keras.ops.sum(chars, (1, 2)) > 40, "float32")[:, None]
    reads_chars = keras.Model({"char_ids_1": chars}, keras.ops.concatenate([first, 1 - first], 1))
    members = []
    for model in (words, reads_chars):
        model.jit_compile = False
        members.append(Matcher(model, encoder, ("no", "yes"), task="classification"))
    monkeypatch.setattr(exporting, "ask", read_here)
    report = export(EnsembleMatcher(members), tmp_path / "out", "onnx")
    assert report["largest_difference"] <= TOLERANCE
    assert set(report["inputs"]) == {*words.input, "char_ids_1"}


def test_what_cannot_be(tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "find_spec", lambda name: None)
    for format, package in (("onnx", "onnxruntime"), ("litert", "tensorflow")):
        with pytest.raises(InputError, match=f"Exporting to {format} needs {package}"):
            export(tiny(), tmp_path / "out", format)
    assert list(tmp_path.iterdir()) == []
