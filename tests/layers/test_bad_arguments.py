"""What layers refuse, and words of the message."""

import numpy as np
import pytest

from keras_sentmatch import layers, ops
from keras_sentmatch.errors import InputError
from keras_sentmatch.layers import diin, re2
from tests.case import lengths_mask, noise

WORDS = {"vocabulary_size": 9, "embedding_dim": 2}
NO_WORDS = {**WORDS, "trainable_embedding": False, "fixed_embedding": False, "exact_match": False}
NO_POOLING = {"mean_pooling": False, "max_pooling": False}
UNKNOWN = {  # options, of which each takes one of some strings
    layers.AdaptiveFusion: ["alignment", "output_mode"],
    re2.AlignmentFusion: ["mode"],
    layers.BidirectionalRNN: ["cell"],
    layers.CoAttention: ["similarity"],
    layers.DenseCoAttentiveRNN: [
        f"{n}_connection" for n in ("recurrent", "attentive", "embedding")
    ],
    layers.DualAttention: ["distance"],
    layers.DualAttentionBlock: ["channels"],
    layers.DynamicSequentialAttention: ["coverage", "coverage_update"],
    layers.MatrixDynamicGRU: ["variant", "concat"],
    layers.RerereadAttention: ["selection", "initial_state"],
    layers.SelectiveFeatureAttention: ["units", "branch_kind"],
    layers.WordRepresentation: ["char_encoder"],
}
NOT_POSITIVE = {
    layers.AdaptiveFusion: ["attention_units"],
    re2.ConvolutionalBlock: ["num_layers"],
    layers.DualAttention: ["num_heads", "key_dim"],
    layers.DualAttentionBlock: ["intermediate_dim", "num_heads"],
    layers.DynamicSequentialAttention: ["steps", "attention_units", "beta"],
    layers.FeatureAttention: ["reduction"],
    layers.PhraseCNN: ["hidden_filters"],
    layers.RerereadAttention: ["units", "attention_units", "steps", "beta"],
    layers.SelectiveFeatureAttention: ["branches", "heads", "r1", "r2"],
    layers.SelfAttentionPooling: ["units"],
    layers.StackRNN: ["units", "depth"],
}
NEEDED = {
    re2.AlignmentFusion: {"units": 3},
    layers.BidirectionalRNN: {"units": 3},
    re2.ConvolutionalBlock: {"units": 3},
    layers.DualAttention: {"num_heads": 2, "key_dim": 2},
    layers.DualAttentionBlock: {"intermediate_dim": 4, "num_heads": 2},
    layers.MatrixDynamicGRU: {"units": 4},
    layers.WordRepresentation: WORDS,
}
ARGUMENTS = [
    (layers.DenseCoAttentiveRNN, {"autoencoder_after": (6,)}, "1 to depth=5", "(6,)"),
    (diin.DecayingDropout, {"rate": 1.0}, "[0, 1)", "rate=1.0"),
    (diin.DecayingDropout, {"decay": 1.1}, "(0, 1]", "decay=1.1"),
    (layers.MatrixDynamicGRU, {"units": 300}, "perfect square", "units=300"),
    (layers.MatrixDynamicGRU, {"units": 4, "concat": "split", "variant": "din2"}, "'split' needs"),
    (layers.PhraseCNN, {"widths": ()}, "numbers of at least 1", "widths=()"),
    (layers.PhraseCNN, {"widths": (2, 0)}, "at least 1", "widths=(2, 0)"),
    (layers.SelectiveFeatureAttention, NO_POOLING, "mean_pooling or max_pooling"),
    (layers.SelectiveFeatureAttention, {"pre_sigmoid": True, "gates": False}, "gates=True"),
    (layers.StackRNN, {"unit": 3}, "no argument 'unit'", "Did you mean units?"),
    (layers.WordRepresentation, NO_WORDS, "at least one feature"),
]
for table, wrong, words in ((UNKNOWN, "loud", "one of"), (NOT_POSITIVE, 0, "0")):
    for cls, names in table.items():
        for name in names:
            ARGUMENTS.append(
                (cls, {**NEEDED.get(cls, {}), name: wrong}, words, f"{name}={wrong!r}")
            )


@pytest.mark.parametrize("cls, arguments, words", [(c, a, w) for c, a, *w in ARGUMENTS])
def test_arguments_of_the_constructor(cls, arguments, words):
    with pytest.raises(InputError) as error:
        cls(**arguments)
    assert [word for word in words if word not in str(error.value)] == []


M2, M3, X2 = lengths_mask([2], 2), lengths_mask([3], 3), noise(1, 2, 4)
CALLS = {
    "as wide as the state": lambda: layers.RereadingLSTM(5)(X2, noise(1, 3, 2), M2, M3),
    "same last dimension": lambda: layers.MatrixDynamicGRU(4, shared_transform=True)(
        X2, noise(1, 3, 2), M2, M3
    ),
    "count from the front": lambda: ops.masked_mean(X2, M2, axis=-1),
    "2 ** blocks": lambda: diin.DenseInteractionCNN().build((2, 7, 9, 10)),
    "must be known": lambda: diin.DenseInteractionCNN().build((2, None, 9, 10)),
    "needs two sentences": lambda: layers.DenseCoAttentiveRNN()(X2, mask_1=M2),
    "the same width": lambda: layers.AdaptiveFusion()(X2, noise(1, 2, 5), M2),
    "`segment_ids`": lambda: layers.DualAttention(2, 2, cross=True)(X2, M2),
    "a multiple of num_heads=3": lambda: layers.DualAttentionBlock(4, 3)(X2, M2),
    "[B, R+1, L, D]": lambda: layers.DynamicSequentialAttention()(X2, M2, noise(1, 4)),
    "fuse_word=False needs phrases": lambda: layers.DynamicSequentialAttention(fuse_word=False)(
        X2[None], M2, noise(1, 4)
    ),
    "guide must be [B, 4]": lambda: layers.DynamicSequentialAttention()(X2[None], M2, noise(1, 3)),
    "guide=False": lambda: layers.RerereadAttention()(X2, M2, None, noise(1, 4)),
    "initial_state='zero'": lambda: layers.RerereadAttention(guide=False)(X2, M2),
    "a vector of units=3": lambda: layers.RerereadAttention(3, guide=False, initial_state="given")(
        X2, M2, None, noise(1, 4)
    ),
    "with other_word_ids": lambda: layers.WordRepresentation(**WORDS)(np.ones((1, 2), "int32")),
    "kernel_size=5": lambda: layers.WordRepresentation(**WORDS, char_vocabulary_size=9).build(
        (1, 2), (1, 2, 4)
    ),
}


@pytest.mark.parametrize("words", CALLS)
def test_inputs(words):
    with pytest.raises(InputError) as error:
        CALLS[words]()
    assert words in str(error.value)
