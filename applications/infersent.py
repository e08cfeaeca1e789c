"""InferSent: a BiLSTM with max pooling, the sentences read apart (Conneau et al., EMNLP 2017)."""

import keras
from keras import ops

from keras_sentmatch.applications.hyperparameters import WORD_MODELS, Choice
from keras_sentmatch.applications.pair_model import PairModel, Sentence
from keras_sentmatch.applications.picture_specs import POOL_RATES
from keras_sentmatch.applications.registry import register_model
from keras_sentmatch.layers import BidirectionalRNN
from keras_sentmatch.ops import masked_max
from keras_sentmatch.ops.masking import max_pool_rates


def matched(u, v):
    """`[B, D]` twice to `[B, 4 D]`: both, their absolute difference and their product."""
    return ops.concatenate([u, v, ops.absolute(u - v), u * v], axis=-1)


@register_model("infersent")
class InferSent(PairModel):
    """Each sentence is the maximum over the states of a BiLSTM; a classifier compares the two.

    References:
        Conneau, Kiela, Schwenk, Barrault, Bordes: "Supervised Learning of Universal Sentence
        Representations from Natural Language Inference Data", EMNLP 2017, Sections 3.1 and 3.2.3.
    """

    def encode(self, sentence: Sentence) -> Sentence:
        states = self.encoding(self.represent_words(sentence), sentence.mask)  # [B, L, 2u]
        return Sentence(vector=masked_max(states, sentence.mask), states=states, mask=sentence.mask)

    def interact(self, one: Sentence, two: Sentence):
        self.show(
            lambda: {
                "pool_rates_1": max_pool_rates(one.states, one.mask),
                "pool_rates_2": max_pool_rates(two.states, two.mask),
            }
        )
        v = matched(one.vector, two.vector)  # [B, 8u]
        return self.classify(self.dropout_2(self.hidden(self.dropout_1(v))))

    def __init__(
        self, *, units: int = 2048, hidden_units: int = 512, dropout: float = 0.0, **kwargs
    ):
        """Make the model with random weights.

        Args:
            units: Width of one direction of the BiLSTM. Defaults to `2048`.
            hidden_units: Width of the classifier's hidden layer. Defaults to `512`.
            dropout: Dropout rate before each layer of the classifier. Defaults to `0.0`.
        """
        super().__init__(dropout=dropout, **kwargs)
        self.units = units
        self.hidden_units = hidden_units

        self.word_representation = self.make_word_representation(dropout=0.0)
        self.encoding = self.make(BidirectionalRNN, "encoding", units)
        self.dropout_1 = self.make_dropout("dropout_1")
        self.hidden = self.make(keras.layers.Dense, "hidden", hidden_units, "tanh")
        self.dropout_2 = self.make_dropout("dropout_2")
        self.classify = self.make_classifier()
        self.make_graph()

    paper = "Conneau et al. 2017"
    summary_line = "a BiLSTM with max pooling; the sentences are read apart"
    presets = {"paper": {"units": 2048, "hidden_units": 512}}
    search_space = [
        *WORD_MODELS,
        Choice("model.units", (128, 256, 512, 1024, 2048)),
        Choice("model.hidden_units", (128, 256, 512)),
    ]
    pictures = (POOL_RATES,)
