import types
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_sentmatch.errors import InputError
from keras_sentmatch.vectors import extract_vectors, load_vectors
from keras_sentmatch.vectors import extraction as module
from keras_sentmatch.vectors.extraction import VectorExtractor, WordEncoder, principal_axes
from tests.toys.bert import tiny_bert

pytestmark = pytest.mark.once

WORDS = ["cat", "dog", "cats", "dogs", "house", "houses", "catdogs", "café", "cafés", "redhouse"]
PIECES = ["cat", "dog", "house", "cafe", "red", "##s", "##dog", "##house"]


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """A folder with a tiny BERT whose weights are the same on every backend."""
    return tiny_bert(tmp_path_factory.mktemp("tiny_bert"), PIECES)


@pytest.fixture(scope="module")
def shared(encoder):
    return WordEncoder(encoder)


@pytest.fixture
def extract(encoder, shared, tmp_path, monkeypatch):
    """`extract_vectors` of the tiny BERT, which is loaded (and compiled) once for all tests."""
    monkeypatch.setattr(module, "WordEncoder", lambda name: shared)
    return lambda words=WORDS, **options: extract_vectors(
        encoder, words, **{"dim": 8, "cache_dir": tmp_path, **options}
    )


def states_by_hand(shared, layer, pooling):
    """One word at a time through the encoder's own layers, one by one."""
    shared.states(["cat"], progress=False)  # loads it
    tokenizer, backbone = shared._parts
    rows = []
    for word in WORDS:
        pieces = list(tokenizer([word.replace("é", "e")])[0])
        ids = np.array([[tokenizer.cls_token_id, *pieces, tokenizer.sep_token_id]])
        tokens = backbone.token_embedding(ids)
        position, segment = backbone.position_embedding(tokens), backbone.segment_embedding(0 * ids)
        embedded = backbone.embeddings_add((tokens, position, segment))
        states = [backbone.embeddings_layer_norm(embedded)]
        for block in backbone.transformer_layers:
            states.append(block(states[-1]))
        states = [keras.ops.convert_to_numpy(x)[0].astype(float) for x in states]
        x = np.mean(states, axis=0) if layer == "mean" else states[layer]
        rows.append({"mean": x[1:-1].mean(axis=0), "first": x[1], "cls": x[0]}[pooling])
    return np.array(rows)


def by_hand(rows, dim, center=True, scale=5):
    """The rest of the recipe, with NumPy's SVD."""
    rows = rows - rows.mean(axis=0) if center else rows
    left, singular, _ = np.linalg.svd(rows, full_matrices=False)
    projected = (left * singular)[:, :dim]
    length = np.linalg.norm(projected, axis=1, keepdims=True)
    return scale * projected / length if scale else projected


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"layer": 0},
        {"layer": 1, "center": False},
        {"layer": -2, "scale": 0.0},
        {"layer": "mean", "scale": 2.0},
        {"pooling": "first"},
        {"pooling": "cls"},
    ],
    ids=str,
)
def test_recipe_by_hand(extract, shared, options):
    vectors = extract(**options)
    matrix = np.array([vectors[w] for w in WORDS])
    states = states_by_hand(shared, options.get("layer", -1), options.get("pooling", "mean"))
    rest = {name: value for name, value in options.items() if name in ("center", "scale")}
    expected = by_hand(states, 8, **rest)
    np.testing.assert_allclose(matrix @ matrix.T, expected @ expected.T, atol=2e-3)
    np.testing.assert_allclose(np.abs(matrix), np.abs(expected), atol=2e-4)
    assert "10 words extracted, " in vectors.report and " of 16 dimensions keep" in vectors.report


def test_same_signs_on_every_backend(extract):
    expected = [4.04199, 1.21425, -0.66724, -2.54249, 0.51161, -0.10637, 0.05661, -0.04658]
    np.testing.assert_allclose(extract()["cat"], expected, atol=1e-4)


def test_batches_do_not_matter(extract, tmp_path):
    a, b = extract(), extract(batch_size=2, cache_dir=tmp_path / "other")
    np.testing.assert_allclose(a.matrix, b.matrix, atol=1e-4)


def test_case_and_accents_follow_the_tokenizer(extract):
    vectors = extract([*WORDS, "Cat", "cafe", "CAFÉ"])
    for word, same in (("Cat", "cat"), ("cafe", "café"), ("CAFÉ", "café")):
        np.testing.assert_array_equal(vectors[word], vectors[same])
    assert np.abs(vectors["cat"] - vectors["dog"]).max() > 0.1


