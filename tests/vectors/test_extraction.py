import keras
import numpy as np
import pytest

from keras_sentmatch.errors import InputError
from keras_sentmatch.text import backbones
from keras_sentmatch.vectors import load_vectors
from keras_sentmatch.vectors.extraction import backbone_means, extract_vectors, principal_axes
from tests.toys.bert import tiny_bert

WORDS = ["cat", "dog", "cats", "dogs", "house", "houses", "catdogs", "café", "cafés", "redhouse"]
PIECES = ["cat", "dog", "house", "cafe", "red", "##s", "##dog", "##house"]


@pytest.fixture(scope="session")
def backbone(tmp_path_factory):
    """A folder with a tiny BERT whose weights are the same on every backend."""
    return tiny_bert(tmp_path_factory.mktemp("tiny_bert"), PIECES)


@pytest.fixture
def extract(backbone):
    return lambda words=WORDS, **options: extract_vectors(backbone, words, **{"dim": 8, **options})


def test_batches_do_not_matter(backbone):
    (rows, one), (others, two) = (
        backbone_means(backbone, WORDS, batch_size=size) for size in (256, 2)
    )
    assert rows == others
    np.testing.assert_allclose(one, two, atol=1e-5)


def means_by_hand(folder):
    """One word at a time through the backbone's own layers."""
    tokenizer, backbone = backbones.load_tokenizer(folder), backbones.load_backbone(folder)
    rows = []
    for word in WORDS:
        pieces = list(tokenizer([word.replace("é", "e")])[0])
        ids = np.array([[tokenizer.cls_token_id, *pieces, tokenizer.sep_token_id]])
        tokens = backbone.token_embedding(ids)
        position, segment = backbone.position_embedding(tokens), backbone.segment_embedding(0 * ids)
        state = backbone.embeddings_layer_norm(backbone.embeddings_add((tokens, position, segment)))
        for block in backbone.transformer_layers:
            state = block(state)
        rows.append(keras.ops.convert_to_numpy(state)[0, 1:-1].astype(float).mean(axis=0))
    return np.array(rows)


def test_recipe_by_hand(extract, backbone):
    vectors = extract()
    matrix = np.array([vectors[w] for w in WORDS])
    rows = means_by_hand(backbone)
    assert load_vectors(f"encoder:{backbone}", WORDS, dim=8)["cat"].tolist() == matrix[0].tolist()
    left, singular, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    expected = (left * singular)[:, :8]
    expected *= 5 / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(matrix @ matrix.T, expected @ expected.T, atol=2e-3)
    np.testing.assert_allclose(np.abs(matrix), np.abs(expected), atol=2e-4)
    assert "10 words extracted, " in vectors.report and " of 16 dimensions keep" in vectors.report


def test_same_signs_on_every_backend(extract):
    expected = [4.04199, 1.21425, -0.66724, -2.54249, 0.51161, -0.10637, 0.05661, -0.04658]
    np.testing.assert_allclose(extract()["cat"], expected, atol=1e-4)


def test_case_and_accents_follow_the_tokenizer(extract):
    vectors = extract([*WORDS, "Cat", "cafe", "CAFÉ"])
    for word, same in (("Cat", "cat"), ("cafe", "café"), ("CAFÉ", "café")):
        np.testing.assert_array_equal(vectors[word], vectors[same])
    assert np.abs(vectors["cat"] - vectors["dog"]).max() > 0.1


def test_unknown_words_are_left_out_and_long_words_cut(extract):
    vectors = extract([*WORDS, "zebra", "🙂", "\u200b"])
    assert set(vectors.words) == set(WORDS) and "zebra" not in vectors
    assert "3 words unknown to the backbone left out" in vectors.report
    vectors = extract([*WORDS, "cat" + "s" * 90, "cat" + "s" * 63])
    assert "12 words extracted" in vectors.report
    np.testing.assert_allclose(vectors["cat" + "s" * 90], vectors["cat" + "s" * 63], atol=1e-4)


@pytest.mark.parametrize("words, dim, rank", [(WORDS, 20, 9), (WORDS[:3], 8, 2)])
def test_columns_that_cannot_be_filled_are_zero(extract, words, dim, rank):
    vectors = extract(words, dim=dim)
    assert vectors.dim == dim and f"last {dim - rank} of {dim} columns are zero" in vectors.report
    filled = (vectors.matrix != 0).any(axis=0)
    assert filled[:rank].all() and not filled[rank:].any()
    np.testing.assert_allclose(np.linalg.norm(vectors.matrix, axis=1), 5, rtol=1e-5)


BAD = [
    ({"dim": 0}, "dim=0 must be at least 1"),
    ({"words": ["cat", "zebra"]}, "knows 1 of the 2 words"),
    ({"words": []}, "knows 0 of the 0 words"),
]


@pytest.mark.parametrize("options, message", BAD)
def test_bad_input(extract, options, message):
    with pytest.raises(InputError, match=message):
        extract(**options)


def test_reduction_in_parts_is_that_of_the_whole():
    states = np.random.default_rng(0).normal(size=(9000, 6)).astype("float32")
    mean, axes, share = principal_axes(states, 4)
    _, values, expected = np.linalg.svd(states - states.astype(float).mean(0), full_matrices=False)
    assert share == pytest.approx((values[:4] ** 2).sum() / (values**2).sum())
    np.testing.assert_allclose(mean, states.mean(0), atol=1e-5)
    np.testing.assert_allclose(abs(axes), abs(expected[:4].T), atol=1e-3)
