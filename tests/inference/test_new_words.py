"""Words met for the first time at prediction: their vectors, and what stays as it was."""

import dataclasses

import keras
import numpy as np
import pytest
from keras import ops

from keras_sentmatch.applications import PairModel, Sentence, build_model
from keras_sentmatch.cli import main
from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference import EnsembleMatcher
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.new_words import BLOCK, row_tables, with_rows, word_tables
from keras_sentmatch.layers import WordRepresentation
from keras_sentmatch.ops import masked_mean
from keras_sentmatch.text.tokens import word_facts
from keras_sentmatch.vectors import extract_vectors
from keras_sentmatch.vectors.built_in import load_word_table
from keras_sentmatch.vectors.extraction import WordEncoder
from tests.applications.common import features
from tests.harness import close, randomize, values
from tests.toys.bert import tiny_bert

pytestmark = pytest.mark.once

FIRST, SECOND = ["a dog runs", "a red cat"], ["the dog sits", "cats run"]
NEW = ["redhouse zebra", "the houses Run"]  # nobody knows zebra
PIECES = ["a", "dog", "cat", "house", "red", "run", "sit", "the", "##s", "##house"]


@keras.saving.register_keras_serializable("tests")
class Bag(PairModel):
    """Means of word features, side by side."""

    def __init__(
        self, vocabulary_size, num_classes=3, trainable_words=True, fixed_words=True, **kwargs
    ):
        self.word_representation = WordRepresentation(
            vocabulary_size, 8, trainable_words, fixed_words, exact_match=False, dropout=0.0
        )
        self.classify = self.make_classifier()
        super().__init__(**kwargs)

    def encode(self, sentence):
        return Sentence(mean=masked_mean(self.represent_words(sentence), sentence.mask))

    def interact(self, one, two):
        return self.classify(ops.concatenate([one.mean, two.mean], axis=-1))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_bert(tmp_path_factory.mktemp("tiny_bert"), PIECES)


@pytest.fixture(scope="module")
def shared(folder):
    return WordEncoder(folder)


@pytest.fixture(scope="module")
def vectors(folder, tmp_path_factory):
    words = PairEncoder.fit(PairDataset(FIRST, SECOND)).vocabulary.words[2:]
    return extract_vectors(folder, words, dim=8, cache_dir=tmp_path_factory.mktemp("cache"))


def make(vectors, **tables) -> Matcher:
    """A matcher of a model that has been trained: its trainable table has moved."""
    encoder = PairEncoder.fit(PairDataset(FIRST, SECOND), max_length=8)
    model = Bag(len(encoder.vocabulary), **tables)
    model.set_word_vectors(vectors.matrix_for(encoder.vocabulary, 0))
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(weight + rng.normal(0, 0.5, weight.shape))
    names = ("no", "maybe", "yes")
    vector_extractor = vectors.extractor
    return Matcher(model, encoder, names, task="classification", vector_extractor=vector_extractor)


def tables(matcher):
    return [ops.convert_to_numpy(table) for table in word_tables(matcher.model)]


@pytest.mark.parametrize("trainable, fixed", [(True, True), (True, False), (False, True)])
def test_new_words_get_their_extracted_vectors(vectors, shared, trainable, fixed):
    matcher = make(vectors, trainable_words=trainable, fixed_words=fixed)
    size, before = len(matcher.encoder.vocabulary), tables(matcher)
    known = matcher.predict_proba(sentence1=FIRST, sentence2=SECOND)
    unknown = matcher.predict_proba(sentence1=NEW, sentence2=SECOND)
    assert matcher.learn_words(NEW, encoder=shared) == ["redhouse", "houses"]
    assert matcher.learn_words(NEW, encoder=shared) == []
    words, expected = vectors.extractor.extract(["redhouse", "houses"], shared)
    assert matcher.encoder.vocabulary.words[size:] == words
    assert len(before) == trainable + fixed
    for old, new in zip(before, tables(matcher)):
        assert len(new) == size + BLOCK
        np.testing.assert_array_equal(new[:size], old)
        np.testing.assert_allclose(new[size : size + 2], expected, atol=1e-4)
        assert not new[size + 2 :].any()
    again = matcher.predict_proba(sentence1=FIRST, sentence2=SECOND)
    np.testing.assert_allclose(again, known, atol=1e-6)
    assert np.abs(matcher.predict_proba(sentence1=NEW, sentence2=SECOND) - unknown).max() > 1e-3
    assert str(matcher.encoder.report).endswith("; 2 words learned")


