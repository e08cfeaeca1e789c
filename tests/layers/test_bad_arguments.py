"""What layers refuse, and the words that the message has."""

import numpy as np
import pytest

from keras_sentmatch import layers
from keras_sentmatch.layers.diin import DecayingDropout, DenseInteractionCNN
from keras_sentmatch.layers.din import MatrixInteraction
from keras_sentmatch.layers.ladra_net import LayerWeightedSum
from keras_sentmatch.layers.re2 import AlignmentFusion, ConvolutionalBlock
from keras_sentmatch.layers.word_representation import CharCNN
from tests.harness import lengths_mask, noise

WORDS = {"vocabulary_size": 9, "embedding_dim": 2}
NO_WORDS = {**WORDS, "trainable_embedding": False, "fixed_embedding": False}
HEADS = {"num_heads": 2, "key_dim": 2}
BLOCK = {"intermediate_dim": 4, "num_heads": 3}
NO_POOLING = {"mean_pooling": False, "max_pooling": False}

ARGUMENTS = [
    (layers.AdaptiveFusion, {"attention_units": 0}, "at least 1", "attention_units=0"),
    (layers.AdaptiveFusion, {"alignment": None}, "one of", "alignment=None"),
    (layers.AdaptiveFusion, {"output_mode": "sum"}, "one of", "output_mode='sum'"),
    (AlignmentFusion, {"units": 3, "mode": "half"}, "one of", "mode='half'"),
    (layers.BidirectionalRNN, {"units": 3, "cell": "lstmp"}, "one of", "cell='lstmp'"),
    (layers.CoAttention, {"similarity": "l2"}, "'cosine', 'dot'", "similarity='l2'"),
    (ConvolutionalBlock, {"units": 3, "num_layers": 0}, "at least 1", "num_layers=0"),
    (DecayingDropout, {"rate": 1.0}, "[0, 1)", "rate=1.0"),
    (DecayingDropout, {"decay": 0.0}, "(0, 1]", "decay=0.0"),
    (DecayingDropout, {"decay": 1.1}, "(0, 1]", "decay=1.1"),
    (DecayingDropout, {"decay_steps": 0}, "at least 1", "decay_steps=0"),
    (layers.DenseCoAttentiveRNN, {"recurrent_connection": "skip"}, "one of", "='skip'"),
    (layers.DenseCoAttentiveRNN, {"attentive_connection": "skip"}, "one of", "='skip'"),
    (layers.DenseCoAttentiveRNN, {"embedding_connection": "residual"}, "one of", "='residual'"),
    (layers.DenseCoAttentiveRNN, {"autoencoder_after": (6,)}, "1 to depth=5", "(6,)"),
    (layers.DualAttention, {"num_heads": 0, "key_dim": 2}, "at least 1", "num_heads=0"),
    (layers.DualAttention, {"num_heads": 2, "key_dim": 0}, "at least 1", "key_dim=0"),
    (layers.DualAttention, {**HEADS, "distance": "cosine"}, "one of", "='cosine'"),
    (layers.DualAttentionBlock, {**BLOCK, "intermediate_dim": 0}, "at least 1", "_dim=0"),
    (layers.DualAttentionBlock, {**BLOCK, "num_heads": 0}, "at least 1", "num_heads=0"),
    (layers.DualAttentionBlock, {**BLOCK, "channels": "none"}, "one of", "channels='none'"),
    (layers.DynamicSequentialAttention, {"steps": 0}, "at least 1", "steps=0"),
    (layers.DynamicSequentialAttention, {"attention_units": 0}, "at least 1", "units=0"),
    (layers.DynamicSequentialAttention, {"beta": 0.0}, "positive", "beta=0.0"),
    (layers.DynamicSequentialAttention, {"coverage": None}, "one of", "coverage=None"),
    (layers.FactorizationMachine, {"factors": -1}, "at least 0", "factors=-1"),
    (layers.FeatureAttention, {"reduction": 0}, "above 0", "reduction=0"),
    (layers.MatrixDynamicGRU, {"units": 300}, "perfect square", "units=300"),
    (layers.MatrixDynamicGRU, {"units": 4, "variant": "din3"}, "one of", "variant='din3'"),
    (layers.MatrixDynamicGRU, {"units": 4, "concat": "both"}, "one of", "concat='both'"),
    (
        layers.MatrixDynamicGRU,
        {"units": 4, "concat": "split", "variant": "din2"},
        "'split' needs variant='din1'",
    ),
    (layers.MultiPerspectiveMatching, {"strategies": ("full", "mean")}, "each once", "'mean'"),
    (layers.MultiPerspectiveMatching, {"strategies": ("full", "full")}, "each once"),
    (layers.MultiPerspectiveMatching, {"strategies": ()}, "each once", "=()"),
    (layers.PhraseCNN, {"widths": ()}, "sequence of numbers", "widths=()"),
    (layers.PhraseCNN, {"widths": (2, 0)}, "at least 1", "widths=(2, 0)"),
    (layers.PhraseCNN, {"widths": 2}, "sequence of numbers", "widths=2"),
    (layers.PhraseCNN, {"hidden_filters": 0}, "at least 1", "hidden_filters=0"),
    (layers.RerereadAttention, {"units": 0}, "at least 1", "units=0"),
    (layers.RerereadAttention, {"attention_units": 0}, "at least 1", "attention_units=0"),
    (layers.RerereadAttention, {"steps": 0}, "at least 1", "steps=0"),
    (layers.RerereadAttention, {"beta": 0.0}, "positive", "beta=0.0"),
    (layers.RerereadAttention, {"selection": "sharp"}, "one of", "selection='sharp'"),
    (layers.RerereadAttention, {"initial_state": None}, "one of", "initial_state=None"),
    (layers.SelectiveFeatureAttention, {"units": "small"}, "one of", "units='small'"),
    (layers.SelectiveFeatureAttention, {"branch_kind": "gru"}, "'bigru'", "branch_kind='gru'"),
    (layers.SelectiveFeatureAttention, {"branches": 0}, "at least 1", "branches=0"),
    (layers.SelectiveFeatureAttention, {"r2": -1}, "above 0", "r2=-1"),
    (layers.SelectiveFeatureAttention, NO_POOLING, "mean_pooling or max_pooling"),
    (
        layers.SelectiveFeatureAttention,
        {"pre_sigmoid": True, "selection": False},
        "selection=True",
        "selection=False",
    ),
    (
        layers.SelectiveFeatureAttention,
        {"pre_sigmoid": True, "gates": False},
        "gates=True",
        "gates=False",
    ),
    (layers.SelfAttentionPooling, {"units": 0}, "at least 1", "units=0"),
    (layers.StackRNN, {"units": 0}, "at least 1", "units=0"),
    (layers.StackRNN, {"depth": 0}, "at least 1", "depth=0"),
    (layers.WordRepresentation, {**WORDS, "char_encoder": "rnn"}, "'lstm'", "='rnn'"),
    (layers.WordRepresentation, {**NO_WORDS, "exact_match": False}, "at least one feature"),
]


