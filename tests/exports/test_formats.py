"""ONNX and LiteRT models, from TensorFlow: what they answer, and how they are asked."""

import json
import runpy
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_sentmatch import export
from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import SubwordPairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.exports import _int8, _portable, _saved_model, exporting
from keras_sentmatch.exports._examples import TOLERANCE
from keras_sentmatch.inference import EnsembleMatcher
from keras_sentmatch.inference.matcher import Matcher
from tests.exports.test_saved_model import FIRST, SECOND, WORDS, tiny, word_encoder
from tests.inference.test_matcher import make_model
from tests.toys.matchers import make

pytestmark = pytest.mark.backend("tensorflow")


def read_here(folder, examples, work):
    """In this process, which has TensorFlow already; the other tests read in a fresh one."""
    scorer = runpy.run_path(str(folder / "score.py"))["Scorer"](folder)
    scores = scorer.scores(list(zip(examples.sentence1, examples.sentence2)))
    return {
        "score.py": {"probabilities": scores},
        "ids": {"probabilities": scorer.run(examples.arrays)},
    }


def test_onnx(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("tf2onnx")
    matcher, out = tiny(threshold=0.3, abstain_below=(1.0, 1.0)), tmp_path / "out"
    report = export(matcher, out, "onnx", pairs={"sentence1": FIRST, "sentence2": SECOND})
    assert report["left_out"] == {} and report["largest_difference"] <= TOLERANCE
    assert report["signatures"]["ids"]["inputs"]["word_ids_1"]["shape"] == [None, None]
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
        "is below 1.0 (`no`)",
        "onnxruntime 1.",
    ):
        assert word in card


