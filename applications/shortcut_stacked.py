"""Shortcut-stacked encoder: stacked BiLSTMs that read all layers below (Nie and Bansal, 2017)."""

from collections.abc import Sequence

import keras
from keras import ops

from keras_sentmatch.applications.hyperparameters import WORD_MODELS, Choice
from keras_sentmatch.applications.infersent import matched
from keras_sentmatch.applications.pair_model import PairModel, Sentence
from keras_sentmatch.applications.picture_specs import POOL_RATES
from keras_sentmatch.applications.registry import register_model
from keras_sentmatch.errors import InputError
from keras_sentmatch.layers import BidirectionalRNN
from keras_sentmatch.layers.base import require_choice
from keras_sentmatch.ops import masked_max
from keras_sentmatch.ops.masking import max_pool_rates


@register_model("shortcut_stacked")
class ShortcutStacked(PairModel):
    """Stacked BiLSTMs; each reads the words and what the layers below it made of them.

    References:
        Nie and Bansal: "Shortcut-Stacked Sentence Encoders for Multi-Domain Inference", RepEval
        2017, eq 1-4; the residual form is that of its later version.
    """

    def encode(self, sentence: Sentence) -> Sentence:
        words = self.represent_words(sentence)  # [B, L, d]
        below: list = []
        for layer in self.encodings:
            joined = (
                [sum(below[1:], below[0])] if self.connection == "residual" and below else below
            )
            x = ops.concatenate([words, *joined], axis=-1) if joined else words  # eq 1-2
            below.append(layer(x, sentence.mask))
        states = below[-1]
        return Sentence(vector=masked_max(states, sentence.mask), states=states, mask=sentence.mask)

    def interact(self, one: Sentence, two: Sentence):
        self.show(
            lambda: {
                "pool_rates_1": max_pool_rates(one.states, one.mask),
                "pool_rates_2": max_pool_rates(two.states, two.mask),
            }
        )
        x = matched(one.vector, two.vector)  # eq 4
        for hidden, dropout in zip(self.hidden, self.dropouts):
            x = dropout(hidden(x))
        return self.classify(x)

    def __init__(
        self,
        *,
        units: Sequence[int] = (512, 1024, 2048),
        connection: str = "shortcut",
        hidden_units: Sequence[int] = (1600,),
        dropout: float = 0.1,
        **kwargs,
    ):
        """Make the model with random weights.

        Args:
            units: Width of one direction of each BiLSTM. Defaults to `(512, 1024, 2048)`.
            connection: `"shortcut"`: a layer reads all states below it, side by side; `"residual"`:
                it reads their sum. Defaults to `"shortcut"`.
            hidden_units: Widths of the classifier's hidden layers. Defaults to `(1600,)`.
            dropout: Dropout rate after each of these. Defaults to `0.1`.

        Raises:
            InputError: `connection` is unknown, or residual layers have different widths.
        """
        super().__init__(dropout=dropout, **kwargs)
        require_choice(("shortcut", "residual"), connection=connection)
        if connection == "residual" and len(set(units)) > 1:
            raise InputError(f"units={units}: with connection='residual' all widths must be equal.")
        self.units = tuple(units)
        self.connection = connection
        self.hidden_units = tuple(hidden_units)

        self.word_representation = self.make_word_representation(dropout=0.0)
        self.encodings = [
            self.make(BidirectionalRNN, f"encoding_{i}", width) for i, width in enumerate(units, 1)
        ]
        self.hidden = [
            self.make(keras.layers.Dense, f"hidden_{i}", width, "relu")
            for i, width in enumerate(hidden_units, 1)
        ]
        self.dropouts = [self.make_dropout(f"dropout_{i + 1}") for i in range(len(hidden_units))]
        self.classify = self.make_classifier()
        self.make_graph()

    paper = "Nie and Bansal 2017"
    summary_line = "stacked BiLSTMs with shortcuts; the sentences are read apart"
    presets = {
        "paper": {"units": (512, 1024, 2048), "hidden_units": (1600,)},
        "residual": {"units": (600,) * 3, "connection": "residual", "hidden_units": (800, 800)},
    }
    search_space = [
        *WORD_MODELS,
        Choice(
            "model.units", {"128 twice": [128] * 2, "256": [256] * 3, "paper": [512, 1024, 2048]}
        ),
        Choice("model.hidden_units", {"400": [400], "800": [800], "1600": [1600]}),
    ]
    pictures = (POOL_RATES,)