def test_a_matcher_loaded_with_its_encoder_learns_by_itself(vectors, shared, folder, tmp_path):
    matcher = make(vectors)
    matcher.save(tmp_path / "run")
    plain = Matcher.load(tmp_path / "run")
    loaded = Matcher.load(tmp_path / "run", word_encoder=shared)
    known = loaded.predict_proba(sentence1=FIRST, sentence2=SECOND)
    np.testing.assert_allclose(known, matcher.predict_proba(PairDataset(FIRST, SECOND)), atol=1e-6)
    assert loaded.encoder.report.learned == 0
    model = loaded.model
    assert model.vocabulary_size == len(matcher.encoder.vocabulary), "nothing new, nothing made"
    answers = loaded.predict_proba(sentence1=NEW, sentence2=SECOND)
    assert loaded.encoder.report.learned == 2 and loaded.encoder.report.unknown == 1
    matcher.learn_words(["houses redhouse"], folder)  # another order of ids, the encoder anew
    other = matcher.predict_proba(sentence1=NEW, sentence2=SECOND)
    np.testing.assert_allclose(answers, other, atol=1e-4)
    assert np.abs(plain.predict_proba(sentence1=NEW, sentence2=SECOND) - answers).max() > 1e-3
    grown = loaded.model
    loaded.rank("cathouse", ["dogs"], label="yes")
    assert loaded.encoder.report.learned == 4 and loaded.model is grown, "there were rows to spare"
    np.testing.assert_allclose(
        loaded.predict_proba(sentence1=NEW, sentence2=SECOND), answers, atol=1e-6
    )
    loaded.save(tmp_path / "more")  # the words are kept, and more can be learned
    kept = Matcher.load(tmp_path / "more")
    assert "cathouse" in kept.encoder.vocabulary
    np.testing.assert_allclose(
        kept.predict_proba(sentence1=NEW, sentence2=SECOND), answers, atol=1e-6
    )
    assert kept.learn_words(["dogs", "dogshouse"], shared) == ["dogshouse"]


def test_a_corpus_may_hold_new_words(vectors, shared, tmp_path):
    make(vectors).save(tmp_path)
    matcher = Matcher.load(tmp_path, word_encoder=shared)
    corpus = matcher.encode([*SECOND, "redhouse"])
    assert matcher.encoder.report.learned == 1
    scores = matcher.rank_scores("a cathouse", corpus, label="yes")
    assert matcher.encoder.report.learned == 2
    expected = matcher.rank_scores("a cathouse", corpus.sentences, label="yes")
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    matcher.replace_model(with_rows(matcher.model, 2 * BLOCK))  # the old encodings stay good
    np.testing.assert_allclose(
        matcher.rank_scores("a cathouse", corpus, label="yes"), scores, atol=1e-6
    )


@pytest.mark.backend("torch")
def test_a_model_of_the_library_keeps_its_answers():
    small = {"units": 4, "depth": 1, "autoencoder_units": 4, "hidden_units": 5}
    model = build_model("drcn", vocabulary_size=10, char_vocabulary_size=6, **small)
    grown = with_rows(model, 11)
    inputs = {name: features(16)[name] for name in model.input_names}
    close(grown(inputs), values(model(inputs)), "a grown model", 1e-6)
    assert len(word_tables(grown)) == 2 and grown.vocabulary_size == 10 + BLOCK


def test_an_ensemble_shares_the_encoder(vectors, folder, tmp_path):
    folders = [tmp_path / name for name in "ab"]
    matcher = make(vectors)
    for one in folders:
        matcher.save(one)
    ensemble = EnsembleMatcher.load(folders, word_encoder=folder)
    scores = ensemble.predict_proba(sentence1=NEW, sentence2=SECOND)
    matcher.learn_words(NEW, folder)
    expected = matcher.predict_proba(sentence1=NEW, sentence2=SECOND)
    np.testing.assert_allclose(scores, expected, atol=1e-4)
    one, two = (member.new_words for member in ensemble.members)
    assert one.encoder is two.encoder


