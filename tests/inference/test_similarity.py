"""The built-in matcher: good before any training, a run folder by name, initial weights."""

import json
from importlib.util import find_spec

import numpy as np
import pytest
from keras import ops
from scipy.stats import spearmanr

from keras_sentmatch import Matcher
from keras_sentmatch.cli import main
from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.training import Recipe
from tests.toys.training import tiny_run

GRADED = [  # from another subject to the same meaning
    ("A dog runs through the park.", "The price of oil rose sharply on Monday."),
    ("How do I reset my password?", "Which wine goes with grilled fish?"),
    ("A man is playing a guitar.", "A woman is slicing an onion."),
    ("A man is playing a guitar.", "A man is playing a trumpet."),
    ("The company reported higher profits.", "The company's profits fell."),
    ("A dog runs through the park.", "A puppy is running in a field."),
    ("How do I reset my password?", "I forgot my password, how can I change it?"),
    ("The film was a great success.", "The movie was a huge success."),
    ("A man is playing a guitar.", "A man is playing a guitar."),
]


@pytest.fixture(scope="module")
def matcher():
    return Matcher.similarity()


@pytest.fixture
def caches(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "caches" / "keras_sentmatch"


def scores_of(matcher, pairs=GRADED):
    return matcher.predict_proba(PairDataset(*zip(*pairs)))


def test_scores_follow_the_meaning(matcher):
    scores = scores_of(matcher)
    assert spearmanr(scores, range(len(GRADED)))[0] > 0.8
    assert (scores[:3] < 0.35).all() and (scores[-2:] > 0.75).all() and scores[-1] > 0.9
    assert (scores >= 0).all() and (scores <= 1).all()


def test_the_order_changes_nothing_and_equal_texts_score_one(matcher):
    texts = ["A dog runs.", "a  dog runs .", "", "Der Hund läuft.", "word " * 5000]
    pairs = [*GRADED, ("", "A dog."), ("", ""), *((text, text) for text in texts)]
    found = scores_of(matcher, pairs)
    np.testing.assert_allclose(scores_of(matcher, [p[::-1] for p in pairs]), found, atol=1e-6)
    assert found[len(GRADED) :].tolist() == [0, 1, *[1] * len(texts)]
    assert scores_of(matcher, [texts[:2]]).tolist() == [1]  # equal for the encoder


def test_a_negation_lowers_the_score(matcher):
    sentence, same, other = "A dog runs.", "A dog is running.", "A dog does not run."
    close, far = scores_of(matcher, [(sentence, same), (sentence, other)])
    assert close > far + 0.1, (close, far)


def test_ranking_gives_the_same_scores(matcher):
    query, *others = "A dog runs.", "A dog runs.", "A puppy is running.", "It rains."
    found = matcher.rank(query, others)
    assert found[0]["score"] == 1 and found[0]["index"] == 0
    pairs = scores_of(matcher, [(query, other) for other in others])
    assert [r["score"] for r in found] == pytest.approx(sorted(pairs, reverse=True), abs=1e-5)
    with pytest.raises(InputError, match="cannot encode a sentence alone"):
        matcher.encode(others)


def test_another_language_is_said_once(matcher, caplog):
    german = "Der Hund läuft schnell durch den Park und sucht seinen Ball."
    for _ in range(2):
        matcher.predict(sentence1=german, sentence2=german)
    matcher.predict(sentence1=GRADED[0][0], sentence2=GRADED[0][1])
    assert [r.getMessage()[:34] for r in caplog.records] == ["The built-in matcher reads English"]


def test_a_misspelled_or_composed_word_is_read(matcher):
    one, two = "A man plays the guitar.", "A man playes the guittar."
    right, wrong = scores_of(matcher, [(one, two), ("A man eats the cake.", two)])
    assert right > 0.8 and right > wrong + 0.3


def test_its_name_is_that_of_a_run_folder(matcher, caches, tmp_path, capfd):
    found = Matcher.load("similarity")
    np.testing.assert_allclose(scores_of(found), scores_of(matcher), atol=1e-6)
    (folder,) = caches.iterdir()
    made = (folder / "model.keras").stat().st_mtime_ns
    one, two = GRADED[5]
    with pytest.raises(SystemExit, match="0"):
        main(["predict", "similarity", "--sentence1", one, "--sentence2", two, "--json"])
    score = scores_of(matcher, GRADED[5:6])[0]
    assert json.loads(capfd.readouterr().out)["score"] == pytest.approx(score, abs=1e-5)
    assert (folder / "model.keras").stat().st_mtime_ns == made
    assert {path.name for path in caches.iterdir()} <= {folder.name, "onnx.key"}
    if find_spec("onnxruntime"):
        assert Matcher.load("similarity").engine == "onnx"
    (tmp_path / "similarity").mkdir()
    with pytest.raises(InputError, match="similarity is not a run folder"):  # it comes first
        Matcher.load("similarity")


def start(name="hybrid", vectors="table", init="similarity", **model):
    tables = {"encoder": {"features": ["word"]}, "vectors": {"source": vectors}, "model": model}
    settings = {"init": init, "epochs": 1, "batch_size": 20}
    settings |= {"optimizer": "sgd", "learning_rate": 1e-12}
    recipe = Recipe.from_tables(name, training=settings, **tables)
    return tiny_run(None, build=None, recipe=recipe)


@pytest.mark.parametrize("options", [{"units": 75}, {"name": "re2", "units": 75}, {"init": "auto"}])
def test_training_begins_with_its_weights(matcher, caches, options):
    found = start(**options)
    given = {variable.path: variable for variable in matcher.model.weights}
    same = {
        variable.path: np.allclose(ops.convert_to_numpy(variable), given[variable.path], atol=1e-5)
        for variable in found.matcher.model.trainable_weights
        if variable.path in given
    }
    assert len(same) > 60 and {p.split("/")[0] for p, x in same.items() if not x} == {"logits"}
    assert found.metrics["init"] == "similarity"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "esim"}, "a run of RE2, but the recipe trains ESIM"),
        (
            {"units": 50},
            "It has units=75, prediction='exchangeable', this one units=50, prediction='full'",
        ),
        ({"vectors": "none"}, "It has prediction='exchangeable', embedding_dim=128"),
    ],
)
def test_what_cannot_begin_there(caches, options, message):
    with pytest.raises(InputError, match=f"training.init is similarity.*{message}"):
        start(**options)
