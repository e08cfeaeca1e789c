import pytest

from keras_sentmatch.applications import list_models
from keras_sentmatch.data.formats import FORMATS
from keras_sentmatch.training import load_recipe
from keras_sentmatch.training.checks import check_model
from keras_sentmatch.training.config import EncoderConfig
from keras_sentmatch.training.recipe import list_recipes, read_recipe


def test_the_papers_values_by_data_set():
    tasks = {"snli": True, "wikiqa": True, "stsb": False, "twitter-url": False}
    for data, expected in tasks.items():
        assert load_recipe("drcn", data).model["batch_normalization"] is expected
    for data, length in {"snli": 35, "multinli": 55, "quora": 25, "trecqa": 50}.items():
        assert load_recipe("drcn", data).encoder.max_length == length


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


@pytest.mark.parametrize("name", list_recipes())
def test_every_recipe_goes_through_toml(name, tmp_path):
    recipe = load_recipe(name, "embedded")
    file = tmp_path / "recipe.toml"
    file.write_text(recipe.to_toml())
    assert load_recipe(name, file=file) == recipe
    (_, for_data), *_ = read_recipe(name).layers
    assert set(for_data) <= {"embedded", *FORMATS}
    check_model(load_recipe(name, "sick"))


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
        ("vectors.source=/data/glove.txt", "vectors", "source", "/data/glove.txt"),
        ('encoder.features=["word"]', "encoder", "features", ("word",)),
        ("model.anything=true", "model", "anything", True),
    ],
)
def test_overrides(override, table, key, value):
    recipe = load_recipe("drcn", overrides=[override])
    assert recipe.tables()[table][key] == value


@pytest.mark.parametrize("name", ["RE2", "Re2", "drr-net", "DRrNet", "BiMPM", "LadRa-Net"])
def test_names_of_models_in_any_spelling(name):
    recipe = load_recipe(name)
    assert recipe.name in list_models()
    assert recipe.name.replace("_", "") == name.lower().replace("-", "")
