"""CAFE: Compare, Compress and Propagate (Tay et al., EMNLP 2018)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_sentmatch.applications.feature_blocks import FEATURE_PRESETS, FeatureHost
from keras_sentmatch.applications.hyperparameters import (
    FEATURE_ATTENTION,
    FLAG,
    WORD_MODELS,
    Choice,
)
from keras_sentmatch.applications.pair_model import Sentence
from keras_sentmatch.applications.picture_specs import (
    ATTENTION,
    FEATURE_MAP,
    FEATURE_PICTURES,
    WITHIN,
    PictureSpec,
)
from keras_sentmatch.applications.registry import register_model
from keras_sentmatch.errors import InputError
from keras_sentmatch.layers import (
    BidirectionalRNN,
    CoAttention,
    FactorizationMachine,
    Highway,
    MatchingVector,
)
from keras_sentmatch.ops import (
    dot_matrix,
    masked_max,
    masked_mean,
    masked_softmax,
    pair_mask,
    zero_padding,
)
from keras_sentmatch.ops.recurrence import LSTM

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "concat": lambda x, y: ops.concatenate([x, y], axis=-1),
    "product": lambda x, y: x * y,
    "difference": lambda x, y: x - y,
}


@register_model("cafe")
class CAFE(FeatureHost):
    """Compare, Compress and Propagate: each word's alignments, compressed to six numbers.

    Args:
        char_encoder: `"cnn"` or `"lstm"`. Defaults to `"cnn"`.
        units: width of everything after the word features. Defaults to `300`.
        highway_layers: highway layers before the attention, and before the classification. Defaults
            to `2`.
        inter_attention: whether to attend to the other sentence. Defaults to `True`.
        intra_attention: whether to attend within the sentence. Defaults to `True`.
        alignment_features: how a word is compared with what it attended to: some of `"concat"`,
            `"product"` and `"difference"`. Defaults to `("concat", "product", "difference")`.
        factors: of the factorization machines; 0 makes them linear. Defaults to `10`.
        meta_factors: factors of another machine over a word's features, as the released code has it
            (4); 0 leaves it out. Defaults to `0`.
        append_intra: whether the LSTM also sees what the word attended to in its own sentence, as
            in the released code. Defaults to `False`.
        bidirectional: whether the LSTM runs both ways. Defaults to `False`.
        dropout: rate before the first highway layers, the LSTM, the last ones, and the
            classification. Defaults to `0.2`.
        l2: L2 penalty on every kernel; embeddings are left out. Defaults to `1e-8`.
        feature_attention: blocks that gate what the LSTM reads: `"fa"`, `"sfa"`, a layer to
            copy, or `None`. Defaults to `None`.

    Raises:
        InputError: for an unknown comparison, or an option of an attention that is off.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.applications import CAFE
        >>> model = CAFE(vocabulary_size=20, embedding_dim=8, units=4)
        >>> ids = np.array([[2, 3, 4, 0]])
        >>> tuple(model({"word_ids_1": ids, "word_ids_2": ids[:, :3]}).shape)
        (1, 3)

    References:
        Tay, Tuan, Hui: "Compare, Compress and Propagate: Enhancing Neural Architectures with
        Alignment Factorization for Natural Language Inference", EMNLP 2018, arXiv 1801.00102.
    """

    paper = "Tay et al. 2018"
    summary_line = "alignments compressed to numbers by factorization machines, between highways"
    presets = {
        "paper": {},
        "snli": {"num_classes": 3},
        "quora": {"num_classes": 2},
        "released": {"meta_factors": 4, "append_intra": True},
        "released_bidirectional": {"meta_factors": 4, "append_intra": True, "bidirectional": True},
        "no_inter_attention": {"inter_attention": False},
        "no_intra_attention": {"intra_attention": False},
        "no_concat": {"alignment_features": ("product", "difference")},
        "no_product": {"alignment_features": ("concat", "difference")},
        "no_difference": {"alignment_features": ("concat", "product")},
        "linear": {"factors": 0},
        "bidirectional": {"bidirectional": True},
        **FEATURE_PRESETS,
    }
    search_space = [
        *WORD_MODELS,
        Choice("model.units", (100, 200, 300)),
        Choice("model.highway_layers", (1, 2, 3)),
        Choice("model.factors", (5, 10, 20)),
        Choice("model.meta_factors", (0, 4)),
        Choice("model.append_intra", FLAG),
        Choice("model.bidirectional", FLAG),
        *FEATURE_ATTENTION,
    ]
    pictures = (
        *FEATURE_PICTURES,
        ATTENTION,
        PictureSpec(
            "intra_attention_{side}", "{side} {side}", "Intra-attention, sentence {side}", WITHIN
        ),
        PictureSpec(
            "features_{side}",
            "{side} comparison",
            "Alignment features, sentence {side}",
            "What factorization machines make of each word with its alignments.",
            names={
                "comparison": tuple(
                    f"{comparison}, {alignment}"
                    for alignment in ("first", "second")
                    for comparison in ("concatenation", "product", "difference")
                )
            },
        ),
        FEATURE_MAP,
    )

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int = 3,
        embedding_dim: int = 300,
        trainable_embedding: bool = False,
        char_vocabulary_size: int = 0,
        char_encoder: str = "cnn",
        char_dim: int = 20,
        char_filters: int = 64,
        char_kernel_size: int = 5,
        max_word_length: int = 16,
        pos_tags: int = 0,
        units: int = 300,
        highway_layers: int = 2,
        inter_attention: bool = True,
        intra_attention: bool = True,
        alignment_features: Sequence[str] = ("concat", "product", "difference"),
        factors: int = 10,
        meta_factors: int = 0,
        append_intra: bool = False,
        bidirectional: bool = False,
        dropout: float = 0.2,
        l2: float = 1e-8,
        feature_attention=None,
        feature_attention_config: Mapping[str, Any] | None = None,
        **kwargs,
    ):
        super().__init__(
            vocabulary_size=vocabulary_size,
            num_classes=num_classes,
            embedding_dim=embedding_dim,
            trainable_embedding=trainable_embedding,
            char_vocabulary_size=char_vocabulary_size,
            char_dim=char_dim,
            char_filters=char_filters,
            char_kernel_size=char_kernel_size,
            max_word_length=max_word_length,
            pos_tags=pos_tags,
            dropout=dropout,
            feature_attention=feature_attention,
            feature_attention_config=feature_attention_config,
            **kwargs,
        )
        self.char_encoder = char_encoder
        self.units = units
        self.highway_layers = highway_layers
        self.inter_attention = inter_attention
        self.intra_attention = intra_attention
        self.alignment_features = alignment_features
        self.factors = factors
        self.meta_factors = meta_factors
        self.append_intra = append_intra
        self.bidirectional = bidirectional
        self.l2 = l2
        known = sorted(set(alignment_features) & set(COMPARISONS))
        if not known or known != sorted(alignment_features):
            raise InputError(
                f"alignment_features must be some of {tuple(COMPARISONS)}, each once. "
                f"Received: alignment_features={alignment_features!r}"
            )
        if append_intra and not intra_attention:
            raise InputError(
                "append_intra=True needs intra_attention=True: it appends what that finds."
            )
        if meta_factors and not (inter_attention or intra_attention):
            raise InputError(
                f"meta_factors={meta_factors} needs features to compress: switch an attention on."
            )
        self.word_representation = self.make_word_representation(
            dropout=0.0, kernel_regularizer=self.regularizer(), char_encoder=self.char_encoder
        )
        self.word_dropout = self.make_dropout("word_dropout")
        self.word_projection = self.dense(None, "word_projection")
        self.word_highway = self.highway("word_highway")
        self.inter_keys = self.dense("relu", "inter_keys")  # F
        self.intra_keys = self.dense("relu", "intra_keys")  # G
        self.inter = CoAttention("dot", dtype=self.policy, name="inter_attention")
        self.machines = {
            kind: {name: self.machine(factors, f"{kind}_{name}") for name in alignment_features}
            for kind in ("inter", "intra")
        }
        self.meta = self.machine(meta_factors, "meta_features") if meta_factors else None
        self.feature_blocks = self.make_feature_attention(kernel_regularizer=self.regularizer())
        self.sequence_dropout = self.make_dropout("sequence_dropout")
        self.lstm = self.make_lstm()
        self.matching = MatchingVector(
            ("first", "second", "difference", "product"), dtype=self.policy, name="matching_vector"
        )
        self.dropout_1, self.dropout_2 = (self.make_dropout(f"dropout_{i}") for i in "12")
        self.projection = self.dense(None, "projection")
        self.last_highway = self.highway("highway")
        self.classify = self.make_classifier(kernel_regularizer=self.regularizer())
        self.make_graph()

    def regularizer(self):
        return keras.regularizers.L2(self.l2) if self.l2 else None

    def dense(self, activation: str | None, name: str) -> keras.layers.Layer:
        return keras.layers.Dense(
            self.units,
            activation,
            kernel_regularizer=self.regularizer(),
            dtype=self.policy,
            name=name,
        )

    def highway(self, name: str) -> keras.layers.Layer:
        return Highway(
            self.highway_layers, kernel_regularizer=self.regularizer(), dtype=self.policy, name=name
        )

    def machine(self, factors: int, name: str) -> keras.layers.Layer:
        return FactorizationMachine(factors, self.regularizer(), dtype=self.policy, name=name)

    def make_lstm(self) -> keras.layers.Layer:
        options = {"kernel_regularizer": self.regularizer(), "dtype": self.policy, "name": "lstm"}
        if self.bidirectional:
            return BidirectionalRNN(self.units, **options)
        return LSTM(
            self.units, return_sequences=True, recurrent_regularizer=self.regularizer(), **options
        )

    @classmethod
    def attended_width(cls, arguments: Mapping[str, Any], word_width: int) -> int | None:
        kinds = arguments["inter_attention"] + arguments["intra_attention"]
        features = kinds * len(arguments["alignment_features"]) + bool(arguments["meta_factors"])
        return int(arguments["units"] * (1 + arguments["append_intra"]) + features)

    def encode(self, sentence: Sentence) -> Sentence:
        mask = sentence.mask
        x = self.word_dropout(self.represent_words(sentence))
        x = zero_padding(self.word_highway(self.word_projection(x)), mask)  # [B, L, u]
        encoded = Sentence(states=x, mask=mask)
        if self.intra_attention:
            attended = ops.matmul(self.attend_within(x, mask), x)
            encoded = encoded.having(features=self.compare("intra", x, attended))  # [B, L, 3]
            if self.append_intra:
                encoded = encoded.having(intra=attended)
        return encoded

    def attend_within(self, x, mask):
        """From each word to those of its own sentence, `[B, L, L]`."""
        keys = self.intra_keys(x)
        weights = masked_softmax(dot_matrix(keys, keys), pair_mask(mask, mask))
        return ops.cast(weights, x.dtype)

    def compare(self, kind: str, x, attended):
        """Each word compared with what it attended to, by factorization machines: `[B, L, 3]`."""
        found = [fm(COMPARISONS[name](x, attended)) for name, fm in self.machines[kind].items()]
        return ops.concatenate(found, axis=-1)

    def interact(self, one: Sentence, two: Sentence):
        x1, x2, mask_1, mask_2 = one.states, two.states, one.mask, two.mask
        aligned_1 = aligned_2 = None
        if self.inter_attention:
            keys = self.inter_keys(x1), self.inter_keys(x2)
            aligned_1, aligned_2, attention_1, attention_2 = self.inter(
                x1, x2, mask_1, mask_2, *keys, return_attention=True
            )
            self.show(attention_1=attention_1, attention_2=attention_2)
        if self.intra_attention:
            self.show(
                lambda: {
                    "intra_attention_1": self.attend_within(x1, mask_1),
                    "intra_attention_2": self.attend_within(x2, mask_2),
                }
            )
        features_1, features_2 = self.align(one, aligned_1), self.align(two, aligned_2)
        if features_1 is not None:
            self.show(
                lambda: {
                    "features_1": zero_padding(features_1, mask_1),
                    "features_2": zero_padding(features_2, mask_2),
                }
            )
        u1, u2 = self.attend_features(
            self.feature_blocks,
            self.propagate(one, features_1),
            mask_1,
            self.propagate(two, features_2),
            mask_2,
        )
        p, q = self.both(
            self.compose, Sentence(fused=u1, mask=mask_1), Sentence(fused=u2, mask=mask_2)
        )
        v = self.dropout_1(self.matching(p.pooled, q.pooled))  # [B, 8u]
        return self.classify(self.dropout_2(self.last_highway(self.projection(v))))

    def align(self, sentence: Sentence, aligned):
        """Each word's features, `[B, L, 6]`: of inter-, then of intra-attention; None without."""
        found = []
        if self.inter_attention:
            found.append(self.compare("inter", sentence.states, aligned))
        if self.intra_attention:
            found.append(sentence.features)
        return ops.concatenate(found, axis=-1) if found else None

    def propagate(self, sentence: Sentence, features):
        """What the LSTM reads: each word with its features."""
        parts = [sentence.states]
        if features is not None:
            parts.append(features)
        if self.meta:
            parts.append(self.meta(features))
        if self.append_intra:
            parts.append(sentence.intra)
        return ops.concatenate(parts, axis=-1)

    def compose(self, sentence: Sentence) -> Sentence:
        """The mean and the maximum of the LSTM's states, `[B, 2u]`."""
        x, mask = self.sequence_dropout(sentence.fused), sentence.mask
        states = self.lstm(x, mask) if self.bidirectional else self.lstm(x)
        pooled = ops.concatenate([masked_mean(states, mask), masked_max(states, mask)], axis=-1)
        return Sentence(pooled=pooled)
