"""Spaces: their names are recipe keys, their configurations build, and what depends on what."""

import copy
from dataclasses import replace

import numpy as np
import pytest

from keras_sentmatch.applications import get_model_class, list_models
from keras_sentmatch.applications.hyperparameters import Choice, LogUniform
from keras_sentmatch.cli.tune import parse_names
from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.training import Recipe, load_recipe
from keras_sentmatch.training._model import make_model
from keras_sentmatch.training.config import CONFIGS, EncoderConfig, VectorsConfig
from keras_sentmatch.tuning import SearchSpace
from keras_sentmatch.tuning._space import arguments_of
from tests.toys.bert import tiny_bert

# Widths that the tests do without; a square for DIN, even for the rLSTM.
SMALL = {
    "units": 16,
    "aggregation_units": 4,
    "hidden_units": 4,
    "autoencoder_units": 8,
    "attention_units": 4,
    "hidden_filters": 4,
    "hyper_units": 4,
    "embedding_units": 2,
    "perspectives": 2,
    "growth_rate": 2,
    "layers_per_block": 2,
    "factors": 2,
}
WIDE = {"bimpm", "cafe", "diin", "drcn", "esim", "re2"}


@pytest.mark.parametrize("name", list_models())
def test_names_are_recipe_keys(name):
    arguments = get_model_class(name).arguments()
    space = SearchSpace(load_recipe(name, "sick"))
    assert space.parameters
    for parameter in space.parameters.values():
        for key in (parameter.name, *parameter.also):
            table, argument, *_ = key.split(".")
            assert argument in (arguments if table == "model" else CONFIGS[table].keys()), key
        for parent, wanted in parameter.when.items():
            assert set(wanted) <= set(space.parameters[parent].values), parameter.name
            names = list(space.parameters)
            assert names.index(parent) < names.index(parameter.name)


@pytest.mark.parametrize("name", list_models())
@pytest.mark.parametrize("data", ["embedded", "sick"])
def test_the_default_is_the_recipe_and_recipes_come_back_from_files(name, data, tmp_path):
    recipe = load_recipe(name, data)
    space = SearchSpace(recipe)
    found = space.recipe(space.default())
    for table in ("model", "encoder", "training"):
        for key, value in recipe.tables()[table].items():
            if value != "auto":  # follows from data that is not known yet
                assert found.tables()[table][key] == value, key
    defaults = arguments_of(Recipe(name))
    for key in found.model.keys() - recipe.model.keys():
        default = defaults[key]
        assert found.model[key] == (list(default) if isinstance(default, tuple) else default), key
    for number, written in enumerate((found, space.recipe(largest(space)))):
        file = tmp_path / f"{number}.toml"
        file.write_text(written.to_toml())
        assert load_recipe(name, data, file=file) == written


@pytest.fixture(scope="module")
def pairs():
    """Four short ones: PyTorch runs recurrent layers step by step."""
    names = ("entailment", "neutral", "contradiction")
    return PairDataset(["a dog runs"] * 4, ["the dog", "a"] * 2, [0, 1, 2, 0], label_names=names)


@pytest.mark.backend("torch")
@pytest.mark.parametrize("name", list_models())
def test_the_largest_configuration_learns(name, pairs, tmp_path):
    recipe = load_recipe(name, "embedded")
    if "backbone" in recipe.model:
        recipe.model["backbone"] = tiny_bert(tmp_path, ["dog", "a", "the"])
    space = SearchSpace(recipe)
    found = space.recipe(largest(space))
    for key, small in SMALL.items():
        if isinstance(found.model.get(key), int):
            found.model[key] = small
    found, inputs, encoder = encoded(found, pairs)
    model = make_model(found, pairs, encoder, None, None, batches=1)
    assert np.isfinite(model.train_on_batch({n: inputs[n] for n in model.input}, pairs.labels)[0])
    if name in WIDE:
        assert found.model["feature_attention"] == "sfa"


def largest(space):
    """The largest values of all parameters, as far as they are allowed together."""
    space = copy.copy(space)
    space.parameters = dict(space.parameters)
    for name, parameter in list(space.parameters.items()):
        if isinstance(parameter, Choice):
            for label in list(parameter.values)[::-1]:
                try:
                    narrowed = replace(parameter, values={label: parameter.values[label]})
                    space.parameters[name] = narrowed
                    space.default()
                    break
                except InputError:
                    space.parameters[name] = parameter
    return space.default()


def encoded(recipe, pairs):
    if "backbone" in recipe.model:
        from keras_sentmatch.training.encoding import subword_encoder

        recipe = replace(recipe, encoder=EncoderConfig(max_length=32))
        encoder = subword_encoder(recipe)
    else:
        encoder = PairEncoder.fit(pairs, features=["word"], max_length=16)
    if "max_length" in recipe.model:
        recipe.model["max_length"] = 16
    recipe = replace(recipe, vectors=VectorsConfig(dim=4))
    return recipe, encoder.encode(pairs.sentence1, pairs.sentence2), encoder


def test_a_search_begins_with_the_hosts_own_settings():
    recipe = load_recipe("bimpm", "sick", overrides=["model.feature_attention=sfa"])
    config = "model.feature_attention_config"
    published = {f"{config}.r1": 3.75, f"{config}.r2": 4, f"{config}.branches": 2}
    assert SearchSpace(recipe).narrowed(["r1", "r2", "N"]).default() == published


