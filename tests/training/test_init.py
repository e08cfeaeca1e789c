"""`training.init`: training that begins with the weights of a finished run."""

import numpy as np
import pytest

from keras_sentmatch import Matcher
from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.training import Recipe, train_ensemble
from tests.toys.training import WORDS, build_tiny, tiny_pairs, tiny_recipe, tiny_run, tiny_splits

FEATURES = {"features": ["word", "char"]}
OTHERS = [f"v{i}" for i in range(9)]
SMALL = {"units": 4, "blocks": 1, "char_filters": 4, "dropout": 0.0}


def recipe_of(name="re2", *, source="none", dim=8, encoder=FEATURES, training=(), **model):
    settings = {"batch_size": 20, "epochs": 1, "patience": 9, **dict(training)}
    model = (SMALL if name == "re2" else {}) | model
    tables = {"encoder": encoder, "vectors": {"source": source, "dim": dim}, "model": model}
    return Recipe.from_tables(name, training=settings, **tables)


def run_of(out, splits=None, **options):
    return tiny_run(out, splits=splits, build=None, recipe=recipe_of(**options))


def other_splits(label_names=("no", "yes")):
    """Pairs with other words beside the known ones, which get other ids."""
    splits = {}
    for role, pairs in tiny_splits().items():
        first = [f"{' '.join(OTHERS[i % 4 :])} {s}" for i, s in enumerate(pairs.sentence1)]
        labels = np.asarray(pairs.labels) + (np.arange(len(first)) % len(label_names) == 2)
        splits[role] = PairDataset(
            first, pairs.sentence2, labels, label_names=label_names, name="other", split=role
        )
    return splits


def at_rest(folder, **training):
    """Settings that start from a run and change next to nothing."""
    return {"init": str(folder), "optimizer": "sgd", "learning_rate": 1e-12, **training}


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A run that has learned something."""
    out = tmp_path_factory.mktemp("first") / "run"
    training = {"epochs": 6, "learning_rate": 0.02}
    found = run_of(out, training=training)
    assert found.metrics["validation"]["accuracy"] > 0.8
    return out


def test_it_answers_as_the_run_does_and_learns_on(first, tmp_path):
    """On the words of the run, whatever their ids are now; better than a first epoch from nothing."""
    options = {"training": at_rest(first)}
    found = run_of(tmp_path / "a", other_splits(), **options).matcher
    old = Matcher.load(first)
    ids, before = found.encoder.vocabulary.ids, old.encoder.vocabulary.ids
    assert any(ids[word] != before[word] for word in WORDS) and len(ids) > len(before)
    pairs = tiny_pairs(30, 5)
    np.testing.assert_allclose(found.predict_proba(pairs), old.predict_proba(pairs), atol=1e-5)
    nothing = run_of(tmp_path / "b", other_splits())
    new = nothing.matcher.predict_proba(pairs)
    assert np.abs(new - old.predict_proba(pairs)).max() > 0.1
    on = run_of(tmp_path / "c", other_splits(), training={"init": str(first)})
    assert on.history["loss"][0] < 0.7 * nothing.history["loss"][0]
    assert on.metrics["init"] == first.name and nothing.metrics["init"] is None


@pytest.mark.parametrize("labels", [("wrong", "right"), ("no", "maybe", "yes")], ids=len)
def test_the_last_layer_is_new_with_other_labels(first, tmp_path, labels):
    splits = other_splits(labels)
    found = run_of(tmp_path / "run", splits, training=at_rest(first)).matcher.model
    old = Matcher.load(first).model
    for new, given in zip(found.weights, old.weights, strict=True):
        if "embeddings" in new.path:
            continue
        same = new.shape == given.shape and np.allclose(new, given, atol=1e-6)
        assert same != new.path.startswith("logits/"), new.path


def test_a_hybrid_solves_its_linear_part_for_the_new_pairs(tmp_path):
    """The labels are swapped: the linear part of the run would answer the wrong one."""
    options = {"name": "hybrid", "encoder": {"features": ["word"]}, "units": 4, "blocks": 1}
    first = run_of(tmp_path / "a", **options, training={"epochs": 3}).matcher.model
    splits = other_splits(("yes", "no"))
    found = run_of(tmp_path / "b", splits, **options, training=at_rest(tmp_path / "a"))
    assert found.metrics["validation"]["accuracy"] > 0.8
    kernels = [w for w in found.matcher.model.trainable_weights if "kernel" in w.path]
    old = {w.path: w for w in first.weights}
    same = {w.path: np.allclose(w, old[w.path], atol=1e-6) for w in kernels}
    assert len(same) > 5 and [path for path in same if not same[path]] == ["logits/kernel"]


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"name": "bimpm", "encoder": {"features": ["word"]}},
            "a run of RE2, but the recipe trains BiMPM",
        ),
        ({"units": 6}, "a model of another form. It has units=4, this one units=6. Set the same"),
        ({"dim": 12}, "It has embedding_dim=8, this one embedding_dim=12"),
        (
            {"encoder": {"features": ["word"]}},
            r"It has char_vocabulary_size=\d+, this one char_vocabulary_size=0",
        ),
    ],
)
def test_what_does_not_fit_is_refused(first, tmp_path, options, message):
    with pytest.raises(InputError, match=f"training.init is .*{message}"):
        run_of(tmp_path / "run", **options, training={"init": str(first)})
    assert not (tmp_path / "run" / "metrics.json").exists()


def test_vectors_of_another_kind_are_refused(first, tmp_path):
    rng = np.random.default_rng(0)
    file = tmp_path / "vectors.txt"
    lines = [f"{word} {' '.join(map(str, rng.normal(size=8)))}\n" for word in WORDS]
    file.write_text("".join(lines))
    recipe = recipe_of(training={"init": str(first)}, source=str(file))
    with pytest.raises(InputError, match="of another kind. The mean cosine of the 13 common"):
        tiny_run(tmp_path / "run", build=None, recipe=recipe)


def test_neither_ensembles_nor_anything(first, tmp_path):
    quiet = {"progress": False, "baseline": False, "build": build_tiny}
    train_ensemble(tiny_recipe(epochs=1), tiny_splits(), tmp_path / "two", range(2), **quiet)
    with pytest.raises(InputError, match="an ensemble. Name the folder of one of its members"):
        run_of(tmp_path / "a", training={"init": str(tmp_path / "two")})
    with pytest.raises(InputError, match="nowhere"):
        run_of(tmp_path / "c", training={"init": str(tmp_path / "nowhere")})
