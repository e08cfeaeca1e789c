"""Mining: what retrievers find, which pairs match, and what is refused."""

import json

import keras
import numpy as np
import pytest

from keras_sentmatch.applications import ESIM, build_model
from keras_sentmatch.cli import main
from keras_sentmatch.corpus import Miner
from keras_sentmatch.corpus.vectors import make_vectors, run_vectors
from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairEncoder, SubwordPairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.matcher import Matcher
from tests.harness import randomize
from tests.inference.test_new_words import Bag
from tests.toys.bert import tiny_bert
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


@pytest.mark.parametrize(
    "retriever, vectors",
    [
        ("bm25", None),
        ("dense", "table"),
        ("dense", "words"),
        ("dense", "encodings"),
        ("both", None),
    ],
)
def test_matching_pairs_are_found_best_first(matcher, retriever, vectors):
    found = matcher.mine(SENTENCES, threshold=0.3, retriever=retriever, vectors=vectors)
    assert [(p["index1"], p["index2"]) for p in found[:1]] == [(0, 5)]
    assert {(p["index1"], p["index2"]) for p in found} == {(0, 5), (0, 2), (3, 6)}
    assert [p.score for p in found] == sorted((p.score for p in found), reverse=True)
    assert all(p.sentence1 == SENTENCES[p.index1] for p in found)
    assert all(p.sentence2 == SENTENCES[p.index2] for p in found)


def test_only_candidates_are_scored(matcher):
    words = [f"w{i} x{i % 50} y{i % 40}" for i in range(400)]
    matcher.asked = 0
    matcher.mine(words, candidates=3, retriever="bm25")
    assert 0 < matcher.asked <= 1200 + 400


def test_two_corpora(matcher):
    found = matcher.mine(SENTENCES[:4], SENTENCES[4:] * 2, threshold=0.3, vectors="table")
    assert {(p.index1, p.index2) for p in found} == {(0, 1), (0, 5), (2, 1), (2, 5), (3, 2), (3, 6)}
    assert matcher.mine(["it rains"], ["snow"]) == []


def test_equal_sentences_are_a_star_and_are_scored_once(matcher):
    matcher.asked = 0
    found = matcher.mine(["two cats sleep"] * 10_000)
    assert matcher.asked == 1
    assert [(p.index1, p.index2) for p in found] == [(0, i) for i in range(1, 10_000)]


def test_a_long_sentence_is_found_by_its_words(matcher):
    long = " ".join(f"word{i}" for i in range(10_000))
    (pair,) = matcher.mine([long, long + " more", "two cats"], retriever="bm25")
    assert (pair.index1, pair.index2) == (0, 1) and pair.score > 0.99


def test_recall_counts_the_matching_pairs_that_are_candidates(matcher):
    found = Miner(matcher, SENTENCES, candidates=6).recall(7, threshold=0.3)
    assert found == {"bm25": 1.0, "dense": 1.0, "both": 1.0, "pairs": 4}
    rare = [f"a{i} b{i}" for i in range(6)] + [f"a{i} b{i} c{i}" for i in range(6)]
    miner = Miner(matcher, rare, candidates=1, retriever="bm25")
    miner._rankings["bm25"] = np.full((12, 1), -1)
    assert miner.recall(12, threshold=0.3) == {"bm25": 0.0, "pairs": 12}


@pytest.mark.parametrize(
    "sentences, options, message",
    [
        ([], {}, "corpus has 0 sentences; at least 2"),
        (["a"], {}, "corpus has 1 sentence; at least 2"),
        ("a b", {}, "is one string"),
        (["a", None], {}, r"sentences\[1\] is None; expected a string"),
        (["a", "b"], {"retriever": "x"}, "retriever='x': expected one of 'both'"),
        (["a", "b"], {"retriever": "bm25", "vectors": "words"}, "bm25 uses no vectors"),
        (["a", "b"], {"vectors": "x"}, "vectors='x': expected 'table'"),
        (["a", "b"], {"candidates": 0}, "candidates"),
        (["a", "b"], {"label": "maybe"}, "no label 'maybe'"),
    ],
)
def test_bad_input(matcher, sentences, options, message):
    with pytest.raises(InputError, match=message):
        matcher.mine(sentences, **options)


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
    with pytest.raises(InputError, match="cannot encode a sentence without the other one: use"):
        matcher.mine(TEXTS, vectors="encodings")


def test_encodings_need_a_state_of_each_word(matcher):
    bag = Bag(matcher.encoder.vocabulary_size)
    summed = Matcher(bag, matcher.encoder, ("no", "maybe", "yes"), task="classification")
    with pytest.raises(InputError, match="keeps no encoding of each word: use vectors='words'"):
        summed.mine(SENTENCES, label="yes", vectors="encodings")


def test_vectors_of_an_encoder_folder(matcher, tmp_path):
    folder = tiny_bert(tmp_path, sorted({word for text in SENTENCES for word in text.split()}))
    vectors = make_vectors(folder, matcher, ())(["two cats", "Two cats", "", "rain falls"])
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)
    assert not vectors[2].any() and np.abs(vectors[0] - vectors[3]).max() > 1e-3
    np.testing.assert_allclose(np.linalg.norm(vectors[[0, 1, 3]], axis=1), 1, atol=1e-5)
    found = matcher.mine(SENTENCES, threshold=0.3, retriever="dense", vectors=folder)
    assert {(p.index1, p.index2) for p in found} == {(0, 5), (0, 2), (3, 6)}


def test_the_command(matcher, tmp_path, capsys):
    matcher.save(tmp_path / "run")
    corpus, out = tmp_path / "corpus.txt", tmp_path / "pairs.tsv"
    corpus.write_text("\n".join(SENTENCES[:7]) + "\n\na dog runs in the park\n")
    command = ["mine", str(tmp_path / "run"), str(corpus), "--threshold", "0"]
    with pytest.raises(SystemExit, match="^0$"):
        main([*command, "--json", "--recall-sample", "3"])
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert {(p["line1"], p["line2"]) for p in found} >= {(1, 6), (1, 9), (1, 3)}
    assert "both 1.000" in captured.err
    with pytest.raises(SystemExit, match="^0$"):
        main([*command, "--out", str(out)])
    assert len(out.read_text().splitlines()) == len(found) + 1
    with pytest.raises(SystemExit, match="^0$"):
        main([*command, "--against", str(corpus)])
    captured = capsys.readouterr()
    assert "line1" in captured.out and "more pairs" in captured.err
    with pytest.raises(SystemExit, match="^2$"):
        main([*command, "--out", "pairs.pdf"])
