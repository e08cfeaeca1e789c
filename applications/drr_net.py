"""DRr-Net: Dynamic Re-read Network (Zhang et al., AAAI 2019 and IEEE TNNLS)."""

from collections.abc import Callable
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
    pair_inputs,
    register_model,
)
from keras_sentmatch.applications.pictures import READ, PictureSpec
from keras_sentmatch.applications.search_space import (
    BETAS,
    FLAG,
    MAX_LENGTH,
    WORD_MODELS,
    Choice,
    Parameter,
)
from keras_sentmatch.errors import InputError
from keras_sentmatch.layers import (
    Highway,
    MatchingVector,
    RerereadAttention,
    SelfAttentionPooling,
    StackRNN,
    WordRepresentation,
)


@register_model("drr_net")
class DRrNet(PairModel):
    """Dynamic Re-read Network: a global view of each sentence, and a GRU that reads its most important words again.

    Args:
        vocabulary_size: number of word ids; 0 is padding, 1 the unknown word.
        num_classes: width of the output; 1 gives a score instead of probabilities. Defaults to `3`.
        embedding_dim: width of a word vector. Defaults to `300`.
        trainable_embedding: whether the word vectors learn. Defaults to `False`.
        char_vocabulary_size: number of character ids; 0 leaves the characters out. Defaults to `0`.
        char_dim: width of a character embedding. Defaults to `100`.
        char_filters: width of the character feature. Defaults to `100`.
        char_kernel_size: characters in a window. Defaults to `5`.
        max_word_length: characters a word is padded to. Defaults to `16`.
        exact_match: whether to flag words of the other sentence. Defaults to `True`.
        pos_tags: number of part-of-speech ids (`pos_1`, `pos_2`); 0 leaves them out. Defaults to `0`.
        antonym: whether there is an antonym flag (`antonym_1`, `antonym_2`). Defaults to `False`.
        highway_layers: highway layers over the word features. Defaults to `2`.
        units: width of a GRU, and of the hidden layer of the pooling. Defaults to `256`.
        depth: recurrent layers of the stack, l_s; the paper tries 1 to 4. Defaults to `3`.
        bidirectional: whether they run both ways, which doubles their width. Defaults to `False`.
        attention_units: width of the hidden layer that scores a token for re-reading. Defaults to `200`.
        steps: tokens read again, T; the paper tries 1 to 10. Defaults to `6`.
        beta: sharpness of their selection. Defaults to `10.0`.
        selection: `"soft"`, `"straight_through"` or `"hard"`, see `RerereadAttention`. Defaults to `"soft"`.
        init_projection: whether a dense layer narrows the global vector to the re-reading GRU's initial state. Without it
            that GRU is as wide as the global vector. Defaults to `True`.
        use_initial_vector: whether the sentence's own global vector is that state; else zeros. Defaults to `True`.
        use_guide: whether the other sentence's global vector guides the selection. Defaults to `True`.
        use_global: whether the global vectors are compared. Defaults to `True`.
        use_dynamic: whether what was re-read is compared. Defaults to `True`.
        hidden_units: width of the two hidden layers of each classifier. Defaults to `256`.
        dropout: rate before each dense layer of the classifiers, but not on the class probabilities that the last of them
            takes. Defaults to `0.2`.
        aux_loss_weight: weight of the loss of each of the two intermediate predictions, p_h and p_v, in training. It is the
            loss given to `compile`, so `loss` is not comparable with `val_loss`; 0 leaves them out. Defaults to `1.0`.

    Inputs:
        A dict of int32: `word_ids_1` `[B, L1]`, `word_ids_2` `[B, L2]`; with characters `char_ids_1` `[B, L1, 16]` and
        `char_ids_2`; with those features `pos_1`, `pos_2`, `antonym_1`, `antonym_2`. Right-padded with 0.

    Masking:
        Padding changes nothing and is never read; an empty sentence gives a finite answer.

    Raises:
        InputError: if `use_global` and `use_dynamic` are both off, or `aux_loss_weight` is negative.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.applications import DRrNet
        >>> model = DRrNet(vocabulary_size=20, embedding_dim=8, units=4, steps=2)
        >>> ids = np.array([[2, 3, 4, 0]])
        >>> tuple(model({"word_ids_1": ids, "word_ids_2": ids[:, :3]}).shape)
        (1, 3)

    References:
        Zhang et al.: "DRr-Net: Dynamic Re-read Network for Sentence Semantic Matching", AAAI 2019; Zhang, Lv, Wu, Chen, Liu,
        Wang: "LadRa-Net", IEEE TNNLS, Section IV, eq 1-8 and Table VI.
    """

    paper = "Zhang et al. 2019"
    summary_line = "stacked GRUs, and a GRU that re-reads the most important words one by one"
    # The paper's features (d_w = 412 with characters), and the rows of its Table VI.
    presets = {
        "paper": {"pos_tags": 10, "antonym": True},
        "table6_1_no_initial_vector": {"use_initial_vector": False},
        "table6_2_no_guide_vector": {"use_guide": False},
        "table6_3_no_global_result": {"use_global": False},
        "table6_4_no_dynamic_result": {"use_dynamic": False},
        "table6_5_full": {},
    }
    search_space: ClassVar[list[Parameter]] = [
        *WORD_MODELS,
        MAX_LENGTH,
        Choice("model.steps", range(1, 11), aliases=["T"]),
        Choice("model.depth", (1, 2, 3, 4), aliases=["l_s"]),
        Choice("model.beta", BETAS, aliases=["beta", "β"]),
        Choice("model.selection", ("soft", "straight_through")),
        Choice("model.units", (64, 128, 256)),
        Choice("model.bidirectional", FLAG),
        Choice("model.attention_units", (50, 100, 200)),
        Choice("model.hidden_units", (64, 128, 256)),
        Choice("model.aux_loss_weight", (0.0, 0.5, 1.0)),
    ]
    pictures = (
        PictureSpec(
            "selection_{side}",
            "step {side}",
            "Words read again, sentence {side}",
            READ,
            reread=True,
        ),
        *(
            PictureSpec(key, "class", "Predictions before they are joined", row=row, top=1)
            for key, row in (
                ("p_h", "from the global vectors"),
                ("p_v", "from the re-read vectors"),
            )
        ),
        *(
            PictureSpec(key, "gate", "Gates of these predictions", row=row, top=1)
            for key, row in (
                ("gate_h", "from the global vectors"),
                ("gate_v", "from the re-read vectors"),
            )
        ),
    )

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int = 3,
        embedding_dim: int = 300,
        trainable_embedding: bool = False,
        char_vocabulary_size: int = 0,
        char_dim: int = 100,
        char_filters: int = 100,
        char_kernel_size: int = 5,
        max_word_length: int = 16,
        exact_match: bool = True,
        pos_tags: int = 0,
        antonym: bool = False,
        highway_layers: int = 2,
        units: int = 256,
        depth: int = 3,
        bidirectional: bool = False,
        attention_units: int = 200,
        steps: int = 6,
        beta: float = 10.0,
        selection: str = "soft",
        init_projection: bool = True,
        use_initial_vector: bool = True,
        use_guide: bool = True,
        use_global: bool = True,
        use_dynamic: bool = True,
        hidden_units: int = 256,
        dropout: float = 0.2,
        aux_loss_weight: float = 1.0,
        **kwargs: Any,
    ):
        if not (use_global or use_dynamic):
            raise InputError("Nothing is left to compare: set use_global or use_dynamic to True.")
        if aux_loss_weight < 0:
            raise InputError(f"aux_loss_weight must be at least 0. Received: {aux_loss_weight!r}")
        dtype = keras.dtype_policies.get(kwargs.get("dtype"))

        # === Layers, in the order of the paper ===
        words = WordRepresentation(
            vocabulary_size,
            embedding_dim,
            trainable_embedding,
            not trainable_embedding,
            char_vocabulary_size,
            char_dim,
            char_filters,
            char_kernel_size,
            exact_match,
            pos_tags,
            antonym,
            dropout=0.0,
            dtype=dtype,
            name="word_representation",
        )
        highway = Highway(highway_layers, dtype=dtype, name="highway")
        encoding = StackRNN(units, depth, bidirectional, dtype=dtype, name="encoding")  # eq 2
        pooling = SelfAttentionPooling(units, dtype=dtype, name="pooling")  # eq 3
        width = words.width + depth * units * (2 if bidirectional else 1)
        start = ("projected" if init_projection else "given") if use_initial_vector else "zero"
        rereading: Any = use_dynamic and RerereadAttention(  # eq 4 and 6 (eq 5 if hard)
            units if init_projection else width,
            attention_units,
            steps,
            beta,
            selection,
            start,
            use_guide,
            dtype=dtype,
            name="rereading",
        )
        matching = MatchingVector(  # eq 7, which the paper leaves out
            ("first", "second", "product", "difference"), dtype=dtype, name="matching"
        )
        activation = "softmax" if num_classes > 1 else "linear"

        def dropped(layer: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
            """`layer` after dropout."""
            drop = keras.layers.Dropout(dropout, dtype=dtype, name=f"{name}_dropout")
            return lambda v: layer(drop(v))

        def mlp(name: str, predict: Callable[[Any], Any]) -> Callable[[Any], Any]:
            one, two = (
                keras.layers.Dense(hidden_units, "relu", dtype=dtype, name=f"{name}_hidden_{i}")
                for i in ("1", "2")
            )
            two, predict = dropped(two, f"{name}_hidden_2"), dropped(predict, f"{name}_last")
            return lambda v: predict(two(one(v)))

        def predictor(name: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
            """MLP_1 (h) or MLP_2 (v), and the gate of its prediction."""
            p = keras.layers.Dense(num_classes, activation, dtype="float32", name=f"p_{name}")
            keep = _UntilLoss(dtype="float32", name=f"auxiliary_{name}")
            gate = keras.layers.Dense(1, "sigmoid", dtype="float32", name=f"gate_{name}")
            return dropped(mlp(f"mlp_{name}", lambda v: keep(p(v))), f"mlp_{name}"), gate

        compared = {"h": "global"} if use_global else {}
        compared |= {"v": "reread"} if use_dynamic else {}
        predictors = {name: predictor(name) for name in compared}
        classify = mlp("mlp", classifier(num_classes))
        needs_global = use_global or use_initial_vector or use_guide

        # === Functional model ===
        inputs = pair_inputs(char_vocabulary_size, max_word_length, pos_tags, antonym)

        def encode(sentence: Encoding, side: str | None = None) -> Encoding:
            mask = ops.not_equal(sentence["word_ids"], 0)
            states = encoding(highway(words(**sentence)), mask)
            vector = {"global": pooling(states, mask)} if needs_global else {}
            return {"states": states, "mask": mask, **vector}

        def reading(sentence: Encoding, other: Encoding) -> Encoding:
            guide = {"guide": other["global"]} if use_guide else {}
            start = {"initial_state": sentence["global"]} if use_initial_vector else {}
            return {"h": sentence["states"], "mask": sentence["mask"], **guide, **start}

        def reread(sentence: Encoding) -> Encoding:
            return {"reread": rereading(**sentence)}

        def relate(one: Encoding, two: Encoding) -> Encoding:
            if use_dynamic:
                v1, v2 = apply_to_both(reread, reading(one, two), reading(two, one), dtype)
                one, two = {**one, **v1}, {**two, **v2}
            found, gated = {}, []
            for name, (predict, gate) in predictors.items():
                vector = compared[name]
                p = predict(matching(one[vector], two[vector]))
                found[f"p_{name}"], found[f"gate_{name}"] = p, gate(p)
                gated.append(found[f"gate_{name}"] * p)
            return {"probabilities": classify(sum(gated[1:], gated[0])), **found}  # eq 8

        def interact(one: Encoding, two: Encoding) -> Any:
            return relate(one, two)["probabilities"]

        one, two = encode_both(encode, inputs, dtype)
        seen = relate(one, two)
        super().__init__(inputs=inputs, outputs=seen["probabilities"], **kwargs)

        # === Config ===
        self._keep_config(locals())
        flags = {"exact_match": exact_match, "antonym": antonym}
        off = ", ".join(f"{name}=False" for name, flagged in flags.items() if flagged)
        undivided = f"it flags words by the other sentence; make it with {off}" if off else ""
        self._keep_halves(encode, interact, undivided)
        self._explain = (rereading, reading(one, two), reading(two, one), seen)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """The compiled loss, and in training the same loss of p_h and of p_v, `aux_loss_weight` times each."""
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        kept = [layer.take() for layer in self.layers if isinstance(layer, _UntilLoss)]
        if training and self.aux_loss_weight and self._compile_loss is not None:
            for p in kept:
                if p is not None:
                    loss = loss + self.aux_loss_weight * self._compile_loss(y, p, sample_weight)
        return loss

    def explainer(self) -> keras.Model:
        """A functional model on the same weights and inputs that shows what was read again.

        Returns:
            A model whose output is a dict: `probabilities` `[B, C]`; `p_h`, `p_v` `[B, C]`, the predictions from the global
            and from the re-read vectors, and their gates `gate_h`, `gate_v` `[B, 1]`; `selection_1` `[B, steps, L1]` and
            `selection_2` `[B, steps, L2]`: the arg-max of a row is the token read in that step, its value how sure that
            was. What is switched off is absent. Paper Table VIII.
        """
        rereading, *sides, seen = self._explain
        outputs = {**seen, "probabilities": self.output}
        if self.use_dynamic:
            for i, side in enumerate(sides, start=1):
                inputs = [side.get(name) for name in ("h", "mask", "guide", "initial_state")]
                _, _, weights = _CallWith(rereading, return_selection=True)(*inputs)
                outputs[f"selection_{i}"] = weights
        return keras.Model(self.input, outputs, name=f"{self.name}_explainer")


class _UntilLoss(keras.layers.Layer):
    """Passes a prediction on, and in training keeps it until `compute_loss` of the same trace takes it."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self._kept: Any = None

    def call(self, p: Any, training: bool | None = None) -> Any:
        self._kept = p if training else None
        return p

    def take(self) -> Any:
        kept, self._kept = self._kept, None
        return kept

    def compute_output_spec(self, p: Any, training: bool | None = None) -> Any:
        return keras.KerasTensor(p.shape, dtype=p.dtype)
