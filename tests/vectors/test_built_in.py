"""The table of word vectors in the package, and how runs use it."""

import logging
from pathlib import Path

import numpy as np
import pytest

from keras_sentmatch.data import PairDataset
from keras_sentmatch.training import load_recipe
from keras_sentmatch.training.encoding import fit_encoder
from keras_sentmatch.vectors import load_vectors
from keras_sentmatch.vectors.built_in import WordTable, load_word_table
from keras_sentmatch.vectors.extraction import backbone_means
from keras_sentmatch.vectors.word_lookup import COMPOSED, SCALE

TABLE = load_word_table()


def cosine(one: str, two: str) -> float:
    x, y = (TABLE.lookup(word)[0] for word in (one, two))
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


@pytest.mark.parametrize(
    ("word", "kind", "like"),
    [
        ("dog", "word", "dog"),
        ("Café", "word", "cafe"),
        ("CAFÉ", "word", "cafe"),
        ("n't", "word", "n't"),
        ("peopel", "spelling", "people"),
        ("surprizing", "spelling", "surprising"),
        ("unhappiness", "pieces", "sadness"),
        ("wakeboarder", "pieces", "surfer"),
        ("1,000", "pieces", "100"),
    ],
)
def test_lookup(word, kind, like):
    vector, found = TABLE.lookup(word)
    assert found == kind
    length = np.linalg.norm(vector) / SCALE
    assert length == pytest.approx(COMPOSED if kind == "pieces" else 1, abs=0.01)
    if kind != "pieces":
        assert np.array_equal(vector, TABLE.lookup(like)[0])
    else:
        assert cosine(word, like) > cosine(word, "the") + 0.1


def test_what_has_no_vector_and_what_is_close():
    assert TABLE.lookup("😀") == (None, "unknown") and TABLE.lookup("") == (None, "unknown")
    assert TABLE.lookup("peopel", correct=False)[1] == "pieces"
    assert TABLE.lookup("x" * 10_000)[1] in ("pieces", "unknown")  # and at once
    assert cosine("dog", "puppy") > cosine("dog", "finance") + 0.4
    assert len(TABLE) > 23_000 and TABLE.dim == 128


def test_word_vectors():
    vectors = TABLE.word_vectors({"Dog": 1, "peopel": 1, "wakeboarder": 5, "😀": 2})
    assert np.array_equal(vectors["Dog"], vectors["dog"])
    assert np.array_equal(vectors["peopel"], vectors["people"])
    assert "😀" not in vectors and "zebra" in vectors
    assert vectors.report == (
        "1 words in the table, 1 put together from word pieces, 1 taken for misspellings, "
        "1 without a vector"
    )
    # A word that the data repeat is spelled as it is meant to be.
    often = TABLE.word_vectors({"peopel": 2})
    assert not np.array_equal(often["peopel"], often["people"])


def test_auto_takes_the_table_for_english_only(caplog):
    english = dict.fromkeys("the dog runs to a house with brown doors".split(), 3)
    assert load_vectors("auto", english).source == "table"
    foreign = dict.fromkeys("koira juoksee talolle jonka ovet ovat ruskeita".split(), 3)
    with caplog.at_level(logging.WARNING):
        assert load_vectors("auto", foreign) is None
    assert "know 0% of the running words" in caplog.text and "--vectors" in caplog.text
    assert load_vectors("table", foreign).source == "table"


@pytest.mark.parametrize("trained", [False, True])
def test_fixed_vectors_bring_all_words(trained):
    pairs = PairDataset(["The dog runs."], ["A dog sleeps."], [0], label_names=("no", "yes"))
    overrides = [f"model.trainable_embedding={str(trained).lower()}"]
    recipe = load_recipe("re2", overrides=overrides)
    encoder, vectors, _ = fit_encoder(recipe, {"train": pairs}, progress=False)
    assert encoder.vocabulary.words[2:8] == [".", "dog", "a", "runs", "sleeps", "the"]
    assert ("zebra" in encoder.vocabulary) != trained
    assert vectors.built_in


def test_a_run_names_its_table(tmp_path, caplog):
    assert WordTable.load(tmp_path) is None
    TABLE.save(tmp_path)
    assert WordTable.load(tmp_path) is TABLE
    file = tmp_path / "word_table.json"
    file.write_text(file.read_text().replace(TABLE.digest, "0" * 16))
    assert WordTable.load(tmp_path) is None and "another version" in caplog.text


def test_the_table_is_what_the_encoder_says(minilm):
    """A part of it, made again."""
    words = [*list(TABLE.words)[:40], *list(TABLE.words)[5000:5040]]
    file = Path(__file__).parents[2] / "keras_sentmatch/vectors/tables/minilm.npz"
    with np.load(file) as arrays:
        mean, axes = arrays["mean"].astype(float), arrays["axes"].astype(float)
    rows, states = backbone_means(minilm, words, progress=False)
    want = (states[rows] - mean) @ axes
    want *= SCALE / np.linalg.norm(want, axis=1, keepdims=True)
    got = np.stack([TABLE.lookup(word)[0] for word in words])
    assert np.abs(got - want).max() < 0.03
