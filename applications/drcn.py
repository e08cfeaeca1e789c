"""DRCN: Densely-connected Recurrent and Co-attentive neural Network (Kim et al., AAAI 2019)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import keras
from keras import ops

from keras_sentmatch.applications._views import CallWith
from keras_sentmatch.applications.feature_blocks import FEATURE_PRESETS, FeatureHost
from keras_sentmatch.applications.hyperparameters import FEATURE_ATTENTION, WORD_MODELS, Choice
from keras_sentmatch.applications.pair_model import Sentence
from keras_sentmatch.applications.picture_specs import ATTENTION, FEATURE_PICTURES, POOL_RATES
from keras_sentmatch.applications.registry import register_model
from keras_sentmatch.layers import DenseCoAttentiveRNN
from keras_sentmatch.layers.base import require
from keras_sentmatch.ops import masked_max
from keras_sentmatch.ops.masking import max_pool_rates

RATES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)  # of dropout, to search


def _connected(attentive: str, recurrent: str, embedding: str = "dense") -> dict[str, Any]:
    """The last rows of Table 6: other connections, and no autoencoder."""
    kinds = {"attentive_connection": attentive, "recurrent_connection": recurrent}
    return {**kinds, "embedding_connection": embedding, "autoencoder_after": ()}


@register_model("drcn")
class DRCN(FeatureHost):
    """Densely connected recurrent layers with co-attention and autoencoder bottlenecks.

    References:
        Kim, Kang, Kwak: "Semantic Sentence Matching with Densely-connected Recurrent and
        Co-attentive Information", AAAI 2019, arXiv 1805.11360.
    """

    def encode(self, sentence: Sentence) -> Sentence:
        x, mask = self.represent_words(sentence), sentence.mask  # [B, L, d], eq 1
        if not self.reads_alone:
            return Sentence(x=x, mask=mask)
        x = self.stacks[0](x, mask_1=mask)  # [B, L, D]
        self.show(lambda: {f"pool_rates_{sentence.side}": max_pool_rates(x, mask)})
        return Sentence(pooled=masked_max(x, mask))

    def interact(self, one: Sentence, two: Sentence):
        p, q = (one.pooled, two.pooled) if self.reads_alone else self.read(one, two)  # [B, D]
        v = ops.concatenate([p, q, p + q, p - q, ops.abs(p - q)], axis=-1)  # [B, 5D], eq 7
        for dropout, hidden, normalization in self.comparison:
            v = hidden(dropout(v))  # [B, h]
            if normalization is not None:
                v = normalization(v)
            v = ops.relu(v)
        return self.classify(v)

    def read(self, one: Sentence, two: Sentence) -> tuple[Any, Any]:
        """The vectors of two sentences that are read together (eq 2-6)."""
        x1, x2 = one.x, two.x
        for stack, blocks in zip(self.stacks, self.feature_blocks):
            given = x1, x2, one.mask, two.mask
            x1, x2 = stack(*given)  # [B, L1, D], [B, L2, D]
            self.show(partial(self.attention_of, stack, *given))
            if blocks is not None:
                x1, x2 = self.attend_features(blocks, x1, one.mask, x2, two.mask, each=True)
        self.show(
            lambda: {
                "pool_rates_1": max_pool_rates(x1, one.mask),
                "pool_rates_2": max_pool_rates(x2, two.mask),
            }
        )
        return masked_max(x1, one.mask), masked_max(x2, two.mask)

    def attention_of(self, stack: DenseCoAttentiveRNN, *given) -> dict[str, Any]:
        """The attention of a stack, `[B, depth, L1, L2]` and `[B, depth, L2, L1]` (Fig 3-4)."""
        if not self.attention:
            return {}
        _, _, attention_1, attention_2 = CallWith(stack, return_attention=True)(*given)
        return {"attention_1": attention_1, "attention_2": attention_2}

    def __init__(
        self,
        *,
        trainable_embedding: bool = True,
        fixed_embedding: bool = True,
        exact_match: bool = True,
        units: int = 100,
        depth: int = 5,
        attention: bool = True,
        recurrent_connection: str = "dense",
        attentive_connection: str = "dense",
        embedding_connection: str = "dense",
        autoencoder_after: Sequence[int] | None = None,
        autoencoder_units: int = 200,
        autoencoder_dropout: float = 0.2,
        hidden_units: int = 1000,
        batch_normalization: bool = False,
        embedding_dropout: float = 0.5,
        l2: float = 1e-6,
        **kwargs,
    ):
        """Make the model with random weights. Feature attention follows each autoencoder.

        Args:
            fixed_embedding: Whether there are word vectors that training does not change.
            units: Width of one direction of a recurrent layer.
            depth: Number of recurrent layers.
            attention: Whether there is co-attention.
            recurrent_connection: `"dense"`, `"residual"` or `"none"`, see `DenseCoAttentiveRNN`.
            attentive_connection: `"dense"`, `"residual"` or `"none"`.
            embedding_connection: `"dense"` or `"none"`.
            autoencoder_after: Recurrent layers, counted from 1, that an autoencoder follows. `None`
                means 3 and 5, up to `depth`.
            autoencoder_units: Width of the code.
            autoencoder_dropout: Dropout rate on the code.
            hidden_units: Width of the two fully connected layers.
            batch_normalization: Whether they are normalized before ReLU: in the paper for SNLI,
                MultiNLI, TrecQA and SelQA, but not for Quora.
            embedding_dropout: Dropout rate on word and character embeddings.
            l2: L2 penalty on every kernel but not on embeddings.
        """
        super().__init__(trainable_embedding=trainable_embedding, exact_match=exact_match, **kwargs)
        self.fixed_embedding = fixed_embedding
        self.units = units
        self.depth = depth
        self.attention = attention
        self.recurrent_connection = recurrent_connection
        self.attentive_connection = attentive_connection
        self.embedding_connection = embedding_connection
        self.autoencoder_after = autoencoder_after
        self.autoencoder_units = autoencoder_units
        self.autoencoder_dropout = autoencoder_dropout
        self.hidden_units = hidden_units
        self.batch_normalization = batch_normalization
        self.embedding_dropout = embedding_dropout
        self.l2 = l2
        # Otherwise the stack, which takes two sentences or one, would be in `encode`.
        self.shares_encoder = not self.reads_alone
        penalty = keras.regularizers.L2(l2) if l2 else None

        self.word_representation = self.make_word_representation(
            fixed_embedding=fixed_embedding, dropout=embedding_dropout, kernel_regularizer=penalty
        )
        self.make_stacks(_autoencoders(depth, autoencoder_after), penalty)
        self.comparison = []
        for i in "12":
            hidden = self.make(
                keras.layers.Dense, f"hidden_{i}", hidden_units, kernel_regularizer=penalty
            )
            normalization = None
            if batch_normalization:
                normalization = self.make(keras.layers.BatchNormalization, f"normalization_{i}")
            self.comparison.append((self.make_dropout(f"dropout_{i}"), hidden, normalization))
        self.classify = self.make_classifier(kernel_regularizer=penalty)
        self.make_graph()

    def make_stacks(self, autoencoders: Sequence[int], penalty) -> None:
        """Make `stacks`, the recurrent layers, and `feature_blocks`, what follows each stack.

        Layers after an autoencoder start again from its code, so the stack can be divided there for
        feature attention to go in between. Without feature attention it is one part.
        """
        require(
            all(1 <= layer <= self.depth for layer in autoencoders),
            f"autoencoder_after counts recurrent layers from 1 to depth={self.depth}. "
            f"Received: autoencoder_after={self.autoencoder_after!r}",
        )
        divided = self.feature_attention is not None
        require(
            autoencoders or not divided,
            "DRCN has feature attention after each autoencoder. Received: autoencoder_after=().",
        )
        ends = sorted({*autoencoders, self.depth}) if divided else [self.depth]
        self.stacks, self.feature_blocks = [], []
        for i, (start, end) in enumerate(zip([0, *ends], ends), start=1):
            stack = self.make(
                DenseCoAttentiveRNN,
                f"dense_co_attentive_rnn_{i}" if divided else "dense_co_attentive_rnn",
                units=self.units,
                depth=end - start,
                attention=self.attention,
                recurrent_connection=self.recurrent_connection,
                attentive_connection=self.attentive_connection,
                embedding_connection=self.embedding_connection,
                autoencoder_after=[n - start for n in autoencoders if start < n <= end],
                autoencoder_units=self.autoencoder_units,
                autoencoder_dropout=self.autoencoder_dropout,
                kernel_regularizer=penalty,
            )
            blocks = None
            if end in autoencoders or not divided:
                name = f"feature_attention_{i}"
                blocks = self.make_feature_attention(name, kernel_regularizer=penalty)
            self.stacks.append(stack)
            self.feature_blocks.append(blocks)

    @property
    def reads_alone(self) -> bool:
        """Whether each sentence is read without the other."""
        return not self.attention and self.feature_attention is None

    @property
    def why_not_splittable(self) -> str:
        if self.attention:
            return "its layers attend to the other sentence; make it with attention=False"
        return super().why_not_splittable

    @classmethod
    def conflict(cls, arguments: Mapping[str, Any]) -> str | None:
        depth = arguments["depth"]
        autoencoders = _autoencoders(depth, arguments["autoencoder_after"])
        if arguments["feature_attention"] is None:
            return None
        if autoencoders and max(autoencoders) <= depth:
            return None
        return f"model.depth = {depth} leaves no autoencoder for feature attention to follow."

    paper = "Kim et al. 2019"
    summary_line = (
        "densely connected recurrent layers with co-attention and autoencoder bottlenecks"
    )
    # The paper's tasks, its encoder-only variant, and the rows of its Table 6.
    presets = {
        "as_printed": {
            "autoencoder_dropout": 0.2,
            "dropout": 0.2,
            "embedding_dropout": 0.5,
            "l2": 1e-6,
        },
        "snli": {"num_classes": 3, "batch_normalization": True},
        "multinli": {"num_classes": 3, "batch_normalization": True},
        "quora": {"num_classes": 2, "batch_normalization": False},
        "trecqa": {"num_classes": 2, "batch_normalization": True},
        "selqa": {"num_classes": 2, "batch_normalization": True},
        "encoder_only": {"attention": False, "exact_match": False},
        "table6_1_full": {},
        "table6_2_no_autoencoder": {"autoencoder_after": ()},
        "table6_3_no_trainable_embedding": {"trainable_embedding": False},
        "table6_4_no_fixed_embedding": {"fixed_embedding": False},
        "table6_5_no_dense_attention": {"attentive_connection": "none"},
        "table6_6_no_dense_recurrence": {"recurrent_connection": "none"},
        "table6_7_no_dense": _connected("none", "none"),
        "table6_8_residual": _connected("residual", "residual"),
        "table6_9_residual_no_embedding": _connected("residual", "residual", "none"),
        "table6_10_no_connection": _connected("none", "none", "none"),
        "table6_11_no_attention": {**_connected("none", "none", "none"), "attention": False},
        **FEATURE_PRESETS,
    }
    reasons = {
        "autoencoder_dropout": "Implementation Details; dropout on the code costs three points on SICK",
        "dropout": "Implementation Details",
        "embedding_dropout": "Implementation Details",
        "l2": "Implementation Details",
    }
    search_space = [
        *WORD_MODELS,
        Choice("model.depth", (1, 2, 3, 4, 5)),
        Choice("model.units", (50, 100, 150)),
        Choice("model.hidden_units", (250, 500, 1000)),
        Choice("model.autoencoder_units", (100, 200, 300)),
        Choice("model.embedding_dropout", RATES),
        Choice("model.autoencoder_dropout", RATES),
        *FEATURE_ATTENTION,
    ]
    pictures = (ATTENTION, POOL_RATES, *FEATURE_PICTURES)


def _autoencoders(depth: int, after: Sequence[int] | None) -> list[int]:
    """The layers that an autoencoder follows: those given, or 3 and 5."""
    return [layer for layer in (3, 5) if layer <= depth] if after is None else sorted(after)
