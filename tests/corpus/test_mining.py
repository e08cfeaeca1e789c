"""Mining: what retrievers find, which pairs match, sizes, and what is refused."""

import subprocess
import sys
import time
from importlib.util import find_spec

import keras
import numpy as np
import pytest

from keras_sentmatch import load
from keras_sentmatch.applications import ESIM, build_model
from keras_sentmatch.corpus import group, mine
from keras_sentmatch.corpus._retrieval import EXACT, Bm25, Dense, make_vectors, run_vectors, unit
from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairEncoder, SubwordPairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference import Matcher
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from tests.harness import randomize
from tests.toys.encoders import PREFIXES, backbone, tokenizer
from tests.toys.encoders import SENTENCES as TEXTS

pytest.importorskip("bm25s")
pytest.importorskip("faiss")
pytestmark = pytest.mark.once

SENTENCES = [
    "a dog runs in the park",
    "it is raining",
    "the dog is running in a park",
    "two cats sleep",
    "rain falls today",
    "a dog runs in the park",
    "two cats are asleep",
    "",
]


class Overlap(Matcher):
    """Answers with the share of words that two sentences have in common."""

    asked = 0

    def raw_scores(self, pairs, batch_size):
        self.asked += len(pairs)
        shares = []
        for one, two in zip(pairs.sentence1, pairs.sentence2):
            words = [set(s.split()) - {"a", "the", "is", "in"} for s in (one, two)]
            shares.append(len(words[0] & words[1]) / max(1, len(words[0] | words[1])))
        return np.stack([1 - np.array(shares), shares], axis=1).astype("float32")


def make_matcher():
    encoder = PairEncoder.fit(PairDataset(SENTENCES, SENTENCES), features=("word",))
    model = ESIM(vocabulary_size=encoder.vocabulary_size, num_classes=2, embedding_dim=4, units=3)
    model.jit_compile = False
    return Overlap(randomize(model), encoder, ("no", "yes"), task="classification")


@pytest.fixture(scope="module")
def matcher():
    return make_matcher()


def places(found):
    return {(pair.index1, pair.index2) for pair in found}


@pytest.mark.parametrize("vectors", [None, "table", "words"])
def test_matching_pairs_are_found_best_first(matcher, vectors):
    found = mine(matcher, SENTENCES, threshold=0.3, vectors=vectors)
    assert (found[0].index1, found[0].index2) == (0, 5)
    assert places(found) == {(0, 5), (0, 2), (3, 6)}
    assert [p.score for p in found] == sorted((p.score for p in found), reverse=True)
    assert all(p.sentence1 == SENTENCES[p.index1] for p in found)
    assert all(p.sentence2 == SENTENCES[p.index2] for p in found)


def test_an_ensemble_mines_with_the_mean(matcher):
    assert places(mine(EnsembleMatcher([matcher, make_matcher()]), SENTENCES, threshold=0.3)) == {
        (0, 5), (0, 2), (3, 6)
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["table", "words"])
def test_each_retriever_finds_the_nearest(matcher, kind):
    """Each alone: what is mined joins both."""
    embed = make_vectors(kind, matcher, SENTENCES)
    for found in (Dense(embed, SENTENCES), Bm25(SENTENCES)):
        ranking = found.search(["two cats are asleep", "🙂🙂🙂"], 3)
        assert ranking[0, 0] == 6 and (ranking[1] == -1).all()


def test_only_candidates_are_scored(matcher):
    words = [f"w{i} x{i % 50} y{i % 40}" for i in range(400)]
    matcher.asked = 0
    mine(matcher, words, candidates=3)
    assert 0 < matcher.asked <= 1200 + 400


def test_two_corpora(matcher):
    found = mine(matcher, SENTENCES[:4], SENTENCES[4:] * 2, threshold=0.3, vectors="table")
    assert places(found) == {(0, 1), (0, 5), (2, 1), (2, 5), (3, 2), (3, 6)}
    assert mine(matcher, ["it rains"], ["snow"]) == []


