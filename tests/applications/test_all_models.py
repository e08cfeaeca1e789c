"""What holds of every model and its recipe."""

from functools import partial
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from keras_sentmatch.applications import build_model, get_model_class, list_models
from keras_sentmatch.applications.backbone import BackboneModel
from keras_sentmatch.data import load_pairs
from keras_sentmatch.encoders import PairBatches
from keras_sentmatch.errors import InputError
from keras_sentmatch.training import load_recipe
from keras_sentmatch.training._model import make_model
from keras_sentmatch.training.encoding import fit_encoder
from keras_sentmatch.training.recipe import list_recipes
from tests.golden import record

WORD_LEVEL = [n for n in list_models() if not issubclass(get_model_class(n), BackboneModel)]
WORDS = {"vocabulary_size": 9, "embedding_dim": 3}


def test_every_model_has_a_recipe_and_says_what_it_is():
    assert sorted(list_recipes()) == list_models()
    for name in list_models():
        cls = get_model_class(name)
        assert cls.paper and cls.summary_line and cls.presets


OWN = {"fit", "call", "compute_loss", "compute_metrics", "get_config", "from_config"}


@pytest.mark.parametrize("name", list_models())
def test_no_method_of_keras_is_replaced_by_chance(name):
    classes = [c for c in get_model_class(name).__mro__ if "keras_sentmatch" in c.__module__]
    named = {n for c in classes for n in vars(c) if not n.startswith("_")}
    assert {n for n in named if hasattr(keras.Model, n)} <= OWN


def saved(model, folder):
    """The model, saved and loaded again."""
    model.save(folder / f"{model.name}.keras")
    return keras.saving.load_model(folder / f"{model.name}.keras")


def cloned(model, folder):
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    return clone


# What makes a model splittable that is not by default.
ALONE = {"drcn": {"attention": False}} | dict.fromkeys(("diin", "drr_net"), {})


@pytest.mark.parametrize("copied", [saved, cloned])
@pytest.mark.parametrize("name", list_models())
def test_a_copy_of_a_model_and_of_its_parts_gives_the_same(name, copied, tmp_path):
    config = record.read()[0]["configs"][name]["arguments"]
    if name in ALONE:
        config = {**config, "exact_match": False, **ALONE[name]}
    model = record.make(name, config)
    inputs = record.inputs_of(model, config.get("backbone", ""))
    want = record.run(model, inputs)
    np.testing.assert_allclose(record.run(copied(model, tmp_path), inputs), want, atol=1e-6)
    if model.can_split:
        parts = [copied(part, tmp_path) for part in model.split()]
        found = record.halves_output(SimpleNamespace(split=lambda: parts), inputs)
        np.testing.assert_allclose(found, want, atol=1e-6)
    else:
        assert "backbone" in config or name in ("bag_of_words", "hybrid")


@pytest.mark.parametrize("name", ["drcn", "re2"])
def test_a_model_can_be_plotted(name):
    pytest.importorskip("pydot")
    model = build_model(name, **WORDS)
    dot = keras.utils.model_to_dot(model, show_shapes=True, show_layer_names=True).to_string()
    assert [layer.name for layer in model.layers if layer.name not in dot] == []


@pytest.mark.parametrize("name", WORD_LEVEL)
def test_the_embedded_recipe_learns_a_hundred_pairs_by_heart(name):
    """So everything that has to move for a model to learn does move."""
    recipe = load_recipe(
        name,
        "embedded",
        overrides=[
            "encoder.max_length=12",
            "encoder.features=['word']",
            "training.batch_size=32",
            "training.epochs=80",  # which a schedule of the learning rate counts on
        ],
    )
    full = load_pairs("embedded")["train"]
    train = full.limit(96, seed=0)
    encoder, vectors, _ = fit_encoder(recipe, {"train": train}, progress=False)
    keras.utils.set_random_seed(0)
    model = make_model(recipe, train, encoder, vectors, None, batches=1)
    batches = PairBatches(
        train, encoder, batch_size=32, shuffle=True, bucket_lengths=(12,),
        features=model.input_names,
    )  # fmt: skip
    best, first = 0.0, None
    for epoch in range(80):
        for inputs, labels in batches.numpy(epoch):
            model.train_on_batch(inputs, labels)
        if epoch % 5 == 4:
            scores = [(model.predict_on_batch(x), y) for x, y in batches.numpy(epoch)]
            right = np.concatenate([p.argmax(-1) == y for p, y in scores])
            first = right.mean() if first is None else first
            best = max(best, right.mean())
            if best >= 0.9:
                break
    assert best >= 0.9, (
        f"{name} is right on {best:.0%} of the pairs it has seen (first {first:.0%})"
    )


@pytest.mark.parametrize("name", list_models())
def test_a_misspelled_argument_is_refused_with_the_one_that_is_near(name):
    for make in (get_model_class(name), partial(build_model, name)):
        with pytest.raises(InputError, match="no argument 'num_clases'. Did you mean num_classes?"):
            make(num_clases=2, **({"backbone": None} if name not in WORD_LEVEL else WORDS))


@pytest.mark.parametrize("name", [n for n in list_models() if get_model_class(n).unused])
def test_an_argument_that_would_change_nothing_is_refused(name):
    for make in (get_model_class(name), partial(build_model, name)):
        with pytest.raises(InputError, match="no argument 'char_kernel_size'"):
            make(char_kernel_size=3, **({"backbone": None} if name not in WORD_LEVEL else WORDS))


def test_a_misspelled_argument_of_a_block_is_refused_too():
    message = "FeatureAttention has no argument 'reductoin'. Did you mean reduction?"
    config = {"feature_attention": "fa", "feature_attention_config": {"reductoin": 2}}
    with pytest.raises(InputError, match=message):
        build_model("esim", **WORDS, **config)


@pytest.mark.backend("torch")
def test_fit_flushes_denormals_only_while_it_runs():
    """PyTorch's switch is the processor's, so NumPy's numbers show it."""
    found = []

    def look(*_, **__):
        found.append(float(np.float32(1e-30) * np.float32(1e-10)))

    model = build_model("re2", vocabulary_size=5, num_classes=2, embedding_dim=4, units=2)
    model.compile("adam", "sparse_categorical_crossentropy")
    inputs = {name: np.ones((2, 3), "int32") for name in model.input_names}
    callback = keras.callbacks.LambdaCallback(on_train_batch_end=look)
    look()
    model.fit(inputs, np.array([0, 1]), verbose=0, callbacks=[callback])
    look()
    before, during, after = found
    assert before > 0 and during == 0 and after > 0


@pytest.mark.parametrize("name", ["dabert", "din", "drcn", "drr_net", "ladra_net"])
def test_departures_from_the_paper_have_reasons(name):
    cls = get_model_class(name)
    config = record.read()[0]["configs"][name]["arguments"]
    assert not record.make(name, {**config, "preset": "as_printed"}).departures()
    for argument, printed in cls.presets["as_printed"].items():
        other = not printed if isinstance(printed, bool) else cls.arguments()[argument].default
        other = 0.3 if other == printed else other
        (line,) = record.make(
            name, {**config, "preset": "as_printed", argument: other}
        ).departures()
        assert line.startswith(f"{argument} is {other!r}, not {printed!r}: ")
    assert {*cls.reasons} == {*cls.presets["as_printed"]}
