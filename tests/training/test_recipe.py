import tomllib

import pytest

from keras_sentmatch.data.formats import FORMATS
from keras_sentmatch.errors import InputError
from keras_sentmatch.training import (
    EncoderConfig,
    Recipe,
    TrainingConfig,
    list_recipes,
    load_recipe,
    read_recipe,
)

pytestmark = pytest.mark.once


def test_the_papers_values():
    recipe = load_recipe("drcn")
    assert recipe.training.optimizer == "rmsprop"
    assert recipe.training.learning_rate == 1e-3
    assert recipe.training.plateau_factor == 0.85
    assert recipe.training.batch_size == 64
    assert recipe.model["l2"] == 1e-6


@pytest.mark.parametrize("name", list_recipes())
def test_data_sets_in_recipes_have_the_names_of_their_formats(name):
    (_, for_data), *_ = read_recipe(name).layers
    assert set(for_data) <= {"embedded", *FORMATS}


def test_the_papers_batch_normalization_is_for_one_way_tasks():
    for data, expected in {
        "snli": True,
        "wikiqa": True,
        "stsb": False,
        "twitter-url": False,
    }.items():
        assert load_recipe("drcn", data).model["batch_normalization"] is expected


@pytest.mark.parametrize("name", ["cross_encoder", "dabert", "ladra_net"])
def test_recipes_of_pretrained_encoders(name):
    recipe = load_recipe(name)
    assert recipe.encoder == EncoderConfig(max_length=128) and recipe.training.optimizer == "adamw"
    backbone = recipe.training.backbone_learning_rate or recipe.training.learning_rate
    assert recipe.training.global_clipnorm == 1.0 and recipe.training.clipnorm == 0.0
    assert backbone == 2e-5 and recipe.training.schedule.endswith("warm_up_decay")
    assert load_recipe(name, "sick").encoder == EncoderConfig(max_length=64)


def test_a_preset_wins_over_the_recipe_and_loses_to_what_stands_beside_it(tmp_path):
    assert load_recipe("re2").model["units"] != 200
    chosen = load_recipe("re2", overrides=["model.blocks=4", "model.preset=quora"])
    assert chosen.model["units"] == 200 and chosen.model["blocks"] == 4
    assert chosen.model["prediction"] == "symmetric"
    assert not {"preset", "num_classes"} & set(chosen.model)  # the classes are the data's
    file = tmp_path / "mine.toml"
    file.write_text('[model]\npreset = "quora"\n[for.sick.model]\nunits = 7\n')
    assert load_recipe("re2", "sick", file=file).model["units"] == 7
    with pytest.raises(InputError, match="re2 has no preset 'quara'; it has snli, .* mean quora"):
        load_recipe("re2", overrides=["model.preset=quara"])


@pytest.mark.parametrize("name", list_recipes())
def test_every_recipe_goes_through_toml(name, tmp_path):
    recipe = load_recipe(name, "embedded")
    file = tmp_path / "recipe.toml"
    file.write_text(recipe.to_toml())
    assert load_recipe(name, file=file) == recipe


def test_later_values_win(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        "[training]\nepochs = 7\nbatch_size = 8\n"
        "[for.snli.training]\nepochs = 9\n[for.quora.training]\nepochs = 11\n"
    )
    recipe = load_recipe("drcn", "snli", file=file, overrides=["training.batch_size=16"])
    assert recipe.training.epochs == 9
    assert recipe.training.batch_size == 16
    assert recipe.encoder.max_length == 35
    assert load_recipe("drcn", "mine", file=file).training.epochs == 7


