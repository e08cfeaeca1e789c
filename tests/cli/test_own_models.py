"""A model in a file of one's own has the whole command line, in this process and in others."""

import os
import subprocess
import sys

import pytest

from keras_sentmatch.applications import registry
from keras_sentmatch.applications.registry import load_models
from keras_sentmatch.errors import InputError
from tests.cli.test_cli import TINY, run, write_pairs

pytestmark = pytest.mark.backend("torch")
FILE = '''
import keras
from keras_sentmatch.applications import PairModel, Sentence
from keras_sentmatch.ops import masked_mean

class MyMatcher(PairModel):
    """Means of word vectors."""

    def __init__(self, vocabulary_size, num_classes=2, embedding_dim=4, units=3, **kwargs):
        super().__init__(vocabulary_size, num_classes, embedding_dim, **kwargs)
        self.units = units
        self.embed = keras.layers.Embedding(vocabulary_size, embedding_dim)
        self.hidden = keras.layers.Dense(units)
        self.answer = keras.layers.Dense(num_classes, activation="softmax", name="answer")
        self.make_graph()

    def encode(self, sentence):
        return Sentence(mean=masked_mean(self.embed(sentence.word_ids), sentence.mask))

    def interact(self, one, two):
        both = keras.ops.concatenate([one.mean, two.mean], axis=-1)
        return self.answer(self.hidden(both))

    def count_params_without_word_embeddings(self):
        return 1
'''


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    monkeypatch.setenv("SENTMATCH_CODE", "")
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    monkeypatch.setattr(registry, "_MODELS", dict(registry._MODELS))


def test_it_is_trained_and_answers_elsewhere(tmp_path, capsys):
    file, data = tmp_path / "my_models.py", write_pairs(tmp_path / "own.tsv", 60)
    file.write_text(FILE)
    load_models(file)  # as a new process does
    given = ["--data", data, "--columns", "claim,answer,verdict", *TINY, "--set", "model.units=2"]
    assert run("--code", file, "train", "my_matcher", *given, "--out", tmp_path / "run") == 0
    assert f"next: keras-sentmatch --code {file} predict" in capsys.readouterr().err
    ask = ["predict", str(tmp_path / "run"), "--sentence1", "a", "--sentence2", "b"]
    code = "from keras_sentmatch.cli import main; import sys; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "--code", str(file), *ask]
    env = {**os.environ, "SENTMATCH_CODE": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0 and "probability" in done.stdout, done.stderr


@pytest.mark.parametrize(
    "content, words",
    [
        (None, "is missing or not a Python file"),
        ("x = 1", "defines no subclass of keras_sentmatch.applications.Pair"),
        ("x = 1 / 0", r"cannot be imported \(ZeroDivisionError"),
        (FILE.replace("MyMatcher", "Hybrid"), "'hybrid', class Hybrid, is named like the built-in"),
        (
            FILE.replace(
                "class ",
                "from keras_sentmatch.applications import register_model\n@register_model('esim')\nclass ",
            ),
            "named like the built-in 'esim'",
        ),
    ],
)
def test_what_holds_no_model_is_refused(tmp_path, content, words):
    file = tmp_path / "models.py"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InputError, match=words):
        load_models(file)
