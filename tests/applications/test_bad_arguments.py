"""What models refuse, and the words that the message has."""

from functools import partial

import pytest

from keras_sentmatch.applications import build_model, get_model_class
from keras_sentmatch.errors import InputError
from tests.applications.backbones import BERT

BARE = {"autoencoder_after": ()}
SFA = {"feature_attention": "sfa"}
MODELS = [
    ("drnn", {}, "no model 'drnn'", "drcn"),
    ("drcn", {"preset": "snly"}, "no preset 'snly'", "snli"),
    ("drcn", {"deep": 3}, "no argument 'deep'. Did you mean depth?"),
    ("drcn", {"depth": 3, "autoencoder_after": (4,)}, "from 1 to depth=3", "(4,)"),
    ("drcn", {**SFA, **BARE}, "after each autoencoder", "autoencoder_after=()"),
    ("drcn", {**SFA, "depth": 3, "autoencoder_after": (4,)}, "from 1 to depth=3"),
    ("drr_net", {"use_global": False, "use_dynamic": False}, "Set use_global or use_dynamic"),
    ("drr_net", {"aux_loss_weight": -1}, "at least 0", "Received: -1"),
    ("re2", {"alignment": "bilinear"}, "one of", "alignment='bilinear'"),
    ("re2", {"connection": "dense"}, "one of", "connection='dense'"),
    ("re2", {"prediction": "half"}, "one of", "prediction='half'"),
    ("re2", {"blocks": 0}, "at least 1", "blocks=0"),
    ("esim", {"placement": "before"}, "one of", "placement='before'"),
    ("esim", {"feature_attention": "gates"}, "feature_attention='gates'", "'fa', 'sfa'"),
    ("diin", {"max_length": 3, "blocks": 2}, "at least 2 ** blocks", "max_length=3, blocks=2"),
    ("din", {"units": 300}, "perfect square", "units=300"),
    ("din", {"units": 9, "shared_transform": True}, "must have the same last dimension"),
    ("rlstm", {"units": 5}, "even", "units=5"),
]
MODELS += [
    ("ladra_net", {"contextual": "lstm"}, "one of", "contextual='lstm'"),
    ("ladra_net", {"layer_weighting": None}, "one of", "layer_weighting=None"),
    ("ladra_net", {"fusion": "sum"}, "one of", "fusion='sum'"),
    ("ladra_net", {"steps": -1}, "at least 0", "steps=-1"),
    ("ladra_net", {"steps": 0, "use_global": False}, "Nothing is left to classify"),
    *(
        ("dabert", {"dual_layers": layers}, "some of the 2 layers of the backbone, 0 to 1")
        for layers in ((), (2,), (-1,), ("0",))
    ),
]
CANNOT_SPLIT = [
    ("drcn", {"exact_match": False}, "attend to the other sentence", "attention=False"),
    ("drcn", {"attention": False}, "flags words", "exact_match=False"),
    ("drr_net", {"antonym": True}, "flags words", "exact_match=False, antonym=False"),
]
BLOCKS = [
    ("se", None, "feature_attention='se'", "Expected None, 'fa', 'sfa'"),
    ("fa", {"r1": 3}, "feature_attention_config={'r1': 3}"),
    ("sfa", {"units": "small"}, "units must be one of"),
    (None, {"r1": 3}, "feature_attention_config={'r1': 3}", "'fa' or 'sfa'"),
    (7, None, "feature_attention=7"),
]


def check(make, words):
    with pytest.raises(InputError) as error:
        make()
    assert [word for word in words if word not in str(error.value)] == []


@pytest.mark.parametrize("name, config, words", [(n, c, w) for n, c, *w in MODELS])
def test_arguments(name, config, words):
    words_only = {"vocabulary_size": 9, "embedding_dim": 3}
    given = {"backbone": BERT} if name in ("ladra_net", "dabert") else words_only
    check(partial(build_model, name, **given, **config), words)


@pytest.mark.parametrize("name, config, words", [(n, c, w) for n, c, *w in CANNOT_SPLIT])
def test_a_model_that_cannot_be_split(name, config, words):
    model = get_model_class(name)(vocabulary_size=9, embedding_dim=3, **config)
    check(model.split, words)


@pytest.mark.parametrize("kind, config, words", [(k, c, w) for k, c, *w in BLOCKS])
def test_blocks(kind, config, words):
    given = {"feature_attention": kind, "feature_attention_config": config}
    check(partial(build_model, "esim", vocabulary_size=9, embedding_dim=3, **given), words)
