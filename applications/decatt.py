"""Decomposable attention: words aligned and compared one by one (Parikh et al., EMNLP 2016)."""

import keras
from keras import ops

from keras_sentmatch.applications.hyperparameters import WORD_MODELS, Choice
from keras_sentmatch.applications.pair_model import PairModel, Sentence
from keras_sentmatch.applications.picture_specs import ATTENTION
from keras_sentmatch.applications.registry import register_model
from keras_sentmatch.ops import masked_softmax
from keras_sentmatch.ops.masking import pair_mask, zero_padding
from keras_sentmatch.ops.similarity import dot_matrix


@register_model("decatt")
class DecomposableAttention(PairModel):
    """Each word is aligned with the other sentence and compared with it; no word order is read.

    References:
        Parikh, Täckström, Das, Uszkoreit: "A Decomposable Attention Model for Natural Language
        Inference", EMNLP 2016, eq 1-5 (without the attention within a sentence).
    """

    def encode(self, sentence: Sentence) -> Sentence:
        a = self.projection(self.represent_words(sentence))  # [B, L, u]
        return Sentence(words=a, keys=self.attend(a), mask=sentence.mask)

    def interact(self, one: Sentence, two: Sentence):
        scores = dot_matrix(one.keys, two.keys)  # [B, L1, L2], eq 1
        mask = pair_mask(one.mask, two.mask)
        weights_1 = masked_softmax(scores, mask)
        weights_2 = masked_softmax(ops.transpose(scores, (0, 2, 1)), ops.transpose(mask, (0, 2, 1)))
        self.show(attention_1=weights_1, attention_2=weights_2)
        v_1 = self.compare(one, ops.matmul(ops.cast(weights_1, two.words.dtype), two.words))
        v_2 = self.compare(two, ops.matmul(ops.cast(weights_2, one.words.dtype), one.words))
        return self.classify(self.aggregate(ops.concatenate([v_1, v_2], axis=-1)))  # eq 5

    def compare(self, sentence: Sentence, aligned):
        """The sum of what comparing each word with its alignment gives, `[B, u]` (eq 2-4)."""
        v = self.comparison(ops.concatenate([sentence.words, aligned], axis=-1))  # [B, L, u]
        return ops.sum(zero_padding(v, sentence.mask), axis=1)

    def __init__(self, *, units: int = 200, **kwargs):
        """Make the model with random weights.

        Args:
            units: Width of the projection of a word and of all hidden layers. Defaults to `200`.
        """
        super().__init__(**kwargs)
        self.units = units

        self.word_representation = self.make_word_representation(dropout=0.0)
        self.projection = self.make(keras.layers.Dense, "projection", units, use_bias=False)
        self.attend = self.make_network("attend")
        self.comparison = self.make_network("compare")
        self.aggregate = self.make_network("aggregate")
        self.classify = self.make_classifier()
        self.make_graph()

    def make_network(self, name: str):
        """Two hidden layers, each after a dropout: F, G or H."""
        layers = [
            layer
            for number in "12"
            for layer in (
                self.make_dropout(f"{name}_dropout_{number}"),
                self.make(keras.layers.Dense, f"{name}_{number}", self.units, "relu"),
            )
        ]

        def network(x):
            for layer in layers:
                x = layer(x)
            return x

        return network

    paper = "Parikh et al. 2016"
    summary_line = "words aligned and compared one by one, without their order"
    presets = {"snli": {"num_classes": 3}, "quora": {"num_classes": 2}}
    search_space = [*WORD_MODELS, Choice("model.units", (100, 200, 300))]
    pictures = (ATTENTION,)
