"""DRr-Net: Dynamic Re-read Network (Zhang et al., AAAI 2019 and IEEE TNNLS)."""

from types import SimpleNamespace

import keras
from keras import ops

from keras_sentmatch.applications._views import CallWith
from keras_sentmatch.applications.hyperparameters import BETAS, WORD_MODELS, Choice
from keras_sentmatch.applications.pair_model import PairModel, Sentence, both
from keras_sentmatch.applications.picture_specs import READ, PictureSpec, joined_rows
from keras_sentmatch.applications.registry import register_model
from keras_sentmatch.layers import Highway, RerereadAttention, SelfAttentionPooling, StackRNN
from keras_sentmatch.layers.base import require


@register_model("drr_net")
class DRrNet(PairModel):
    """Dynamic Re-read Network: a global view, and a GRU that reads the important words again.

    References:
        Zhang et al.: "DRr-Net: Dynamic Re-read Network for Sentence Semantic Matching", AAAI 2019;
        Zhang, Lv, Wu, Chen, Liu, Wang: "LadRa-Net", IEEE TNNLS, Section IV, eq 1-8 and Table VI.
    """

    def encode(self, sentence: Sentence) -> Sentence:
        x = self.highway(self.represent_words(sentence))  # [B, L, d_w], eq 1
        encoded = Sentence(states=self.encoding(x, sentence.mask), mask=sentence.mask)  # eq 2
        if self.use_global or self.use_initial_vector or self.use_guide:
            encoded.h = self.pooling(encoded.states, sentence.mask)  # [B, D], eq 3
        return encoded

    def interact(self, one: Sentence, two: Sentence):
        gated = []
        if self.use_global:
            gated.append(self.compare("h", one.h, two.h))
        if self.use_dynamic:
            gated.append(self.compare("v", *self.reread(one, two)))
        total = gated[0] + gated[1] if len(gated) == 2 else gated[0]  # [B, C]
        return self.classify(_apply(self.mlp, total))  # eq 8

    def reread(self, one: Sentence, two: Sentence):
        """The last state of re-reading each sentence, guided by the other one: `[B, d]` (eq 4-6)."""
        given_1, given_2 = self.given(one, two), self.given(two, one)
        self.show(
            lambda: {
                "selection_1": self.selection_of(given_1),
                "selection_2": self.selection_of(given_2),
            }
        )
        read_1, read_2 = both(
            lambda given: Sentence(v=self.rereading(*_inputs(given))), given_1, given_2
        )
        return read_1.v, read_2.v

    def given(self, sentence: Sentence, other: Sentence) -> Sentence:
        """The states of a sentence, and the vectors that guide and start its re-reading."""
        return Sentence(
            states=sentence.states,
            mask=sentence.mask,
            guide=other.h if self.use_guide else None,
            start=sentence.h if self.use_initial_vector else None,
        )

    def selection_of(self, given: Sentence):
        """The weights of the tokens at each step, `[B, T, L]`; the largest is the token read."""
        return CallWith(self.rereading, return_selection=True)(*_inputs(given))[2]

    def compare(self, name: str, a, b):
        """The classes predicted from a vector of each sentence (eq 7), gated: `[B, C]`."""
        head = self.heads[name]
        matched = ops.concatenate([a, b, a * b, a - b], axis=-1)  # [B, 4D]
        p = head.classify(_apply(head.mlp, matched))  # [B, C]
        gate = head.gate(p)  # [B, 1]
        self.intermediate[name] = p
        self.show(**{f"p_{name}": p, f"gate_{name}": gate})
        return gate * p

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """The compiled loss, and in training `aux_loss_weight` times that of p_h and of p_v."""
        p, *intermediate = y_pred if isinstance(y_pred, list) else [y_pred]
        loss = super().compute_loss(x, y, p, sample_weight, training)
        for p in intermediate:
            loss = loss + self.aux_loss_weight * self._compile_loss(y, p, sample_weight)
        return loss

    def __init__(
        self,
        *,
        char_dim: int = 100,
        char_filters: int = 100,
        exact_match: bool = True,
        pos_dim: int = 0,
        units: int = 256,
        depth: int = 3,
        attention_units: int = 200,
        steps: int = 6,
        beta: float = 10.0,
        selection: str = "soft",
        init_projection: bool = True,
        use_initial_vector: bool = True,
        use_guide: bool = True,
        use_global: bool = True,
        use_dynamic: bool = True,
        hidden_units: int = 256,
        aux_loss_weight: float = 1.0,
        **kwargs,
    ):
        """Make the model with random weights.

        Args:
            pos_dim: Width of the embedding of a part-of-speech tag; 0 makes tags one-hot.
            units: Width of a GRU, and of the hidden layer of the pooling.
            depth: Number of recurrent layers, l_s; the paper tries 1 to 4.
            attention_units: Width of the hidden layer that scores a token for re-reading.
            steps: Number of tokens that are read again, T; the paper tries 1 to 10.
            beta: Sharpness of their selection.
            selection: `"soft"`, `"straight_through"` or `"hard"`, see `RerereadAttention`.
            init_projection: Whether a dense layer narrows the global vector to the initial state of
                the re-reading GRU. Without it that GRU is as wide as the global vector.
            use_initial_vector: Whether that state comes from the sentence's own global vector; else
                it is zero.
            use_guide: Whether the other sentence's global vector guides the selection.
            use_global: Whether the global vectors are compared.
            use_dynamic: Whether the re-read vectors are compared.
            hidden_units: Width of the two hidden layers of each classifier.
            aux_loss_weight: Weight of the loss of each of the two intermediate predictions, p_h and
                p_v, in training. It is the loss given to `compile`, so `loss` is not comparable
                with `val_loss`; 0 leaves them out.

        Raises:
            InputError: `use_global` and `use_dynamic` are both off, or `aux_loss_weight` is below 0.
        """
        super().__init__(
            char_dim=char_dim, char_filters=char_filters, exact_match=exact_match, **kwargs
        )
        compares = use_global or use_dynamic
        require(compares, "Nothing is left to compare. Set use_global or use_dynamic to True.")
        right = aux_loss_weight >= 0
        require(right, f"aux_loss_weight must be at least 0. Received: {aux_loss_weight!r}")
        self.pos_dim = pos_dim
        self.units = units
        self.depth = depth
        self.attention_units = attention_units
        self.steps = steps
        self.beta = beta
        self.selection = selection
        self.init_projection = init_projection
        self.use_initial_vector = use_initial_vector
        self.use_guide = use_guide
        self.use_global = use_global
        self.use_dynamic = use_dynamic
        self.hidden_units = hidden_units
        self.aux_loss_weight = aux_loss_weight

        self.word_representation = self.make_word_representation(pos_dim=pos_dim, dropout=0.0)
        self.highway = self.make(Highway, "highway", 2)
        self.encoding = self.make(StackRNN, "encoding", units, depth)
        self.pooling = self.make(SelfAttentionPooling, "pooling", units)
        if use_dynamic:
            self.rereading = self.make_rereading()
        # MLP_1 predicts from the global vectors (h), MLP_2 from the re-read ones (v).
        self.heads = {}
        if use_global:
            self.heads["h"] = self.make_head("h")
        if use_dynamic:
            self.heads["v"] = self.make_head("v")
        self.mlp = self.make_mlp("mlp")
        self.classify = self.make_classifier()
        self.make_graph()

    def make_rereading(self) -> RerereadAttention:
        initial_state = "projected" if self.init_projection else "given"
        width = self.word_representation.width + self.depth * self.units  # of a state
        return self.make(
            RerereadAttention,
            "rereading",
            units=self.units if self.init_projection else width,
            attention_units=self.attention_units,
            steps=self.steps,
            beta=self.beta,
            selection=self.selection,
            initial_state=initial_state if self.use_initial_vector else "zero",
            guide=self.use_guide,
        )

    def make_head(self, name: str) -> SimpleNamespace:
        activation = "softmax" if self.num_classes > 1 else "linear"
        dense = keras.layers.Dense
        return SimpleNamespace(
            mlp=[self.make_dropout(f"mlp_{name}_dropout"), *self.make_mlp(f"mlp_{name}")],
            classify=dense(self.num_classes, activation, dtype="float32", name=f"p_{name}"),
            gate=dense(1, "sigmoid", dtype="float32", name=f"gate_{name}"),
        )

    def make_mlp(self, name: str) -> list[keras.layers.Layer]:
        """Two hidden layers, and the dropout of what follows."""
        hidden_1, hidden_2 = (
            self.make(keras.layers.Dense, f"{name}_hidden_{i}", self.hidden_units, "relu")
            for i in "12"
        )
        before_2, before_last = (
            self.make_dropout(f"{name}_{layer}_dropout") for layer in ("hidden_2", "last")
        )
        return [hidden_1, before_2, hidden_2, before_last]

    # In training the model has p_h and p_v as further outputs, for `compute_loss`.

    def make_graph(self) -> None:
        self.intermediate: dict[str, keras.KerasTensor] = {}
        super().make_graph()
        training = keras.Model(self.input, [self.output, *self.intermediate.values()])
        self.in_training = lambda inputs: training(inputs, training=True)

    def call(self, inputs, training=None, mask=None):
        if training and self.aux_loss_weight:
            return self.in_training(inputs)
        return super().call(inputs, training=training, mask=mask)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        p = y_pred[0] if isinstance(y_pred, list) else y_pred
        return super().compute_metrics(x, y, p, sample_weight)

    paper = "Zhang et al. 2019"
    summary_line = "stacked GRUs, and a GRU that re-reads the most important words one by one"
    presets = {
        "paper": {"pos_dim": 10, "antonym": True},  # its features: d_w = 412 with characters
        "as_printed": {"init_projection": False, "selection": "hard", "aux_loss_weight": 0.0},
        "table6_1_no_initial_vector": {"use_initial_vector": False},
        "table6_2_no_guide_vector": {"use_guide": False},
        "table6_3_no_global_result": {"use_global": False},
        "table6_4_no_dynamic_result": {"use_dynamic": False},
        "table6_5_full": {},
    }
    reasons = {
        "init_projection": "eq 6 starts the GRU from the global vector, which is wider than the GRU of Table I",
        "selection": "eq 5 reads one word, which passes no gradient to the choice",
        "aux_loss_weight": "no loss is printed; without one for p_h and p_v they are not classes (released code)",
    }
    search_space = [
        *WORD_MODELS,
        Choice("model.steps", range(1, 11), aliases=["T"]),
        Choice("model.depth", (1, 2, 3, 4), aliases=["l_s"]),
        Choice("model.beta", BETAS, aliases=["beta", "β"]),
        Choice("model.selection", ("soft", "straight_through")),
        Choice("model.units", (64, 128, 256)),
        Choice("model.attention_units", (50, 100, 200)),
        Choice("model.hidden_units", (64, 128, 256)),
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
        *joined_rows(
            "class",
            "Predictions before they are joined",
            p_h="from the global vectors",
            p_v="from the re-read vectors",
        ),
        *joined_rows(
            "gate",
            "Gates of these predictions",
            gate_h="from the global vectors",
            gate_v="from the re-read vectors",
        ),
    )


def _inputs(given: Sentence):
    return given.states, given.mask, given.guide, given.start


def _apply(layers: list[keras.layers.Layer], x):
    for layer in layers:
        x = layer(x)
    return x