def test_unknown_words_are_left_out_and_said(extract):
    vectors = extract([*WORDS, "zebra", "🙂", "\u200b"])
    assert set(vectors.words) == set(WORDS) and "zebra" not in vectors
    assert "3 words unknown to the encoder left out" in vectors.report
    with pytest.raises(InputError, match="knows 1 of the 2 words"):
        extract(["cat", "zebra"])
    with pytest.raises(InputError, match="knows 0 of the 0 words"):
        extract([])


def test_long_words_keep_their_first_64_pieces(extract):
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


def test_counts_are_the_same_as_repeated_words():
    rng = np.random.default_rng(1)
    states, counts = rng.normal(size=(12, 6)), rng.integers(1, 9, 12)
    mean, axes, share = principal_axes(states, 4, counts.astype(float))
    repeated = principal_axes(np.repeat(states, counts, axis=0), 4, np.ones(counts.sum()))
    for found, expected in zip((mean, axes, share), repeated):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    assert np.abs(axes - principal_axes(states, 4, np.ones(12))[1]).max() > 0.1


def test_counts_reach_the_reduction(extract, encoder, tmp_path):
    counts = {"cat": 1000, "dog": 500}
    options = {"dim": 8, "cache_dir": tmp_path, "counts": counts}
    weighted = load_vectors(f"encoder:{encoder}", WORDS, frequency_weighting=True, **options)
    assert weighted.source == f"encoder:{Path(encoder).resolve()}"
    assert np.abs(weighted.matrix - extract().matrix).max() > 0.1
    assert weighted.extractor.probes[:2] == ["cat", "dog"]


def test_frequent_words_are_short_with_sif(extract):
    vectors = extract(sif=0.01, counts={"cat": 90, "dog": 9, "gnu": 1})
    length = {w: np.linalg.norm(vectors[w]) for w in WORDS}
    expected = {"cat": 5 * 0.01 / 0.91, "dog": 5 * 0.01 / 0.1, "house": 5}
    assert {word: length[word] for word in expected} == pytest.approx(expected, rel=1e-4)
    plain = extract()
    np.testing.assert_allclose(vectors["dog"] * 10, plain["dog"], atol=1e-4)


def test_cache(extract, tmp_path, monkeypatch):
    first = extract()
    monkeypatch.setattr(WordEncoder, "states", lambda *_, **__: pytest.fail("read it again"))
    again = extract(WORDS[::-1])
    assert again.words == first.words and again.report == first.report
    np.testing.assert_array_equal(again.matrix, first.matrix)
    assert_same(again.extractor, first.extractor)
    counts = {"counts": {"cat": 2}}
    assert extract(**counts).report == first.report, "nothing is weighted by them"
    changes: list[dict] = [{"dim": 7}, {"words": WORDS[1:]}, {"layer": 1}, {"pooling": "cls"}]
    changes += [{"center": False}, {"scale": 1.0}]
    changes += [{**counts, "frequency_weighting": True}, {**counts, "sif": 0.1}]
    for other in changes:
        with pytest.raises(pytest.fail.Exception):
            extract(**other)


def test_random_state_is_left_alone(encoder, tmp_path):
    def next_weights():
        layer = keras.layers.Dense(3)
        layer.build((None, 4))
        dropped = keras.random.normal((3,), seed=keras.random.SeedGenerator())
        return [*layer.get_weights(), keras.ops.convert_to_numpy(dropped), np.random.rand(2)]

    keras.utils.set_random_seed(5)
    expected = next_weights()
    keras.utils.set_random_seed(5)
    extract_vectors(encoder, ["cat", "dog", "house"], dim=2, cache_dir=tmp_path)
    for a, b in zip(next_weights(), expected):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"dim": 0}, "dim=0"),
        ({"scale": -1}, "scale=-1"),
        ({"pooling": "max"}, "pooling='max': expected one of mean, first, cls"),
        ({"layer": "last"}, "layer='last': expected the number of a layer, or 'mean'"),
        ({"sif": 0.1}, "give counts="),
        ({"frequency_weighting": True}, "give counts="),
        ({"layer": 3}, r"no layer 3: .* 0 \(embeddings\) to 2, or 'mean'"),
        ({"layer": -4}, "no layer -4"),
    ],
)
def test_bad_arguments(extract, options, message):
    with pytest.raises(InputError, match=message):
        extract(**options)


def test_options_are_for_extracted_vectors_alone(tmp_path):
    for spec in ("none", str(tmp_path / "glove.txt")):
        with pytest.raises(InputError, match="layer: an option of extracted vectors"):
            load_vectors(spec, ["a"], layer=0)


