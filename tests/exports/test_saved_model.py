"""SavedModels: what they answer, what they refuse, and that nothing is left of a failure."""

import json
import subprocess
from importlib.util import find_spec
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_sentmatch import export
from keras_sentmatch.applications import build_model
from keras_sentmatch.encoders import PairEncoder, SubwordPairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.exports import exporting
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from keras_sentmatch.inference.examples import DIFFICULT, TOLERANCE, Examples, own_words
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


def ask(folder, first, second) -> dict[str, np.ndarray]:
    function = tf.saved_model.load(str(folder)).signatures["serving_default"]
    asked = {
        "sentence1": tf.constant(first, tf.string),
        "sentence2": tf.constant(second, tf.string),
    }
    return {name: x.numpy() for name, x in function(**asked).items()}


def texts(values) -> list[str]:
    return [value.decode() for value in values.tolist()]


@on_tensorflow
@pytest.mark.each_backend
def test_a_report_a_folder_and_answers(tmp_path):
    """Export an ensemble with temperatures, a threshold and abstention."""
    members = [tiny(0, temperature=2.0), tiny(1), tiny(2, threshold=0.2)]
    limits = {"threshold": 0.9, "abstain_below": (0.2, 0.95)}
    ensemble = EnsembleMatcher(members, temperature=0.3, **limits)
    pairs = [{"sentence1": a, "sentence2": b} for a, b in zip(FIRST, SECOND)]
    folder = tmp_path / "deep" / "er"
    report = export(ensemble, folder, pairs=pairs)
    assert list(report["inputs"]) == ["sentence1", "sentence2"]
    assert report["outputs"]["label"]["dtype"] == "string"
    assert report["pairs"] > len(DIFFICULT) + len(FIRST)
    assert 0 <= report["largest_difference"] <= TOLERANCE
    json.dumps(report)
    card = (folder / "README.md").read_text("utf-8")
    for word in ("# er\n", "`no`, `yes`", "[B, 2]", "above 0.9,"):
        assert word in card
    assert [path.name for path in folder.parent.iterdir()] == ["er"], "nothing else is left"
    assert members[0].encoder.report.sentences == 0, "the examples are not counted"
    got = ask(folder, FIRST, SECOND)
    scores = ensemble.predict_proba(sentence1=FIRST, sentence2=SECOND)
    np.testing.assert_allclose(got["probabilities"], scores, atol=TOLERANCE)
    answers = ensemble.predict(sentence1=FIRST, sentence2=SECOND)
    assert texts(got["label"]) == [answer["label"] or "" for answer in answers]
    assert got["abstained"].tolist() == [answer["abstained"] for answer in answers]
    assert len({answer["label"] for answer in answers}) > 1
    assert texts(got["label_names"]) == ["no", "yes"]
    assert ask(folder, [], [])["probabilities"].shape == (0, 2)
    export(tiny(outputs=1), tmp_path / "score")
    got = ask(tmp_path / "score", FIRST, SECOND)["score"]
    np.testing.assert_allclose(got, tiny(outputs=1).predict_proba(FIRST, SECOND), atol=TOLERANCE)