@pytest.mark.parametrize(
    ("override", "table", "key", "value"),
    [
        ("training.learning_rate=1e-4", "training", "learning_rate", 1e-4),
        ("training.optimizer = adam", "training", "optimizer", "adam"),
        ('vectors.source="a=b.txt"', "vectors", "source", "a=b.txt"),
        ("vectors.source=/data/glove.txt", "vectors", "source", "/data/glove.txt"),
        ('encoder.features=["word"]', "encoder", "features", ("word",)),
        ("model.anything=true", "model", "anything", True),
    ],
)
def test_overrides(override, table, key, value):
    recipe = load_recipe("drcn", overrides=[override])
    assert recipe.tables()[table][key] == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[training]\nepoch = 3", r"mine.toml:2: unknown key training.epoch; .*mean epochs"),
        ("[training]\nepochs = 3\nbatch_size = 0", r":3: training.batch_size is 0; expected an in"),
        ("[training]\nepochs = 0", r":2: training.epochs is 0; expected an integer of at least 1"),
        ("[training]\nepochs = 2.5", r"epochs is 2.5; expected an integer"),
        ("[training]\nepochs = true", r"epochs is True; expected an integer"),
        ("[training]\nlearning_rate = nan", r"learning_rate is nan; expected a number above 0"),
        (
            "[training]\noptimizer = 'adma'",
            r"optimizer is 'adma'; expected one of .*\"adam\", \"ad",
        ),
        ("[training]\nseed = -1", r"seed is -1; expected an integer from 0"),
        ("[encoder]\nlowercase = 1", r"lowercase is 1; expected one of true, false"),
        ("[encoder]\nfeatures = ['words']", r"features is \['words'\]; expected a list"),
        ("[trainig]\nepochs = 3", r":1: unknown trainig; .*Did you mean training"),
        ("[for.snli.trainin]\nepochs = 3", r":1: unknown for.snli.trainin; .*mean training"),
        ("[for.snli.training]\nepochs = 0", r":2: training.epochs is 0"),
        ("epochs = 3", r":1: unknown epochs; a recipe has the tables model"),
        ("training = 3", r"training must be a table"),
        ("for = 3", r"`for` must hold tables"),
        ("[for]\nsnli = 3", r"\[for.snli\] must hold tables"),
        ("[training]\nepochs = \n", r"mine.toml:2: not valid TOML: Invalid value"),
        ("name = 'din'", r"a recipe of 'din', but the model asked for is 'drcn'"),
    ],
)
def test_bad_files(text, message, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        load_recipe("drcn", file=file)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("epochs=3", "expected TABLE.KEY=VALUE .*Did you mean training.epochs=3"),
        ("training.epochs", "expected TABLE.KEY=VALUE"),
        ("training.epoch=3", "unknown key training.epoch.*Did you mean epochs"),
        ("training.batch_size=0", "batch_size is 0"),
        ("encoder.lowercase=yes", "lowercase is 'yes'; expected one of true, false"),
    ],
)
def test_bad_overrides(override, message):
    with pytest.raises(InputError, match=message):
        load_recipe("drcn", overrides=[override])


def test_unknown_models_and_files(tmp_path):
    with pytest.raises(InputError, match="no model .drcm.*Did you mean drcn"):
        load_recipe("drcm")
    with pytest.raises(InputError, match="none.toml cannot be read .No such file"):
        load_recipe("drcn", file=tmp_path / "none.toml")
    own = tmp_path / "own.toml"
    own.write_text('name = "mine"\n[model]\nunits = 3')
    assert load_recipe("mine", file=own).model == {"units": 3}
    with pytest.raises(InputError, match="unknown key training.lr"):
        Recipe.from_tables("mine", training={"lr": 1.0})


def test_values_of_python_are_checked_too():
    with pytest.raises(InputError, match="^training.epochs is 0; expected an integer of at least"):
        TrainingConfig(epochs=0)
    with pytest.raises(InputError, match="training.seed is True; expected an integer from 0 to 42"):
        Recipe("mine").with_training(seed=True)


def test_toml_text_comes_back():
    model = {
        "name": 'a "quoted"\n\\ ünï \x7f',
        "list": [1, 2.5, "x", True],
        "big": 1e-7,
        "table": {"a b": 1, "empty": {}, "inner": {"x": [[1], []]}},
    }
    assert tomllib.loads(Recipe("mine", model).to_toml())["model"] == model
    with pytest.raises(InputError, match="model.units is None.*leave it out"):
        Recipe("mine", {"units": None}).to_toml()


@pytest.mark.parametrize(
    ("data", "length"), [("snli", 35), ("multinli", 55), ("quora", 25), ("trecqa", 50)]
)
def test_the_papers_lengths(data, length):
    assert load_recipe("drcn", data).encoder.max_length == length
