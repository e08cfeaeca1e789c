"""DRCN: Densely-connected Recurrent and Co-attentive neural Network (Kim et al., AAAI 2019)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import keras

from keras_sentmatch.applications._explainer import CallWith
from keras_sentmatch.applications.feature_blocks import FEATURE_PRESETS, FeatureHost
from keras_sentmatch.applications.hyperparameters import (
    DROPOUT,
    FEATURE_ATTENTION,
    FLAG,
    WORD_MODELS,
    Choice,
)
from keras_sentmatch.applications.pair_model import Sentence
from keras_sentmatch.applications.picture_specs import (
    ATTENTION,
    FEATURE_MAP,
    FEATURE_PICTURES,
    POOL_RATES,
)
from keras_sentmatch.applications.registry import register_model
from keras_sentmatch.errors import InputError
from keras_sentmatch.layers import DenseCoAttentiveRNN, MaskedMaxPooling, MatchingVector
from keras_sentmatch.ops import max_pool_rates

_BARE = {"autoencoder_after": ()}


@register_model("drcn")
class DRCN(FeatureHost):
    """Densely-connected Recurrent and Co-attentive neural Network.

    Args:
        fixed_embedding: whether to use word vectors that don't. Defaults to `True`.
        units: width of one direction of a recurrent layer. Defaults to `100`.
        depth: number of recurrent layers. Defaults to `5`.
        cell: `"lstm"`, `"gru"` or `"rnn"`. Defaults to `"lstm"`.
        attention: whether there is co-attention. Defaults to `True`.
        recurrent_connection: `"dense"`, `"residual"` or `"none"`. Defaults to `"dense"`.
        attentive_connection: `"dense"`, `"residual"` or `"none"`. Defaults to `"dense"`.
        embedding_connection: `"dense"` or `"none"`. Defaults to `"dense"`.
        autoencoder_after: recurrent layers, from 1, that an autoencoder follows. `None` means 3 and
            5, as far as `depth` reaches. Defaults to `None`.
        autoencoder_units: width of the code. Defaults to `200`.
        autoencoder_activation: of the code. Defaults to `"tanh"`.
        autoencoder_dropout: rate on the code. Defaults to `0.2`.
        autoencoder_stop_gradient: keep the reconstruction loss from changing the features. Defaults
            to `False`.
        reconstruction_weight: weight of the reconstruction loss. Defaults to `1.0`.
        temperature: whether the attention learns a temperature. Defaults to `False`.
        feature_attention: what follows each autoencoder, one block a sentence: `"fa"`, `"sfa"`, a
            layer to copy, or `None`. Defaults to `None`.
        hidden_units: width of the two fully connected layers. Defaults to `1000`.
        batch_normalization: whether they are normalized before ReLU, as the paper does for SNLI,
            MultiNLI, TrecQA and SelQA but not for Quora. Defaults to `False`.
        embedding_dropout: rate on word and character embeddings. Defaults to `0.5`.
        dropout: rate before each fully connected layer. Defaults to `0.2`.
        l2: L2 penalty on every kernel; embeddings are left out. Defaults to `1e-6`.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.applications import DRCN
        >>> model = DRCN(vocabulary_size=20, embedding_dim=8, units=4, hidden_units=16)
        >>> ids = np.array([[2, 3, 4, 0]])
        >>> tuple(model({"word_ids_1": ids, "word_ids_2": ids[:, :3]}).shape)
        (1, 3)

    References:
        Kim, Kang, Kwak: "Semantic Sentence Matching with Densely-connected Recurrent and
        Co-attentive Information", AAAI 2019, arXiv 1805.11360.
    """

    paper = "Kim et al. 2019"
    summary_line = (
        "densely connected recurrent layers with co-attention and autoencoder bottlenecks"
    )
    # The paper's tasks, its encoder-only variant, and the rows of its Table 6.
    presets = {
        "snli": {"num_classes": 3, "batch_normalization": True},
        "multinli": {"num_classes": 3, "batch_normalization": True},
        "quora": {"num_classes": 2, "batch_normalization": False},
        "trecqa": {"num_classes": 2, "batch_normalization": True},
        "selqa": {"num_classes": 2, "batch_normalization": True},
        "encoder_only": {"attention": False, "exact_match": False},
        "table6_1_full": {},
        "table6_2_no_autoencoder": _BARE,
        "table6_3_no_trainable_embedding": {"trainable_embedding": False},
        "table6_4_no_fixed_embedding": {"fixed_embedding": False},
        "table6_5_no_dense_attention": {"attentive_connection": "none"},
        "table6_6_no_dense_recurrence": {"recurrent_connection": "none"},
        "table6_7_no_dense": {
            "attentive_connection": "none",
            "recurrent_connection": "none",
            **_BARE,
        },
        "table6_8_residual": {
            "attentive_connection": "residual",
            "recurrent_connection": "residual",
            **_BARE,
        },
        "table6_9_residual_no_embedding": {
            "attentive_connection": "residual",
            "recurrent_connection": "residual",
            "embedding_connection": "none",
            **_BARE,
        },
        "table6_10_no_connection": {
            "attentive_connection": "none",
            "recurrent_connection": "none",
            "embedding_connection": "none",
            **_BARE,
        },
        "table6_11_no_attention": {
            "attention": False,
            "recurrent_connection": "none",
            "embedding_connection": "none",
            **_BARE,
        },
        **FEATURE_PRESETS,
    }
    search_space = [
        *WORD_MODELS,
        Choice("model.depth", (1, 2, 3, 4, 5)),
        Choice("model.units", (50, 100, 150)),
        Choice("model.hidden_units", (250, 500, 1000)),
        Choice("model.autoencoder_units", (100, 200, 300)),
        Choice("model.embedding_dropout", DROPOUT),
        Choice("model.autoencoder_dropout", DROPOUT),
        Choice("model.temperature", FLAG),
        *FEATURE_ATTENTION,
    ]
    pictures = (*FEATURE_PICTURES, ATTENTION, POOL_RATES, FEATURE_MAP)

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int = 3,
        embedding_dim: int = 300,
        trainable_embedding: bool = True,
        fixed_embedding: bool = True,
        char_vocabulary_size: int = 0,
        char_dim: int = 16,
        char_filters: int = 32,
        char_kernel_size: int = 5,
        max_word_length: int = 16,
        exact_match: bool = True,
        pos_tags: int = 0,
        antonym: bool = False,
        units: int = 100,
        depth: int = 5,
        cell: str = "lstm",
        attention: bool = True,
        recurrent_connection: str = "dense",
        attentive_connection: str = "dense",
        embedding_connection: str = "dense",
        autoencoder_after: Sequence[int] | None = None,
        autoencoder_units: int = 200,
        autoencoder_activation: str = "tanh",
        autoencoder_dropout: float = 0.2,
        autoencoder_stop_gradient: bool = False,
        reconstruction_weight: float = 1.0,
        temperature: bool = False,
        feature_attention=None,
        feature_attention_config: Mapping[str, Any] | None = None,
        hidden_units: int = 1000,
        batch_normalization: bool = False,
        embedding_dropout: float = 0.5,
        dropout: float = 0.2,
        l2: float = 1e-6,
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
            feature_attention=feature_attention,
            feature_attention_config=feature_attention_config,
            **kwargs,
        )
        self.fixed_embedding = fixed_embedding
        self.units = units
        self.depth = depth
        self.cell = cell
        self.attention = attention
        self.recurrent_connection = recurrent_connection
        self.attentive_connection = attentive_connection
        self.embedding_connection = embedding_connection
        self.autoencoder_after = autoencoder_after
        self.autoencoder_units = autoencoder_units
        self.autoencoder_activation = autoencoder_activation
        self.autoencoder_dropout = autoencoder_dropout
        self.autoencoder_stop_gradient = autoencoder_stop_gradient
        self.reconstruction_weight = reconstruction_weight
        self.temperature = temperature
        self.hidden_units = hidden_units
        self.batch_normalization = batch_normalization
        self.embedding_dropout = embedding_dropout
        self.l2 = l2
        if autoencoder_after is None:
            autoencoder_after = tuple(layer for layer in (3, 5) if layer <= depth)
        if any(not 1 <= layer <= depth for layer in autoencoder_after):
            raise InputError(
                f"autoencoder_after counts recurrent layers from 1 to depth={depth}. Received: {autoencoder_after!r}"
            )
        if feature_attention is not None and not autoencoder_after:
            raise InputError(
                "DRCN has feature attention after each autoencoder, and autoencoder_after=() leaves none. Give it one or "
                "set feature_attention=None."
            )

        self.word_representation = self.make_word_representation(  # eq 1
            dropout=embedding_dropout,
            kernel_regularizer=self.regularizer(),
            fixed_embedding=self.fixed_embedding,
        )
        self.stacks, self.feature_blocks = self.make_stacks(sorted(autoencoder_after))  # eq 2-6
        self.pooling = MaskedMaxPooling(dtype=self.policy, name="max_pooling")
        self.matching = MatchingVector(dtype=self.policy, name="matching_vector")  # eq 7
        self.comparison = [layer for i in "12" for layer in self.make_comparison(i)]
        self.classify = self.make_classifier(kernel_regularizer=self.regularizer())
        self.make_graph()

    def regularizer(self):
        return keras.regularizers.L2(self.l2) if self.l2 else None

    def make_stacks(self, autoencoder_after: Sequence[int]) -> tuple[list[Any], list[Any]]:
        """The recurrent layers, and the feature attention after each part of them.

        After an autoencoder the stack starts again from its code, so it can be divided there for a
        block to go in between. Without feature attention it is one part.
        """
        divided, alone = self.feature_attention is not None, self.independent
        ends = [layer for layer in autoencoder_after if layer < self.depth] if divided else []
        stacks, blocks = [], []
        for i, (start, end) in enumerate(zip([0, *ends], [*ends, self.depth]), start=1):
            stacks.append(
                self.make(
                    DenseCoAttentiveRNN,
                    "dense_co_attentive_rnn" + (f"_{i}" if divided else ""),
                    depth=end - start,
                    autoencoder_after=[n - start for n in autoencoder_after if start < n <= end],
                    reconstruction_weight=self.reconstruction_weight / (2 if alone else 1),
                    kernel_regularizer=self.regularizer(),
                    units=self.units,
                    cell=self.cell,
                    attention=self.attention,
                    recurrent_connection=self.recurrent_connection,
                    attentive_connection=self.attentive_connection,
                    embedding_connection=self.embedding_connection,
                    autoencoder_units=self.autoencoder_units,
                    autoencoder_activation=self.autoencoder_activation,
                    autoencoder_dropout=self.autoencoder_dropout,
                    autoencoder_stop_gradient=self.autoencoder_stop_gradient,
                    temperature=self.temperature,
                )
            )
            gated = not divided or end in autoencoder_after
            blocks.append(
                self.make_feature_attention(
                    f"feature_attention_{i}", kernel_regularizer=self.regularizer()
                )
                if gated
                else None
            )
        return stacks, blocks

    def make_comparison(self, i: str) -> list[keras.layers.Layer]:
        return [
            self.make_dropout(f"dropout_{i}"),
            keras.layers.Dense(
                self.hidden_units,
                kernel_regularizer=self.regularizer(),
                dtype=self.policy,
                name=f"hidden_{i}",
            ),
            *[keras.layers.BatchNormalization(dtype=self.policy, name=f"normalization_{i}")]
            * self.batch_normalization,
            keras.layers.Activation("relu", dtype=self.policy, name=f"relu_{i}"),
        ]

    @classmethod
    def conflict(cls, arguments: Mapping[str, Any]) -> str | None:
        depth, after = arguments["depth"], arguments["autoencoder_after"]
        if after is None:
            after = [layer for layer in (3, 5) if layer <= depth]
        if arguments["feature_attention"] is None or (after and max(after) <= depth):
            return None
        return f"model.depth = {depth} leaves no autoencoder for feature attention to follow."

    @classmethod
    def attended_width(cls, arguments: Mapping[str, Any], word_width: int) -> int | None:
        return arguments["autoencoder_units"]

    @property
    def independent(self) -> bool:
        """Whether each sentence is read without the other, and adds half of the autoencoders' loss."""
        return not self.attention and self.feature_attention is None

    @property
    def shares_encoder(self) -> bool:
        return False  # the layers of the stack stack both sentences themselves

    @property
    def why_not_splittable(self) -> str:
        attends = "its layers attend to the other sentence; make it with attention=False"
        return "; ".join(filter(None, [attends * self.attention, super().why_not_splittable]))

    def encode(self, sentence: Sentence) -> Sentence:
        x, mask = self.represent_words(sentence), sentence.mask  # [B, L, d]
        if not self.independent:
            return Sentence(x=x, mask=mask)
        x = self.stacks[0](x, mask_1=mask)  # [B, L, D]
        self.show(lambda: {f"pool_rates_{sentence.side}": max_pool_rates(x, mask)})
        return Sentence(pooled=self.pooling(x, mask))

    def interact(self, one: Sentence, two: Sentence):
        p, q = (one.pooled, two.pooled) if self.independent else self.read(one, two)  # [B, D]
        v = self.matching(p, q)  # [B, 5D]
        for layer in self.comparison:
            v = layer(v)
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
        return self.pooling(x1, one.mask), self.pooling(x2, two.mask)

    def attention_of(self, stack: DenseCoAttentiveRNN, *given) -> dict[str, Any]:
        """The attention of a stack, `[B, depth, L1, L2]` and `[B, depth, L2, L1]` (Fig 3-4)."""
        if not self.attention:
            return {}
        _, _, attention_1, attention_2 = CallWith(stack, return_attention=True)(*given)
        return {"attention_1": attention_1, "attention_2": attention_2}