@on_tensorflow
def test_what_no_saved_model_can_be_made_of(tmp_path):
    other = EnsembleMatcher([tiny(0), tiny(1, words=WORDS[:6])])
    encoder = word_encoder(features=("word", "pos"), tags=["NN", "VB"])
    sizes = {"vocabulary_size": encoder.vocabulary_size, "pos_tags": len(encoder.tags)}
    model = build_model("drr_net", **sizes, embedding_dim=4, units=3, depth=1, steps=2)
    tags = Matcher(model, encoder, NAMES, task="classification")
    for matcher, message in (
        (other, "different encoders.*one by one"),
        (tags, "part-of-speech tags"),
    ):
        with pytest.raises(InputError, match=message):
            export(matcher, tmp_path / "out")
    pytest.importorskip("keras_hub")
    pieces = make("cross_encoder")
    apart = SubwordPairEncoder(pieces.encoder.tokenizer, max_length=50)
    both = [pieces, Matcher(pieces.model, apart, NAMES, task="classification")]
    with pytest.raises(InputError, match="different encoders"):
        export(EnsembleMatcher(both), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    report = export(pieces, tmp_path / "ids")
    assert set(report["inputs"]) == set(pieces.model.input)
    assert report["largest_difference"] <= TOLERANCE
    assert "saved_model.pb" in (tmp_path / "ids" / "README.md").read_text("utf-8")


@on_tensorflow
@pytest.mark.parametrize("alone", [True, False])
def test_nothing_is_left_of_an_export_that_answers_otherwise(tmp_path, monkeypatch, alone):
    """Be it to a pair alone or among others."""
    written = []

    def read(folder, examples, work):
        written.extend(path.name for path in folder.iterdir())
        right = {"probabilities": examples.scores, "label": np.array(examples.labels)}
        wrong = {**right, "probabilities": examples.scores + 1e-3}
        return [wrong, right] if alone else [right, wrong]

    monkeypatch.setattr(exporting, "ask", read)
    with pytest.raises(InputError, match=r"the pair '.*artifact returns .*a difference of 0\.001"):
        export(tiny(), tmp_path / "out")
    assert "saved_model.pb" in written and list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.backend("jax", "torch")
def test_from_other_backends(tmp_path):
    matcher = tiny(threshold=0.3, temperature=0.5, abstain_below=(0.6, 0.6))
    report = export(matcher, tmp_path / "out", pairs={"sentence1": FIRST, "sentence2": SECOND})
    assert report["largest_difference"] <= TOLERANCE
    assert keras.backend.backend() in (tmp_path / "out" / "README.md").read_text("utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@needs_tensorflow
@pytest.mark.parametrize(
    "works, message", [(True, "missing runs .seed-0"), (False, "the last words")]
)
def test_errors_of_the_other_process_come_back(tmp_path, monkeypatch, works, message):
    def answer(*command, **environment):
        assert environment == {"KERAS_BACKEND": "tensorflow"}
        work = Path(command[-1])
        (work / "runs" / "seed-0" / "matcher.json").unlink()
        if works:
            exporting.main(work)
        return subprocess.CompletedProcess(command, -9, "", "the last words")

    monkeypatch.setattr(exporting, "run_python", answer)
    monkeypatch.setattr(exporting, "_tensorflow_on_cpu", lambda: False)
    with pytest.raises(InputError, match=message):
        export(tiny(), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@needs_tensorflow
@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"format": "pickle"}, "Expected one of 'saved_model'"),
        ({"tolerance": float("nan")}, "above 0, at most 0.1"),
        ({"pairs": [{"sentence1": "\ud800", "sentence2": ""}]}, "cannot be compared"),
        ({"pairs": ["a", "b"]}, "read in two ways"),
    ],
)
def test_bad_arguments(tmp_path, monkeypatch, arguments, message):
    with pytest.raises(InputError, match=message):
        export(tiny(), tmp_path / "out", **arguments)
    (tmp_path / "file").write_text("x")
    for taken in (tmp_path, tmp_path / "file"):
        with pytest.raises(InputError, match="exists already"):
            export(tiny(), taken)
    monkeypatch.setattr(exporting, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r'pip install "keras-sentmatch\[tensorflow\]"'):
        export(tiny(), tmp_path / "out")


def test_differences_and_labels_are_seen():
    scores = np.array([[0.2, 0.8], [0.5, 0.5]], "float32")
    examples = Examples(["a", "b"], ["c", "d"], scores, ["yes", "no"], None)
    right = {"probabilities": scores + 4e-6, "label": np.array(["yes", "yes"])}  # a tie
    assert 3e-6 < examples.compare(right) < 5e-6
    one_off = {**right, "probabilities": scores + np.array([[0, 0], [0, 2e-5]])}
    for outputs, message in (
        ({**right, "label": np.array(["no", "no"])}, "'a', 'c'.*chooses 'no'"),
        (one_off, "'b', 'd'.*2e-05"),
        ({**right, "probabilities": scores * np.array([[1], [np.nan]])}, "'b', 'd'.*nan"),
        ({**right, "probabilities": scores[:1]}, r"shape \(1, 2\)"),
    ):
        with pytest.raises(InputError, match=message):
            examples.compare(outputs)
    assert 1e-5 < examples.compare(one_off, tolerance=3e-5) < 3e-5
    large = Examples(["a"], ["b"], np.array([1000.0]), None, None)
    assert large.compare({"score": np.array([1000.005])}) < TOLERANCE


def test_another_label_counts_if_no_rounding_explains_it():
    scores = np.array([[0.2, 0.8]])
    found = {"probabilities": scores, "label": np.array(["no"])}
    for threshold, abstain_below, seen in (
        (0.7, None, True),
        (0.8 + 5e-6, None, False),  # on the edge: rounding decides
        (0.7, (0.5, 0.8 - 5e-6), False),
        (None, (0.5, 0.7), True),
    ):
        examples = Examples(["a"], ["b"], scores, ["yes"], threshold, abstain_below)
        if seen:
            with pytest.raises(InputError, match="'a', 'b'.*chooses 'no' and the matcher 'yes'"):
                examples.compare(found)
        else:
            assert examples.compare(found) == 0


def test_words_of_the_vocabulary_are_among_the_examples():
    pairs = own_words(word_encoder())
    assert {word for pair in pairs for word in " ".join(pair).split()} == set(WORDS)
    assert own_words(word_encoder([])) == [("", "")] * 6
