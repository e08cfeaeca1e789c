"""Corpora at their limits, and what else than a plain matcher mines them."""

import subprocess
import sys
import time
from importlib.util import find_spec

import numpy as np
import pytest

from keras_sentmatch.cli import main
from keras_sentmatch.corpus import Miner
from keras_sentmatch.corpus.retrieval import EXACT, Dense
from keras_sentmatch.corpus.vectors import unit
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference import EnsembleMatcher, Matcher
from tests.corpus.test_mining import SENTENCES, make_matcher
from tests.corpus.test_mining import matcher as matcher

pytest.importorskip("bm25s")
pytest.importorskip("faiss")
pytestmark = pytest.mark.once


def test_equal_sentences_take_no_quadratic_time(matcher):
    """About a second here; 45 billion comparisons would take minutes."""
    count = 300_000
    start = time.process_time()
    pairs = matcher.mine(["two cats sleep"] * count)
    (group,) = matcher.groups(["two cats sleep"] * count)
    assert len(pairs) == count - 1 and group.size == count
    assert time.process_time() - start < 30


def test_a_sentence_of_ten_thousand_words_has_vectors_too(matcher):
    long = " ".join(["dog", "runs", "park"] * 3_500)
    for vectors in ("table", "words", "encodings"):
        found = matcher.mine([long, "a dog runs", "rain"], retriever="dense", vectors=vectors)
        assert [(pair.index1, pair.index2) for pair in found] == [(0, 1)]


def test_many_vectors_are_looked_up_in_lists():
    """With real sizes: above `EXACT`, faiss looks through some of many lists."""
    rng = np.random.default_rng(0)
    vectors = unit(rng.normal(size=(EXACT + 1, 4)))
    found = Dense(lambda rows: vectors[list(rows)], range(EXACT + 1))
    assert found.index.nlist > 1000
    asked = rng.integers(0, EXACT, 50)
    nearest = np.argsort(-(vectors[asked] @ vectors.T), axis=1)[:, :10]
    got = found.search(asked, 10)
    assert (got[:, 0] == asked).all()
    shares = [len(set(a) & set(b)) / 10 for a, b in zip(nearest, got)]
    assert np.mean(shares) > 0.9


def test_an_ensemble_mines_with_the_mean(matcher):
    ensemble = EnsembleMatcher([matcher, make_matcher()])
    for vectors in ("table", "words", "encodings"):
        found = ensemble.mine(SENTENCES, threshold=0.3, vectors=vectors)
        assert {(p.index1, p.index2) for p in found} == {(0, 5), (0, 2), (3, 6)}


@pytest.mark.slow
def test_an_onnx_engine_mines(matcher, tmp_path):
    for name in ("onnxruntime", "tf2onnx"):
        pytest.importorskip(name)
    matcher.save(tmp_path / "run")
    plain = Matcher.load(tmp_path / "run")
    fast = Matcher.load(tmp_path / "run", engine="onnx")
    given = {"threshold": 0.0, "vectors": "table"}
    pairs = [
        {(p.index1, p.index2): p.score for p in one.mine(SENTENCES, **given)}
        for one in (plain, fast)
    ]
    assert pairs[0] == pytest.approx(pairs[1], abs=1e-5)
    with pytest.raises(InputError, match="shows no word vectors: use vectors='table', or load"):
        fast.mine(SENTENCES, vectors="words")


def test_a_sample_without_a_matching_pair_says_so(matcher, tmp_path, capsys):
    assert np.isnan(Miner(matcher, ["one", "two"]).recall(2)["both"])
    matcher.save(tmp_path / "run")
    (tmp_path / "corpus.txt").write_text("one\ntwo\n")
    command = ["mine", str(tmp_path / "run"), str(tmp_path / "corpus.txt"), "--threshold", "1.1"]
    with pytest.raises(SystemExit, match="^0$"):
        main([*command, "--recall-sample", "2"])
    shown = capsys.readouterr().err
    assert "of 2 sentences no pair matches, so it cannot be measured" in shown
    assert "nan" not in shown


@pytest.mark.skipif(not find_spec("jax"), reason="jax is not installed")
def test_bm25_brings_no_jax():
    code = (
        "import sys\nfrom keras_sentmatch.corpus.retrieval import optional\n"
        "optional('bm25s', 'bm25s')\nassert 'jax' not in sys.modules\nimport jax"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
