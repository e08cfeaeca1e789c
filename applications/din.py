"""DIN: Dynamic Interaction Network in matrix space (Huo and Liu, 2018)."""

from typing import Any, ClassVar

import keras
from keras import ops

from keras_sentmatch.applications.base import (
    Encoding,
    PairModel,
    _CallWith,
    classifier,
    encode_both,
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
from keras_sentmatch.layers import MatrixDynamicGRU, WordRepresentation
from keras_sentmatch.ops import masked_max, masked_mean, pair_mask, zero_padding

_TABLE2 = {"encode_hypothesis": True, "shared_transform": True, "hidden_layers": 0}


@register_model("din")
class DIN(PairModel):
    """Dynamic Interaction Network: words as matrices, and a GRU whose weights the interaction makes.

    Sentence 1 is the premise, sentence 2 the hypothesis: swapping them changes the answer.

    Args:
        vocabulary_size: number of word ids; 0 is padding, 1 the unknown word.
        num_classes: width of the output; 1 gives a score instead of probabilities. Defaults to `3`.
        embedding_dim: width of a word vector. Defaults to `300`.
        trainable_embedding: whether the word vectors learn. Defaults to `False`.
        units: width of the states, `n * n` for matrices of `n x n`: a perfect square. Defaults to `400`.
        variant: where the GRU's weights come from: `"din1"`, made as matrices; `"din2"`, made as vectors; `"static"`,
            learned as usual, without dynamic weights. Defaults to `"din1"`.
        concat: `"sum"` or `"split"`, how `"din1"` weighs state and word. Defaults to `"sum"`.
        use_bias: whether the made weights have a bias, `b_con`. Defaults to `True`.
        encode_hypothesis: whether the words of sentence 2 go through the encoder as well. Defaults to `False`.
        shared_transform: whether one layer makes the matrices of both sentences. Defaults to `False`.
        hidden_layers: ReLU layers of width `units` before the classifier. Defaults to `2`.
        dropout: rate on word vectors, on the encoder's states and on the states over sentence 2. Defaults to `0.2`.

    Inputs:
        A dict of int32: `word_ids_1` `[B, L1]`, `word_ids_2` `[B, L2]`, right-padded with 0.

    Masking:
        Padding changes nothing; an empty sentence gives a finite answer.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.applications import DIN
        >>> model = DIN(vocabulary_size=20, embedding_dim=8, units=9)
        >>> ids = np.array([[2, 3, 4, 0]])
        >>> tuple(model({"word_ids_1": ids, "word_ids_2": ids[:, :3]}).shape)
        (1, 3)

    References:
        Huo, Liu: "A Dynamic Interaction Network for Recognizing Text Entailment in Matrix Space", 2018, eq 3-31.
    """

    paper = "Huo and Liu 2018"
    summary_line = "words as matrices, read by a GRU whose weights their interaction makes"
    # As the text has it, by matrix size, and the rows of Table 2, whose counts fit a smaller model (docs/models.md).
    presets = {
        "din1_16": {"units": 256},
        "din1_18": {"units": 324},
        "din1_20": {"units": 400},
        "din2_16": {"units": 256, "variant": "din2"},
        "din2_18": {"units": 324, "variant": "din2"},
        "din2_20": {"units": 400, "variant": "din2"},
        "static_20": {"units": 400, "variant": "static"},
        "table2_din1_16": {"units": 256, **_TABLE2},
        "table2_din1_18": {"units": 324, **_TABLE2},
        "table2_din1_20": {"units": 400, **_TABLE2},
        "table2_din2_16": {"units": 256, "variant": "din2", "use_bias": False, **_TABLE2},
        "table2_din2_18": {"units": 324, "variant": "din2", "use_bias": False, **_TABLE2},
        "table2_din2_20": {"units": 400, "variant": "din2", "use_bias": False, **_TABLE2},
        "table2_static_20": {"units": 400, "variant": "static", **_TABLE2},
    }
    search_space: ClassVar[list[Parameter]] = [
        *WORD_MODELS,
        MAX_LENGTH,
        Choice("model.units", {n: n * n for n in (8, 12, 16, 18, 20)}, aliases=["n"]),
        Choice("model.variant", ("static", "din1", "din2")),
        Choice("model.concat", ("sum", "split"), when={"model.variant": ["din1"]}),
        Choice("model.use_bias", FLAG, when={"model.variant": ["din1", "din2"]}),
        Choice("model.encode_hypothesis", FLAG),
        Choice("model.hidden_layers", (0, 1, 2)),
    ]
    pictures = (
        PictureSpec(
            "interaction_2",
            "2 1",
            "Interaction matrices",
            "The size of the interaction matrix of each word of sentence 2 (row) after each word of "
            "sentence 1; from 0, the least of the row, to 1.",
            top=1,
        ),
        *(
            PictureSpec(
                key,
                "2",
                "Gates made at each word of sentence 2",
                "The size of the weights that are made for the GRU; from 0, the least of the row, to 1.",
                row,
                top=1,
            )
            for key, row in (
                ("update_gate_2", "update gate z"),
                ("reset_gate_2", "reset gate r"),
                ("candidate_2", "candidate h"),
            )
        ),
    )

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int = 3,
        embedding_dim: int = 300,
        trainable_embedding: bool = False,
        units: int = 400,
        variant: str = "din1",
        concat: str = "sum",
        use_bias: bool = True,
        encode_hypothesis: bool = False,
        shared_transform: bool = False,
        hidden_layers: int = 2,
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
        encoding = keras.layers.GRU(units, return_sequences=True, dtype=dtype, name="encoding")
        encoding_dropout = keras.layers.Dropout(dropout, dtype=dtype, name="encoding_dropout")
        control = MatrixDynamicGRU(  # eq 7-23
            units, variant, concat, use_bias, shared_transform, dtype=dtype, name="control"
        )
        control_dropout = keras.layers.Dropout(dropout, dtype=dtype, name="control_dropout")
        hidden = [
            keras.layers.Dense(units, "relu", dtype=dtype, name=f"hidden_{i}")
            for i in range(1, hidden_layers + 1)
        ]
        classify = classifier(num_classes)  # eq 26

        # === Functional model ===
        inputs = pair_inputs()

        def encode(sentence: Encoding, side: str | None = None) -> Encoding:
            mask = ops.not_equal(sentence["word_ids"], 0)
            x = words(sentence["word_ids"])
            if side == "1" or encode_hypothesis:  # eq 3-6; unmasked: states don't see what follows
                x = encoding_dropout(zero_padding(encoding(x), mask))
            return {"states": x, "mask": mask}

        def interact(one: Encoding, two: Encoding) -> Any:
            states = control(one["states"], two["states"], one["mask"], two["mask"])
            v = masked_mean(control_dropout(states), two["mask"])  # eq 24
            for layer in hidden:  # eq 25
                v = layer(v)
            return classify(v)

        if encode_hypothesis:
            one, two = encode_both(encode, inputs, dtype)
        else:
            one, two = (encode(side_inputs(inputs, side), side) for side in ("1", "2"))
        super().__init__(inputs=inputs, outputs=interact(one, two), **kwargs)

        # === Config ===
        self._keep_config(locals())
        self._keep_halves(encode, interact)
        self._explain = (control, one, two)

    def explainer(self) -> keras.Model:
        """A functional model on the same weights and inputs that shows what interacts, and what the GRU makes of it.

        Returns:
            A model whose output is a dict: `probabilities` `[B, C]`; `interaction_2` `[B, L2, L1]`, for each word of
            sentence 2 the size of its interaction matrix after each word of sentence 1; and, with dynamic weights,
            `update_gate_2`, `reset_gate_2` and `candidate_2` `[B, L2]`, the size of the weights made at each word. All are
            norms, stretched from 0, the least, to 1, the greatest over the real words of the row; 0 where these are equal.
            Paper eq 28-31, Fig 2-3.
        """
        control, one, two = self._explain
        _, norms, *gates = _CallWith(control, return_norms=True)(
            one["states"], two["states"], one["mask"], two["mask"]
        )
        outputs = {"interaction_2": _stretch(norms, pair_mask(two["mask"], one["mask"]))}
        if gates:
            for i, name in enumerate(("update_gate_2", "reset_gate_2", "candidate_2")):
                outputs[name] = _stretch(gates[0][:, :, i], two["mask"])
        return keras.Model(
            self.input, {"probabilities": self.output, **outputs}, name=f"{self.name}_explainer"
        )


def _stretch(x: Any, mask: Any) -> Any:
    """`(x - min) / (max - min)` over the real entries of the last axis, in float32; 0 at padding and where max = min."""
    x, axis = ops.cast(x, "float32"), len(x.shape) - 1
    low = -ops.expand_dims(masked_max(-x, mask, axis), -1)
    span = ops.expand_dims(masked_max(x, mask, axis), -1) - low
    spread = ops.greater(span, 0.0)
    stretched = (x - low) / ops.where(spread, span, 1.0)
    return ops.where(ops.logical_and(mask, spread), stretched, 0.0)
