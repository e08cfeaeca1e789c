"""`load(run, engine="onnx")`: the answers of Keras, from a model kept in the run folder."""

import json
import os
import pickle
import runpy
import shutil
import subprocess
import sys

import numpy as np
import pytest

from keras_sentmatch import Matcher, explain, export, load
from keras_sentmatch.applications import build_model
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.exports._unseen_words import GraphLookup
from keras_sentmatch.inference import BatchScorer, onnx, run_folder
from keras_sentmatch.inference._onnx_operations import OPERATIONS
from keras_sentmatch.inference.ensemble import load_run
from keras_sentmatch.inference.examples import TOLERANCE
from keras_sentmatch.inference.onnx import OnnxModel, identity, seal
from keras_sentmatch.vectors.built_in import load_word_table
from tests.exports.test_saved_model import tiny

WORDS = "a the dog dogs cat animal runs run moves in park not no big small two . , and is".split()
FIRST = [
    "A dog runs.",
    "",
    "the big cat is in the park . " * 9,
    "Zebras aren't 7 unhappy dogs",
    "two",
]
SECOND = ["An animal moves.", "no dog", "", "A zebra, 9 okapis!", "not a cat and not a dog"]
NO_BACKEND = """
import importlib.util, json, sys
from keras_sentmatch import load
matcher = load(sys.argv[1])
first, second = json.loads(sys.argv[2])
scores = matcher.predict_proba(first, second).tolist()
if importlib.util.find_spec("fastapi"):
    import keras_sentmatch.service.app
found = {"keras", "tensorflow", "jax", "torch", "keras_hub", "matplotlib"} & set(sys.modules)
print(json.dumps([scores, sorted(found)]))
"""


def hybrid(spare):
    """A matcher that has every kind of table with a row for each word."""
    encoder = PairEncoder(WORDS, features=("word",), max_length=12)
    table = load_word_table()
    model = build_model(
        "hybrid",
        vocabulary_size=encoder.vocabulary_size + spare,
        embedding_dim=table.dim,
        units=4,
        blocks=1,
    )
    rng = np.random.default_rng(0)
    for w in model.weights:  # few answers are sure
        w.assign(rng.normal(0, 0.01 if "product" in w.path else 0.3, w.shape))
    names = ("entailment", "neutral", "contradiction")
    options = {"task": "classification", "temperature": 1.7, "abstain_below": (0.55, 0.55, 0.55)}
    return Matcher(model, encoder, names, word_table=table, **options)


