"""LadRa-Net: Locally Aware Dynamic Re-read Attention Net (Zhang et al., IEEE TNNLS)."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import keras
from keras import ops

from keras_sentmatch.applications._views import CallWith
from keras_sentmatch.applications.backbone import BackboneModel, first_state
from keras_sentmatch.applications.hyperparameters import BACKBONES, BETAS, Choice, LogUniform
from keras_sentmatch.applications.pair_model import Sentence
from keras_sentmatch.applications.picture_specs import READ, PictureSpec
from keras_sentmatch.applications.registry import register_model
from keras_sentmatch.layers import (
    DynamicSequentialAttention,
    PhraseCNN,
    SelfAttentionPooling,
    StackRNN,
)
from keras_sentmatch.layers.base import require, require_choice
from keras_sentmatch.layers.ladra_net import LayerWeightedSum

_WIDTHS: dict[str, list[int]] = {"none": []} | {
    "+".join(map(str, widths)): [*widths]
    for count in (1, 2, 3)
    for widths in combinations((1, 2, 3), count)
}
_STACK_GRU = {"model.contextual": ["stack_gru"]}


@register_model("ladra_net")
class LadRaNet(BackboneModel):
    """Locally Aware Dynamic Re-read Attention Net: BERT, phrases, and a GRU that re-reads both.

    References:
        Zhang, Lv, Wu, Chen, Liu, Wang: "LadRa-Net: Locally Aware Dynamic Reread Attention Net for
        Sentence Semantic Matching", IEEE TNNLS, Section V, eq 9-15 and Table VII.
    """

    def read(self, pair: Sentence):
        words, whole = self.read_tokens(pair)  # [B, L, D], [B, D]
        units, vectors = [words], [whole]
        if self.widths:
            phrases = self.phrase_cnn(words, pair.mask)  # [B, R, L, D], eq 10
            for r, pooling in enumerate(self.phrase_poolings):
                units.append(phrases[:, r])
                vectors.append(pooling(phrases[:, r], pair.mask))  # eq 11
        h_ab = ops.mean(ops.stack(vectors, axis=1), axis=1)  # [B, D]
        parts = [ops.expand_dims(h_ab, 1)] if self.use_global else []
        if self.steps:
            parts.append(self.reread(pair, ops.stack(units, axis=1), h_ab))  # eq 12-14
        reduce = ops.mean if self.fusion == "mean" else ops.max
        v = reduce(ops.concatenate(parts, axis=1), axis=1)  # eq 15
        return self.classify(self.drop_2(self.hidden(self.drop_1(v))))

    def read_tokens(self, pair: Sentence) -> tuple[Any, Any]:
        """The tokens' states, `[B, L, D]` (None if nothing reads them), and the whole's, `[B, D]`."""
        x = self.bert.embed(pair)
        if self.contextual == "stack_gru":
            words = self.gru(x, pair.mask)
            return words, self.word_pooling(words, pair.mask)
        states = []
        for i in range(len(self.bert.blocks)):
            x = self.bert.block(i, x, pair)
            states.append(x)
        words = self.weigh(states) if self.widths or self.steps else None  # eq 9
        return words, first_state(x, pair.mask)  # [CLS] in the last block

    def reread(self, pair: Sentence, units, h_ab):
        """The state after each step, `[B, T, D]`, from the tokens and phrases `[B, R+1, L, D]`.

        Shows `selection` `[B, T, R+1, L]`, what each unit chose at each step, the tokens first,
        then a unit for each of `widths`: the arg-max of a row is the token read, or the phrase
        around it; `coverage`, of the same shape, what is left to read after the step;
        `unit_weights` `[B, T, R+1]`, how much each unit counts.
        """
        given = units, pair.mask, h_ab

        def show() -> dict[str, Any]:
            found = CallWith(self.rereading, return_selection=True)(*given)
            return dict(zip(("selection", "coverage", "unit_weights"), found[1:]))

        self.show(show)
        return self.rereading(*given)

    def __init__(
        self,
        backbone,
        *,
        contextual: str = "transformer",
        units: int = 256,
        depth: int = 3,
        layer_weighting: str = "softmax",
        widths: Sequence[int] = (2, 3),
        hidden_filters: int = 500,
        attention_units: int = 200,
        steps: int = 5,
        beta: float = 10.0,
        fuse_word: bool = True,
        coverage: str = "multiply",
        clip_coverage: bool = True,
        coverage_update: str = "probability",
        use_global: bool = True,
        fusion: str = "mean",
        hidden_units: int | None = None,
        **kwargs,
    ):
        """Make the model: a backbone and new layers.

        Args:
            contextual: `"transformer"`, the backbone's blocks; or `"stack_gru"`, DRr-Net's stack in
                their place: GRUs over the backbone's embeddings, and attention that pools their
                states.
            units: Width of one of those GRUs.
            depth: Number of those GRUs.
            layer_weighting: How the backbone's blocks are summed: `"softmax"`, with weights that
                sum to 1, or `"free"`, with any numbers.
            widths: Tokens in a phrase, one convolutional unit each, d_k; `()` for no phrases.
            hidden_filters: Width between the two convolutions of a unit.
            attention_units: Width of the hidden layers that score tokens and units.
            steps: How often the pair is read again, T; the paper tries 1 to 8, 0 is never.
            beta: Sharpness of the choice.
            fuse_word: Whether the chosen token is read next to the chosen phrases.
            coverage: `"multiply"`, `"log"` or `"off"`, see `DynamicSequentialAttention`.
            clip_coverage: Whether coverage stays at 0 or above.
            coverage_update: `"probability"` or `"score"`, by which coverage falls.
            use_global: Whether the global vector h_ab is part of what is classified.
            fusion: How h_ab and the states of re-reading become one vector, `"mean"` or `"max"`.
            hidden_units: Width of the classifier's hidden layer. Defaults to `None`, the width of a
                token.

        Raises:
            InputError: An option is unknown, `steps` is below 0, or `use_global` is off with no
                steps.
        """
        require_choice(("transformer", "stack_gru"), contextual=contextual)
        require_choice(("softmax", "free"), layer_weighting=layer_weighting)
        require_choice(("mean", "max"), fusion=fusion)
        require(steps >= 0, f"steps must be at least 0. Received: steps={steps!r}")
        require(use_global or steps, "Nothing is left to classify. Set use_global or steps.")
        super().__init__(backbone, **kwargs)
        self.contextual = contextual
        self.units = units
        self.depth = depth
        self.layer_weighting = layer_weighting
        self.widths = widths
        self.hidden_filters = hidden_filters
        self.attention_units = attention_units
        self.steps = steps
        self.beta = beta
        self.fuse_word = fuse_word
        self.coverage = coverage
        self.clip_coverage = clip_coverage
        self.coverage_update = coverage_update
        self.use_global = use_global
        self.fusion = fusion
        self.hidden_units = hidden_units

        self.weigh = self.make(LayerWeightedSum, "layer_weighting", layer_weighting == "softmax")
        self.gru = self.make(StackRNN, "stack_gru", units, depth)
        self.word_pooling = self.make_pooling("words")
        if widths:
            self.phrase_cnn = self.make(PhraseCNN, "phrase_cnn", widths, hidden_filters)
        self.phrase_poolings = [self.make_pooling(str(r)) for r in range(1, len(widths) + 1)]
        if steps:
            self.rereading = self.make_rereading()
        self.drop_1, self.drop_2 = (self.make_dropout(f"dropout_{i}") for i in "12")
        width = self.bert.width
        if contextual == "stack_gru":
            width += depth * units
        self.hidden = self.make(keras.layers.Dense, "hidden", hidden_units or width, "relu")
        self.classify = self.make_classifier()
        self.make_graph()

    def make_pooling(self, name: str) -> SelfAttentionPooling:
        return self.make(SelfAttentionPooling, f"pooling_{name}", self.attention_units)

    def make_rereading(self) -> DynamicSequentialAttention:
        return self.make(
            DynamicSequentialAttention,
            "rereading",
            steps=self.steps,
            attention_units=self.attention_units,
            beta=self.beta,
            fuse_word=self.fuse_word,
            coverage=self.coverage,
            clip_coverage=self.clip_coverage,
            coverage_update=self.coverage_update,
        )

    paper = "Zhang et al. 2021"
    summary_line = "BERT, phrases around each token, and a GRU that re-reads tokens and phrases"
    presets = {
        "as_printed": {
            "layer_weighting": "free",
            "fuse_word": False,
            "coverage_update": "score",
            "clip_coverage": False,
        },
        "table7_1_bert": {"widths": (), "steps": 0},
        "table7_2_bert_pcnn": {"steps": 0},
        "table7_3_bert_dsa": {"widths": ()},
        "table7_4_no_global": {"use_global": False},
        "table7_5_stack_gru": {"contextual": "stack_gru"},
        "table7_6_max_fusion": {"fusion": "max"},
        "table7_7_full": {},
    }
    reasons = {
        "layer_weighting": "eq 9 sums the blocks with free numbers; weights that sum to 1 keep its scale",
        "fuse_word": "eq 12 sums from r = 1; the text also reads the chosen word itself",
        "coverage_update": "eq 14 subtracts the score; the text says attention weights",
        "clip_coverage": "eq 14 can fall below 0, which turns the sign of a score",
    }
    search_space = [
        *BACKBONES,
        LogUniform("training.backbone_learning_rate"),
        Choice("model.widths", _WIDTHS, aliases=["d_k"]),
        Choice("model.hidden_filters", (125, 250, 500), when={"model.widths": [*_WIDTHS][1:]}),
        Choice("model.steps", range(1, 9), aliases=["T"]),
        Choice("model.beta", BETAS, aliases=["beta", "β"]),
        Choice("model.coverage", ("off", "multiply", "log")),
        Choice(
            "model.coverage_update",
            ("probability", "score"),
            when={"model.coverage": ["multiply", "log"]},
        ),
        Choice("model.fusion", ("mean", "max")),
        Choice("model.attention_units", (50, 100, 200)),
        Choice("model.contextual", ("stack_gru", "transformer")),
        Choice("model.depth", (1, 2, 3, 4), aliases=["l_s"], when=_STACK_GRU),
        Choice("model.units", (128, 256), when=_STACK_GRU),
    ]
    pictures = (
        PictureSpec("selection", "step unit joint", "Read again", READ, reread=True),
        PictureSpec(
            "coverage",
            "step unit joint",
            "Coverage",
            "How much of each piece is left to read after each step.",
            top=1,
        ),
        PictureSpec("unit_weights", "step reader", "Weights of the units", "At each step.", top=1),
    )
