"""ESIM: Enhanced Sequential Inference Model (Chen et al., ACL 2017)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from keras_sentmatch.applications.base import (
    Encoding,
    PairModel,
    _CallWith,
    apply_to_both,
    classifier,
    encode_both,
    feature_blocks,
    pair_inputs,
    register_model,
)
from keras_sentmatch.applications.pictures import ATTENTION, FEATURE_MAP, FEATURE_PICTURES
from keras_sentmatch.applications.search_space import (
    FEATURE_ATTENTION,
    MAX_LENGTH,
    WORD_MODELS,
    Choice,
    Parameter,
)
from keras_sentmatch.errors import InputError
from keras_sentmatch.layers import BidirectionalRNN, CoAttention, MatchingVector, WordRepresentation
from keras_sentmatch.ops import masked_max, masked_mean

PLACEMENTS = ("fused", "attended")  # of feature attention


@register_model("esim")
class ESIM(PairModel):
    """Enhanced Sequential Inference Model: local inference between two BiLSTMs.

    Args:
        vocabulary_size: number of word ids; 0 is padding, 1 the unknown word.
        num_classes: width of the output; 1 gives a score instead of probabilities. Defaults to `3`.
        embedding_dim: width of a word vector. Defaults to `300`.
        trainable_embedding: whether the word vectors learn. Defaults to `True`.
        units: width of one direction of a recurrent layer, of the projection and of the hidden layer. Defaults to `300`.
        cell: `"lstm"`, `"gru"` or `"rnn"`. Defaults to `"lstm"`.
        dropout: rate on embeddings and on the projection (one mask a sentence, the same for all its tokens), and before
            each dense layer of the classifier. Defaults to `0.5`.
        feature_attention: blocks that gate the features of each sentence: `"fa"`, `"sfa"`, a layer to copy, or `None`.
            Defaults to `None`.
        placement: where they stand: `"fused"`, after the projection; or `"attended"`, on what each word attends to, as in
            the released code of feature attention. Defaults to `"fused"`.
        feature_attention_config: arguments of the blocks, and `share` for one block for both sentences. Defaults to `None`.

    Inputs:
        A dict of int32: `word_ids_1` `[B, L1]`, `word_ids_2` `[B, L2]`, right-padded with 0.

    Masking:
        Padding changes nothing; an empty sentence gives a finite answer.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.applications import ESIM
        >>> model = ESIM(vocabulary_size=20, embedding_dim=8, units=4)
        >>> ids = np.array([[2, 3, 4, 0]])
        >>> tuple(model({"word_ids_1": ids, "word_ids_2": ids[:, :3]}).shape)
        (1, 3)

    References:
        Chen, Zhu, Ling, Wei, Jiang, Inkpen: "Enhanced LSTM for Natural Language Inference", ACL 2017, eq 1-19 (the
        sequential model).
    """

    paper = "Chen et al. 2017"
    summary_line = "two BiLSTMs with soft alignment between them"
    presets = {"snli": {"num_classes": 3}, "quora": {"num_classes": 2}}
    search_space: ClassVar[list[Parameter]] = [
        *WORD_MODELS,
        MAX_LENGTH,
        Choice("model.units", (100, 200, 300)),
        Choice("model.cell", ("gru", "lstm")),
        *FEATURE_ATTENTION[:1],
        Choice(
            "model.placement",
            ("fused", "attended"),
            when={"model.feature_attention": ["fa", "sfa"]},
        ),
        *FEATURE_ATTENTION[1:],
    ]
    pictures = (*FEATURE_PICTURES, ATTENTION, FEATURE_MAP)

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int = 3,
        embedding_dim: int = 300,
        trainable_embedding: bool = True,
        units: int = 300,
        cell: str = "lstm",
        dropout: float = 0.5,
        feature_attention: Any = None,
        placement: str = "fused",
        feature_attention_config: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ):
        if placement not in PLACEMENTS:
            raise InputError(f"placement must be one of {PLACEMENTS}. Received: {placement!r}")
        dtype = keras.dtype_policies.get(kwargs.get("dtype"))

        # === Layers, in the order of the paper ===
        words = WordRepresentation(
            vocabulary_size,
            embedding_dim,
            trainable_embedding=trainable_embedding,
            fixed_embedding=not trainable_embedding,
            exact_match=False,
            dropout=0.0,
            dtype=dtype,
            name="word_representation",
        )
        word_dropout = keras.layers.SpatialDropout1D(dropout, dtype=dtype, name="word_dropout")
        encoding = BidirectionalRNN(units, cell, dtype=dtype, name="encoding")  # eq 1-2
        alignment = CoAttention("dot", dtype=dtype, name="alignment")  # eq 11-13
        enhancement = MatchingVector(  # eq 14-15
            ("first", "second", "difference", "product"), dtype=dtype, name="enhancement"
        )
        projection = keras.layers.Dense(units, "relu", dtype=dtype, name="projection")
        inference_dropout = keras.layers.SpatialDropout1D(
            dropout, dtype=dtype, name="inference_dropout"
        )
        attend_features = feature_blocks(feature_attention, feature_attention_config, dtype=dtype)
        composition = BidirectionalRNN(units, cell, dtype=dtype, name="composition")  # eq 16-17
        dropouts = [
            keras.layers.Dropout(dropout, dtype=dtype, name=f"dropout_{i}") for i in ("1", "2")
        ]
        hidden = keras.layers.Dense(units, "tanh", dtype=dtype, name="hidden")
        classify = classifier(num_classes)

        # === Functional model ===
        inputs = pair_inputs()

        def encode(sentence: Encoding, side: str | None = None) -> Encoding:
            mask = ops.not_equal(sentence["word_ids"], 0)
            x = word_dropout(words(sentence["word_ids"]))
            return {"states": encoding(x, mask), "mask": mask}

        def enhance(states: Any, attended: Any) -> Any:
            return inference_dropout(projection(enhancement(states, attended)))

        def compose(sentence: Encoding) -> Encoding:
            v, mask = composition(sentence["fused"], sentence["mask"]), sentence["mask"]
            pooled = ops.concatenate([masked_mean(v, mask), masked_max(v, mask)], axis=-1)
            return {"pooled": pooled}  # eq 18-19

        def interact(one: Encoding, two: Encoding) -> Any:
            a, b, mask_1, mask_2 = one["states"], two["states"], one["mask"], two["mask"]
            x, y = alignment(a, b, mask_1, mask_2)
            if placement == "attended":
                x, y = attend_features(x, mask_1, y, mask_2)
            p, q = enhance(a, x), enhance(b, y)
            if placement == "fused":
                p, q = attend_features(p, mask_1, q, mask_2)
            one, two = apply_to_both(
                compose, {"fused": p, "mask": mask_1}, {"fused": q, "mask": mask_2}, dtype
            )
            v = ops.concatenate([one["pooled"], two["pooled"]], axis=-1)
            return classify(dropouts[1](hidden(dropouts[0](v))))

        one, two = encode_both(encode, inputs, dtype)
        super().__init__(inputs=inputs, outputs=interact(one, two), **kwargs)

        # === Config ===
        self._keep_config(locals())
        self._keep_halves(encode, interact)
        self._explain = (alignment, one, two, attend_features)

    def explainer(self) -> keras.Model:
        """A functional model on the same weights and inputs that shows the soft alignment.

        Returns:
            A model whose output is a dict: `probabilities` `[B, C]`; `attention_1` `[B, L1, L2]` and `attention_2`
            `[B, L2, L1]`, whose rows sum to 1 at real tokens; what `FeatureBlocks.explain` gives.
        """
        alignment, one, two, attend_features = self._explain
        _, _, attention_1, attention_2 = _CallWith(alignment, return_attention=True)(
            one["states"], two["states"], one["mask"], two["mask"]
        )
        shown = {"attention_1": attention_1, "attention_2": attention_2}
        return keras.Model(
            self.input,
            {"probabilities": self.output, **shown, **attend_features.explain()},
            name=f"{self.name}_explainer",
        )
