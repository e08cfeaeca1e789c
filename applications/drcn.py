"""DRCN: Densely-connected Recurrent and Co-attentive neural Network (Kim et al., AAAI 2019)."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from keras_sentmatch.applications.base import (
    Encoding,
    FeatureBlocks,
    PairModel,
    _CallWith,
    classifier,
    feature_blocks,
    pair_inputs,
    register_model,
    side_inputs,
)
from keras_sentmatch.applications.pictures import (
    ATTENTION,
    FEATURE_MAP,
    FEATURE_PICTURES,
    POOL_RATES,
)
from keras_sentmatch.applications.search_space import (
    DROPOUT,
    FEATURE_ATTENTION,
    FLAG,
    MAX_LENGTH,
    WORD_MODELS,
    Choice,
    Parameter,
)
from keras_sentmatch.errors import InputError
from keras_sentmatch.layers import (
    DenseCoAttentiveRNN,
    MaskedMaxPooling,
    MatchingVector,
    WordRepresentation,
)

_BARE = {"autoencoder_after": ()}


@register_model("drcn")
class DRCN(PairModel):
    """Densely-connected Recurrent and Co-attentive neural Network.

    Args:
        vocabulary_size: number of word ids; 0 is padding, 1 the unknown word.
        num_classes: width of the output; 1 gives a score instead of probabilities. Defaults to `3`.
        embedding_dim: width of a word vector. Defaults to `300`.
        trainable_embedding: whether to use word vectors that learn. Defaults to `True`.
        fixed_embedding: whether to use word vectors that don't. Defaults to `True`.
        char_vocabulary_size: number of character ids; 0 leaves the characters out. Defaults to `0`.
        char_dim: width of a character embedding. Defaults to `16`.
        char_filters: width of the character feature. Defaults to `32`.
        char_kernel_size: characters in a window. Defaults to `5`.
        max_word_length: characters a word is padded to. Defaults to `16`.
        exact_match: whether to flag words of the other sentence. Defaults to `True`.
        pos_tags: number of part-of-speech ids (`pos_1`, `pos_2`); 0 leaves them out. Defaults to `0`.
        antonym: whether there is an antonym flag (`antonym_1`, `antonym_2`). Defaults to `False`.
        units: width of one direction of a recurrent layer. Defaults to `100`.
        depth: number of recurrent layers. Defaults to `5`.
        cell: `"lstm"`, `"gru"` or `"rnn"`. Defaults to `"lstm"`.
        attention: whether there is co-attention. Defaults to `True`.
        recurrent_connection: `"dense"`, `"residual"` or `"none"`. Defaults to `"dense"`.
        attentive_connection: `"dense"`, `"residual"` or `"none"`. Defaults to `"dense"`.
        embedding_connection: `"dense"` or `"none"`. Defaults to `"dense"`.
        autoencoder_after: recurrent layers, from 1, that an autoencoder follows. `None` means 3 and 5, as far as `depth`
            reaches. Defaults to `None`.
        autoencoder_units: width of the code. Defaults to `200`.
        autoencoder_activation: of the code. Defaults to `"tanh"`.
        autoencoder_dropout: rate on the code. Defaults to `0.2`.
        autoencoder_stop_gradient: keep the reconstruction loss from changing the features. Defaults to `False`.
        reconstruction_weight: weight of the reconstruction loss. Defaults to `1.0`.
        temperature: whether the attention learns a temperature. Defaults to `False`.
        feature_attention: what follows each autoencoder, one block a sentence: `"fa"`, `"sfa"`, a layer to copy, or `None`.
            Defaults to `None`.
        feature_attention_config: arguments of the blocks, and `share` for one block for both sentences. Defaults to `None`.
        hidden_units: width of the two fully connected layers. Defaults to `1000`.
        batch_normalization: whether they are normalised before ReLU, as the paper does for SNLI, MultiNLI, TrecQA and SelQA
            but not for Quora. Defaults to `False`.
        embedding_dropout: rate on word and character embeddings. Defaults to `0.5`.
        dropout: rate before each fully connected layer. Defaults to `0.2`.
        l2: L2 penalty on every kernel; embeddings are left out. Defaults to `1e-6`.

    Inputs:
        A dict of int32: `word_ids_1` `[B, L1]`, `word_ids_2` `[B, L2]`; with characters `char_ids_1` `[B, L1, 16]` and
        `char_ids_2`; with those features `pos_1`, `pos_2`, `antonym_1`, `antonym_2`. Right-padded with 0.

    Masking:
        Padding changes nothing; an empty sentence gives a finite answer.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.applications import DRCN
        >>> model = DRCN(vocabulary_size=20, embedding_dim=8, units=4, hidden_units=16)
        >>> ids = np.array([[2, 3, 4, 0]])
        >>> tuple(model({"word_ids_1": ids, "word_ids_2": ids[:, :3]}).shape)
        (1, 3)

    References:
        Kim, Kang, Kwak: "Semantic Sentence Matching with Densely-connected Recurrent and Co-attentive Information", AAAI
        2019, arXiv 1805.11360.
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
    }
    search_space: ClassVar[list[Parameter]] = [
        *WORD_MODELS,
        MAX_LENGTH,
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
        feature_attention: Any = None,
        feature_attention_config: Mapping[str, Any] | None = None,
        hidden_units: int = 1000,
        batch_normalization: bool = False,
        embedding_dropout: float = 0.5,
        dropout: float = 0.2,
        l2: float = 1e-6,
        **kwargs: Any,
    ):
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
        dtype = keras.dtype_policies.get(kwargs.get("dtype"))

        def regularizer() -> Any:
            return keras.regularizers.L2(l2) if l2 else None

        # === Layers, in the order of the paper ===
        words = WordRepresentation(  # eq 1
            vocabulary_size,
            embedding_dim,
            trainable_embedding,
            fixed_embedding,
            char_vocabulary_size,
            char_dim,
            char_filters,
            char_kernel_size,
            exact_match,
            pos_tags,
            antonym,
            embedding_dropout,
            regularizer(),
            dtype=dtype,
            name="word_representation",
        )
        # After an autoencoder the stack starts anew from its code, so it can be cut there for a block to go in between.
        bodies, blocks = [], []  # eq 2-6
        cuts = sorted(autoencoder_after) if feature_attention is not None else []
        ends = [*(layer for layer in cuts if layer < depth), depth]
        for i, (start, end) in enumerate(zip([0, *ends], ends), start=1):
            after = [layer - start for layer in autoencoder_after if start < layer <= end]
            bodies.append(
                DenseCoAttentiveRNN(
                    units,
                    end - start,
                    cell,
                    attention,
                    recurrent_connection,
                    attentive_connection,
                    embedding_connection,
                    after,
                    autoencoder_units,
                    autoencoder_activation,
                    autoencoder_dropout,
                    autoencoder_stop_gradient,
                    reconstruction_weight,
                    temperature,
                    regularizer(),
                    dtype=dtype,
                    name="dense_co_attentive_rnn" + (f"_{i}" if cuts else ""),
                )
            )
            name = f"feature_attention_{i}"
            blocks.append(
                feature_blocks(
                    feature_attention,
                    feature_attention_config,
                    name,
                    dtype,
                    kernel_regularizer=regularizer(),
                )
                if end in cuts or not cuts
                else FeatureBlocks(shown=False)
            )
        pooling = MaskedMaxPooling(dtype=dtype, name="max_pooling")
        matching = MatchingVector(dtype=dtype, name="matching_vector")  # eq 7
        comparison = []
        for i in ("1", "2"):
            comparison += [
                keras.layers.Dropout(dropout, dtype=dtype, name=f"dropout_{i}"),
                keras.layers.Dense(
                    hidden_units, kernel_regularizer=regularizer(), dtype=dtype, name=f"hidden_{i}"
                ),
                *(
                    [keras.layers.BatchNormalization(dtype=dtype, name=f"normalization_{i}")]
                    if batch_normalization
                    else []
                ),
                keras.layers.Activation("relu", dtype=dtype, name=f"relu_{i}"),
            ]
        classify = classifier(num_classes, kernel_regularizer=regularizer())

        # === Functional model ===
        inputs = pair_inputs(char_vocabulary_size, max_word_length, pos_tags, antonym)

        def encode(sentence: Encoding, side: str) -> Encoding:  # of a model that can be split
            x, mask = words(**sentence), ops.not_equal(sentence["word_ids"], 0)
            for body, block in zip(bodies, blocks):
                x = block.one(side, body(x, mask_1=mask), mask)
            return {"pooled": pooling(x, mask)}

        def interact(one: Encoding, two: Encoding) -> Any:
            v = matching(one["pooled"], two["pooled"])
            for layer in comparison:
                v = layer(v)
            return classify(v)

        mask_1, mask_2 = (ops.not_equal(inputs[f"word_ids_{side}"], 0) for side in ("1", "2"))
        x1, x2 = (words(**side_inputs(inputs, side)) for side in ("1", "2"))
        read = []  # what each part of the stack reads
        for body, block in zip(bodies, blocks):
            read.append((x1, x2, mask_1, mask_2))
            code_1, code_2 = body(*read[-1])
            x1, x2 = block(code_1, mask_1, code_2, mask_2)
        one, two = {"pooled": pooling(x1, mask_1)}, {"pooled": pooling(x2, mask_2)}
        super().__init__(inputs=inputs, outputs=interact(one, two), **kwargs)

        # === Config ===
        self._keep_config(locals())
        undivided = {
            "its layers attend to the other sentence; make it with attention=False": attention,
            "it flags the words of the other sentence; make it with exact_match=False": exact_match,
            "it flags antonyms in the other sentence; make it with antonym=False": antonym,
        }
        self._keep_halves(
            encode, interact, "; ".join(why for why, holds in undivided.items() if holds)
        )
        self._explain = (bodies, blocks, pooling, read, x1, x2, mask_1, mask_2)

    def explainer(self) -> keras.Model:
        """A functional model on the same weights and inputs that shows what DRCN looked at.

        Returns:
            A model whose output is a dict: `probabilities` `[B, C]`; `attention_1` `[B, depth, L1, L2]` and `attention_2`
            `[B, depth, L2, L1]` (absent without attention); `pool_rates_1` `[B, L1]` and `pool_rates_2` `[B, L2]`, the
            share of the pooled features that come from each token (sums to 1); what `FeatureBlocks.explain` gives, with an
            axis more, after the batch, for the autoencoders. Paper Fig 3-5.
        """
        bodies, blocks, pooling, read, x1, x2, mask_1, mask_2 = self._explain
        shown: dict[str, list[Any]] = {}
        for body, block, pair in zip(bodies, blocks, read):
            found = block.explain()
            if self.attention:
                _, _, *attention = _CallWith(body, return_attention=True)(*pair)
                found.update({f"attention_{i}": a for i, a in enumerate(attention, start=1)})
            for name, x in found.items():
                x = x if name.startswith("attention") else ops.expand_dims(x, 1)
                shown.setdefault(name, []).append(x)
        outputs = {
            name: ops.concatenate(xs, axis=1) if len(xs) > 1 else xs[0]
            for name, xs in shown.items()
        }
        for i, (x, mask) in enumerate(((x1, mask_1), (x2, mask_2)), start=1):
            _, _, outputs[f"pool_rates_{i}"] = _CallWith(pooling, return_positions=True)(x, mask)
        return keras.Model(
            self.input, {"probabilities": self.output, **outputs}, name=f"{self.name}_explainer"
        )
