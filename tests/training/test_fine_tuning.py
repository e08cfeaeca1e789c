"""Models on a pretrained backbone, from a preset to the run folder: with a BERT of one layer of 8."""

import shutil

import numpy as np
import pytest

from keras_sentmatch.encoders import SubwordPairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.training import Recipe, load_recipe, train
from tests.toys.training import WORDS, Strike, tiny_splits

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "x", *WORDS]
QUIET = {"progress": False, "baseline": False}


def save_preset(folder, num_layers=1):
    """A KerasHub preset: a BERT of 32 positions that knows the words of the tiny pairs."""
    hub = pytest.importorskip("keras_hub")
    backbone = hub.models.BertBackbone(
        vocabulary_size=len(PIECES),
        num_layers=num_layers,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        max_sequence_length=32,
        dropout=0.0,
    )
    backbone.save_to_preset(str(folder))
    hub.models.BertTokenizer(vocabulary=PIECES, lowercase=True).save_to_preset(str(folder))
    return folder


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    return save_preset(tmp_path_factory.mktemp("hub") / "tiny_bert")


def recipe_on(preset, name="cross_encoder", **tables):
    given = load_recipe(name, overrides=[f"model.backbone={str(preset)!r}"]).tables()
    return Recipe.from_tables(name, **{t: given[t] | tables.get(t, {}) for t in given})


def test_a_run_whose_preset_is_gone(tmp_path):
    preset = save_preset(tmp_path / "preset")
    training = {"learning_rate": 0.01, "epochs": 1, "batch_size": 20}
    recipe = recipe_on(preset, encoder={"max_length": 10}, training=training)
    splits = tiny_splits()
    metrics = train(recipe, splits, tmp_path / "run", **QUIET).metrics
    shutil.rmtree(preset)
    table = len(PIECES) * 8
    assert metrics["parameters"] - metrics["parameters_without_word_embeddings"] == table
    assert metrics["vectors"] is None and metrics["teacher"] is None
    assert "sentences" in metrics["encoding"] and metrics["epochs"] == 1
    again = load_recipe("cross_encoder", file=tmp_path / "run" / "recipe.toml")
    assert again.training.weight_decay == 0.01
    matcher = Matcher.load(tmp_path / "run")
    assert isinstance(matcher.encoder, SubwordPairEncoder)
    assert matcher.encoder.max_length == 10 and len(matcher.label_names) == 2
    assert matcher.evaluate(splits["test"]) == metrics["test"]


@pytest.mark.parametrize(
    "tables, message",
    [
        ({"encoder": {"max_length": 33}}, "is 33, but .* reads at most 32 word pieces"),
        ({"training": {"teacher": ["nowhere"]}}, "nowhere is not a run folder"),
        ({"model": {"backbone": "./nowhere"}}, "no folder ./nowhere.*--backbone"),
    ],
)
def test_what_cannot_be_trained(preset, tables, message, tmp_path):
    with pytest.raises(InputError, match=message):
        train(recipe_on(preset, **tables), tiny_splits(), tmp_path / "a", progress=False)
    assert not (tmp_path / "a").exists()


@pytest.mark.each_backend
def test_two_rates_and_a_kill(preset, tmp_path):
    """Resumed, the encoder and the new layers go on, each at its rate."""
    training = {
        "learning_rate": 0.01,
        "backbone_learning_rate": 1e-3,
        "batch_size": 20,
        "epochs": 3,
    }
    recipe = recipe_on(preset, "dabert", encoder={"max_length": 16}, training=training)
    recipe.model["output_stddev"] = 0.02

    def run(name, **more):
        options = {"progress": False, "baseline": False, **more}
        return train(recipe, tiny_splits(), tmp_path / name, **options)

    whole = run("whole").matcher.model
    with pytest.raises(SystemExit):
        run("killed", callbacks=[Strike(SystemExit, 2, "on_train_batch_end")])
    resumed = run("killed", resume=True).matcher.model
    for now, then in zip(resumed.get_weights(), whole.get_weights()):
        np.testing.assert_array_equal(now, then)


def test_scores_from_a_frozen_encoder_in_mixed_precision(preset, tmp_path):
    settings = {"epochs": 1, "learning_rate": 0.01, "dtype_policy": "mixed_bfloat16"}
    recipe = recipe_on(preset, encoder={"max_length": 16}, training=settings)
    recipe.model["trainable_backbone"] = False
    splits = tiny_splits("regression")
    result = train(recipe, splits, tmp_path / "a", progress=False, baseline=False)
    expected = result.matcher.predict_proba(splits["test"])
    assert expected.dtype == np.float32 and np.isfinite(expected).all()
    loaded = Matcher.load(tmp_path / "a")
    assert loaded.model.dtype_policy.name == "mixed_bfloat16"
    found = loaded.predict_proba(splits["test"])
    np.testing.assert_allclose(found, expected, atol=2e-4)  # XLA keeps more digits
