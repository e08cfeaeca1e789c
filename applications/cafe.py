"""CAFE: Compare, Compress and Propagate (Tay et al., EMNLP 2018)."""

from collections.abc import Callable, Mapping, Sequence
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
from keras_sentmatch.applications.pictures import (
    ATTENTION,
    FEATURE_MAP,
    FEATURE_PICTURES,
    WITHIN,
    PictureSpec,
)
from keras_sentmatch.applications.search_space import (
    FEATURE_ATTENTION,
    FLAG,
    MAX_LENGTH,
    WORD_MODELS,
    Choice,
    Parameter,
)
from keras_sentmatch.errors import InputError
from keras_sentmatch.layers import (
    BidirectionalRNN,
    CoAttention,
    FactorizationMachine,
    Highway,
    MatchingVector,
    WordRepresentation,
)
from keras_sentmatch.ops import (
    dot_matrix,
    masked_max,
    masked_mean,
    masked_softmax,
    pair_mask,
    zero_padding,
)

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "concat": lambda x, y: ops.concatenate([x, y], axis=-1),
    "product": lambda x, y: x * y,
    "difference": lambda x, y: x - y,
}


@register_model("cafe")
class CAFE(PairModel):
    """Compare, Compress and Propagate: attention compared with each word, and the comparison compressed to six numbers.

    Args:
        vocabulary_size: number of word ids; 0 is padding, 1 the unknown word.
        num_classes: width of the output; 1 gives a score instead of probabilities. Defaults to `3`.
        embedding_dim: width of a word vector. Defaults to `300`.
        trainable_embedding: whether the word vectors learn. Defaults to `False`.
        char_vocabulary_size: number of character ids; 0 leaves the characters out. Defaults to `0`.
        char_encoder: `"cnn"` or `"lstm"`. Defaults to `"cnn"`.
        char_dim: width of a character embedding. Defaults to `20`.
        char_filters: width of the character feature. Defaults to `64`.
        char_kernel_size: characters in a window of the CNN. Defaults to `5`.
        max_word_length: characters a word is padded to. Defaults to `16`.
        pos_tags: number of part-of-speech ids (`pos_1`, `pos_2`); 0 leaves them out. Defaults to `0`.
        units: width of everything after the word features. Defaults to `300`.
        highway_layers: highway layers before the attention, and before the classification. Defaults to `2`.
        inter_attention: whether to attend to the other sentence. Defaults to `True`.
        intra_attention: whether to attend within the sentence. Defaults to `True`.
        alignment_features: how a word is compared with what it attended to: some of `"concat"`, `"product"` and
            `"difference"`. Defaults to `("concat", "product", "difference")`.
        factors: of the factorization machines; 0 makes them linear. Defaults to `10`.
        meta_factors: factors of another machine over a word's features, as the released code has it (4); 0 leaves it out.
            Defaults to `0`.
        append_intra: whether the LSTM also sees what the word attended to in its own sentence, as in the released code.
            Defaults to `False`.
        bidirectional: whether the LSTM runs both ways. Defaults to `False`.
        dropout: rate before the first highway layers, the LSTM, the last ones, and the classification. Defaults to `0.2`.
        l2: L2 penalty on every kernel; embeddings are left out. Defaults to `1e-8`.
        feature_attention: blocks that gate what the LSTM reads: `"fa"`, `"sfa"`, a layer to
            copy, or `None`. Defaults to `None`.
        feature_attention_config: arguments of the blocks, and `share` for one block for both sentences. Defaults to `None`.

    Inputs:
        A dict of int32: `word_ids_1` `[B, L1]`, `word_ids_2` `[B, L2]`; with those features `char_ids_1` `[B, L1,
        max_word_length]`, `char_ids_2`, `pos_1`, `pos_2`. Right-padded with 0.

    Masking:
        Padding changes nothing; an empty sentence gives a finite answer.

    Raises:
        InputError: for an unknown comparison, or an option of an attention that is off.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.applications import CAFE
        >>> model = CAFE(vocabulary_size=20, embedding_dim=8, units=4)
        >>> ids = np.array([[2, 3, 4, 0]])
        >>> tuple(model({"word_ids_1": ids, "word_ids_2": ids[:, :3]}).shape)
        (1, 3)

    References:
        Tay, Tuan, Hui: "Compare, Compress and Propagate: Enhancing Neural Architectures with Alignment Factorization for
        Natural Language Inference", EMNLP 2018, arXiv 1801.00102.
    """

    paper = "Tay et al. 2018"
    summary_line = "alignments compressed to numbers by factorization machines, between highways"
    presets = {
        "paper": {},
        "snli": {"num_classes": 3},
        "quora": {"num_classes": 2},
        "released": {"meta_factors": 4, "append_intra": True},
        "released_bidirectional": {"meta_factors": 4, "append_intra": True, "bidirectional": True},
        "no_inter_attention": {"inter_attention": False},
        "no_intra_attention": {"intra_attention": False},
        "no_concat": {"alignment_features": ("product", "difference")},
        "no_product": {"alignment_features": ("concat", "difference")},
        "no_difference": {"alignment_features": ("concat", "product")},
        "linear": {"factors": 0},
        "bidirectional": {"bidirectional": True},
    }
    search_space: ClassVar[list[Parameter]] = [
        *WORD_MODELS,
        MAX_LENGTH,
        Choice("model.units", (100, 200, 300)),
        Choice("model.highway_layers", (1, 2, 3)),
        Choice("model.factors", (5, 10, 20)),
        Choice("model.meta_factors", (0, 4)),
        Choice("model.append_intra", FLAG),
        Choice("model.bidirectional", FLAG),
        *FEATURE_ATTENTION,
    ]
    pictures = (
        *FEATURE_PICTURES,
        ATTENTION,
        PictureSpec(
            "intra_attention_{side}", "{side} {side}", "Intra-attention, sentence {side}", WITHIN
        ),
        PictureSpec(
            "features_{side}",
            "{side} comparison",
            "Alignment features, sentence {side}",
            "What factorization machines make of each word with its alignments.",
            names={
                "comparison": tuple(
                    f"{comparison}, {alignment}"
                    for alignment in ("first", "second")
                    for comparison in ("concatenation", "product", "difference")
                )
            },
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
        char_encoder: str = "cnn",
        char_dim: int = 20,
        char_filters: int = 64,
        char_kernel_size: int = 5,
        max_word_length: int = 16,
        pos_tags: int = 0,
        units: int = 300,
        highway_layers: int = 2,
        inter_attention: bool = True,
        intra_attention: bool = True,
        alignment_features: Sequence[str] = ("concat", "product", "difference"),
        factors: int = 10,
        meta_factors: int = 0,
        append_intra: bool = False,
        bidirectional: bool = False,
        dropout: float = 0.2,
        l2: float = 1e-8,
        feature_attention: Any = None,
        feature_attention_config: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ):
        known = sorted(set(alignment_features) & set(COMPARISONS))
        if not known or known != sorted(alignment_features):
            raise InputError(
                f"alignment_features must be some of {tuple(COMPARISONS)}, each once. "
                f"Received: alignment_features={alignment_features!r}"
            )
        if append_intra and not intra_attention:
            raise InputError(
                "append_intra=True needs intra_attention=True: it appends what that finds."
            )
        if meta_factors and not (inter_attention or intra_attention):
            raise InputError(
                f"meta_factors={meta_factors} needs features to compress: switch an attention on."
            )
        dtype = keras.dtype_policies.get(kwargs.get("dtype"))

        def regularizer() -> Any:
            return keras.regularizers.L2(l2) if l2 else None

        def drop(name: str) -> Any:
            return keras.layers.Dropout(dropout, dtype=dtype, name=name)

        def dense(activation: str | None, name: str) -> Any:
            return keras.layers.Dense(
                units, activation, kernel_regularizer=regularizer(), dtype=dtype, name=name
            )

        def highway(name: str) -> Any:
            return Highway(highway_layers, kernel_regularizer=regularizer(), dtype=dtype, name=name)

        def machine(factors: int, name: str) -> Any:
            return FactorizationMachine(factors, regularizer(), dtype=dtype, name=name)

        # === Layers, in the order of the paper ===
        words = WordRepresentation(
            vocabulary_size,
            embedding_dim,
            trainable_embedding=trainable_embedding,
            fixed_embedding=not trainable_embedding,
            char_vocabulary_size=char_vocabulary_size,
            char_dim=char_dim,
            char_filters=char_filters,
            char_kernel_size=char_kernel_size,
            exact_match=False,
            pos_tags=pos_tags,
            dropout=0.0,
            kernel_regularizer=regularizer(),
            char_encoder=char_encoder,
            dtype=dtype,
            name="word_representation",
        )
        word_dropout = drop("word_dropout")
        word_projection = dense(None, "word_projection")
        word_highway = highway("word_highway")
        inter_keys, intra_keys = (dense("relu", f"{n}_keys") for n in ("inter", "intra"))  # F, G
        inter = CoAttention("dot", dtype=dtype, name="inter_attention")
        machines = {
            kind: {name: machine(factors, f"{kind}_{name}") for name in alignment_features}
            for kind in ("inter", "intra")
        }
        meta = machine(meta_factors, "meta_features") if meta_factors else None
        attend_features = feature_blocks(
            feature_attention,
            feature_attention_config,
            dtype=dtype,
            kernel_regularizer=regularizer(),
        )
        sequence_dropout = drop("sequence_dropout")
        if bidirectional:
            lstm = BidirectionalRNN(
                units, kernel_regularizer=regularizer(), dtype=dtype, name="lstm"
            )
        else:
            lstm = keras.layers.LSTM(
                units,
                return_sequences=True,
                kernel_regularizer=regularizer(),
                recurrent_regularizer=regularizer(),
                dtype=dtype,
                name="lstm",
            )
        matching = MatchingVector(
            ("first", "second", "difference", "product"), dtype=dtype, name="matching_vector"
        )
        dropouts = [drop("dropout_1"), drop("dropout_2")]
        projection = dense(None, "projection")
        last_highway = highway("highway")
        classify = classifier(num_classes, kernel_regularizer=regularizer())

        # === Functional model ===
        inputs = pair_inputs(char_vocabulary_size, max_word_length, pos_tags)

        def compare(kind: str, x: Any, attended: Any) -> Any:
            found = [fm(COMPARISONS[name](x, attended)) for name, fm in machines[kind].items()]
            return ops.concatenate(found, axis=-1)

        def attend_within(x: Any, mask: Any) -> tuple[Any, Any]:
            keys = intra_keys(x)
            weights = masked_softmax(dot_matrix(keys, keys), pair_mask(mask, mask))
            weights = ops.cast(weights, x.dtype)
            return ops.matmul(weights, x), weights

        def encode(sentence: Encoding, side: str | None = None) -> Encoding:
            mask = ops.not_equal(sentence["word_ids"], 0)
            x = words(
                sentence["word_ids"], char_ids=sentence.get("char_ids"), pos=sentence.get("pos")
            )
            x = zero_padding(word_highway(word_projection(word_dropout(x))), mask)
            encoded = {"states": x, "mask": mask}
            if intra_attention:
                attended, _ = attend_within(x, mask)
                encoded["features"] = compare("intra", x, attended)
                if append_intra:
                    encoded["intra"] = attended
            return encoded

        def align(one: Encoding, two: Encoding, attended: tuple[Any, Any] | None) -> list[Any]:
            """The features of each sentence's words, `[B, L, 6]`; None without attention."""
            features = []
            for sentence, other in zip((one, two), attended or (None, None)):
                found = []
                if inter_attention:
                    found.append(compare("inter", sentence["states"], other))
                if intra_attention:
                    found.append(sentence["features"])
                features.append(ops.concatenate(found, axis=-1) if found else None)
            return features

        def compose(sentence: Encoding) -> Encoding:
            x, mask = sequence_dropout(sentence["fused"]), sentence["mask"]
            states = lstm(x, mask) if bidirectional else lstm(x)
            pooled = ops.concatenate([masked_mean(states, mask), masked_max(states, mask)], axis=-1)
            return {"pooled": pooled}

        def attention_inputs(one: Encoding, two: Encoding) -> list[Any]:
            x1, x2 = one["states"], two["states"]
            return [x1, x2, one["mask"], two["mask"], inter_keys(x1), inter_keys(x2)]

        def interact(one: Encoding, two: Encoding) -> Any:
            attended = inter(*attention_inputs(one, two)) if inter_attention else None
            sides: list[Encoding] = []
            for sentence, features in zip((one, two), align(one, two, attended)):
                parts = [sentence["states"]]
                if features is not None:
                    parts += [features, meta(features)] if meta else [features]
                if append_intra:
                    parts.append(sentence["intra"])
                fused = ops.concatenate(parts, axis=-1)
                fused = attend_features.one(str(len(sides) + 1), fused, sentence["mask"])
                sides.append({"fused": fused, "mask": sentence["mask"]})
            one, two = apply_to_both(compose, *sides, dtype)
            v = dropouts[0](matching(one["pooled"], two["pooled"]))
            return classify(dropouts[1](last_highway(projection(v))))

        one, two = encode_both(encode, inputs, dtype)
        super().__init__(inputs=inputs, outputs=interact(one, two), **kwargs)

        # === Config ===
        self._keep_config(locals())
        self._keep_halves(encode, interact)
        self._explain = (one, two, inter, attention_inputs, align, attend_within, attend_features)

    def explainer(self) -> keras.Model:
        """A functional model on the same weights and inputs that shows the alignments and what became of them.

        Returns:
            A model whose output is a dict: `probabilities` `[B, C]`; `attention_1` `[B, L1, L2]` and `attention_2`
            `[B, L2, L1]`, from each word to those of the other sentence; `intra_attention_1` `[B, L1, L1]` and
            `intra_attention_2`, to those of its own; `features_1` `[B, L1, 6]` and `features_2`, what the machines make of
            concatenation, product and difference with the first, then with the second. What is off is absent; what
            `FeatureBlocks.explain` gives.
        """
        one, two, inter, attention_inputs, align, attend_within, attend_features = self._explain
        shown, attended = {"probabilities": self.output}, None
        if self.inter_attention:
            *attended, shown["attention_1"], shown["attention_2"] = _CallWith(
                inter, return_attention=True
            )(*attention_inputs(one, two))
        for side, sentence, features in zip("12", (one, two), align(one, two, attended)):
            if self.intra_attention:
                _, weights = attend_within(sentence["states"], sentence["mask"])
                shown[f"intra_attention_{side}"] = weights
            if features is not None:
                shown[f"features_{side}"] = zero_padding(features, sentence["mask"])
        shown.update(attend_features.explain())
        return keras.Model(self.input, shown, name=f"{self.name}_explainer")
