"""ESIM: Enhanced Sequential Inference Model (Chen et al., ACL 2017)."""

import keras
from keras import ops

from keras_sentmatch.applications.feature_blocks import FEATURE_PRESETS, FeatureHost
from keras_sentmatch.applications.hyperparameters import FEATURE_ATTENTION, WORD_MODELS, Choice
from keras_sentmatch.applications.pair_model import Sentence, both
from keras_sentmatch.applications.picture_specs import ATTENTION, FEATURE_PICTURES
from keras_sentmatch.applications.registry import register_model
from keras_sentmatch.layers import BidirectionalRNN, CoAttention
from keras_sentmatch.layers.base import require_choice
from keras_sentmatch.ops import masked_max, masked_mean


@register_model("esim")
class ESIM(FeatureHost):
    """Enhanced Sequential Inference Model: local inference between two BiLSTMs.

    References:
        Chen, Zhu, Ling, Wei, Jiang, Inkpen: "Enhanced LSTM for Natural Language Inference", ACL
        2017, eq 1-19 (the sequential model).
    """

    def encode(self, sentence: Sentence) -> Sentence:
        x = self.word_dropout(self.represent_words(sentence))  # [B, L, d]
        states = self.encoding(x, sentence.mask)  # [B, L, 2u], eq 1-2
        return Sentence(states=states, mask=sentence.mask)

    def interact(self, one: Sentence, two: Sentence):
        a, b = one.states, two.states
        a_aligned, b_aligned, attention_1, attention_2 = self.alignment(  # eq 11-13
            a, b, one.mask, two.mask, return_attention=True
        )
        self.show(attention_1=attention_1, attention_2=attention_2)  # [B, L1, L2], [B, L2, L1]
        if self.placement == "attended":
            a_aligned, b_aligned = self.attend_features(
                self.feature_blocks, a_aligned, one.mask, b_aligned, two.mask
            )
        p, q = self.enhance(a, a_aligned), self.enhance(b, b_aligned)  # [B, L, u]
        if self.placement == "fused":
            p, q = self.attend_features(self.feature_blocks, p, one.mask, q, two.mask)
        p, q = self.inference_dropout(p), self.inference_dropout(q)
        p, q = both(
            self.compose, Sentence(fused=p, mask=one.mask), Sentence(fused=q, mask=two.mask)
        )
        v = ops.concatenate([p.pooled, q.pooled], axis=-1)  # [B, 8u]
        return self.classify(self.dropout_2(self.hidden(self.dropout_1(v))))

    def enhance(self, a, aligned):
        """The local inference of each word, projected (eq 14-15)."""
        m = ops.concatenate([a, aligned, a - aligned, a * aligned], axis=-1)  # [B, L, 8u]
        return self.projection(m)

    def compose(self, sentence: Sentence) -> Sentence:
        """The mean and the maximum of the composed states, `[B, 4u]` (eq 16-19)."""
        v, mask = self.composition(sentence.fused, sentence.mask), sentence.mask
        pooled = ops.concatenate([masked_mean(v, mask), masked_max(v, mask)], axis=-1)
        return Sentence(pooled=pooled)

    def __init__(
        self,
        *,
        trainable_embedding: bool = True,
        units: int = 300,
        dropout: float = 0.5,
        placement: str = "fused",
        **kwargs,
    ):
        """Make the model with random weights.

        Args:
            units: Width of one direction of a BiLSTM, of the projection and of the hidden layer.
            dropout: Dropout rate on embeddings and on the projection (one mask per sentence, the
                same for all its tokens), and before each dense layer of the classifier.
            placement: Place of feature attention: `"fused"`, between the projection and its
                dropout; or `"attended"`, on what each word attends to, as in the text and the code
                of the SFA paper.
        """
        super().__init__(trainable_embedding=trainable_embedding, dropout=dropout, **kwargs)
        self.units = units
        self.placement = placement
        require_choice(("fused", "attended"), placement=placement)

        self.word_representation = self.make_word_representation(dropout=0.0)
        self.word_dropout = self.make(keras.layers.SpatialDropout1D, "word_dropout", dropout)
        self.encoding = self.make(BidirectionalRNN, "encoding", units)
        self.alignment = self.make(CoAttention, "alignment", "dot")
        self.projection = self.make(keras.layers.Dense, "projection", units, "relu")
        self.feature_blocks = self.make_feature_attention()
        self.inference_dropout = self.make(
            keras.layers.SpatialDropout1D, "inference_dropout", dropout
        )
        self.composition = self.make(BidirectionalRNN, "composition", units)
        self.dropout_1 = self.make_dropout("dropout_1")
        self.hidden = self.make(keras.layers.Dense, "hidden", units, "tanh")
        self.dropout_2 = self.make_dropout("dropout_2")
        self.classify = self.make_classifier()
        self.make_graph()

    paper = "Chen et al. 2017"
    summary_line = "two BiLSTMs with soft alignment between them"
    presets = {"snli": {"num_classes": 3}, "quora": {"num_classes": 2}, **FEATURE_PRESETS}
    search_space = [
        *WORD_MODELS,
        Choice("model.units", (100, 200, 300)),
        *FEATURE_ATTENTION[:1],
        Choice(
            "model.placement",
            ("fused", "attended"),
            when={"model.feature_attention": ["fa", "sfa"]},
        ),
        *FEATURE_ATTENTION[1:],
    ]
    pictures = (ATTENTION, *FEATURE_PICTURES)
