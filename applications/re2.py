"""RE2: a stack of blocks that align two sentences again and again (Yang et al., ACL 2019)."""

import math
from functools import partial
from typing import ClassVar

import keras
from keras import ops

from keras_sentmatch.applications.feature_blocks import FEATURE_PRESETS, FeatureHost
from keras_sentmatch.applications.hyperparameters import FEATURE_ATTENTION, WORD_MODELS, Choice
from keras_sentmatch.applications.pair_model import Sentence, both
from keras_sentmatch.applications.picture_specs import ATTENTION, FEATURE_PICTURES, POOL_RATES
from keras_sentmatch.applications.registry import register_model
from keras_sentmatch.layers import CoAttention
from keras_sentmatch.layers.base import require_choice, require_positive
from keras_sentmatch.layers.re2 import (
    AlignmentFusion,
    ConvolutionalBlock,
    WeightNormalizedDense,
    gelu,
)
from keras_sentmatch.ops import masked_max
from keras_sentmatch.ops.masking import max_pool_rates

_TWO_BLOCKS = {"num_classes": 2, "units": 200, "blocks": 2}


@register_model("re2")
class RE2(FeatureHost):
    """Residual vectors, Embedding vectors and Encoded vectors, aligned block after block.

    References:
        Yang, Zhang, Gao, Ji, Chen: "Simple and Effective Text Matching with Richer Alignment
        Features", ACL 2019, arXiv 1908.00300.
    """

    def encode(self, sentence: Sentence) -> Sentence:
        encoded = self.enter_block(0, self.represent_words(sentence), sentence.mask)
        if self.scores_equality:
            encoded.word_ids = sentence.word_ids
        return encoded

    def interact(self, one: Sentence, two: Sentence):
        mask_1, mask_2 = one.mask, two.mask
        p, q = one, two
        for n in range(self.blocks):
            keys = (p.keys, q.keys) if self.alignment == "linear" else ()
            p_aligned, q_aligned, *weights = self.alignments[n](  # [B, Lp, w + u], [B, Lq, w + u]
                p.states, q.states, mask_1, mask_2, *keys, return_attention=True
            )
            self.show(each=True, attention_1=weights[0], attention_2=weights[1])
            p, q = both(
                partial(self.fuse, n),
                Sentence(states=p.states, aligned=p_aligned, mask=mask_1),
                Sentence(states=q.states, aligned=q_aligned, mask=mask_2),
            )
        p, q = self.attend_features(self.feature_blocks, p.fused, mask_1, q.fused, mask_2)
        self.show(
            lambda: {
                "pool_rates_1": max_pool_rates(p, mask_1),
                "pool_rates_2": max_pool_rates(q, mask_2),
            }
        )
        vectors = masked_max(p, mask_1), masked_max(q, mask_2)
        h = self.compare(*vectors)
        if self.prediction == "exchangeable":
            h = (h + self.compare(*vectors[::-1])) / 2
        y = self.classify(self.hidden_dropout(h))
        return self.bounded(y, one.word_ids, two.word_ids) if self.scores_equality else y

    def compare(self, p, q):
        """The last hidden layer, from the two sentence vectors."""
        return self.hidden(self.matching_dropout(self.match(p, q)))  # [B, 4u] to [B, u]

    def enter_block(self, n: int, x, mask) -> Sentence:
        """A sentence in block `n`, before its alignment, from the block's input `x` `[B, L, w]`."""
        states = ops.concatenate([x, self.convolutions[n](x, mask)], axis=-1)  # [B, L, w + u]
        if self.alignment == "identity":
            return Sentence(states=states, mask=mask)
        keys = self.projections[n](self.projection_dropouts[n](states))  # [B, L, u], F of eq 1
        return Sentence(states=states, mask=mask, keys=keys)

    def fuse(self, n: int, sentence: Sentence) -> Sentence:
        """Block `n` (from 0) after its alignment: the fused words, or the next block's states."""
        fused = self.fusions[n](sentence.states, sentence.aligned, sentence.mask)  # [B, L, u]
        if n + 1 == self.blocks:
            return Sentence(fused=fused)
        x = sentence.states[:, :, : -self.units]  # the input of block n
        return self.enter_block(n + 1, self.connect_blocks(n, x, fused), sentence.mask)

    def connect_blocks(self, n: int, x, fused):
        """The input of block `n + 1`, from the input `x` and the output `fused` of block `n`."""
        if self.connection == "none":
            return fused
        if self.connection == "residual":
            return (fused + (x if n else self.shortcut(x))) * math.sqrt(0.5)
        if n:  # x = [sum of the outputs before; words]
            before, x = x[:, :, : self.units], x[:, :, self.units :]
            fused = (fused + before) * math.sqrt(0.5)
        return ops.concatenate([fused, x], axis=-1)

    def match(self, p, q):
        """The input of the last layers, from the two sentence vectors."""
        if self.prediction == "simple":
            return ops.concatenate([p, q], axis=-1)
        difference = ops.abs(p - q) if self.prediction == "symmetric" else p - q
        return ops.concatenate([p, q, difference, p * q], axis=-1)

    @property
    def scores_equality(self) -> bool:
        """Whether the output is 1 for equal sentences, and 0 if only one of them is empty."""
        return self.prediction == "exchangeable" and self.num_classes == 1

    def bounded(self, y, ids_1, ids_2):
        """The score `c (2 - c)` from 0 to 1, `c` being `y` within these limits."""
        a = ops.concatenate([ids_1, ops.zeros_like(ids_2)], axis=1)  # the lengths may differ
        b = ops.concatenate([ids_2, ops.zeros_like(ids_1)], axis=1)
        unlike = ops.logical_or(ops.not_equal(a, b), ops.equal(a, 1))  # two unknown words may be
        unlike = ops.max(ops.cast(unlike, y.dtype), axis=1, keepdims=True)
        filled = [ops.max(ops.minimum(ids, 1), axis=1, keepdims=True) for ids in (ids_1, ids_2)]
        c = ops.clip(y, 0.0, 1.0) * ops.cast(filled[0] * filled[1], y.dtype)
        return 1.0 - unlike * ops.square(1.0 - c)

    def __init__(
        self,
        *,
        units: int = 150,
        blocks: int = 3,
        encoder_layers: int = 2,
        alignment: str = "linear",
        fusion: str = "full",
        connection: str = "augmented",
        prediction: str = "full",
        **kwargs,
    ):
        """Make the model with random weights. Feature attention stands before the pooling.

        Args:
            units: Width of every convolution and dense layer.
            blocks: Number of blocks.
            encoder_layers: Number of convolutions per block.
            alignment: Keys of the attention: `"linear"`, a dense layer of the states, or
                `"identity"`, the states.
            fusion: `"full"` or `"simple"`, see `AlignmentFusion`.
            connection: Input of block n + 1 from the outputs r: `"augmented"`, `[(r_{n-1} + r_n) /
                sqrt(2); word vectors]`; `"residual"`, the input of block n plus its output, over
                sqrt(2); `"none"`, the output.
            prediction: Input of the last layers: `"full"`, `[p; q; p - q; p * q]`; `"symmetric"`,
                the same with `|p - q|`; `"simple"`, `[p; q]`; `"exchangeable"`, the mean of `"full"`
                over both orders, with scores from 0 to 1 (1 for equal sentences).
        """
        super().__init__(**kwargs)
        self.units = units
        self.blocks = blocks
        self.encoder_layers = encoder_layers
        self.alignment = alignment
        self.fusion = fusion
        self.connection = connection
        self.prediction = prediction
        require_positive(blocks=blocks)
        require_choice(("linear", "identity"), alignment=alignment)
        require_choice(("augmented", "residual", "none"), connection=connection)
        require_choice(("full", "symmetric", "exchangeable", "simple"), prediction=prediction)

        self.word_representation = self.make_word_representation()
        self.convolutions, self.alignments, self.fusions = [], [], []
        self.projections, self.projection_dropouts = [], []
        for n in range(1, blocks + 1):
            self.convolutions.append(
                self.make(ConvolutionalBlock, f"encoder_{n}", units, encoder_layers, self.dropout)
            )
            if alignment == "linear":
                self.projection_dropouts.append(self.make_dropout(f"projection_dropout_{n}"))
                self.projections.append(self.dense(units, gelu, f"projection_{n}"))
            self.alignments.append(  # eq 1-3
                self.make(CoAttention, f"alignment_{n}", "dot", 1 / math.sqrt(units))
            )
            self.fusions.append(  # eq 4-7
                self.make(AlignmentFusion, f"fusion_{n}", units, fusion, self.dropout)
            )
        self.shortcut = self.dense(units, None, "shortcut")  # of "residual": words to that width
        self.feature_blocks = self.make_feature_attention()
        self.matching_dropout = self.make_dropout("matching_dropout")
        self.hidden = self.dense(units, gelu, "hidden")
        self.hidden_dropout = self.make_dropout("hidden_dropout")
        self.classify = self.make_classifier(self.dense)
        self.make_graph()

    def dense(self, units: int, activation=None, name: str = "", dtype=None) -> keras.layers.Layer:
        scale = 2.0 if activation else 1.0
        start = keras.initializers.VarianceScaling(scale, distribution="untruncated_normal")
        return WeightNormalizedDense(
            units, activation, start, dtype=dtype or self.policy, name=name
        )

    paper = "Yang et al. 2019"
    summary_line = "convolutional blocks that align the sentences again and again"
    presets = {
        "snli": {"num_classes": 3, "units": 150, "blocks": 3},
        "quora": {**_TWO_BLOCKS, "prediction": "symmetric"},
        "scitail": {**_TWO_BLOCKS, "encoder_layers": 3, "alignment": "identity"},
        "wikiqa": {**_TWO_BLOCKS, "encoder_layers": 3, "prediction": "simple"},
        **FEATURE_PRESETS,
    }
    search_space = [
        *WORD_MODELS,
        Choice("model.units", (100, 150, 200)),
        Choice("model.blocks", (1, 2, 3)),
        Choice("model.encoder_layers", (1, 2, 3)),
        Choice("model.alignment", ("identity", "linear")),
        Choice("model.fusion", ("simple", "full")),
        Choice("model.connection", ("none", "residual", "augmented")),
        Choice("model.prediction", ("simple", "symmetric", "full")),
        *FEATURE_ATTENTION,
    ]
    pictures: ClassVar = (ATTENTION, POOL_RATES, *FEATURE_PICTURES)