def without_table(matcher):
    encoder = PairEncoder(**matcher.encoder.get_config())
    options = {"task": matcher.task, "temperature": matcher.temperature}
    return Matcher(matcher.model, encoder, matcher.label_names, **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    pytest.importorskip("onnxruntime")
    folder = tmp_path_factory.mktemp("run") / "hybrid"
    hybrid(spare=5).save(folder)
    return folder


@pytest.fixture
def made(run):
    """The same with its ONNX model."""
    load(run, engine="onnx")
    return run


def test_the_same_answers_without_a_backend(run):
    matcher = load(run, engine="onnx")
    keras_one = Matcher.load(run, "keras")
    assert (matcher.engine, keras_one.engine) == ("onnx", "keras")
    want = keras_one.predict_proba(FIRST, SECOND)
    np.testing.assert_allclose(matcher.predict_proba(FIRST, SECOND), want, atol=TOLERANCE)
    answers = matcher.predict(FIRST, SECOND)
    assert [a.label for a in answers] == [a.label for a in keras_one.predict(FIRST, SECOND)]
    assert {a.abstained for a in answers} == {True, False}
    for one in (keras_one, matcher):
        one.predict("a zebra", "two okapis")
        assert one.encoder.knows("zebra") and one.encoder.knows("okapis")
    assert (
        matcher.predict(FIRST[0], SECOND[0]).label == keras_one.predict(FIRST[0], SECOND[0]).label
    )
    ranked = [m.rank(FIRST[0], SECOND, label="neutral") for m in (matcher, keras_one)]
    assert [row.index for row in ranked[0]] == [row.index for row in ranked[1]]
    matcher.temperature = 1.1
    again = pickle.loads(pickle.dumps(matcher))
    assert again.engine == "onnx" and again.temperature == 1.1
    assert again.predict(FIRST, SECOND) == matcher.predict(FIRST, SECOND)
    matcher.temperature = 1.7
    few = matcher.predict_proba(FIRST * 9, SECOND * 9, batch_size=4)
    np.testing.assert_allclose(few, np.tile(want, (9, 1)), atol=TOLERANCE)

    command = [sys.executable, "-c", NO_BACKEND, str(run), json.dumps([FIRST, SECOND])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    scores, imported = json.loads(done.stdout)
    np.testing.assert_allclose(scores, want, atol=TOLERANCE)
    assert imported == []


def test_an_export_knows_what_the_run_knows_of_unseen_words(made, tmp_path):
    """Misspelled and composed words, also more of them than there are rows."""
    matcher = Matcher.load(made, "keras")
    out = tmp_path / "out"
    before = matcher.predict("two zebras", "no okapi")
    report = export(matcher, out, "onnx", pairs=list(zip(FIRST, SECOND)))
    assert matcher.predict("two zebras", "no okapi") == before
    assert report["largest_difference"] <= TOLERANCE and "note" not in report
    scorer = runpy.run_path(str(out / "score.py"))["Scorer"](out)
    first = ["A zebbra is unhappyish.", *FIRST, "a elephant", "seven zebras and eight okapis"]
    second = ["no okapi", *SECOND, "a giraffe, tigers", "lions eat bananas quickly"]
    want = matcher.predict_proba(first, second)
    np.testing.assert_allclose(scorer.scores(list(zip(first, second))), want, atol=TOLERANCE)
    assert np.abs(without_table(matcher).predict_proba(first, second) - want).max() > 0.01
    assert scorer([]) == []
    facts = json.loads((out / "facts.json").read_text("utf-8"))
    assert facts["spare_rows"] == 5 and len(facts["tables"]) == 5


@pytest.mark.backend("tensorflow")
def test_a_saved_model_knows_unseen_words_too(tmp_path):
    import tensorflow as tf

    matcher, out = hybrid(spare=24), tmp_path / "out"  # as many as a pair may have
    report = export(matcher, out, pairs=list(zip(FIRST, SECOND)))
    assert report["largest_difference"] <= TOLERANCE and "note" not in report
    texts = [
        "zebbra",
        "unhappyish",
        "10,000",
        "café",
        "naïve",
        "x" * 70,
        "中文",
        "foo_bar",
        "playes",
    ]
    first = [*FIRST, *texts, " ".join(texts)]
    second = [*SECOND, *texts[::-1], "no guittar, two okapis"]
    serve = tf.saved_model.load(str(out)).signatures["serving_default"]
    got = serve(sentence1=tf.constant(first), sentence2=tf.constant(second))["probabilities"]
    want = matcher.predict_proba(first, second)
    np.testing.assert_allclose(got, want, atol=TOLERANCE)
    assert np.abs(without_table(matcher).predict_proba(first, second) - want).max() > 0.01


@pytest.mark.backend("tensorflow")
def test_words_are_looked_up_in_a_graph_as_in_python():
    import tensorflow as tf

    table, rng = load_word_table(), np.random.default_rng(0)
    known, letters = list(table.words), "abcxyzé1"
    words = ["", "10,000", "café", "İstanbul", "ẞtraße", "x" * 70, "ﬁne", "½", "²", "한국어", "q🐕"]
    for _ in range(300):
        word, more = (known[i] for i in rng.integers(len(known), size=2))
        at, letter = rng.integers(len(word) + 1), letters[rng.integers(len(letters))]
        swapped = word[:at] + word[at + 1 : at + 2] + word[at : at + 1] + word[at + 2 :]
        words += [word + more, swapped, word[:at] + letter + word[at:], word[:at] + word[at + 1 :]]
    look_up = tf.function(GraphLookup(table).vectors, autograph=False)
    for word, found, vector in zip(words, *look_up(tf.constant(words))):
        want, _ = table.lookup(word)
        assert (want is not None) == bool(found), word
        if want is not None:
            np.testing.assert_allclose(vector, want, atol=1e-5, err_msg=word)


def test_a_calibration_needs_no_other_model(made):
    noted = (made / "onnx" / "run.json").read_bytes()
    card = made / "matcher.json"
    before = card.read_text("utf-8")
    card.write_text(json.dumps({**json.loads(before), "temperature": 3.0}), "utf-8")
    both = [load(made, engine=name).predict_proba(FIRST, SECOND) for name in ("keras", "onnx")]
    card.write_text(before, "utf-8")
    np.testing.assert_allclose(*both, atol=TOLERANCE)
    assert (made / "onnx" / "run.json").read_bytes() == noted


def test_scores_and_other_weights(tmp_path, monkeypatch, caplog):
    """A model that learns no words. No other weights are answered for."""
    pytest.importorskip("onnxruntime")
    caplog.set_level("INFO")
    folder, asked = tmp_path / "run", (["w1 w2", ""], ["w3", "w9"])
    tiny(outputs=1).save(folder)
    for use in (
        lambda run: Matcher.load(run, "onnx"),
        lambda run: BatchScorer(run, engine="onnx")({"sentence1": ["a"], "sentence2": ["b"]}),
    ):
        with pytest.raises(InputError, match="no ONNX model of its present weights.*--engine onnx"):
            use(folder)
    assert load(folder).engine == "keras"  # a missing one is made only if asked for
    both = [load(folder, engine=name).predict_proba(*asked) for name in ("keras", "onnx")]
    np.testing.assert_allclose(*both, atol=TOLERANCE)
    matcher = Matcher.load(folder)
    assert matcher.engine == "onnx"
    matcher.model.set_weights([-w for w in matcher.model.get_weights()])
    assert matcher.engine == "keras"  # as its weights may differ
    want = matcher.predict_proba(*asked)
    assert np.abs(want - both[0]).max() > 0.01
    matcher.save(folder)
    assert Matcher.load(folder).engine == "keras"
    caplog.clear()
    again = load(folder)
    assert again.engine == "onnx" and "not that of its present files" in caplog.text
    np.testing.assert_allclose(again.predict_proba(*asked), want, atol=TOLERANCE)

    note = folder / "onnx" / "run.json"
    note.write_text(note.read_text("utf-8").replace('"version": "', '"version": "0.'), "utf-8")
    assert Matcher.load(folder).engine == "keras" and load(folder).engine == "onnx"


def test_another_computer_has_another_key(made, tmp_path, monkeypatch, caplog):
    """What may be a stranger's model is made again; without Keras it is used, and this is said."""
    caplog.set_level("INFO")
    folder = shutil.copytree(made, tmp_path / "run")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert Matcher.load(folder).engine == "keras"
    monkeypatch.setattr(onnx, "is_installed", lambda name: name != "keras")
    assert Matcher.load(folder).engine == "onnx" and "comes from elsewhere" in caplog.text
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert load(folder).engine == "onnx" and "was made elsewhere" in caplog.text
    assert Matcher.load(folder).engine == "onnx"


def test_a_model_that_onnx_does_not_express_or_equal(tmp_path, monkeypatch, caplog):
    pytest.importorskip("onnxruntime")
    caplog.set_level("INFO")
    folder = tmp_path / "run"
    tiny(outputs=1).save(folder)
    monkeypatch.delitem(OPERATIONS, "Matmul")
    with pytest.raises(InputError, match="making it failed: ONNX cannot .* operation Matmul"):
        load(folder, engine="onnx")
    tried = (folder / "onnx" / "run.json").read_bytes()
    assert load(folder).engine == "keras"  # it is not tried again
    assert (folder / "onnx" / "run.json").read_bytes() == tried
    monkeypatch.undo()
    one = OnnxModel.__call__
    monkeypatch.setattr(OnnxModel, "__call__", lambda self, arrays: one(self, arrays) + 2e-5)
    with pytest.raises(InputError, match="For the pair 'A dog runs.*, the artifact returns"):
        load(folder, engine="onnx")


def in_another_file(model, package):
    tensor = next(t for t in model.graph.initializer if t.name == "words_0")
    package.external_data_helper.set_external_data(tensor, "/etc/passwd")
    tensor.data_location = package.TensorProto.EXTERNAL
    tensor.ClearField("raw_data")


def endless(model, package):
    kinds, helper = package.TensorProto, package.helper
    go_on = helper.make_tensor_value_info("go_on", kinds.BOOL, [])
    count = helper.make_tensor_value_info("count", kinds.INT64, [])
    yes = helper.make_tensor("yes", kinds.BOOL, [], [True])
    same = helper.make_node("Identity", ["go_on"], ["again"])
    again = helper.make_tensor_value_info("again", kinds.BOOL, [])
    body = helper.make_graph([same], "body", [count, go_on], [again])
    model.graph.initializer.append(yes)
    model.graph.node.insert(0, helper.make_node("Loop", ["", "yes"], [], body=body))


def foreign(model, package):
    model.graph.node[0].domain = "evil"


def last(model, package, kind, *inputs):
    """Put a node at the end, which changes the output."""
    node, output = model.graph.node[-1], model.graph.output[0].name
    node.output[list(node.output).index(output)] = "before"
    model.graph.node.append(package.helper.make_node(kind, ["before", *inputs], [output]))


def not_one(model, package):
    """Probabilities whose sum is 2."""
    last(model, package, "Add", "before")


def too_many(model, package):
    """The answer to one pair is given twice."""
    twice = package.numpy_helper.from_array(np.array([2, 1]), "twice")
    model.graph.initializer.append(twice)
    last(model, package, "Tile", "twice")


def failing(model, package):
    seven = package.numpy_helper.from_array(np.array([7, 3]), "seven")
    model.graph.initializer.append(seven)
    last(model, package, "Reshape", "seven")


@pytest.mark.parametrize(
    "change, message",
    [
        (in_another_file, "values in other files, which are not opened.*Delete .*onnx"),
        (endless, "it has the foreign operation ai.onnx.Loop"),
        (foreign, "foreign operation evil"),
        (not_one, "Expected probabilities that sum to 1"),
        (too_many, r"cannot be used \(it returns float32 \(2, 3\) for 1 pairs\). Delete .*onnx"),
        (failing, r"cannot be used \(.*Reshape"),
        (None, "cannot be used .* Delete"),
    ],
)
def test_the_model_of_a_stranger(made, tmp_path, change, message):
    """Its digests are right, so it is not made again; what it does is looked at."""
    package = pytest.importorskip("onnx")

    folder = shutil.copytree(made, tmp_path / "run")
    path = folder / "onnx" / "model.onnx"
    content = path.read_bytes()
    if change is None:
        path.write_bytes(content[: len(content) // 2])
    else:
        model = package.load_model_from_string(content)
        change(model, package)
        path.write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match="no ONNX model of its present weights"):
        Matcher.load(folder, "onnx")
    note = folder / "onnx" / "run.json"
    facts = json.loads(note.read_text("utf-8")) | identity(folder)
    facts["seal"] = seal({name: facts[name] for name in facts if name != "seal"})
    note.write_text(json.dumps(facts), "utf-8")
    with pytest.raises(InputError, match=message):
        load(folder, engine="onnx").predict("a dog", "a cat")


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_folder_with_links_or_pipes_is_not_read(made, tmp_path, kind):
    folder = shutil.copytree(made, tmp_path / "run")
    path = folder / "onnx" / "run.json"
    path.unlink()
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    for use in (load, load_run):
        with pytest.raises(InputError, match="run.json is a .*Expected only files"):
            use(folder, engine="onnx")


def test_what_needs_keras_loads_it(made, monkeypatch):
    matcher = load(made)
    assert matcher.engine == "onnx"
    assert explain(matcher, "a dog", "a cat").label and matcher.engine == "keras"
    monkeypatch.setattr(onnx, "is_installed", lambda name: name != "onnxruntime")
    assert load(made).engine == "keras"
    for use in (load, load_run):
        with pytest.raises(InputError, match="needs onnxruntime, which is not installed"):
            use(made, engine="onnx")


def test_keras_is_asked_for_where_it_is_missing(made, monkeypatch):
    monkeypatch.setattr(run_folder, "find_spec", lambda name: None)
    for use in (lambda: Matcher.load(made, "keras"), lambda: load(made).model, Matcher.similarity):
        with pytest.raises(InputError, match="needs Keras, which is not installed.*pip install"):
            use()