def test_onnx_without_operations_on_shapes(tmp_path, monkeypatch):
    """Sentences of one length are only stacked, and a product with a kernel is one operation."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tf2onnx")
    onnx = pytest.importorskip("onnx")
    monkeypatch.setattr(exporting, "ask_artifact", read_here)
    export(make("re2"), tmp_path / "out", "onnx")
    graph = onnx.load(tmp_path / "out" / "model.onnx").graph
    kinds = {node.op_type for node in graph.node}
    assert "Split" in kinds and not kinds & {"Pad", "Reshape", "Shape"}


@pytest.mark.parametrize("convolution", [False, True])
def test_int8(tmp_path, monkeypatch, convolution):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tf2onnx")
    monkeypatch.setattr(exporting, "ask_artifact", read_here)
    encoder, layers = word_encoder(), keras.layers
    names = "word_ids_1", "word_ids_2"
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    embed = layers.Embedding(encoder.vocabulary_size, 16)
    read = layers.Conv1D(16, 1) if convolution else layers.Dense(16, "tanh")
    real = [keras.ops.cast(keras.ops.not_equal(x, 0), "float32") for x in inputs.values()]
    read_sides = [read(embed(x)) for x in inputs.values()]
    sides = [keras.ops.einsum("blu,bl->bu", x, on) for x, on in zip(read_sides, real)]
    output = layers.Dense(2, "softmax")(layers.Concatenate()(sides))
    model = keras.Model(inputs, output)
    rng = np.random.default_rng(0)
    model.set_weights([rng.normal(0, 0.3, w.shape) for w in model.get_weights()])
    matcher = Matcher(model, encoder, ("no", "yes"), task="classification")
    first = [" ".join(rng.choice(WORDS, 4)) for _ in range(80)]
    scores = matcher.predict_proba(first, first[::-1])
    truth = scores.argmax(-1)
    pairs = PairDataset(first, first[::-1], truth, label_names=("no", "yes"))
    out = tmp_path / "out"
    report = export(matcher, out, "onnx", int8=pairs, max_drop=10)
    note = json.loads((out / "facts.json").read_text("utf-8"))["int8"]
    assert note == report["int8"]
    assert (note["method"], note["figure"]) == ("static" if convolution else "dynamic", "accuracy")
    scorer = runpy.run_path(str(out / "score.py"))["Scorer"](out)
    got = scorer.scores(list(zip(first, first[::-1])))
    assert 1e-6 < np.abs(got - scores).max() < 0.1, "rounded, but the same model"
    assert note["float32"] == 1 and note["int8"] == np.mean(got.argmax(-1) == truth)
    assert f"accuracy on 80 labeled pairs\nis 1.0000 in float32 and {note['int8']:.4f}" in (
        out / "README.md"
    ).read_text("utf-8")
    assert not {"float32.onnx", "static.onnx"} & {path.name for path in out.iterdir()}


def test_int8_that_costs_too_much(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tf2onnx")
    monkeypatch.setattr(exporting, "ask_artifact", read_here)
    matcher, load = tiny(), _int8.load_model
    chosen = [answer.label for answer in matcher.predict(sentence1=FIRST, sentence2=SECOND)]
    pairs = PairDataset(FIRST, SECOND, chosen, label_names=("no", "yes"))

    def turned_around(folder, shape):
        run = load(folder, shape)
        return lambda arrays: 1 - run(arrays)

    monkeypatch.setattr(_int8, "load_model", turned_around)
    match = (
        "falls from 1.0000 to 0.0000, by 100.00 points; expected at most 0.5. .* larger max_drop="
    )
    with pytest.raises(InputError, match=match):
        export(matcher, tmp_path / "out", "onnx", int8=pairs)
    with pytest.raises(InputError, match="no labels"):
        export(matcher, tmp_path / "out", "onnx", int8=PairDataset(FIRST, SECOND))
    with pytest.raises(InputError, match="int8=… needs format='onnx', but the format is 'litert'"):
        export(matcher, tmp_path / "out", "litert", int8=pairs)
    assert list(tmp_path.iterdir()) == []


def test_litert(tmp_path):
    members = [tiny(0, outputs=1), tiny(1, outputs=1)]
    report = export(EnsembleMatcher(members), tmp_path / "out", "litert")
    assert report["left_out"] == {} and report["largest_difference"] <= TOLERANCE
    scorer = runpy.run_path(str(tmp_path / "out" / "score.py"))["Scorer"](tmp_path / "out")
    want = np.mean([m.predict_proba(sentence1=FIRST, sentence2=SECOND) for m in members], 0)
    got = [answer["score"] for answer in scorer(list(zip(FIRST, SECOND)))]
    np.testing.assert_allclose(got, want, atol=TOLERANCE)


def test_litert_of_a_fixed_shape(tmp_path, monkeypatch):
    """A model that LiteRT takes only with a fixed shape: pairs go in one by one, padded."""
    right = _portable._litert

    def refuse(served, path, shape):
        if None in shape:
            raise ValueError("'tf.While' op requires a static shape\nand more")
        return right(served, path, shape)

    monkeypatch.setattr(_portable, "_litert", refuse)
    monkeypatch.setattr(exporting, "ask_artifact", read_here)
    report = export(tiny(), tmp_path / "out", "litert")
    assert report["signatures"]["ids"]["inputs"]["word_ids_1"]["shape"] == [1, 20]
    monkeypatch.setattr(_portable, "_litert", lambda served, path, shape: refuse(0, 0, [None]))
    with pytest.raises(
        InputError, match="this Functional: 'tf.While' op requires a static shape. Ex"
    ):
        export(tiny(), tmp_path / "not", "litert")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_word_pieces_need_no_tensorflow_text(tmp_path):
    from keras_sentmatch.applications import CrossEncoder
    from tests.toys.bert import tiny_bert

    folder = tiny_bert(tmp_path / "bert", ["a", "dog", "##s", "run", "w1", "w2", ".", "cafe"])
    model = CrossEncoder(folder, num_classes=2)
    model.jit_compile = False
    encoder = SubwordPairEncoder.from_preset(folder, max_length=24)
    matcher = Matcher(model, encoder, ("no", "yes"), task="classification")
    report = export(matcher, tmp_path / "out")  # its check refuses tensorflow-text and KerasHub
    assert set(report["signatures"]) == {"serving_default", "ids"}
    assert "both sentences" in report["left_out"]["encode_sentence1"]


def test_members_that_read_different_ids(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tf2onnx")
    encoder = word_encoder(features=("word", "char"))
    words = make_model(word_encoder(), 2)
    chars = keras.Input((None, encoder.max_word_length), dtype="int32", name="char_ids_1")
    first = keras.ops.cast(keras.ops.sum(chars, (1, 2)) > 40, "float32")[:, None]
    reads_chars = keras.Model({"char_ids_1": chars}, keras.ops.concatenate([first, 1 - first], 1))
    members = []
    for model in (words, reads_chars):
        model.jit_compile = False
        members.append(Matcher(model, encoder, ("no", "yes"), task="classification"))
    monkeypatch.setattr(exporting, "ask_artifact", read_here)
    report = export(EnsembleMatcher(members), tmp_path / "out", "onnx")
    assert report["largest_difference"] <= TOLERANCE
    assert set(report["signatures"]["ids"]["inputs"]) == {*words.input, "char_ids_1"}


def test_what_onnx_does_not_know(tmp_path, monkeypatch):
    pytest.importorskip("tf2onnx")
    import tensorflow as tf

    right = _saved_model._outputs

    def packed(member, arrays):
        return tf.bitcast(tf.bitcast(right(member, arrays), tf.int32), tf.float32)

    monkeypatch.setattr(_saved_model, "_outputs", packed)
    with pytest.raises(
        InputError, match="ONNX cannot express this Functional: .*Bitcast.*SavedModel"
    ):
        export(tiny(), tmp_path / "out", "onnx")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be(tmp_path, monkeypatch):
    ensemble = EnsembleMatcher([tiny(0), tiny(1, words=WORDS[:6])])
    with pytest.raises(InputError, match="different encoders.*SavedModel"):
        export(ensemble, tmp_path / "out", "litert")
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"pip install \"keras-sentmatch\[onnx\]\""):
        export(tiny(), tmp_path / "out", "onnx")
    assert list(tmp_path.iterdir()) == []
