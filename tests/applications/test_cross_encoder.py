"""CrossEncoder, and what holds of every model on a pretrained encoder."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_sentmatch.applications import DABERT, CrossEncoder, LadRaNet
from keras_sentmatch.errors import InputError
from tests.applications.backbones import BERT, PAIRS, ROBERTA, SIZES, UNUSED, backbone
from tests.applications.common import model_case
from tests.case import close, randomize, value
from tests.harness import arguments_act, run_checks

CASES = [
    model_case(partial(CrossEncoder, backbone=BERT), PAIRS, None, "CrossEncoder", unused=UNUSED)
]
SMALL = {  # every model on a backbone
    CrossEncoder: {},
    LadRaNet: {"hidden_filters": 4, "attention_units": 4, "steps": 2},
    DABERT: {"attention_units": 4},
}
each_model = pytest.mark.parametrize("cls", SMALL, ids=lambda cls: cls.__name__)


test_checks = run_checks(CASES)


test_arguments = arguments_act(CASES, "backbone", pooling="mean")


# --- every model on a pretrained encoder ---


def test_the_weights_of_a_backbone_are_copied():
    theirs = randomize(backbone())
    model = CrossEncoder(theirs)
    kernel, bias = (value(w) for w in model.get_layer("logits").weights)
    logits = value(theirs(PAIRS)["pooled_output"]) @ kernel + bias
    want = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    close(model(PAIRS), want, "probabilities")
    for v in model.backbone_variables:
        v.assign(v * 0)
    assert value(theirs.token_embedding.weights[0]).any()


def test_the_weights_of_a_folder_are_loaded(tmp_path):
    theirs = randomize(backbone())
    theirs.save_to_preset(str(tmp_path))
    model, copy = CrossEncoder(str(tmp_path)), CrossEncoder(theirs)
    mine, copied = (
        {v.path.split("/", 1)[-1]: value(v) for v in m.backbone_variables} for m in (model, copy)
    )
    assert mine.keys() == copied.keys()
    assert all((mine[path] == copied[path]).all() for path in mine)
    assert model.get_config()["backbone"] == copy.get_config()["backbone"]


@each_model
def test_what_came_from_the_backbone(cls):
    for saved in (BERT, ROBERTA):
        model = cls(saved, **SMALL[cls])
        theirs, every = model.backbone_variables, model.weights
        mine = [v for v in every if not any(v is x for x in theirs)]
        assert len(theirs) + len(mine) == len(every) and mine
        new = ("logits", "pooler", "hidden", "fusion", "phrase", "pooling", "rereading")
        assert all(any(n in v.path for n in (*new, "layer_weighting")) for v in mine)
        assert not any(n in v.path for n in new for v in theirs)
        table = SIZES["vocabulary_size"] * SIZES["hidden_dim"]
        assert model.count_params_without_word_embeddings() == model.count_params() - table
        assert model.max_length == 16


@each_model
def test_a_frozen_backbone_stays_frozen(cls):
    model = cls(BERT, trainable_backbone=False, **SMALL[cls])
    for frozen in (model, cls.from_config(model.get_config())):
        theirs = frozen.backbone_variables
        assert theirs and not any(v is x for v in frozen.trainable_variables for x in theirs)
        assert len(frozen.trainable_variables) == len(frozen.weights) - len(theirs)


@each_model
def test_what_it_cannot_do(cls):
    model = cls(BERT, **SMALL[cls])
    assert not model.can_split
    with pytest.raises(InputError, match="reads both sentences as one sequence"):
        model.split()
    with pytest.raises(InputError, match="has no word vectors to set"):
        model.set_word_vectors(np.zeros((14, 8)))


def test_what_is_no_backbone():
    for wrong in (
        5,
        {},
        keras.layers.Dense(3),
        {**BERT, "class_name": "Nothing", "registered_name": None},
    ):
        with pytest.raises(InputError, match="is not a supported backbone. Expected BERT, "):
            CrossEncoder(wrong)
