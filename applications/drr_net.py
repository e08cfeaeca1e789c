"""DRr-Net: Dynamic Re-read Network (Zhang et al., AAAI 2019 and IEEE TNNLS)."""

from typing import Any

import keras

from keras_sentmatch.applications._explainer import CallWith
from keras_sentmatch.applications.hyperparameters import BETAS, DROPOUT, FLAG, WORD_MODELS, Choice
from keras_sentmatch.applications.pair_model import PairModel, Sentence
from keras_sentmatch.applications.picture_specs import READ, PictureSpec
from keras_sentmatch.applications.registry import register_model
from keras_sentmatch.errors import InputError
from keras_sentmatch.layers import (
    Highway,
    MatchingVector,
    RerereadAttention,
    SelfAttentionPooling,
    StackRNN,
)


@register_model("drr_net")
class DRrNet(PairModel):
    """Dynamic Re-read Network: a global view, and a GRU that reads the important words again.

    Args:
        pos_dim: width of the embedding of a part-of-speech tag; 0 makes tags one-hot. Defaults to
            `0`.
        highway_layers: highway layers over the word features. Defaults to `2`.
        units: width of a GRU, and of the hidden layer of the pooling. Defaults to `256`.
        depth: recurrent layers of the stack, l_s; the paper tries 1 to 4. Defaults to `3`.
        bidirectional: whether they run both ways, which doubles their width. Defaults to `False`.
        attention_units: width of the hidden layer that scores a token for re-reading. Defaults to
            `200`.
        steps: tokens read again, T; the paper tries 1 to 10. Defaults to `6`.
        beta: sharpness of their selection. Defaults to `10.0`.
        selection: `"soft"`, `"straight_through"` or `"hard"`, see `RerereadAttention`. Defaults to
            `"soft"`.
        init_projection: whether a dense layer narrows the global vector to the re-reading GRU's
            initial state. Without it that GRU is as wide as the global vector. Defaults to `True`.
        use_initial_vector: whether the sentence's own global vector is that state; else zeros.
            Defaults to `True`.
        use_guide: whether the other sentence's global vector guides the selection. Defaults to
            `True`.
        coverage: whether a step should read other words than the steps before it, see
            `RerereadAttention`. Defaults to `False`.
        use_global: whether the global vectors are compared. Defaults to `True`.
        use_dynamic: whether what was re-read is compared. Defaults to `True`.
        hidden_units: width of the two hidden layers of each classifier. Defaults to `256`.
        embedding_dropout: rate on word and character embeddings. Defaults to `0.0`.
        dropout: rate before each dense layer of the classifiers, but not on the class probabilities
            that the last of them takes. Defaults to `0.2`.
        aux_loss_weight: weight of the loss of each of the two intermediate predictions, p_h and
            p_v, in training. It is the loss given to `compile`, so `loss` is not comparable with
            `val_loss`; 0 leaves them out. Defaults to `1.0`.

    Raises:
        InputError: if `use_global` and `use_dynamic` are both off, or `aux_loss_weight` is
            negative.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.applications import DRrNet
        >>> model = DRrNet(vocabulary_size=20, embedding_dim=8, units=4, steps=2)
        >>> ids = np.array([[2, 3, 4, 0]])
        >>> tuple(model({"word_ids_1": ids, "word_ids_2": ids[:, :3]}).shape)
        (1, 3)

    References:
        Zhang et al.: "DRr-Net: Dynamic Re-read Network for Sentence Semantic Matching", AAAI 2019;
        Zhang, Lv, Wu, Chen, Liu, Wang: "LadRa-Net", IEEE TNNLS, Section IV, eq 1-8 and Table VI.
    """

    paper = "Zhang et al. 2019"
    summary_line = "stacked GRUs, and a GRU that re-reads the most important words one by one"
    # The paper's features (d_w = 412 with characters), and the rows of its Table VI.
    presets = {
        "paper": {"pos_dim": 10, "antonym": True},
        "table6_1_no_initial_vector": {"use_initial_vector": False},
        "table6_2_no_guide_vector": {"use_guide": False},
        "table6_3_no_global_result": {"use_global": False},
        "table6_4_no_dynamic_result": {"use_dynamic": False},
        "table6_5_full": {},
    }
    search_space = [
        *WORD_MODELS,
        Choice("model.steps", range(1, 11), aliases=["T"]),
        Choice("model.depth", (1, 2, 3, 4), aliases=["l_s"]),
        Choice("model.beta", BETAS, aliases=["beta", "β"]),
        Choice("model.selection", ("soft", "straight_through")),
        Choice("model.coverage", FLAG),
        Choice("model.units", (64, 128, 256)),
        Choice("model.bidirectional", FLAG),
        Choice("model.attention_units", (50, 100, 200)),
        Choice("model.hidden_units", (64, 128, 256)),
        Choice("model.embedding_dropout", DROPOUT),
        Choice("model.aux_loss_weight", (0.0, 0.5, 1.0)),
    ]
    pictures = (
        PictureSpec(
            "selection_{side}",
            "step {side}",
            "Words read again, sentence {side}",
            READ,
            reread=True,
        ),
        *(
            PictureSpec(key, "class", "Predictions before they are joined", row=row, top=1)
            for key, row in (
                ("p_h", "from the global vectors"),
                ("p_v", "from the re-read vectors"),
            )
        ),
        *(
            PictureSpec(key, "gate", "Gates of these predictions", row=row, top=1)
            for key, row in (
                ("gate_h", "from the global vectors"),
                ("gate_v", "from the re-read vectors"),
            )
        ),
    )

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int = 3,
        embedding_dim: int = 300,
        trainable_embedding: bool = False,
        char_vocabulary_size: int = 0,
        char_dim: int = 100,
        char_filters: int = 100,
        char_kernel_size: int = 5,
        max_word_length: int = 16,
        exact_match: bool = True,
        pos_tags: int = 0,
        pos_dim: int = 0,
        antonym: bool = False,
        highway_layers: int = 2,
        units: int = 256,
        depth: int = 3,
        bidirectional: bool = False,
        attention_units: int = 200,
        steps: int = 6,
        beta: float = 10.0,
        selection: str = "soft",
        init_projection: bool = True,
        use_initial_vector: bool = True,
        use_guide: bool = True,
        coverage: bool = False,
        use_global: bool = True,
        use_dynamic: bool = True,
        hidden_units: int = 256,
        embedding_dropout: float = 0.0,
        dropout: float = 0.2,
        aux_loss_weight: float = 1.0,
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
            exact_match=exact_match,
            pos_tags=pos_tags,
            antonym=antonym,
            dropout=dropout,
            **kwargs,
        )
        self.pos_dim = pos_dim
        self.highway_layers = highway_layers
        self.units = units
        self.depth = depth
        self.bidirectional = bidirectional
        self.attention_units = attention_units
        self.steps = steps
        self.beta = beta
        self.selection = selection
        self.init_projection = init_projection
        self.use_initial_vector = use_initial_vector
        self.use_guide = use_guide
        self.coverage = coverage
        self.use_global = use_global
        self.use_dynamic = use_dynamic
        self.hidden_units = hidden_units
        self.embedding_dropout = embedding_dropout
        self.aux_loss_weight = aux_loss_weight
        if not (use_global or use_dynamic):
            raise InputError("Nothing is left to compare: set use_global or use_dynamic to True.")
        if aux_loss_weight < 0:
            raise InputError(f"aux_loss_weight must be at least 0. Received: {aux_loss_weight!r}")
        self.word_representation = self.make_word_representation(
            dropout=embedding_dropout, pos_dim=self.pos_dim
        )
        self.highway = Highway(highway_layers, dtype=self.policy, name="highway")
        self.encoding = self.make(
            StackRNN,
            "encoding",
            units=self.units,
            depth=self.depth,
            bidirectional=self.bidirectional,
        )
        self.pooling = self.make(SelfAttentionPooling, "pooling", units=self.units)  # eq 3
        if use_dynamic:
            self.rereading = self.make_rereading()
        self.matching = MatchingVector(  # eq 7, which the paper leaves out
            ("first", "second", "product", "difference"), dtype=self.policy, name="matching"
        )
        # MLP_1 predicts from the global vectors (h), MLP_2 from the re-read ones (v).
        self.mlps, self.predictions, self.auxiliary, self.gates = {}, {}, {}, {}
        for name in [*["h"] * use_global, *["v"] * use_dynamic]:
            self.mlps[name] = [
                self.make_dropout(f"mlp_{name}_dropout"),
                *self.make_mlp(f"mlp_{name}"),
            ]
            self.predictions[name] = keras.layers.Dense(
                num_classes,
                "softmax" if num_classes > 1 else "linear",
                dtype="float32",
                name=f"p_{name}",
            )
            self.auxiliary[name] = _UntilLoss(dtype="float32", name=f"auxiliary_{name}")
            self.gates[name] = keras.layers.Dense(
                1, "sigmoid", dtype="float32", name=f"gate_{name}"
            )
        self.mlp = self.make_mlp("mlp")
        self.classify = self.make_classifier()
        self.make_graph()

    def make_mlp(self, name: str) -> list[keras.layers.Layer]:
        """Two hidden layers, and the dropout of what follows."""
        hidden_1, hidden_2 = (
            keras.layers.Dense(
                self.hidden_units, "relu", dtype=self.policy, name=f"{name}_hidden_{i}"
            )
            for i in "12"
        )
        return [
            hidden_1,
            self.make_dropout(f"{name}_hidden_2_dropout"),
            hidden_2,
            self.make_dropout(f"{name}_last_dropout"),
        ]

    def make_rereading(self) -> RerereadAttention:
        """Eq 4 and 6 (eq 5 if hard)."""
        width = self.word_representation.width
        width += self.depth * self.units * (2 if self.bidirectional else 1)
        start = "projected" if self.init_projection else "given"
        return self.make(
            RerereadAttention,
            "rereading",
            units=self.units if self.init_projection else width,
            initial_state=start if self.use_initial_vector else "zero",
            guide=self.use_guide,
            attention_units=self.attention_units,
            steps=self.steps,
            beta=self.beta,
            selection=self.selection,
            coverage=self.coverage,
        )

    def encode(self, sentence: Sentence) -> Sentence:
        x = self.highway(self.represent_words(sentence))  # eq 1
        encoded = Sentence(states=self.encoding(x, sentence.mask), mask=sentence.mask)  # eq 2
        if self.use_global or self.use_initial_vector or self.use_guide:
            h = self.pooling(encoded.states, sentence.mask)  # [B, D], eq 3
            encoded = encoded.having(h=h)
        return encoded

    def interact(self, one: Sentence, two: Sentence):
        compared = {"h": (one, two)}
        if self.use_dynamic:
            start_1, start_2 = self.reading(one, two), self.reading(two, one)
            compared["v"] = self.both(self.reread, start_1, start_2)
            self.show(
                lambda: {
                    "selection_1": self.selection_of(start_1),
                    "selection_2": self.selection_of(start_2),
                }
            )
        gated = []
        for name in self.predictions:
            vectors = [getattr(sentence, name) for sentence in compared[name]]  # [B, D] each
            v = _apply(self.mlps[name], self.matching(*vectors))
            p = self.auxiliary[name](self.predictions[name](v))  # [B, C], eq 7
            gate = self.gates[name](p)  # [B, 1]
            self.show(**{f"p_{name}": p, f"gate_{name}": gate})
            gated.append(gate * p)
        return self.classify(_apply(self.mlp, sum(gated[1:], gated[0])))  # eq 8

    def reading(self, sentence: Sentence, other: Sentence) -> Sentence:
        """What re-reading is given: the states, and the vectors that start and guide it."""
        given = Sentence(states=sentence.states, mask=sentence.mask)
        if self.use_guide:
            given = given.having(guide=other.h)
        if self.use_initial_vector:
            given = given.having(initial_state=sentence.h)
        return given

    def reread(self, given: Sentence) -> Sentence:
        """The state after the last step, `[B, D]` (eq 4-6)."""
        return Sentence(v=self.rereading(*self._rereading_inputs(given)))

    def selection_of(self, given: Sentence):
        """The weights of the tokens at each step, `[B, T, L]`; the greatest is the token read."""
        select = CallWith(self.rereading, return_selection=True)
        return select(*self._rereading_inputs(given))[2]

    def _rereading_inputs(self, given: Sentence) -> tuple[Any, ...]:
        guide, start = (getattr(given, name, None) for name in ("guide", "initial_state"))
        return given.states, given.mask, guide, start

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training: bool = True):
        """The compiled loss, and in training `aux_loss_weight` times that of p_h and of p_v."""
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        kept = [layer.take() for layer in self.layers if isinstance(layer, _UntilLoss)]
        if training and self.aux_loss_weight and self._compile_loss is not None:
            for p in kept:
                if p is not None:
                    loss = loss + self.aux_loss_weight * self._compile_loss(y, p, sample_weight)
        return loss


class _UntilLoss(keras.layers.Layer):
    """Passes a prediction on, and in training keeps it until `compute_loss` takes it."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._kept: Any = None

    def call(self, p, training=None):
        self._kept = p if training else None
        return p

    def take(self):
        kept, self._kept = self._kept, None
        return kept

    def compute_output_spec(self, p, training=None):
        return keras.KerasTensor(p.shape, dtype=p.dtype)


def _apply(layers: list[keras.layers.Layer], x):
    for layer in layers:
        x = layer(x)
    return x
