"""DIN: Dynamic Interaction Network in matrix space (Huo and Liu, 2018)."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.applications._views import CallWith
from keras_sentmatch.applications.hyperparameters import FLAG, WORD_MODELS, Choice
from keras_sentmatch.applications.pair_model import PairModel, Sentence
from keras_sentmatch.applications.picture_specs import PictureSpec, joined_rows
from keras_sentmatch.applications.registry import register_model
from keras_sentmatch.layers import MatrixDynamicGRU
from keras_sentmatch.ops import masked_max, masked_mean
from keras_sentmatch.ops.masking import pair_mask, zero_padding

_TABLE2 = {
    "encode_hypothesis": True,
    "shared_transform": True,
    "hidden_layers": 0,
    "reset_after": True,
}


@register_model("din")
class DIN(PairModel):
    """Words as matrices, read by a GRU whose weights are made from their interaction.

    Sentence 1 is the premise, sentence 2 the hypothesis: swapping them changes the prediction.

    References:
        Huo, Liu: "A Dynamic Interaction Network for Recognizing Text Entailment in Matrix Space",
        2018, eq 3-31.
    """

    def encode(self, sentence: Sentence) -> Sentence:
        x = self.represent_words(sentence)  # [B, L, d]
        if sentence.side != "2" or self.encode_hypothesis:  # eq 3-6
            # The GRU needs no mask: a state doesn't see what follows.
            x = self.encoding_dropout(zero_padding(self.encoding(x), sentence.mask))
        return Sentence(states=x, mask=sentence.mask)

    def interact(self, one: Sentence, two: Sentence):
        given = one.states, two.states, one.mask, two.mask
        # The states [B, L2, u] and the words' matrices, eq 7-23.
        states, p, h = self.control(*given, return_matrices=True)
        self.show(lambda: self.sizes(*given))
        v = masked_mean(self.control_dropout(states), two.mask)  # [B, u], eq 24
        if self.compare_means:
            p, h = masked_mean(p, one.mask), masked_mean(h, two.mask)
            v = ops.concatenate([v, ops.abs(p - h), p * h], axis=-1)  # [B, 3u]
        for layer in self.hidden:  # eq 25
            v = layer(v)
        return self.classify(v)  # eq 26

    def sizes(self, x1, x2, mask_1, mask_2) -> dict[str, Any]:
        """Norms of what is made at each word of sentence 2 (eq 28-31, Fig 2-3).

        `interaction_2` `[B, L2, L1]` belongs to its interaction matrix after each word of sentence
        1. With dynamic weights, `update_gate_2`, `reset_gate_2` and `candidate_2` `[B, L2]` belong
        to the weights. They are scaled to [0, 1] over the real words of a row.
        """
        show = CallWith(self.control, return_norms=True)
        _, norms, *gates = show(x1, x2, mask_1, mask_2)
        shown = {"interaction_2": _stretch(norms, pair_mask(mask_2, mask_1))}
        if gates:
            for i, name in enumerate(("update_gate_2", "reset_gate_2", "candidate_2")):
                shown[name] = _stretch(gates[0][:, :, i], mask_2)
        return shown

    def __init__(
        self,
        *,
        units: int = 400,
        variant: str = "din1",
        concat: str = "sum",
        use_bias: bool = True,
        encode_hypothesis: bool = False,
        shared_transform: bool = False,
        reset_after: bool = False,
        compare_means: bool = False,
        hidden_layers: int = 2,
        **kwargs,
    ):
        """Make the model with random weights.

        Args:
            units: Width of the states, `n * n` for matrices of `n x n`: a perfect square.
            variant: Where the GRU's weights come from: `"din1"`, made as matrices; `"din2"`, made
                as vectors; `"static"`, learned as usual, while the GRU reads the words and their
                interaction; `"static_interaction"`, the same without the words.
            concat: `"sum"` or `"split"`, how `"din1"` weighs state and word.
            use_bias: Whether the weights that are made have a bias, `b_con`.
            encode_hypothesis: Whether the words of sentence 2 go through the GRU of sentence 1 as
                well.
            shared_transform: Whether one layer makes the matrices of both sentences.
            reset_after: Whether GRUs reset the state after its product with the weights. Dynamic
                weights always reset it before.
            compare_means: Whether the classifier also sees the absolute difference and the product
                of the two sentences' mean word matrices. Not in the paper; it gains ten points on
                SICK.
            hidden_layers: Number of ReLU layers of width `units` before the classifier.
        """
        super().__init__(**kwargs)
        self.units = units
        self.variant = variant
        self.concat = concat
        self.use_bias = use_bias
        self.encode_hypothesis = self.shares_encoder = encode_hypothesis
        self.shared_transform = shared_transform
        self.reset_after = reset_after
        self.compare_means = compare_means
        self.hidden_layers = hidden_layers

        self.word_representation = self.make_word_representation()
        self.encoding = self.make(
            keras.layers.GRU, "encoding", units, return_sequences=True, reset_after=reset_after
        )
        self.encoding_dropout = self.make_dropout("encoding_dropout")
        self.control = self.make(
            MatrixDynamicGRU,
            "control",
            units,
            variant=variant,
            concat=concat,
            use_bias=use_bias,
            shared_transform=shared_transform,
            reset_after=reset_after,
        )
        self.control_dropout = self.make_dropout("control_dropout")
        self.hidden = [
            self.make(keras.layers.Dense, f"hidden_{i}", units, "relu")
            for i in range(1, hidden_layers + 1)
        ]
        self.classify = self.make_classifier()
        self.make_graph()

    paper = "Huo and Liu 2018"
    summary_line = "words as matrices, read by a GRU whose weights their interaction makes"
    # As the text has it, and the rows of Table 2, whose counts fit a smaller model.
    presets = {
        "as_printed": {"concat": "split", "compare_means": False},
        "din1_16": {"units": 256},
        "din1_18": {"units": 324},
        "din1_20": {"units": 400},
        "din2_16": {"units": 256, "variant": "din2"},
        "din2_18": {"units": 324, "variant": "din2"},
        "din2_20": {"units": 400, "variant": "din2"},
        "static_20": {"units": 400, "variant": "static"},
        "table2_din1_16": {"units": 256, **_TABLE2},
        "table2_din1_18": {"units": 324, **_TABLE2},
        "table2_din1_20": {"units": 400, **_TABLE2},
        "table2_din2_16": {"units": 256, "variant": "din2", "use_bias": False, **_TABLE2},
        "table2_din2_18": {"units": 324, "variant": "din2", "use_bias": False, **_TABLE2},
        "table2_din2_20": {"units": 400, "variant": "din2", "use_bias": False, **_TABLE2},
        "table2_static_20": {"units": 400, "variant": "static_interaction", **_TABLE2},
    }
    reasons = {
        "concat": "eq 10-12 put state and word side by side, which fits neither the shapes nor the sizes of Table 2",
        "compare_means": "eq 25 classifies the mean state alone; the words' means gain ten points on SICK",
    }
    search_space = [
        *WORD_MODELS,
        Choice("model.units", {n: n * n for n in (8, 12, 16, 18, 20)}, aliases=["n"]),
        Choice("model.variant", ("static", "din1", "din2")),
        Choice("model.concat", ("sum", "split"), when={"model.variant": ["din1"]}),
        Choice("model.use_bias", FLAG, when={"model.variant": ["din1", "din2"]}),
        Choice("model.encode_hypothesis", FLAG),
        Choice("model.shared_transform", FLAG, when={"model.encode_hypothesis": ["true"]}),
        Choice("model.compare_means", FLAG),
        Choice("model.hidden_layers", (0, 1, 2)),
    ]
    pictures = (
        PictureSpec(
            "interaction_2",
            "2 1",
            "Interaction matrices",
            "The size of the interaction matrix of each word of sentence 2 (row) after each word of "
            "sentence 1, from 0 (the smallest of the row) to 1.",
            top=1,
        ),
        *joined_rows(
            "2",
            "Gates made at each word of sentence 2",
            "The size of the weights made for the GRU, from 0 (the smallest of the row) to 1.",
            update_gate_2="update gate z",
            reset_gate_2="reset gate r",
            candidate_2="candidate h",
        ),
    )


def _stretch(x, mask):
    """`(x - min) / (max - min)` over the real entries of the last axis; 0 if max = min."""
    x, axis = ops.cast(x, "float32"), len(x.shape) - 1
    low = -ops.expand_dims(masked_max(-x, mask, axis), -1)
    span = ops.expand_dims(masked_max(x, mask, axis), -1) - low
    spread = ops.greater(span, 0.0)
    stretched = (x - low) / ops.where(spread, span, 1.0)
    return ops.where(ops.logical_and(mask, spread), stretched, 0.0)