def assert_same(one: VectorExtractor, two: VectorExtractor) -> None:
    plain, arrays = one.parts()
    assert plain == two.parts()[0]
    for name, value in two.parts()[1].items():
        np.testing.assert_array_equal(arrays[name], value)


def test_further_words_get_vectors_like_the_first(extract, shared, tmp_path):
    vectors = extract(layer=1, pooling="first", scale=2.0)
    vectors.extractor.save(tmp_path)
    extractor = VectorExtractor.load(tmp_path)
    assert_same(extractor, vectors.extractor)
    words, matrix = extractor.extract(["dogs", "zebra", "doghouse", "Dogs"], shared)
    assert words == ["dogs", "doghouse", "Dogs"], "zebra is unknown to the tokenizer"
    np.testing.assert_allclose(matrix[0], vectors["dogs"], atol=1e-4)
    np.testing.assert_array_equal(matrix[2], matrix[0])
    states = shared.states(["doghouse"], layer=1, pooling="first")[1]
    expected = (states[0] - extractor.mean) @ extractor.axes
    expected *= 2 / np.linalg.norm(expected)
    np.testing.assert_allclose(matrix[1], expected, atol=1e-4)
    assert extractor.extract([], shared)[0] == []


def test_another_encoder_is_refused():
    """Even one of the same width, by the vectors of some words."""
    rng = np.random.default_rng(0)
    ours, axes, mean = rng.normal(size=(3, 6)), rng.normal(size=(6, 4)), np.ones(6)
    bare = VectorExtractor("ours", -1, "mean", 5.0, 4, mean, axes)
    extractor = replace(bare, probes=["a", "b"], probe_vectors=bare.project(ours[:2]))

    def encoder(states, rows=(0, 1, 2)):
        return types.SimpleNamespace(name="theirs", states=lambda *_, **__: (list(rows), states))

    words, matrix = extractor.extract(["c"], encoder(ours + 1e-3))
    assert words == ["c"] and np.abs(matrix - bare.project(ours[2:])).max() < 0.05
    for other in (encoder(ours + 1), encoder(ours[:, :5]), encoder(ours, (0, -1, 1))):
        message = r"theirs is not the encoder .* \(ours\): .* a, b other"
        with pytest.raises(InputError, match=message):
            extractor.extract(["c"], other)


def test_damaged_vector_extractors(extract, tmp_path):
    assert VectorExtractor.load(tmp_path / "nothing") is None
    extract().extractor.save(tmp_path)
    text = (tmp_path / "vector_extractor.json").read_text()
    (tmp_path / "vector_extractor.json").write_text(text.replace('"format": 1', '"format": 9'))
    with pytest.raises(InputError, match="is of format 9, this version reads 1"):
        VectorExtractor.load(tmp_path)
    (tmp_path / "vector_extractor.json").write_text(text)
    (tmp_path / "vector_extractor.npz").write_bytes(b"no")
    with pytest.raises(InputError, match="is damaged"):
        VectorExtractor.load(tmp_path)


def test_real_encoder(minilm, tmp_path):
    pytest.importorskip("keras_hub")
    words = "man woman boy girl dog puppy cat kitten car truck red blue running walks".split()
    vectors = load_vectors(f"encoder:{minilm}", words, dim=10, cache_dir=tmp_path)
    near = vectors.matrix @ vectors.matrix.T
    np.fill_diagonal(near, -99)
    names = list(vectors.words)
    nearest = {word: names[near[row].argmax()] for word, row in vectors.words.items()}
    assert (nearest["dog"], nearest["kitten"]) == ("puppy", "cat")
    assert (nearest["truck"], nearest["blue"]) == ("car", "red")


def test_reduction_in_parts_is_that_of_the_whole():
    states = np.random.default_rng(0).normal(size=(9000, 6)).astype("float32")
    mean, axes, share = principal_axes(states, 4, np.ones(9000))
    matrix = VectorExtractor("any", -1, "mean", 5.0, 4, mean, axes).project(states)
    centered = states - states.astype(float).mean(0)
    _, values, expected = np.linalg.svd(centered, full_matrices=False)
    projected = centered @ expected[:4].T
    projected *= 5 / np.linalg.norm(projected, axis=1, keepdims=True)
    assert share == pytest.approx((values[:4] ** 2).sum() / (values**2).sum())
    np.testing.assert_allclose(abs(matrix), abs(projected), atol=1e-3)