@pytest.mark.once
@pytest.mark.parametrize("cls, arguments, words", [(c, a, w) for c, a, *w in ARGUMENTS])
def test_arguments_of_the_constructor(cls, arguments, words):
    with pytest.raises(ValueError) as error:
        cls(**arguments)
    assert [word for word in words if word not in str(error.value)] == []


def _summed():
    layer = LayerWeightedSum()
    layer([noise(2, 5, 3)] * 4)
    return layer


M2, M3 = lengths_mask([2], 2), lengths_mask([3], 3)
CALLS = {
    "another width than the state": (
        lambda: layers.RereadingLSTM(5)(noise(1, 2, 4), noise(1, 3, 2), M2, M3),
        ("as wide as the state", "units=5"),
    ),
    "two widths and one transform": (
        lambda: layers.MatrixDynamicGRU(4, shared_transform=True)(
            noise(1, 2, 3), noise(1, 3, 2), M2, M3
        ),
        ("same last dimension", "(1, 2, 3)"),
    ),
    "no square": (
        lambda: MatrixInteraction()(noise(1, 2, 5), noise(1, 3, 5), M2, M3),
        ("a perfect square", "(1, 2, 5)"),
    ),
    "two squares": (
        lambda: MatrixInteraction()(noise(1, 2, 4), noise(1, 3, 9), M2, M3),
        ("a perfect square", "(1, 3, 9)"),
    ),
    "an odd width": (
        lambda: layers.MultiPerspectiveMatching(2).build((3, 5, 5)),
        ("forward and backward", "(3, 5, 5)"),
    ),
    "a small grid": (
        lambda: DenseInteractionCNN().build((2, 7, 9, 10)),
        ("2 ** blocks", "(2, 7, 9, 10)"),
    ),
    "an unknown grid": (
        lambda: DenseInteractionCNN().build((2, None, 9, 10)),
        ("must be known", "(2, None, 9, 10)"),
    ),
    "attention to nobody": (
        lambda: layers.DenseCoAttentiveRNN()(noise(1, 2, 4), mask_1=M2),
        ("reads two sentences", "attention=False"),
    ),
    "unequal widths": (
        lambda: layers.AdaptiveFusion()(noise(1, 2, 4), noise(1, 2, 5), M2),
        ("affinity and difference must have the same width",),
    ),
    "cross without segments": (
        lambda: layers.DualAttention(2, 2, cross=True)(noise(1, 2, 4), M2),
        ("cross=True needs the call argument `segment_ids`",),
    ),
    "phrases of three axes": (
        lambda: layers.DynamicSequentialAttention()(noise(1, 2, 4), M2, noise(1, 4)),
        ("[B, R+1, L, D]", "(1, 2, 4)"),
    ),
    "a guide of another width": (
        lambda: layers.DynamicSequentialAttention()(noise(1, 2, 2, 4), M2, noise(1, 3)),
        ("guide must be [B, 4]", "(1, 3)"),
    ),
    "no phrases": (
        lambda: layers.DynamicSequentialAttention(fuse_word=False)(
            noise(1, 1, 2, 4), M2, noise(1, 4)
        ),
        ("fuse_word=False needs phrases in addition to the words",),
    ),
    "no guide": (
        lambda: layers.RerereadAttention()(noise(1, 2, 4), M2, None, noise(1, 4)),
        ("guide=True needs the call argument `guide`",),
    ),
    "no initial state": (
        lambda: layers.RerereadAttention(guide=False)(noise(1, 2, 4), M2),
        ("needs the call argument `initial_state`",),
    ),
    "an initial state of another width": (
        lambda: layers.RerereadAttention(units=3, guide=False, initial_state="given")(
            noise(1, 2, 4), M2, None, noise(1, 4)
        ),
        ("a vector of units=3", "(1, 4)"),
    ),
    "no layers": (lambda: LayerWeightedSum()([]), ("layers must be a list", "None")),
    "a layer instead of a list": (
        lambda: LayerWeightedSum()(noise(2, 5, 3)),
        ("layers must be a list", "(2, 5, 3)"),
    ),
    "unequal layers": (
        lambda: LayerWeightedSum()([noise(2, 5, 3), noise(2, 2, 3)]),
        ("layers must be a list", "(2, 2, 3)"),
    ),
    "another number of layers": (
        lambda: _summed()([noise(2, 5, 3)] * 3),
        ("built for 4 layers", "Received: 3"),
    ),
    "no other sentence": (
        lambda: layers.WordRepresentation(**WORDS)(np.ones((1, 2), "int32")),
        ("must be called with other_word_ids",),
    ),
    "short words": (
        lambda: CharCNN(9)(np.ones((1, 2, 4), "int32")),
        ("at least kernel_size=5",),
    ),
}


@pytest.mark.once
@pytest.mark.parametrize("call, words", CALLS.values(), ids=CALLS)
def test_inputs(call, words):
    with pytest.raises(ValueError) as error:
        call()
    assert [word for word in words if word not in str(error.value)] == []
