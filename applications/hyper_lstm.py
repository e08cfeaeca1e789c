"""HyperLSTM for sentence pairs (Ha et al., ICLR 2017), a baseline of DIN."""

import keras
from keras import ops

from keras_sentmatch.applications.hyperparameters import FLAG, WORD_MODELS, Choice
from keras_sentmatch.applications.pair_model import PairModel, Sentence
from keras_sentmatch.applications.registry import register_model
from keras_sentmatch.layers import HyperLSTMCell
from keras_sentmatch.ops.sequence import last_state


@register_model("hyper_lstm")
class HyperLSTM(PairModel):
    """The last states of LSTMs with dynamic weights, compared.

    The sentences do not see each other before the end.

    References:
        Ha, Dai, Le: "HyperNetworks", ICLR 2017, arXiv 1609.09106; for pairs: Huo, Liu: DIN, 3.2.
    """

    def encode(self, sentence: Sentence) -> Sentence:
        encoding = self.encodings["both" if self.shared_encoder else sentence.side]
        states = encoding(self.represent_words(sentence))  # unmasked: no state sees later padding
        return Sentence(vector=last_state(states, sentence.mask))  # [B, u]

    def interact(self, one: Sentence, two: Sentence):
        p, h = one.vector, two.vector
        v = ops.concatenate([p, h, p - h, p * h], axis=-1)  # [B, 4u]
        return self.classify(self.output_dropout(v))

    def __init__(
        self,
        *,
        units: int = 300,
        hyper_units: int = 128,
        embedding_units: int = 4,
        layer_norm: bool = False,
        shared_encoder: bool = False,
        **kwargs,
    ):
        """Make the model with random weights.

        Args:
            units: Width of a state.
            hyper_units: Width of the small LSTM.
            embedding_units: How many numbers a scale of the weights is made from.
            layer_norm: Whether gates and cell are normalized.
            shared_encoder: Whether both sentences go through one LSTM instead of one each.
        """
        super().__init__(**kwargs)
        self.units = units
        self.hyper_units = hyper_units
        self.embedding_units = embedding_units
        self.layer_norm = layer_norm
        self.shared_encoder = self.shares_encoder = shared_encoder

        self.word_representation = self.make_word_representation()
        self.encodings = {}
        for side in ("both",) if shared_encoder else ("1", "2"):
            sizes = units, hyper_units, embedding_units
            cell = self.make(HyperLSTMCell, "hyper_lstm_cell", *sizes, layer_norm=layer_norm)
            self.encodings[side] = self.make(
                keras.layers.RNN, f"encoding_{side}", cell, return_sequences=True
            )
        self.output_dropout = self.make_dropout("output_dropout")
        self.classify = self.make_classifier()
        self.make_graph()

    paper = "Ha et al. 2017"
    summary_line = "sentence vectors from LSTMs whose weights smaller LSTMs re-scale"
    presets = {"snli": {"num_classes": 3}, "shared": {"shared_encoder": True}}
    search_space = [
        *WORD_MODELS,
        Choice("model.units", (100, 200, 300)),
        Choice("model.hyper_units", (32, 64, 128)),
        Choice("model.embedding_units", (4, 8, 16)),
        Choice("model.layer_norm", FLAG),
        Choice("model.shared_encoder", {"true": True, "false": False}),
    ]
