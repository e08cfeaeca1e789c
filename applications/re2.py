"""RE2: a stack of blocks that align two sentences again and again (Yang et al., ACL 2019)."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import keras
from keras import ops

from keras_sentmatch.applications.base import (
    Encoding,
    PairModel,
    _CallWith,
    apply_to_both,
    encode_both,
    feature_blocks,
    pair_inputs,
    register_model,
)
from keras_sentmatch.applications.pictures import (
    ATTENTION,
    FEATURE_MAP,
    FEATURE_PICTURES,
    POOL_RATES,
)
from keras_sentmatch.applications.search_space import (
    FEATURE_ATTENTION,
    MAX_LENGTH,
    WORD_MODELS,
    Choice,
    Parameter,
)
from keras_sentmatch.errors import InputError
from keras_sentmatch.layers import (
    AlignmentFusion,
    CoAttention,
    ConvolutionalEncoder,
    MaskedMaxPooling,
    MatchingVector,
    WeightNormalizedDense,
    WordRepresentation,
)

ALIGNMENTS = ("linear", "identity")
CONNECTIONS = ("augmented", "residual", "none")
PREDICTIONS = {
    "full": ("first", "second", "difference", "product"),
    "symmetric": ("first", "second", "absolute_difference", "product"),
    "simple": ("first", "second"),
}


@keras.saving.register_keras_serializable(package="keras_sentmatch")
def tanh_gelu(x: Any) -> Any:
    """GELU by its tanh approximation, as the authors' PyTorch code has it."""
    return ops.gelu(x, approximate=True)


