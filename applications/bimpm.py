"""BiMPM: Bilateral Multi-Perspective Matching (Wang et al., IJCAI 2017)."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.applications._views import CallWith
from keras_sentmatch.applications.feature_blocks import FEATURE_PRESETS, FeatureHost
from keras_sentmatch.applications.hyperparameters import FEATURE_ATTENTION, WORD_MODELS, Choice
from keras_sentmatch.applications.pair_model import Sentence, both
from keras_sentmatch.applications.picture_specs import FEATURE_PICTURES, PictureSpec
from keras_sentmatch.applications.registry import register_model
from keras_sentmatch.layers import BidirectionalRNN, MultiPerspectiveMatching
from keras_sentmatch.ops.sequence import last_state


@register_model("bimpm")
class BiMPM(FeatureHost):
    """Each state of a BiLSTM matched with the other sentence, from several perspectives.

    References:
        Wang, Hamza, Florian: "Bilateral Multi-Perspective Matching for Natural Language Sentences",
        IJCAI 2017, arXiv 1702.03814.
    """

    def encode(self, sentence: Sentence) -> Sentence:
        x = self.word_dropout(self.represent_words(sentence))  # [B, L, d]
        states = self.context_dropout(self.context(x, sentence.mask))  # [B, L, 2u], eq 1
        return Sentence(states=states, mask=sentence.mask)

    def interact(self, one: Sentence, two: Sentence):
        given = one.states, two.states, one.mask, two.mask
        m1, m2 = self.matching(*given)  # [B, L, 8 * perspectives], eq 2-6
        self.show(lambda: self.matches(*given))
        u1, u2 = self.attend_features(self.feature_blocks, m1, one.mask, m2, two.mask)
        p, q = both(
            self.aggregate, Sentence(fused=u1, mask=one.mask), Sentence(fused=u2, mask=two.mask)
        )
        v = ops.concatenate([p.pooled, q.pooled], axis=-1)  # [B, 4u]
        return self.classify(self.dropout_2(self.hidden(self.dropout_1(v))))

    def aggregate(self, sentence: Sentence) -> Sentence:
        """The last state of each direction, `[B, 2u]`."""
        states = self.aggregation(self.matching_dropout(sentence.fused), sentence.mask)
        forward = last_state(states[..., : self.aggregation_units], sentence.mask)
        backward = states[:, 0, self.aggregation_units :]
        return Sentence(pooled=ops.concatenate([forward, backward], axis=-1))

    def matches(self, *given) -> dict[str, Any]:
        """The cosines that matching compares, and its results.

        `cosines` `[B, 2, L1, L2]`, of forward and of backward states; `matching_1` `[B, L1, N]` and
        `matching_2` `[B, L2, N]`, for each strategy the perspectives of the forward states, then of
        the backward ones.
        """
        names = "matching_1", "matching_2", "cosines"
        return dict(zip(names, CallWith(self.matching, return_cosines=True)(*given)))

    def __init__(
        self,
        *,
        char_dim: int = 20,
        char_filters: int = 50,
        units: int = 100,
        aggregation_units: int = 100,
        hidden_units: int = 200,
        perspectives: int = 20,
        dropout: float = 0.1,
        **kwargs,
    ):
        """Make the model with random weights.

        Feature attention stands after the matching. As in its paper `"fa"` has r = 2 here, and
        `"sfa"` r1 = 3.75, r2 = 4 and 2 branches.

        Args:
            char_filters: Width of the LSTM that reads the characters of a word.
            units: Width of one direction of the context layer.
            aggregation_units: Width of one direction of the aggregation layer.
            hidden_units: Width of the hidden layer of the classifier.
            perspectives: Number of weighted cosines per strategy and direction.
            dropout: Dropout rate on the word features, the context states and the matching vectors,
                and before each dense layer.
        """
        self.check_arguments(kwargs)
        super().__init__(char_dim=char_dim, char_filters=char_filters, dropout=dropout, **kwargs)
        self.units = units
        self.aggregation_units = aggregation_units
        self.hidden_units = hidden_units
        self.perspectives = perspectives

        self.word_representation = self.make_word_representation(char_encoder="lstm", dropout=0.0)
        self.word_dropout = self.make_dropout("word_dropout")
        self.context = self.make(BidirectionalRNN, "context", units)
        self.context_dropout = self.make_dropout("context_dropout")
        self.matching = self.make(MultiPerspectiveMatching, "matching", perspectives)
        self.feature_blocks = self.make_feature_attention()
        self.matching_dropout = self.make_dropout("matching_dropout")
        self.aggregation = self.make(BidirectionalRNN, "aggregation", aggregation_units)
        self.dropout_1 = self.make_dropout("dropout_1")
        self.hidden = self.make(keras.layers.Dense, "hidden", hidden_units, "tanh")
        self.dropout_2 = self.make_dropout("dropout_2")
        self.classify = self.make_classifier()
        self.make_graph()

    unused = ("char_kernel_size",)  # an LSTM reads the characters

    paper = "Wang et al. 2017"
    summary_line = "weighted cosines of every state with the other sentence, in four ways"
    presets = {
        "paper": {},
        "snli": {"num_classes": 3, "dropout": 0.2},
        "quora": {"num_classes": 2},
        **FEATURE_PRESETS,
    }
    feature_attention_defaults = {
        "fa": {"reduction": 2},
        "sfa": {"branches": 2, "r1": 3.75, "r2": 4},
    }
    search_space = [
        *WORD_MODELS,
        Choice("model.units", (50, 100, 150)),
        Choice("model.aggregation_units", (50, 100, 150)),
        Choice("model.hidden_units", (100, 200, 300)),
        Choice("model.perspectives", (5, 10, 20, 30)),
        *FEATURE_ATTENTION,
    ]
    pictures = (
        PictureSpec(
            "cosines",
            "direction 1 2",
            "Cosines",
            "The cosine of the LSTM states of two words.",
            names={"direction": ("forward", "backward")},
        ),
        PictureSpec(
            "matching_{side}",
            "{side} perspective",
            "Matching vectors, sentence {side}",
            "For each strategy (a block of rows; by default full, max, attentive, max-attentive) "
            "the perspectives of the forward states, then of the backward ones.",
        ),
        *FEATURE_PICTURES,
    )
