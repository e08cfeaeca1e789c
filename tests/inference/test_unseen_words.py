"""Words outside the vocabulary: the vectors that the built-in table makes of them, lent and forgotten."""

import threading

import keras
import numpy as np
import pytest
from keras import ops

from keras_sentmatch import Matcher
from keras_sentmatch.applications import PairModel, Sentence, build_model
from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.inference.unseen_words import UnseenWords, row_tables, word_tables
from keras_sentmatch.layers import WordRepresentation
from keras_sentmatch.ops import masked_mean
from keras_sentmatch.text.tokens import word_facts
from keras_sentmatch.vectors.built_in import load_word_table
from tests.case import randomize

TABLE = load_word_table()
FIRST, SECOND = ["a dog runs", "a red cat"], ["the dog sits", "cats run"]
NEW = ["a zebra housez", "the wordlike 🐕"]  # in the table, misspelled, of pieces, nothing
UNSEEN = ["zebra", "housez", "wordlike"]


@keras.saving.register_keras_serializable("tests")
class Bag(PairModel):
    """Means of word features, side by side."""

    def __init__(
        self, vocabulary_size, num_classes=3, trainable_words=True, fixed_words=True, **kwargs
    ):
        super().__init__(vocabulary_size, num_classes, **kwargs)
        self.trainable_words, self.fixed_words = trainable_words, fixed_words
        self.word_representation = WordRepresentation(
            vocabulary_size, TABLE.dim, trainable_words, fixed_words, exact_match=False, dropout=0.0
        )
        self.classify = self.make_classifier()
        self.make_graph()

    def encode(self, sentence):
        return Sentence(mean=masked_mean(self.represent_words(sentence), sentence.mask))

    def interact(self, one, two):
        return self.classify(ops.concatenate([one.mean, two.mean], axis=-1))


def make(words=(), spare=3, **tables) -> Matcher:
    """A trained matcher with spare rows; `words` are in its vocabulary as the table has them."""
    encoder = PairEncoder.fit(PairDataset(FIRST, SECOND), features=("word",), max_length=8)
    size = encoder.vocabulary_size
    encoder = PairEncoder([*encoder.vocabulary.words[2:], *words], (), features=("word",))
    model = Bag(encoder.vocabulary_size + spare, **tables)
    rng = np.random.default_rng(0)
    known = rng.normal(size=(size, TABLE.dim)).astype("float32")
    new = np.reshape([TABLE.lookup(word)[0] for word in words], (-1, TABLE.dim))
    for number, table in enumerate(word_tables(model)):
        table.assign(np.pad(np.concatenate([known + number, new]), [(0, spare), (0, 0)]))
    tables = {id(table) for table in word_tables(model)}
    for weight in model.trainable_weights:
        if id(weight) not in tables:
            weight.assign(rng.normal(0, 0.5, weight.shape))
    names = ("no", "maybe", "yes")
    return Matcher(model, encoder, names, task="classification", word_table=TABLE)


def close(got, want):
    np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.mark.parametrize("trainable, fixed", [(True, True), (True, False), (False, True)])
def test_an_unseen_word_counts_as_one_in_the_vocabulary(trainable, fixed):
    kinds = {"trainable_words": trainable, "fixed_words": fixed}
    matcher, oracle = make(spare=8, **kinds), make(UNSEEN, **kinds)
    without = Matcher(
        matcher.model, matcher.encoder, matcher.label_names, task="classification"
    ).predict_proba(NEW, SECOND)
    known, size = matcher.predict_proba(FIRST, SECOND), matcher.encoder.vocabulary_size
    want = oracle.predict_proba(NEW, SECOND)
    matcher.encoder.reset_report()
    close(matcher.predict_proba(NEW, SECOND), want)
    assert np.abs(want - without).max() > 1e-3
    assert matcher.encoder.report.unknown == 1
    assert matcher.encoder.knows("zebra") and not matcher.encoder.knows("🐕")
    close(matcher.predict_proba(FIRST, SECOND), known)
    close(matcher.predict_proba(NEW[::-1], SECOND), oracle.predict_proba(NEW[::-1], SECOND))
    assert matcher.encoder.vocabulary_size == size


def test_rows_are_lent_again_and_a_matcher_does_not_grow():
    """150 pairs with 300 unseen words, and three rows for them."""
    some = [*TABLE.words][3000:3400]
    known = make().encoder.vocabulary
    words = [word for word in some if word not in known][:300]
    one, two = words[::2], words[1::2]
    matcher, oracle = make(), make(words)
    before = [table.shape for table in word_tables(matcher.model)]
    # Three rows are enough for one pair at a time.
    expected = oracle.predict_proba(one, two, batch_size=1)
    close(matcher.predict_proba(one, two), expected)
    assert [table.shape for table in word_tables(matcher.model)] == before
    # A pair with more unseen words than rows: the last ones stay unknown.
    assert matcher.predict(" ".join(words[:5]), "a cat").label
    assert [matcher.encoder.knows(word) for word in words[:5]] == [True] * 3 + [False] * 2


def test_threads_do_not_take_each_others_rows():
    words = [*TABLE.words][3000:3200]
    matcher, oracle = make(), make(words)
    want = oracle.predict_proba(words, words)
    found = {}

    def ask(part):
        found[part] = matcher.predict_proba(words[part::4], words[part::4])

    threads = [threading.Thread(target=ask, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for part in range(4):
        close(found[part], want[part::4])


def test_a_saved_matcher_has_its_own_words_alone(tmp_path):
    matcher = make()
    want = matcher.predict_proba(NEW, SECOND)
    matcher.save(tmp_path / "run")
    loaded = Matcher.load(tmp_path / "run")
    assert loaded.encoder.vocabulary.words == make().encoder.vocabulary.words
    assert loaded.word_table is TABLE
    close(loaded.predict_proba(NEW, SECOND), want)


def test_a_hybrid_notes_facts_of_unseen_words():
    encoder = PairEncoder.fit(PairDataset(FIRST, SECOND), features=("word",), max_length=8)
    size = encoder.vocabulary_size
    sizes = {"vocabulary_size": size + 3, "embedding_dim": TABLE.dim}
    model = randomize(build_model("hybrid", **sizes, units=4, blocks=1))
    model.jit_compile = False
    names = ("no", "maybe", "yes")
    matcher = Matcher(model, encoder, names, task="classification", word_table=TABLE)
    known = matcher.predict_proba(FIRST, SECOND)
    matcher.predict_proba(["no zebra \U0001f600"], ["a dog"])
    rows = {"facts": word_facts(["no", "zebra"]), "weights": 0.0}
    rows["vectors"] = np.stack([TABLE.lookup(word)[0] for word in ("no", "zebra")])
    tables = list(row_tables(matcher.model))
    assert [role for role, _ in tables] == ["vectors", "facts", "weights", "weights", "weights"]
    for role, table in tables:
        new = ops.convert_to_numpy(table)[size : size + 2]
        new = new[:, 1:] if role == "facts" else new
        np.testing.assert_allclose(new, np.broadcast_to(rows[role], new.shape), atol=1e-4)
    close(matcher.predict_proba(FIRST, SECOND), known)


def test_special_tokens_are_no_words():
    config = make().encoder.get_config() | {"tokenizer": "whitespace", "lowercase": False}
    encoder, asked = PairEncoder(**config), []
    unseen = UnseenWords(TABLE, encoder, 3, lambda start, words, vectors: asked.extend(words))
    with unseen.lending(["[PAD] [UNK] houses"]) as parts:
        assert list(parts) == [slice(0, 1)]
    assert asked == ["houses"]
