"""CAFE: Compare, Compress and Propagate (Tay et al., EMNLP 2018)."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_sentmatch.applications.feature_blocks import FEATURE_PRESETS, FeatureHost
from keras_sentmatch.applications.hyperparameters import FEATURE_ATTENTION, WORD_MODELS, Choice
from keras_sentmatch.applications.pair_model import Sentence, both
from keras_sentmatch.applications.picture_specs import (
    ATTENTION,
    FEATURE_PICTURES,
    WITHIN,
    PictureSpec,
)
from keras_sentmatch.applications.registry import register_model
from keras_sentmatch.layers import CoAttention, FactorizationMachine, Highway
from keras_sentmatch.ops import masked_max, masked_mean, masked_softmax
from keras_sentmatch.ops.masking import pair_mask, zero_padding
from keras_sentmatch.ops.recurrence import LSTM
from keras_sentmatch.ops.similarity import dot_matrix

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "concat": lambda x, y: ops.concatenate([x, y], axis=-1),
    "product": lambda x, y: x * y,
    "difference": lambda x, y: x - y,
}


@register_model("cafe")
class CAFE(FeatureHost):
    """Each word's alignments, compressed to six numbers, go with the word through an LSTM.

    References:
        Tay, Tuan, Hui: "Compare, Compress and Propagate: Enhancing Neural Architectures with
        Alignment Factorization for Natural Language Inference", EMNLP 2018, arXiv 1801.00102.
    """

    def encode(self, sentence: Sentence) -> Sentence:
        mask = sentence.mask
        x = self.word_dropout(self.represent_words(sentence))
        x = zero_padding(self.word_highway(self.word_projection(x)), mask)  # [B, L, u]
        attended = ops.matmul(self.attend_within(x, mask), x)
        features = self.compare("intra", x, attended)
        return Sentence(states=x, mask=mask, features=features, keys=self.inter_keys(x))

    def attend_within(self, x, mask):
        """The attention from each word to those of its own sentence, `[B, L, L]`."""
        keys = self.intra_keys(x)
        weights = masked_softmax(dot_matrix(keys, keys), pair_mask(mask, mask))
        return ops.cast(weights, x.dtype)

    def compare(self, kind: str, x, attended):
        """Each word compared with what it attended to, by factorization machines: `[B, L, 3]`."""
        found = [fm(COMPARISONS[name](x, attended)) for name, fm in self.machines[kind].items()]
        return ops.concatenate(found, axis=-1)

    def interact(self, one: Sentence, two: Sentence):
        x1, x2, mask_1, mask_2 = one.states, two.states, one.mask, two.mask
        one.aligned, two.aligned, attention_1, attention_2 = self.inter(
            x1, x2, mask_1, mask_2, one.keys, two.keys, return_attention=True
        )
        self.show(attention_1=attention_1, attention_2=attention_2)
        self.show(
            lambda: {
                "intra_attention_1": self.attend_within(x1, mask_1),
                "intra_attention_2": self.attend_within(x2, mask_2),
            }
        )
        one, two = both(self.propagate, one, two)
        self.show(
            lambda: {
                "features_1": zero_padding(one.features, mask_1),
                "features_2": zero_padding(two.features, mask_2),
            }
        )
        u1, u2 = one.fused, two.fused
        u1, u2 = self.attend_features(self.feature_blocks, u1, mask_1, u2, mask_2)
        p, q = both(self.compose, Sentence(fused=u1, mask=mask_1), Sentence(fused=u2, mask=mask_2))
        p, q = p.pooled, q.pooled
        v = self.dropout_1(ops.concatenate([p, q, p - q, p * q], axis=-1))  # [B, 8u]
        return self.classify(self.dropout_2(self.last_highway(self.projection(v))))

    def propagate(self, sentence: Sentence) -> Sentence:
        """The LSTM's input: each word with its features, three each of inter- and intra-attention."""
        inter = self.compare("inter", sentence.states, sentence.aligned)
        features = ops.concatenate([inter, sentence.features], axis=-1)  # [B, L, 6]
        fused = ops.concatenate([sentence.states, features], axis=-1)  # [B, L, u + 6]
        return Sentence(fused=fused, features=features)

    def compose(self, sentence: Sentence) -> Sentence:
        """The mean and the maximum of the LSTM's states, `[B, 2u]`."""
        states, mask = self.lstm(self.sequence_dropout(sentence.fused)), sentence.mask
        pooled = ops.concatenate([masked_mean(states, mask), masked_max(states, mask)], axis=-1)
        return Sentence(pooled=pooled)

    def __init__(
        self,
        *,
        char_dim: int = 20,
        char_filters: int = 64,
        units: int = 300,
        factors: int = 10,
        l2: float = 1e-8,
        **kwargs,
    ):
        """Make the model with random weights. Feature attention stands before the LSTM.

        Args:
            units: Width of everything after the word features.
            factors: Number of factors of the factorization machines.
            l2: L2 penalty on every kernel but not on embeddings.
        """
        super().__init__(char_dim=char_dim, char_filters=char_filters, **kwargs)
        self.units = units
        self.factors = factors
        self.l2 = l2
        penalty = keras.regularizers.L2(l2) if l2 else None

        def dense(name: str, activation: str | None = None) -> keras.layers.Layer:
            return self.make(
                keras.layers.Dense, name, units, activation, kernel_regularizer=penalty
            )

        def machine(name: str) -> keras.layers.Layer:
            return self.make(FactorizationMachine, name, factors, penalty)

        self.word_representation = self.make_word_representation(
            dropout=0.0, kernel_regularizer=penalty
        )
        self.word_dropout = self.make_dropout("word_dropout")
        self.word_projection = dense("word_projection")
        self.word_highway = self.make(Highway, "word_highway", kernel_regularizer=penalty)
        self.inter_keys = dense("inter_keys", "relu")  # F
        self.intra_keys = dense("intra_keys", "relu")  # G
        self.inter = self.make(CoAttention, "inter_attention", "dot")
        self.machines = {
            "inter": {name: machine(f"inter_{name}") for name in COMPARISONS},
            "intra": {name: machine(f"intra_{name}") for name in COMPARISONS},
        }
        self.feature_blocks = self.make_feature_attention(kernel_regularizer=penalty)
        self.sequence_dropout = self.make_dropout("sequence_dropout")
        self.lstm = self.make(
            LSTM,
            "lstm",
            units,
            return_sequences=True,
            kernel_regularizer=penalty,
            recurrent_regularizer=penalty,
        )
        self.dropout_1 = self.make_dropout("dropout_1")
        self.projection = dense("projection")
        self.last_highway = self.make(Highway, "highway", kernel_regularizer=penalty)
        self.dropout_2 = self.make_dropout("dropout_2")
        self.classify = self.make_classifier(kernel_regularizer=penalty)
        self.make_graph()

    paper = "Tay et al. 2018"
    summary_line = "alignments compressed to numbers by factorization machines, between highways"
    presets = {
        "paper": {},
        "snli": {"num_classes": 3},
        "quora": {"num_classes": 2},
        **FEATURE_PRESETS,
    }
    search_space = [
        *WORD_MODELS,
        Choice("model.units", (100, 200, 300)),
        Choice("model.factors", (5, 10, 20)),
        *FEATURE_ATTENTION,
    ]
    pictures = (
        ATTENTION,
        PictureSpec(
            "intra_attention_{side}", "{side} {side}", "Intra-attention, sentence {side}", WITHIN
        ),
        PictureSpec(
            "features_{side}",
            "{side} comparison",
            "Alignment features, sentence {side}",
            "What factorization machines compute from each word and its alignments.",
            names={
                "comparison": tuple(
                    f"{comparison}, {alignment}"
                    for alignment in ("first", "second")
                    for comparison in ("concatenation", "product", "difference")
                )
            },
        ),
        *FEATURE_PICTURES,
    )