@register_model("re2")
class RE2(PairModel):
    """Residual vectors, Embedding vectors and Encoded vectors, aligned block after block.

    Args:
        vocabulary_size: number of word ids; 0 is padding, 1 the unknown word.
        num_classes: width of the output; 1 gives a score instead of probabilities. Defaults to `3`.
        embedding_dim: width of a word vector. Defaults to `300`.
        trainable_embedding: whether the word vectors learn. Defaults to `False`.
        units: width of every convolution and dense layer. Defaults to `150`.
        blocks: number of blocks. Defaults to `3`.
        encoder_layers: convolutions in a block. Defaults to `2`.
        kernel_size: words in their windows. Defaults to `3`.
        alignment: what the attention compares: `"linear"`, a dense layer of the states, or `"identity"`, the states.
            Defaults to `"linear"`.
        fusion: `"full"` or `"simple"`, see `AlignmentFusion`. Defaults to `"full"`.
        connection: input of block n + 1 from the outputs r: `"augmented"`, `[(r_{n-1} + r_n) / sqrt(2); word vectors]`;
            `"residual"`, the input of block n plus its output, over sqrt(2); `"none"`, the output. Defaults to
            `"augmented"`.
        prediction: what the last layers see of the two sentence vectors: `"full"`, `[p; q; p - q; p * q]`; `"symmetric"`,
            the same with `|p - q|`; `"simple"`, `[p; q]`. Defaults to `"full"`.
        activation: `"gelu"` (by its tanh approximation) or another of Keras. Defaults to `"gelu"`.
        weight_normalization: whether every kernel is normalised. Defaults to `True`.
        dropout: rate on the word vectors and before every layer but the first of the encoder and of the fusion. Defaults to
            `0.2`.
        feature_attention: blocks that gate the features of each sentence before the pooling: `"fa"`, `"sfa"`, a layer to
            copy, or `None`. Defaults to `None`.
        feature_attention_config: arguments of the blocks, and `share` for one block for both sentences. Defaults to `None`.

    Inputs:
        A dict of int32: `word_ids_1` `[B, L1]`, `word_ids_2` `[B, L2]`, right-padded with 0.

    Masking:
        Padding changes nothing; an empty sentence gives a finite answer.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.applications import RE2
        >>> model = RE2(vocabulary_size=20, embedding_dim=8, units=4)
        >>> ids = np.array([[2, 3, 4, 0]])
        >>> tuple(model({"word_ids_1": ids, "word_ids_2": ids[:, :3]}).shape)
        (1, 3)

    References:
        Yang, Zhang, Gao, Ji, Chen: "Simple and Effective Text Matching with Richer Alignment Features", ACL 2019, arXiv
        1908.00300.
    """

    paper = "Yang et al. 2019"
    summary_line = "convolutional blocks that align the sentences again and again"
    presets = {
        "snli": {"num_classes": 3, "units": 150, "blocks": 3},
        "quora": {"num_classes": 2, "units": 200, "blocks": 2, "prediction": "symmetric"},
        "scitail": {
            "num_classes": 2,
            "units": 200,
            "blocks": 2,
            "encoder_layers": 3,
            "alignment": "identity",
        },
        "wikiqa": {
            "num_classes": 2,
            "units": 200,
            "blocks": 2,
            "encoder_layers": 3,
            "prediction": "simple",
        },
    }
    search_space: ClassVar[list[Parameter]] = [
        *WORD_MODELS,
        MAX_LENGTH,
        Choice("model.units", (100, 150, 200)),
        Choice("model.blocks", (1, 2, 3)),
        Choice("model.encoder_layers", (1, 2, 3)),
        Choice("model.alignment", ("identity", "linear")),
        Choice("model.fusion", ("simple", "full")),
        Choice("model.connection", ("none", "residual", "augmented")),
        Choice("model.prediction", ("simple", "symmetric", "full")),
        *FEATURE_ATTENTION,
    ]
    pictures = (*FEATURE_PICTURES, ATTENTION, POOL_RATES, FEATURE_MAP)

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int = 3,
        embedding_dim: int = 300,
        trainable_embedding: bool = False,
        units: int = 150,
        blocks: int = 3,
        encoder_layers: int = 2,
        kernel_size: int = 3,
        alignment: str = "linear",
        fusion: str = "full",
        connection: str = "augmented",
        prediction: str = "full",
        activation: str = "gelu",
        weight_normalization: bool = True,
        dropout: float = 0.2,
        feature_attention: Any = None,
        feature_attention_config: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ):
        for name, value, allowed in (
            ("alignment", alignment, ALIGNMENTS),
            ("connection", connection, CONNECTIONS),
            ("prediction", prediction, PREDICTIONS),
        ):
            if value not in allowed:
                raise InputError(f"{name} must be one of {tuple(allowed)}. Received: {value!r}")
        if blocks < 1:
            raise InputError(f"blocks must be at least 1. Received: {blocks}")
        dtype = keras.dtype_policies.get(kwargs.get("dtype"))
        function = tanh_gelu if activation == "gelu" else keras.activations.get(activation)

        def dense(units: int, activation: Any, name: str, dtype: Any = dtype) -> Any:
            cls = WeightNormalizedDense if weight_normalization else keras.layers.Dense
            start = keras.initializers.VarianceScaling(
                2.0 if activation else 1.0, distribution="untruncated_normal"
            )
            return cls(units, activation, kernel_initializer=start, dtype=dtype, name=name)

        def drop(name: str) -> Any:
            return keras.layers.Dropout(dropout, dtype=dtype, name=name)

        # === Layers, in the order of the paper ===
        words = WordRepresentation(
            vocabulary_size,
            embedding_dim,
            trainable_embedding=trainable_embedding,
            fixed_embedding=not trainable_embedding,
            exact_match=False,
            dropout=dropout,
            dtype=dtype,
            name="word_representation",
        )
        common = {
            "activation": function,
            "dropout": dropout,
            "weight_normalization": weight_normalization,
            "dtype": dtype,
        }
        numbers = range(1, blocks + 1)
        encoders = [
            ConvolutionalEncoder(units, encoder_layers, kernel_size, name=f"encoder_{n}", **common)
            for n in numbers
        ]
        projections = [  # F of eq 1
            (drop(f"projection_dropout_{n}"), dense(units, function, f"projection_{n}"))
            for n in numbers
            if alignment == "linear"
        ]
        alignments = [  # eq 1-3
            CoAttention("dot", 1 / math.sqrt(units), dtype=dtype, name=f"alignment_{n}")
            for n in numbers
        ]
        fusions = [  # eq 4-7
            AlignmentFusion(units, fusion, name=f"fusion_{n}", **common) for n in numbers
        ]
        shortcut = dense(units, None, "shortcut")  # for "residual": word vectors to that width
        attend_features = feature_blocks(feature_attention, feature_attention_config, dtype=dtype)
        pooling = MaskedMaxPooling(dtype=dtype, name="max_pooling")
        matching = MatchingVector(PREDICTIONS[prediction], dtype=dtype, name="matching_vector")
        matching_dropout, hidden_dropout = drop("matching_dropout"), drop("hidden_dropout")
        hidden = dense(units, function, "hidden")
        logits = dense(num_classes, None, "logits", "float32")
        output = keras.layers.Activation(
            "softmax" if num_classes > 1 else "linear", dtype="float32", name="probabilities"
        )

        # === Functional model ===
        inputs = pair_inputs()

        def enter(n: int, x: Any, mask: Any) -> Encoding:
            """What block n (from 0) knows of a sentence alone: `[x; encoded x]`, and the keys of its alignment."""
            states = ops.concatenate([x, encoders[n](x, mask)], axis=-1)
            found = {"states": states, "mask": mask}
            for projection_dropout, projection in projections[n : n + 1]:
                found["keys"] = projection(projection_dropout(states))
            return found

        def encode(sentence: Encoding, side: str | None = None) -> Encoding:
            word_ids = sentence["word_ids"]
            return enter(0, words(word_ids), ops.not_equal(word_ids, 0))

        def connect(n: int, x: Any, fused: Any) -> Any:
            """Input of the block after block n from the input `x` and the output of block n."""
            if connection == "none":
                return fused
            if connection == "residual":
                return (fused + (x if n else shortcut(x))) * math.sqrt(0.5)
            if n:  # x = [sum of the outputs before; word vectors]
                fused = (fused + x[:, :, :units]) * math.sqrt(0.5)
                x = x[:, :, units:]
            return ops.concatenate([fused, x], axis=-1)

        def leave(n: int, sentence: Encoding) -> Encoding:
            states, mask = sentence["states"], sentence["mask"]
            fused = fusions[n](states, sentence["attended"], mask)
            if n + 1 == blocks:
                return {"fused": fused}
            width = states.shape[-1] - units  # of the block's input
            return enter(n + 1, connect(n, states[:, :, :width], fused), mask)

        def interact(one: Encoding, two: Encoding, seen: list[Any] | None = None) -> Any:
            mask_1, mask_2 = one["mask"], two["mask"]
            for n in range(blocks):
                pair = [s[name] for name in one for s in (one, two)]
                attended = alignments[n](*pair)
                if seen is not None:
                    seen.append(pair)
                one, two = apply_to_both(
                    partial(leave, n),
                    *(
                        {"states": s["states"], "attended": a, "mask": m}
                        for s, a, m in zip((one, two), attended, (mask_1, mask_2))
                    ),
                    dtype,
                )
            p, q = attend_features(one["fused"], mask_1, two["fused"], mask_2)
            if seen is not None:
                seen.append((p, q))
            v = matching(pooling(p, mask_1), pooling(q, mask_2))
            return output(logits(hidden_dropout(hidden(matching_dropout(v)))))

        seen: list[Any] = []
        one, two = encode_both(encode, inputs, dtype)
        super().__init__(inputs=inputs, outputs=interact(one, two, seen), **kwargs)

        # === Config ===
        self._keep_config(locals())
        self._keep_halves(encode, interact)
        self._explain = (alignments, pooling, attend_features, seen)

    def explainer(self) -> keras.Model:
        """A functional model on the same weights and inputs that shows the alignment of each block.

        Returns:
            A model whose output is a dict: `probabilities` `[B, C]`; `attention_1` `[B, blocks, L1, L2]` and `attention_2`
            `[B, blocks, L2, L1]`, whose rows sum to 1 at real tokens; `pool_rates_1` `[B, L1]` and `pool_rates_2` `[B, L2]`,
            the share of the pooled features that come from each token (sums to 1); what `FeatureBlocks.explain` gives.
        """
        alignments, pooling, attend_features, (*pairs, fused) = self._explain
        weights = [
            _CallWith(alignment, return_attention=True)(*pair)[2:]
            for alignment, pair in zip(alignments, pairs)
        ]
        shown = {
            f"attention_{i}": ops.stack(side, axis=1) for i, side in enumerate(zip(*weights), 1)
        }
        for i, (x, mask) in enumerate(zip(fused, pairs[0][2:4]), start=1):
            _, _, shown[f"pool_rates_{i}"] = _CallWith(pooling, return_positions=True)(x, mask)
        shown.update(attend_features.explain())
        return keras.Model(
            self.input, {"probabilities": self.output, **shown}, name=f"{self.name}_explainer"
        )
