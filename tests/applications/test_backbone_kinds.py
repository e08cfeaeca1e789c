"""Every kind of backbone: trained, saved, explained, and asked for word vectors."""

import keras
import numpy as np
import pytest

from keras_sentmatch import explain
from keras_sentmatch.applications import DABERT, CrossEncoder, LadRaNet, Sentence
from keras_sentmatch.applications.backbone import segments_of
from keras_sentmatch.encoders import SubwordPairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.vectors.extraction import backbone_means, extract_vectors
from tests.toys.encoders import FIRST, LENGTH, PREFIXES, SECOND, backbone, folder_of, tokenizer


def kinds(chosen, others):
    marked = [p if p in chosen else pytest.param(p, marks=others) for p in PREFIXES]
    return pytest.mark.parametrize("prefix", marked)


# The others' layers are called in the same way.
each_kind = kinds(("Bert", "DebertaV3"), pytest.mark.once)
few_kinds = kinds(("Bert", "XLMRoberta", "Albert", "DebertaV3"), pytest.mark.slow)
NAMES = ("no", "yes")
SMALL = {
    CrossEncoder: {"dropout": 0.0},
    LadRaNet: {"hidden_filters": 4, "attention_units": 4, "steps": 2, "dropout": 0.0},
    DABERT: {"attention_units": 4, "dropout": 0.0, "cross": True},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made: dict[str, str] = {}

    def folder(prefix):
        if prefix not in made:
            made[prefix] = folder_of(prefix, tmp_path_factory.mktemp(prefix))
        return made[prefix]

    return folder


def matcher_of(prefix, cls=CrossEncoder, source=None, **options):
    encoder = SubwordPairEncoder(tokenizer(prefix), max_length=LENGTH)
    source = backbone(prefix) if source is None else source
    model = cls(source, num_classes=2, **{**SMALL[cls], **options})
    model.jit_compile = keras.config.backend() == "jax"
    rng = np.random.default_rng(2)
    for layer in model.layers:
        if layer.name in ("pooler", "hidden", "logits"):
            layer.set_weights([rng.normal(0, 0.7, w.shape) for w in layer.get_weights()])
    return Matcher(model, encoder, NAMES, task="classification")


def probabilities(matcher):
    return matcher.predict_proba({"sentence1": FIRST, "sentence2": SECOND})


@pytest.mark.each_backend
@each_kind
def test_a_cross_encoder_is_trained_kept_and_explained(prefix, folders, tmp_path):
    matcher = matcher_of(prefix, source=folders(prefix))
    inputs = matcher.encoder.encode(FIRST, SECOND)
    inputs = {name: inputs[name] for name in matcher.model.input}
    before = probabilities(matcher)
    assert np.ptp(before[:, 0]) > 1e-3  # the pairs are told apart
    matcher.model.compile("sgd", "sparse_categorical_crossentropy")
    weights = [w.copy() for w in matcher.model.get_weights()]
    matcher.model.fit(inputs, np.array([0, 1, 1, 0]), batch_size=4, verbose=0)
    changed = [(a != b).any() for a, b in zip(weights, matcher.model.get_weights())]
    assert np.mean(changed) > 0.7
    after = probabilities(matcher)
    assert abs(after - before).max() > 1e-4
    matcher.save(tmp_path / "run")
    again = Matcher.load(tmp_path / "run")
    np.testing.assert_allclose(probabilities(again), after, atol=1e-6)
    explained = explain(again, sentence1=FIRST[0], sentence2=SECOND[0])
    length = len(explained.tokens["joint"])
    for i in (0, 1):
        seen = explained.values[f"attention_{i}"]
        assert seen.shape == (2, length, length)
        np.testing.assert_allclose(seen.sum(-1), 1, atol=1e-5)
    assert [effect.word for effect in explained.effects[:6]] == "A dog runs in the park".split()
    assert np.isfinite([effect.change for effect in explained.effects]).all() and explained.html


@each_kind
def test_padding_changes_nothing(prefix):
    matcher = matcher_of(prefix)
    encoder, model = matcher.encoder, matcher.model
    alone = encoder.encode(FIRST[3:], SECOND[3:])
    padded = encoder.encode(FIRST[3:], SECOND[3:], length=LENGTH)
    pad = encoder.tokenizer.pad_token_id
    assert set(padded["token_ids"][padded["padding_mask"] == 0]) == {pad}
    other = {**padded, "token_ids": np.where(padded["padding_mask"], padded["token_ids"], 7)}
    found = [
        keras.ops.convert_to_numpy(model({name: given[name] for name in model.input}))
        for given in (alone, padded, other)
    ]
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)
    np.testing.assert_allclose(found[0], found[2], atol=1e-5)


@few_kinds
def test_ladra_net(prefix):
    matcher = matcher_of(prefix, LadRaNet)
    assert np.isfinite(probabilities(matcher)).all()
    explained = explain(matcher, sentence1=FIRST[0], sentence2=SECOND[0], erasure=False)
    assert explained.values["selection"].shape == (2, 3, len(explained.tokens["joint"]))


@few_kinds
def test_dabert_begins_as_its_encoder_or_refuses(prefix):
    if prefix == "DebertaV3":
        with pytest.raises(
            InputError, match="DeBERTa-v3 is different. Give one of BERT, .*ELECTRA;"
        ):
            matcher_of(prefix, DABERT)
        return
    dabert, cross = matcher_of(prefix, DABERT, cross=False), matcher_of(prefix)
    for layer in cross.model.layers:
        if layer.name in ("logits", "pooler"):
            dabert.model.get_layer(layer.name).set_weights(layer.get_weights())
    np.testing.assert_allclose(probabilities(dabert), probabilities(cross), atol=1e-5)
    assert np.isfinite(probabilities(matcher_of(prefix, DABERT))).all()


@each_kind
def test_the_sentences_are_told_apart(prefix):
    encoder = SubwordPairEncoder(tokenizer(prefix), max_length=LENGTH)
    pairs = [*zip(FIRST, SECOND), ("", "a dog"), ("a dog", ""), ("", "")]
    first, second = zip(*pairs)
    found = encoder.encode(first, second)
    ids, mask = found["token_ids"], found["padding_mask"]
    segments = keras.ops.convert_to_numpy(segments_of(Sentence(token_ids=ids, mask=mask > 0)))
    for row, pair in enumerate(pairs):
        pieces = encoder.pair_tokens(*pair)
        ones = len(pieces["2"]) + 1
        total = len(pieces["joint"])
        assert segments[row].tolist() == [0] * (total - ones) + [1] * ones + [0] * (
            ids.shape[1] - total
        )
    if "segment_ids" in backbone(prefix).input:
        np.testing.assert_array_equal(found["segment_ids"], segments)


@each_kind
def test_word_vectors(prefix, folders):
    words = ["dog", "runs", "park", "动物", "狗", "แมว", "animal", "cat"]
    rows, means = backbone_means(folders(prefix), words, progress=False)
    assert min(rows) >= 0 and np.isfinite(means).all() and np.ptp(means, axis=0).min() > 0
    if prefix == "XLMRoberta":
        made = extract_vectors(folders(prefix), words, dim=4, progress=False)
        assert made["动物"].shape == (4,) and "8 words extracted" in made.report
