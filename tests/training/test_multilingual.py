"""English, Chinese and Thai, the last two without spaces, through a tiny XLM-RoBERTa."""

import json
import runpy
from itertools import product
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from keras_sentmatch import explain, export
from keras_sentmatch.cli import main
from keras_sentmatch.inference.matcher import Matcher
from tests.toys.encoders import folder_of

ANIMALS = {"dog": ("两只狗在公园里跑步", "狗"), "cat": ("แมวกำลังนอนหลับ", "แมว")}
THAI, CHINESE = "สุนัขวิ่งเล่นในสวน", "两只狗在公园里跑步。"


def command(*arguments) -> int:
    with pytest.MonkeyPatch.context() as patch:  # the command sets these two
        patch.setenv("KERAS_BACKEND", keras.config.backend())
        patch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
    return exit_.value.code or 0


def rows():
    """Pairs in any two languages: is the first about a dog?"""
    named = [(animal, name) for animal, names in ANIMALS.items() for name in (animal, *names)]
    both = product(named, named)
    pairs = [(one, two, "yes" if a == "dog" else "no") for (a, one), (_, two) in both]
    return [(f"{one}。", two, label) for one, two, label in pairs] * 2


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    home = tmp_path_factory.mktemp("multilingual")
    encoder, data = folder_of("XLMRoberta", home / "encoder"), home / "pairs"
    lines = ["sentence1\tsentence2\tlabel", *("\t".join(row) for row in rows())]
    data.mkdir()
    for part in ("train", "dev", "test"):
        (data / f"{part}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sets = ["training.folds=0", "training.learning_rate=0.01", "training.patience=60"]
    sets += ["encoder.max_length=48", "model.dropout=0"]
    settings = [part for key in sets for part in ("--set", key)]
    where = ["--data", data, "--backbone", encoder, "--out", home / "run", "--epochs", 60]
    assert command("train", "cross_encoder", *where, "--batch-size", 16, *settings) == 0
    return SimpleNamespace(folder=home / "run", data=data, encoder=encoder, home=home)


def test_it_was_trained_and_answers(trained):
    metrics = json.loads((trained.folder / "metrics.json").read_text())
    assert metrics["epochs"] == 60 and "0 (0.0%) unknown" in json.dumps(metrics["encoding"])
    matcher = Matcher.load(trained.folder)
    pairs = [(one, two) for one, two, _ in rows()[:36]]
    found = matcher.predict_proba(
        {"sentence1": [p[0] for p in pairs], "sentence2": [p[1] for p in pairs]}
    )
    assert np.isfinite(found).all() and np.ptp(found[:, 0]) > 0.5  # it has learned
    assert matcher.predict(sentence1=CHINESE, sentence2=THAI)["label"] in ("yes", "no")


def test_words_without_spaces_are_explained(trained):
    matcher = Matcher.load(trained.folder)
    explained = explain(matcher, sentence1=CHINESE, sentence2=THAI)
    erased = explained.erasure
    assert erased.words_1 == tuple(CHINESE.rstrip("。"))  # each ideograph
    assert len(erased.words_2) > 3 and "".join(erased.words_2) == THAI  # the encoder's pieces
    assert np.abs(erased.importance_1).max() > 0 and np.abs(erased.importance_2).max() > 0
    shown = explained.words(2)
    assert [word.text for word in shown] == list(erased.words_2)
    assert all(word.tokens for word in shown)
    assert erased.words_2[0] in explained.html


@pytest.mark.slow
@pytest.mark.once
def test_exported(trained, tmp_path):
    pytest.importorskip("tf2onnx")
    matcher = Matcher.load(trained.folder)
    report = export(matcher, tmp_path / "onnx", "onnx")
    assert report["left_out"] == {} and report["largest_difference"] < 1e-5
    score = runpy.run_path(str(tmp_path / "onnx" / "score.py"))["Scorer"](tmp_path / "onnx")
    (answer,) = score([(CHINESE, THAI)])
    want = matcher.predict(sentence1=CHINESE, sentence2=THAI)
    assert answer["label"] == want["label"]
    assert abs(answer["probabilities"]["yes"] - want["probabilities"]["yes"]) < 1e-5
    report = export(matcher, tmp_path / "saved_model")
    assert set(report["signatures"]) == {"ids"}
    assert "are not made by TensorFlow's own" in report["left_out"]["serving_default"]


@pytest.mark.slow
@pytest.mark.once
def test_it_teaches_and_gives_word_vectors(trained):
    out = trained.home / "student"
    learns = ["--vectors", f"encoder:{trained.encoder}", "--teacher", trained.folder]
    sets = ["model.units=4", "model.blocks=1", "vectors.dim=8", "training.folds=0"]
    settings = [part for key in sets for part in ("--set", key)]
    where = ["--data", trained.data, "--out", out, "--epochs", 1, *learns, *settings]
    assert command("train", "re2", *where) == 0
    student = Matcher.load(out)
    assert student.predict(sentence1=CHINESE, sentence2=THAI)["label"] in ("yes", "no")
