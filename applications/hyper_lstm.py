"""HyperLSTM as an encoder of sentences (Ha et al., ICLR 2017), a baseline of DIN."""

from typing import Any, ClassVar

import keras
from keras import ops

from keras_sentmatch.applications.base import (
    Encoding,
    PairModel,
    classifier,
    encode_both,
    pair_inputs,
    register_model,
    side_inputs,
)
from keras_sentmatch.applications.search_space import (
    FLAG,
    MAX_LENGTH,
    WORD_MODELS,
    Choice,
    Parameter,
)
from keras_sentmatch.layers import HyperLSTMCell, MatchingVector, WordRepresentation


@register_model("hyper_lstm")
class HyperLSTM(PairModel):
    """HyperLSTM: each sentence's last state from an LSTM with dynamic weights, compared as `[p; h; p - h; p * h]`.

    The sentences do not see each other before the end.

    Args:
        vocabulary_size: number of word ids; 0 is padding, 1 the unknown word.
        num_classes: width of the output; 1 gives a score instead of probabilities. Defaults to `3`.
        embedding_dim: width of a word vector. Defaults to `300`.
        trainable_embedding: whether the word vectors learn. Defaults to `False`.
        units: width of a state. Defaults to `300`.
        hyper_units: width of the small LSTM. Defaults to `128`.
        embedding_units: numbers from which a scale of the weights is made. Defaults to `4`.
        layer_norm: whether gates and cell are normalised. Defaults to `False`.
        shared_encoder: whether both sentences go through one encoder instead of one each. Defaults to `False`.
        dropout: rate on word vectors and before the classifier. Defaults to `0.2`.

    Inputs:
        A dict of int32: `word_ids_1` `[B, L1]`, `word_ids_2` `[B, L2]`, right-padded with 0.

    Masking:
        Padding changes nothing; an empty sentence gives a finite answer.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.applications import HyperLSTM
        >>> model = HyperLSTM(vocabulary_size=20, embedding_dim=8, units=4, hyper_units=3)
        >>> ids = np.array([[2, 3, 4, 0]])
        >>> tuple(model({"word_ids_1": ids, "word_ids_2": ids[:, :3]}).shape)
        (1, 3)

    References:
        Ha, Dai, Le: "HyperNetworks", ICLR 2017, arXiv 1609.09106; for pairs: Huo, Liu: DIN, 3.2.
    """

    paper = "Ha et al. 2017"
    summary_line = "sentence vectors from LSTMs whose weights smaller LSTMs re-scale"
    presets = {"snli": {"num_classes": 3}, "shared": {"shared_encoder": True}}
    search_space: ClassVar[list[Parameter]] = [
        *WORD_MODELS,
        MAX_LENGTH,
        Choice("model.units", (100, 200, 300)),
        Choice("model.hyper_units", (32, 64, 128)),
        Choice("model.embedding_units", (4, 8, 16)),
        Choice("model.layer_norm", FLAG),
        Choice("model.shared_encoder", {"true": True, "false": False}),
    ]

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int = 3,
        embedding_dim: int = 300,
        trainable_embedding: bool = False,
        units: int = 300,
        hyper_units: int = 128,
        embedding_units: int = 4,
        layer_norm: bool = False,
        shared_encoder: bool = False,
        dropout: float = 0.2,
        **kwargs: Any,
    ):
        dtype = keras.dtype_policies.get(kwargs.get("dtype"))

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
        encodings = {
            side: keras.layers.RNN(
                HyperLSTMCell(units, hyper_units, embedding_units, layer_norm, dtype=dtype),
                return_sequences=True,
                dtype=dtype,
                name=f"encoding_{side}",
            )
            for side in (("both",) if shared_encoder else ("1", "2"))
        }
        matching = MatchingVector(
            ("first", "second", "difference", "product"), dtype=dtype, name="matching_vector"
        )
        output_dropout = keras.layers.Dropout(dropout, dtype=dtype, name="output_dropout")
        classify = classifier(num_classes)

        # === Functional model ===
        inputs = pair_inputs()

        def encode(sentence: Encoding, side: str | None = None) -> Encoding:
            encoding = encodings["both" if shared_encoder else str(side)]
            states = encoding(words(sentence["word_ids"]))  # unmasked: later pads don't matter
            return {"vector": _last(states, ops.not_equal(sentence["word_ids"], 0))}

        def interact(one: Encoding, two: Encoding) -> Any:
            return classify(output_dropout(matching(one["vector"], two["vector"])))

        if shared_encoder:
            one, two = encode_both(encode, inputs, dtype)
        else:
            one, two = (encode(side_inputs(inputs, side), side) for side in ("1", "2"))
        super().__init__(inputs=inputs, outputs=interact(one, two), **kwargs)

        # === Config ===
        self._keep_config(locals())
        self._keep_halves(encode, interact)


def _last(states: Any, mask: Any) -> Any:
    """The state at the last real token, `[B, L, D]` to `[B, D]`; zeros for an empty sentence."""
    real = ops.cast(mask, states.dtype)
    following = ops.concatenate([real[:, 1:], ops.zeros_like(real[:, :1])], axis=1)
    return ops.sum(states * ops.expand_dims(real - following, -1), axis=1)
