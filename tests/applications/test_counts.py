"""Exact numbers of parameters at the papers' sizes, word embeddings left out (SPEC 13)."""

import numpy as np
import pytest

from keras_sentmatch.applications import build_model

# Three classes unless the configuration says otherwise.
COUNTS = [
    # SPEC 9.3; Table 2 of the paper says 498k, 718k, 1.0M, 889k, 1.3M, 1.9M and 1.9M (it truncates). SPEC 9.3 counts two
    # biases in a GRU; the one of eq 3-6, which resets before, has one: 3 d fewer.
    ("din", {"preset": "din1_16"}, 706_563 - 3 * 256),
    ("din", {"preset": "din1_18"}, 1_026_435 - 3 * 324),
    ("din", {"preset": "din1_20"}, 1_449_603 - 3 * 400),
    ("din", {"preset": "din1_20", "reset_after": True}, 1_449_603),
    ("din", {"preset": "din2_16"}, 12 * 256**2 + (1221 - 9 + 3) * 256 + 3),
    ("din", {"preset": "din2_18"}, 12 * 324**2 + (1221 - 9 + 3) * 324 + 3),
    ("din", {"preset": "din2_20"}, 12 * 400**2 + (1221 - 9 + 3) * 400 + 3),
    ("din", {"preset": "static_20"}, 15 * 400**2 + (1221 - 9 + 3) * 400 + 3),
    ("din", {"preset": "static_20", "variant": "static_interaction"}, 12 * 400**2 + 1215 * 400 + 3),
    ("din", {"preset": "table2_din1_16"}, 497_923),
    ("din", {"preset": "table2_din1_18"}, 718_311),
    ("din", {"preset": "table2_din1_20"}, 1_008_403),
    ("din", {"preset": "table2_din2_16"}, 888_835),
    ("din", {"preset": "table2_din2_18"}, 1_345_251),
    ("din", {"preset": "table2_din2_20"}, 1_964_803),
    ("din", {"preset": "table2_static_20"}, 1_967_203),
    ("din", {"preset": "table2_static_20", "variant": "static"}, 1_967_203 + 3 * 400**2),
    ("din", {"concat": "split"}, 1_449_603 - 3 * 400 + 6 * 400),
    ("din", {"compare_means": True}, 1_449_603 - 3 * 400 + 2 * 400**2),
    # Its LSTMs alone have 1,983,600 (DIN's Table 2 says 2.0M); W_p, W_m, W_c and w, for each direction, and the output.
    ("rlstm", {}, 1_983_600 + 2 * (3 * 300**2 + 300) + 600 * 3 + 3),
    # For each sentence the main LSTM, the small one, and what the scales and shifts are made from; and the output.
    (
        "hyper_lstm",
        {},
        2 * (721_200 + 512 * (300 + 300 + 128 + 1) + 12 * 128 * 4 + 32 + 12 * 4 * 300) + 3603,
    ),
    # SPEC 8.2 with 100 characters. galsang counts 644,003: a second bias in each LSTM (1,600), and 80 character embeddings
    # with their LSTM (16,000), which it makes but doesn't use without characters.
    ("bimpm", {"preset": "paper", "char_vocabulary_size": 100}, 682_603),
    ("bimpm", {"preset": "paper"}, 644_003 - 1_600 - 16_000),
    ("cafe", {"preset": "paper", "char_vocabulary_size": 100, "pos_tags": 47}, 2_511_073),
    # SPEC 3.5 without the character CNN: 6,718,537; its 60,100 are 100 characters of 100 and 100 filters of 5.
    ("drr_net", {"char_vocabulary_size": 100, "pos_tags": 10, "antonym": True}, 6_718_537 + 60_100),
    ("re2", {"preset": "snli"}, 2_774_559),
    ("re2", {"preset": "quora"}, 2_806_406),
    # And 8 numbers for each of 100 characters, and 8 counters of training steps.
    ("diin", {"char_vocabulary_size": 100, "pos_tags": 47}, 4_360_190 + 808),
    ("diin", {"char_vocabulary_size": 100, "pos_tags": 47, "max_length": 48}, 4_369_550 + 808),
    # SPEC 7.5: two branches of FA (360,000 without biases), and of SFA.
    ("esim", {"preset": "fa"}, 4_326_303 + 360_000 + 2 * 600),
    ("esim", {"preset": "sfa"}, 4_326_303 + 2 * 205_520),
    ("esim", {"preset": "residual_bigru"}, 4_326_303 + 2 * 197_200),
]


@pytest.mark.parametrize(
    "name, config, count", COUNTS, ids=lambda x: x if isinstance(x, str) else ""
)
def test_counts(name, config, count):
    model = build_model(name, vocabulary_size=10, **config)
    assert model.count_params_without_word_embeddings() == count


# What the models on pretrained encoders add to the backbone, here 768 wide with 12 heads.
ADDED = [
    ("cross_encoder", "Bert", 1, 768 * 3 + 3),
    ("cross_encoder", "Roberta", 1, 768 * 768 + 768 + 768 * 3 + 3),
    ("ladra_net", "Bert", 12, 10_133_303),
    ("dabert", "Bert", 1, 5_120_002 + 768 * 3 + 3),
]


@pytest.mark.backend("torch")
@pytest.mark.parametrize("name, kind, blocks, count", ADDED)
def test_counts_beyond_the_backbone(name, kind, blocks, count):
    hub = pytest.importorskip("keras_hub")
    sizes = {"num_layers": blocks, "hidden_dim": 768, "num_heads": 12, "intermediate_dim": 1}
    cls = getattr(hub.models, f"{kind}Backbone")
    backbone = cls(vocabulary_size=2, max_sequence_length=1, **sizes)
    model = build_model(name, backbone=backbone)
    theirs = sum(int(np.prod(v.shape)) for v in model.backbone_variables)
    assert model.count_params() - theirs == count