def test_equal_sentences_are_a_star_and_are_scored_once(matcher):
    matcher.asked = 0
    found = mine(matcher, ["two cats sleep"] * 10_000)
    assert matcher.asked == 1
    assert [(p.index1, p.index2) for p in found] == [(0, i) for i in range(1, 10_000)]


def test_a_long_sentence_is_found_by_its_words(matcher):
    long = " ".join(f"word{i}" for i in range(10_000))
    (pair,) = mine(matcher, [long, long + " more", "two cats"], threshold=0.9)
    assert (pair.index1, pair.index2) == (0, 1) and pair.score > 0.99


def test_equal_sentences_take_no_quadratic_time(matcher):
    """About a second here; 45 billion comparisons would take minutes."""
    count = 300_000
    start = time.process_time()
    pairs = mine(matcher, ["two cats sleep"] * count)
    (one,) = group(matcher, ["two cats sleep"] * count)
    assert len(pairs) == count - 1 and one.size == count
    assert time.process_time() - start < 30


def test_a_sentence_of_ten_thousand_words_has_vectors_too(matcher):
    long = " ".join(["dog", "runs", "park"] * 3_500)
    for vectors in ("table", "words"):
        found = mine(matcher, [long, "a dog runs", "rain"], vectors=vectors)
        assert places(found) == {(0, 1)}


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


@pytest.mark.slow
def test_an_onnx_engine_mines(matcher, tmp_path):
    for name in ("onnxruntime", "tf2onnx"):
        pytest.importorskip(name)
    matcher.save(tmp_path / "run")
    plain = Matcher.load(tmp_path / "run")
    fast = load(tmp_path / "run", engine="onnx")
    given = {"threshold": 0.0, "vectors": "table"}
    pairs = [
        {(p.index1, p.index2): p.score for p in mine(one, SENTENCES, **given)}
        for one in (plain, fast)
    ]
    assert pairs[0] == pytest.approx(pairs[1], abs=1e-5)
    with pytest.raises(InputError, match="has no word vectors. Use vectors='table', or load"):
        mine(fast, SENTENCES, vectors="words")


@pytest.mark.skipif(not find_spec("jax"), reason="jax is not installed")
def test_bm25_brings_no_jax():
    code = (
        "import sys\nfrom keras_sentmatch.corpus._retrieval import optional\n"
        "optional('bm25s', 'bm25s')\nassert 'jax' not in sys.modules\nimport jax"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "sentences, options, message",
    [
        ([], {}, "corpus has 0 sentences. Expected at least 2"),
        (["a"], {}, "corpus has 1 sentence. Expected at least 2"),
        ("a b", {}, "is one string"),
        (["a", None], {}, r"sentences\[1\] is None. Expected a string"),
        (["a", "b"], {"vectors": "x"}, "vectors='x' is unknown. Expected 'table' or 'words'"),
        (["a", "b"], {"candidates": 0}, "candidates"),
        (["a", "b"], {"label": "maybe"}, "'maybe' is not a label"),
    ],
)
def test_bad_input(matcher, sentences, options, message):
    with pytest.raises(InputError, match=message):
        mine(matcher, sentences, **options)


@pytest.mark.parametrize("kind", PREFIXES)
def test_the_tokens_of_a_pretrained_encoder_are_its_pieces(kind):
    encoder = SubwordPairEncoder(tokenizer(kind), max_length=64)
    model = build_model("cross_encoder", backbone=backbone(kind), num_classes=2)
    matcher = Matcher(model, encoder, ("no", "yes"), task="classification")
    lookup, width = run_vectors(matcher)
    matrix = keras.ops.convert_to_numpy(model.bert.backbone.token_embedding.embeddings)
    for sentence in TEXTS:
        ids = encoder.encode([sentence], [""])["token_ids"][0]
        found = np.stack([lookup(piece) for piece in encoder.tokens(sentence)])
        np.testing.assert_array_equal(found, matrix[ids[1 : len(found) + 1]])
        assert found.shape[1] == width