def test_the_command_line(vectors, folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", keras.config.backend())
    make(vectors).save(tmp_path / "run")
    (tmp_path / "lines.txt").write_text("the dog sits\nredhouse\n")
    (tmp_path / "pairs.tsv").write_text("sentence1\tsentence2\tlabel\nhouses\tcats\tyes\n")
    pair = ["--sentence1", "houses", "--sentence2", "cats"]
    for command, learned in (
        (["predict", *pair], 1),
        (["rank", "houses", str(tmp_path / "lines.txt"), "--label", "yes"], 2),
        (["evaluate", "--data", str(tmp_path / "pairs.tsv")], 1),
    ):
        run = [command[0], str(tmp_path / "run"), *command[1:], "--word-encoder", folder]
        with pytest.raises(SystemExit) as ended:
            main(run)
        assert not ended.value.code, capsys.readouterr().err
        assert f"; {learned} words learned" in capsys.readouterr().err


def test_a_hybrid_looks_its_new_words_up(folder):
    words = load_word_table()
    encoder = PairEncoder.fit(PairDataset(FIRST, SECOND), features=("word",), max_length=8)
    sizes = {"vocabulary_size": encoder.vocabulary_size, "embedding_dim": words.dim}
    model = randomize(build_model("hybrid", **sizes, units=4, blocks=1))
    model.jit_compile = False
    names = ("no", "maybe", "yes")
    matcher = Matcher(model, encoder, names, task="classification", vector_extractor=words)
    size, known = encoder.vocabulary_size, matcher.predict_proba(FIRST, SECOND)
    with pytest.raises(InputError, match="package's own table.*leave the word encoder out"):
        matcher.learn_words(["zebra"], folder)
    assert matcher.learn_words(["no zebra \U0001f600"]) == ["no", "zebra"]
    rows = {"facts": word_facts(["no", "zebra"]), "zeros": 0.0}
    rows["vectors"] = np.stack([words.lookup(word)[0] for word in ("no", "zebra")])
    tables = list(row_tables(matcher.model))
    assert [role for role, _ in tables] == ["vectors", "facts", "zeros", "zeros", "zeros"]
    for role, table in tables:
        new = ops.convert_to_numpy(table)[size : size + 2]
        new = new[:, 1:] if role == "facts" else new
        np.testing.assert_allclose(new, np.broadcast_to(rows[role], new.shape), atol=1e-4)
    np.testing.assert_allclose(matcher.predict_proba(FIRST, SECOND), known, atol=1e-6)


def test_tables_grow_by_blocks():
    model = Bag(10)
    assert with_rows(model, 10) is model
    assert with_rows(model, 11).vocabulary_size == 10 + BLOCK
    assert with_rows(model, 11 + BLOCK).vocabulary_size == 10 + 2 * BLOCK


def test_what_cannot_be_a_word_is_left_alone(vectors, shared):
    matcher = make(vectors)
    encoder = matcher.encoder.get_config() | {"tokenizer": "whitespace", "lowercase": False}
    matcher.encoder = PairEncoder(**encoder)
    assert matcher.learn_words(["[PAD] [UNK] houses"], shared) == ["houses"]


def test_matchers_without_extracted_vectors(vectors, folder, tmp_path):
    matcher = make(vectors)
    bare = Matcher(matcher.model, matcher.encoder, matcher.label_names, task="classification")
    with pytest.raises(InputError, match="no word vectors extracted .*--vectors encoder:NAME"):
        bare.learn_words(["zebra"], folder)
    bare.save(tmp_path / "run")
    with pytest.raises(InputError, match="or use it without a word encoder"):
        Matcher.load(tmp_path / "run", word_encoder=folder)
    matcher.save(tmp_path / "other")
    with pytest.raises(InputError, match="no such folder"):
        Matcher.load(tmp_path / "other", word_encoder=tmp_path / "nosuch")
    with pytest.raises(InputError, match="one string"):
        matcher.learn_words("zebra", folder)


@pytest.mark.parametrize("noted", ["bert_tiny_en_uncased", "hf://evil/model"])
def test_an_encoder_that_a_run_notes_is_never_downloaded(vectors, monkeypatch, noted):
    monkeypatch.setattr("keras_sentmatch.inference.new_words.WordEncoder", pytest.fail)
    matcher = make(vectors)
    matcher.vector_extractor = dataclasses.replace(vectors.extractor, encoder=noted)
    with pytest.raises(InputError, match="nothing is downloaded because a run folder says so"):
        matcher.learn_words(["zebra"])


def test_models_without_word_tables():
    inputs = keras.Input([None], dtype="int32", name="word_ids_1")
    model = keras.Model({"word_ids_1": inputs}, ops.cast(inputs, "float32"))
    with pytest.raises(InputError, match="Functional has no tables of word vectors"):
        with_rows(model, 5)
