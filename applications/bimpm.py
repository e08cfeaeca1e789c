"""BiMPM: Bilateral Multi-Perspective Matching (Wang et al., IJCAI 2017)."""

from collections.abc import Mapping, Sequence
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
from keras_sentmatch.applications.pictures import FEATURE_MAP, FEATURE_PICTURES, PictureSpec
from keras_sentmatch.applications.search_space import (
    FEATURE_ATTENTION,
    MAX_LENGTH,
    WORD_MODELS,
    Choice,
    Parameter,
)
from keras_sentmatch.layers import BidirectionalRNN, MultiPerspectiveMatching, WordRepresentation
from keras_sentmatch.ops import last_state


@register_model("bimpm")
class BiMPM(PairModel):
    """Bilateral Multi-Perspective Matching: each state of a sentence against the other sentence, from many perspectives.

    Args:
        vocabulary_size: number of word ids; 0 is padding, 1 the unknown word.
        num_classes: width of the output; 1 gives a score instead of probabilities. Defaults to `3`.
        embedding_dim: width of a word vector. Defaults to `300`.
        trainable_embedding: whether the word vectors learn. Defaults to `False`.
        char_vocabulary_size: number of character ids; 0 leaves the characters out. Defaults to `0`.
        char_dim: width of a character embedding. Defaults to `20`.
        char_units: width of the LSTM that reads the characters of a word. Defaults to `50`.
        max_word_length: characters a word is padded to. Defaults to `16`.
        units: width of one direction of the context layer. Defaults to `100`.
        aggregation_units: width of one direction of the aggregation layer. Defaults to `100`.
        hidden_units: width of the hidden layer of the classifier. Defaults to `200`.
        cell: `"lstm"`, `"gru"` or `"rnn"`. Defaults to `"lstm"`.
        perspectives: weighted cosines for each strategy and direction. Defaults to `20`.
        strategies: what a state is matched with: some of `"full"`, `"max"`, `"attentive"` and `"max_attentive"`, see
            `MultiPerspectiveMatching`. Defaults to `("full", "max", "attentive", "max_attentive")`.
        attentive: `"mean"`, the paper's, or `"sum"`, as in public code; see `MultiPerspectiveMatching`. Defaults to
            `"mean"`.
        max_attentive: `"argmax"`, the paper's, or `"elementwise"`, as in public code; see `MultiPerspectiveMatching`.
            Defaults to `"argmax"`.
        dropout: rate on the word features, the states of the context layer and the matching vectors, and before each dense
            layer. Defaults to `0.1`.
        feature_attention: blocks that gate the matching vectors of each sentence: `"fa"`, `"sfa"`, a layer to
            copy, or `None`. Defaults to `None`.
        feature_attention_config: arguments of the blocks, and `share` for one block for both sentences. Defaults to `None`.

    Inputs:
        A dict of int32: `word_ids_1` `[B, L1]`, `word_ids_2` `[B, L2]`; with characters `char_ids_1`
        `[B, L1, max_word_length]`, `char_ids_2`. Right-padded with 0.

    Masking:
        Padding changes nothing; an empty sentence gives a finite answer.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.applications import BiMPM
        >>> model = BiMPM(vocabulary_size=20, embedding_dim=8, units=4, perspectives=3)
        >>> ids = np.array([[2, 3, 4, 0]])
        >>> tuple(model({"word_ids_1": ids, "word_ids_2": ids[:, :3]}).shape)
        (1, 3)

    References:
        Wang, Hamza, Florian: "Bilateral Multi-Perspective Matching for Natural Language Sentences", IJCAI 2017, arXiv
        1702.03814.
    """

    paper = "Wang et al. 2017"
    summary_line = "weighted cosines of every state with the other sentence, in four ways"
    presets = {
        "paper": {},
        "snli": {"num_classes": 3, "dropout": 0.2},
        "quora": {"num_classes": 2},
        "galsang": {
            "char_vocabulary_size": 0,
            "attentive": "sum",
            "max_attentive": "elementwise",
        },
    }
    search_space: ClassVar[list[Parameter]] = [
        *WORD_MODELS,
        MAX_LENGTH,
        Choice("model.units", (50, 100, 150)),
        Choice("model.aggregation_units", (50, 100, 150)),
        Choice("model.hidden_units", (100, 200, 300)),
        Choice("model.perspectives", (5, 10, 20, 30)),
        *FEATURE_ATTENTION,
    ]
    pictures = (
        *FEATURE_PICTURES,
        PictureSpec(
            "cosines",
            "direction 1 2",
            "Cosines",
            "Of the LSTM states of two words.",
            names={"direction": ("forward", "backward")},
        ),
        PictureSpec(
            "matching_{side}",
            "{side} perspective",
            "Matching vectors, sentence {side}",
            "For each strategy (a block of rows; by default full, max, attentive, max-attentive) "
            "the perspectives of the forward states, then of the backward ones.",
        ),
        FEATURE_MAP,
    )

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int = 3,
        embedding_dim: int = 300,
        trainable_embedding: bool = False,
        char_vocabulary_size: int = 0,
        char_dim: int = 20,
        char_units: int = 50,
        max_word_length: int = 16,
        units: int = 100,
        aggregation_units: int = 100,
        hidden_units: int = 200,
        cell: str = "lstm",
        perspectives: int = 20,
        strategies: Sequence[str] = ("full", "max", "attentive", "max_attentive"),
        attentive: str = "mean",
        max_attentive: str = "argmax",
        dropout: float = 0.1,
        feature_attention: Any = None,
        feature_attention_config: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ):
        dtype = keras.dtype_policies.get(kwargs.get("dtype"))

        def drop(name: str) -> Any:
            return keras.layers.Dropout(dropout, dtype=dtype, name=name)

        # === Layers, in the order of the paper ===
        words = WordRepresentation(
            vocabulary_size,
            embedding_dim,
            trainable_embedding=trainable_embedding,
            fixed_embedding=not trainable_embedding,
            char_vocabulary_size=char_vocabulary_size,
            char_dim=char_dim,
            char_filters=char_units,
            char_encoder="lstm",
            exact_match=False,
            dropout=0.0,
            dtype=dtype,
            name="word_representation",
        )
        word_dropout = drop("word_dropout")
        context = BidirectionalRNN(units, cell, dtype=dtype, name="context")  # eq 1
        context_dropout = drop("context_dropout")
        matching = MultiPerspectiveMatching(  # eq 2-6
            perspectives, strategies, attentive, max_attentive, dtype=dtype, name="matching"
        )
        attend_features = feature_blocks(feature_attention, feature_attention_config, dtype=dtype)
        matching_dropout = drop("matching_dropout")
        aggregation = BidirectionalRNN(aggregation_units, cell, dtype=dtype, name="aggregation")
        dropouts = [drop("dropout_1"), drop("dropout_2")]
        hidden = keras.layers.Dense(hidden_units, "tanh", dtype=dtype, name="hidden")
        classify = classifier(num_classes)

        # === Functional model ===
        inputs = pair_inputs(char_vocabulary_size, max_word_length)

        def encode(sentence: Encoding, side: str | None = None) -> Encoding:
            mask = ops.not_equal(sentence["word_ids"], 0)
            x = words(sentence["word_ids"], char_ids=sentence.get("char_ids"))
            return {"states": context_dropout(context(word_dropout(x), mask)), "mask": mask}

        def aggregate(sentence: Encoding) -> Encoding:
            states = aggregation(matching_dropout(sentence["fused"]), sentence["mask"])
            forward = last_state(states[..., :aggregation_units], sentence["mask"])
            return {"pooled": ops.concatenate([forward, states[:, 0, aggregation_units:]], axis=-1)}

        def interact(one: Encoding, two: Encoding) -> Any:
            mask_1, mask_2 = one["mask"], two["mask"]
            m1, m2 = matching(one["states"], two["states"], mask_1, mask_2)
            m1, m2 = attend_features(m1, mask_1, m2, mask_2)
            one, two = apply_to_both(
                aggregate, {"fused": m1, "mask": mask_1}, {"fused": m2, "mask": mask_2}, dtype
            )
            v = ops.concatenate([one["pooled"], two["pooled"]], axis=-1)
            return classify(dropouts[1](hidden(dropouts[0](v))))

        one, two = encode_both(encode, inputs, dtype)
        super().__init__(inputs=inputs, outputs=interact(one, two), **kwargs)

        # === Config ===
        self._keep_config(locals())
        self._keep_halves(encode, interact)
        self._explain = (matching, attend_features, one, two)

    def explainer(self) -> keras.Model:
        """A functional model on the same weights and inputs that shows how the sentences match.

        Returns:
            A model whose output is a dict: `probabilities` `[B, C]`; `cosines` `[B, 2, L1, L2]`, of forward and of backward
            states; `matching_1` `[B, L1, N]` and `matching_2` `[B, L2, N]`, for each strategy the perspectives of the
            forward states, then of the backward ones; what `FeatureBlocks.explain` gives.
        """
        matching, attend_features, one, two = self._explain
        matching_1, matching_2, cosines = _CallWith(matching, return_cosines=True)(
            one["states"], two["states"], one["mask"], two["mask"]
        )
        shown = {"cosines": cosines, "matching_1": matching_1, "matching_2": matching_2}
        shown.update(attend_features.explain())
        return keras.Model(
            self.input, {"probabilities": self.output, **shown}, name=f"{self.name}_explainer"
        )
