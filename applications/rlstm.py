"""rLSTM: the re-read LSTM (Sha et al., COLING 2016), a baseline of DIN."""

from typing import Any, ClassVar

import keras
from keras import ops

from keras_sentmatch.applications.base import (
    Encoding,
    PairModel,
    _CallWith,
    classifier,
    pair_inputs,
    register_model,
    side_inputs,
)
from keras_sentmatch.applications.pictures import PictureSpec
from keras_sentmatch.applications.search_space import (
    FLAG,
    MAX_LENGTH,
    WORD_MODELS,
    Choice,
    Parameter,
)
from keras_sentmatch.layers import BidirectionalRNN, RereadingLSTM, WordRepresentation
from keras_sentmatch.ops import masked_mean

DIRECTIONS = ("forward", "backward")


@register_model("rlstm")
class RLSTM(PairModel):
    """Re-read LSTM: an LSTM over sentence 2, in both directions, that reads sentence 1 again at every word.

    Sentence 1 is the premise, sentence 2 the hypothesis: swapping them changes the answer.

    Args:
        vocabulary_size: number of word ids; 0 is padding, 1 the unknown word.
        num_classes: width of the output; 1 gives a score instead of probabilities. Defaults to `3`.
        embedding_dim: width of a word vector. Defaults to `300`.
        trainable_embedding: whether the word vectors learn. Defaults to `False`.
        units: width of a state: of both directions together over sentence 1, of each over sentence 2. Even. Defaults to
            `300`.
        tanh: whether the attention's score has a tanh; without it, re-reading does not depend on what was read. Defaults to
            `True`.
        first_attention: `"uniform"` or `"learned"`, where the first word reads. Defaults to `"uniform"`.
        dropout: rate on word vectors and before the classifier. Defaults to `0.2`.

    Inputs:
        A dict of int32: `word_ids_1` `[B, L1]`, `word_ids_2` `[B, L2]`, right-padded with 0.

    Masking:
        Padding changes nothing; an empty sentence gives a finite answer.

    Raises:
        ValueError: if `units` is odd.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.applications import RLSTM
        >>> model = RLSTM(vocabulary_size=20, embedding_dim=8, units=4)
        >>> ids = np.array([[2, 3, 4, 0]])
        >>> tuple(model({"word_ids_1": ids, "word_ids_2": ids[:, :3]}).shape)
        (1, 3)

    References:
        Sha, Chang, Sui, Li: "Reading and Thinking: Re-read LSTM Unit for Textual Entailment Recognition", COLING 2016.
    """

    paper = "Sha et al. 2016"
    summary_line = "an LSTM over one sentence that reads the other again at every word"
    presets = {"snli": {"num_classes": 3}}
    search_space: ClassVar[list[Parameter]] = [
        *WORD_MODELS,
        MAX_LENGTH,
        Choice("model.units", (100, 200, 300)),
        Choice("model.tanh", FLAG),
        Choice("model.first_attention", ("uniform", "learned")),
    ]
    pictures = tuple(
        PictureSpec(
            f"attention_{way}_2",
            "2 1",
            f"Attention while reading {way}, sentence 2",
            "How much each word (row) attends to each word of sentence 1; rows sum to 1.",
        )
        for way in ("backward", "forward")
    )

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int = 3,
        embedding_dim: int = 300,
        trainable_embedding: bool = False,
        units: int = 300,
        tanh: bool = True,
        first_attention: str = "uniform",
        dropout: float = 0.2,
        **kwargs: Any,
    ):
        if units % 2:
            raise ValueError(
                f"units must be even: half of it for each direction. Received: units={units}"
            )
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
        encoding = BidirectionalRNN(units // 2, dtype=dtype, name="encoding")
        readers = [
            RereadingLSTM(
                units, tanh, first_attention, way == "backward", dtype=dtype, name=f"reading_{way}"
            )
            for way in DIRECTIONS
        ]
        output_dropout = keras.layers.Dropout(dropout, dtype=dtype, name="output_dropout")
        classify = classifier(num_classes)

        # === Functional model ===
        inputs = pair_inputs()

        def encode(sentence: Encoding, side: str) -> Encoding:
            mask = ops.not_equal(sentence["word_ids"], 0)
            x = words(sentence["word_ids"])
            return {"states": encoding(x, mask) if side == "1" else x, "mask": mask}

        def interact(one: Encoding, two: Encoding) -> Any:
            means = [
                masked_mean(
                    reader(one["states"], two["states"], one["mask"], two["mask"]), two["mask"]
                )
                for reader in readers
            ]
            return classify(output_dropout(ops.concatenate(means, axis=-1)))

        one, two = (encode(side_inputs(inputs, side), side) for side in ("1", "2"))
        super().__init__(inputs=inputs, outputs=interact(one, two), **kwargs)

        # === Config ===
        self._keep_config(locals())
        self._keep_halves(encode, interact)
        self._explain = (readers, one, two)

    def explainer(self) -> keras.Model:
        """A functional model on the same weights and inputs that shows where sentence 1 was read.

        Returns:
            A model whose output is a dict: `probabilities` `[B, C]`; `attention_forward_2` and `attention_backward_2`
            `[B, L2, L1]`, at each word of sentence 2 what was read in sentence 1; rows sum to 1 at real tokens.
        """
        readers, one, two = self._explain
        shown = {
            f"attention_{way}_2": _CallWith(reader, return_attention=True)(
                one["states"], two["states"], one["mask"], two["mask"]
            )[1]
            for way, reader in zip(DIRECTIONS, readers)
        }
        return keras.Model(
            self.input, {"probabilities": self.output, **shown}, name=f"{self.name}_explainer"
        )