def test_feature_attention_of_drcn_needs_an_autoencoder():
    recipe = load_recipe("drcn", "embedded", overrides=["model.feature_attention=fa"])
    space = SearchSpace(recipe).narrowed(["depth"])
    assert "no autoencoder" in space.conflict({"model.depth": 2})
    assert space.conflict({"model.depth": 3}) is None


# --- one space, step by step ---


def space(**model):
    parameters = [
        Choice("model.kind", {"none": None, "soft": "soft", "hard": "hard"}, aliases=["k"]),
        Choice("model.steps", (1, 2, 3), aliases=["T"], when={"model.kind": ["soft", "hard"]}),
        Choice("model.config.size", (8.0, 4.0), when={"model.kind": ["hard"]}),
        Choice("model.widths", {"2": [2], "2+3": [2, 3]}, aliases=["d_k"]),
        Choice("model.absent", (1, 2)),
        LogUniform("training.learning_rate", 2.0),
        LogUniform("training.weight_decay"),
    ]
    rules = [lambda r: "too much" if r.model.get("steps", 0) * len(r.model["widths"]) > 4 else None]
    model = {"widths": [2, 3], **model}
    return SearchSpace(
        Recipe.from_tables("m", model=model),
        parameters,
        rules,
        {"model.steps": 2, "model.config.size": 4.0},
    )


def test_what_depends_on_what():
    s = space()
    names = [
        "model.kind",
        "model.steps",
        "model.config.size",
        "model.widths",
        "training.learning_rate",
    ]
    assert list(s.parameters) == names
    default = {"model.kind": "none", "model.widths": "2+3", "training.learning_rate": 0.001}
    assert s.default() == default
    assert s.recipe(default).model == {"widths": [2, 3]}
    hard = {**default, "model.kind": "hard", "model.steps": 1, "model.config.size": 8.0}
    assert s.recipe(hard).model == {
        "kind": "hard",
        "steps": 1,
        "config": {"size": 8.0},
        "widths": [2, 3],
    }
    assert s.conflict({**hard, "model.steps": 3}) == "too much"
    big = largest(s)
    assert big["model.kind"] == "hard" and big["model.steps"] == 3
    assert big["model.widths"] == "2", "3 * 2 is too much"
    grid = list(space().narrowed(["k", "T"]).grid())
    assert grid[0] == {"model.kind": "none"} and len(grid) == 1 + 2 * 2
    rates = [c["training.learning_rate"] for c in space().narrowed(["learning_rate"]).grid()]
    assert len(rates) == 9 and rates[0] == 0.001
    assert (min(rates), max(rates)) == (pytest.approx(0.0005), pytest.approx(0.002))


def test_values_of_the_recipe_join():
    s = space(kind="soft", steps=7, widths=[5])
    assert list(s.parameters["model.steps"].values) == [1, 2, 3, 7]
    assert list(s.parameters["model.widths"].values) == ["[5]", "2", "2+3"]
    s = space(config={"size": 6.0, "other": 1}, kind="hard")
    assert list(s.parameters["model.config.size"].values) == [8.0, 6.0, 4.0], "from small to large"


def test_narrowing():
    s = space(kind="soft").narrowed(parse_names("T=2:3, d_k=2"))
    assert s.description() == {"model.steps": [2, 3], "model.widths": ["2"]}
    assert s.default() == {"model.steps": 2, "model.widths": "2"}
    assert space(kind="soft").narrowed({"T": [1, 9]}).description() == {"model.steps": [1, 9]}
    assert s.recipe({"model.steps": 3, "model.widths": "2"}).training.learning_rate == 0.001
    assert space().narrowed(["kind"]).recipe({"model.kind": "none"}).model == {"widths": [2, 3]}


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: space().narrowed(["t"]), "m has no 't'. It has model.kind (k), model.steps (T)"),
        (lambda: space().narrowed(["T"]), "model.steps matters only if model.kind is soft or hard"),
        (
            lambda: space().narrowed({"k": ["loud"]}),
            "model.kind can't be 'loud'; it must be one of",
        ),
        (lambda: space().narrowed({"d_k": "3"}), "model.widths can't be '3'; it must be one of 2"),
        (lambda: space(kind="soft").narrowed({"T": "5:9"}), "model.steps=5:9: it must be one of 1"),
        (lambda: space().narrowed({"learning_rate": "1:2"}), "a number from 0.0005 to 0.002"),
        (lambda: space().narrowed({"d_k": "2:2+3"}), "names have no range"),
        (lambda: parse_names("T,,d_k"), "Expected names separated by commas"),
        (
            lambda: SearchSpace(Recipe("mine")),
            "'mine' declares no search space. Models that do: bag",
        ),
    ],
)
def test_what_is_refused(make, words):
    with pytest.raises(InputError) as error:
        make()
    assert words in str(error.value)


def test_plateau_and_schedule_exclude_each_other():
    s = SearchSpace(load_recipe("esim", "snli")).narrowed(["schedule"])
    found = s.recipe({"training.schedule": "exponential"}).training
    assert (found.schedule, found.plateau_factor) == ("exponential", 1.0)
    assert s.recipe({"training.schedule": "constant"}).training.plateau_factor == 0.5
