"""LadRa-Net: Locally Aware Dynamic Re-read Attention Net (Zhang et al., IEEE TNNLS)."""

from collections.abc import Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from keras_sentmatch.applications.backbone import (
    BackboneModel,
    Encoder,
    first_state,
    mask_of,
    special_tokens,
)
from keras_sentmatch.applications.base import _CallWith, classifier, register_model
from keras_sentmatch.applications.pictures import READ, PictureSpec
from keras_sentmatch.applications.search_space import (
    BACKBONES,
    BETAS,
    Choice,
    LogUniform,
    Parameter,
)
from keras_sentmatch.errors import InputError
from keras_sentmatch.layers import (
    DynamicSequentialAttention,
    LayerWeightedSum,
    PhraseCNN,
    SelfAttentionPooling,
    StackRNN,
)

ENCODERS = ("transformer", "stack_gru")
LAYER_WEIGHTINGS = ("softmax", "free")
FUSIONS = ("mean", "max")


@register_model("ladra_net")
class LadRaNet(BackboneModel):
    """Locally Aware Dynamic Re-read Attention Net: BERT, phrases around each token, and a GRU that re-reads both.

    Args:
        backbone: a KerasHub preset name, or a folder with a KerasHub or Hugging Face BERT or RoBERTa, whose weights are
            loaded; a KerasHub backbone, whose weights are copied; or the serialised config of one, which has no weights.
        num_classes: width of the output; 1 gives a score instead of probabilities. Defaults to `3`.
        trainable_backbone: whether the backbone learns. Defaults to `True`.
        encoder: `"transformer"`, the backbone's blocks, or `"stack_gru"`, DRr-Net's encoder in their place: GRUs over the
            backbone's embeddings, and attention that pools their states. Defaults to `"transformer"`.
        units: width of one of those GRUs. Defaults to `256`.
        depth: number of those GRUs. Defaults to `3`.
        layer_weighting: how the backbone's blocks are summed: `"softmax"`, with weights that sum to 1, or `"free"`, with any
            numbers. Defaults to `"softmax"`.
        widths: tokens in a phrase, one convolutional unit each, d_k; `()` for no phrases. Defaults to `(2, 3)`.
        hidden_filters: width between the two convolutions of a unit. Defaults to `500`.
        attention_units: width of the hidden layers that score tokens and units. Defaults to `200`.
        steps: how often the pair is read again, T; the paper tries 1 to 8, 0 is never. Defaults to `5`.
        beta: sharpness of the choice. Defaults to `10.0`.
        fuse_word: whether the chosen token is read beside the chosen phrases. Defaults to `True`.
        coverage: `"multiply"`, `"log"` or `"off"`, see `DynamicSequentialAttention`. Defaults to `"multiply"`.
        clip_coverage: whether coverage stays at 0 or above. Defaults to `True`.
        coverage_update: `"probability"` or `"score"`, by which coverage falls. Defaults to `"probability"`.
        select_special: whether `[CLS]` and `[SEP]` may be chosen. Defaults to `True`.
        use_global: whether the global vector h_ab is part of what is classified. Defaults to `True`.
        fusion: how h_ab and the states of re-reading become one vector, `"mean"` or `"max"`. Defaults to `"mean"`.
        hidden_units: width of the classifier's hidden layer. Defaults to `None`, the width of a token.
        dropout: rate before both layers of the classifier. Defaults to `0.1`.
        backbone_dropout: rate within the backbone. Defaults to `None`, its own.

    Inputs:
        A dict of int32 `[B, L]`: `token_ids`, `padding_mask` (1 = real) and, for BERT, `segment_ids`. Right-padded with 0 or
        the tokenizer's padding id.

    Masking:
        Padding changes nothing and is never read. A row without tokens gives a finite answer.

    Raises:
        InputError: for an unknown option, `steps` below 0, `use_global` off with no steps, or a backbone that is no BERT or
            RoBERTa or cannot be loaded.

    Example:
        >>> import keras_hub, numpy as np
        >>> from keras_sentmatch.applications import LadRaNet
        >>> backbone = keras_hub.models.BertBackbone(
        ...     vocabulary_size=30, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16
        ... )
        >>> model = LadRaNet(backbone, hidden_filters=4, attention_units=4, steps=2)
        >>> ids = np.array([[2, 5, 3, 6, 3]])
        >>> inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}
        >>> tuple(model(inputs).shape)
        (1, 3)

    References:
        Zhang, Lv, Wu, Chen, Liu, Wang: "LadRa-Net: Locally Aware Dynamic Reread Attention Net for Sentence Semantic
        Matching", IEEE TNNLS, Section V, eq 9-15 and Table VII.
    """

    paper = "Zhang et al. 2021"
    summary_line = "BERT, phrases around each token, and a GRU that re-reads tokens and phrases"
    presets = {
        "table7_1_bert": {"widths": (), "steps": 0},
        "table7_2_bert_pcnn": {"steps": 0},
        "table7_3_bert_dsa": {"widths": ()},
        "table7_4_no_global": {"use_global": False},
        "table7_5_stack_gru": {"encoder": "stack_gru"},
        "table7_6_max_fusion": {"fusion": "max"},
        "table7_7_full": {},
    }
    search_space: ClassVar[list[Parameter]] = [
        *BACKBONES,
        LogUniform("training.backbone_learning_rate"),
        Choice(
            "model.widths",
            {
                "none": [],
                "1": [1],
                "2": [2],
                "3": [3],
                "1+2": [1, 2],
                "1+3": [1, 3],
                "2+3": [2, 3],
                "1+2+3": [1, 2, 3],
            },
            aliases=["d_k"],
        ),
        Choice(
            "model.hidden_filters",
            (125, 250, 500),
            when={"model.widths": ["1", "2", "3", "1+2", "1+3", "2+3", "1+2+3"]},
        ),
        Choice("model.steps", range(1, 9), aliases=["T"]),
        Choice("model.beta", BETAS, aliases=["beta", "β"]),
        Choice("model.coverage", ("off", "multiply", "log")),
        Choice(
            "model.coverage_update",
            ("probability", "score"),
            when={"model.coverage": ["multiply", "log"]},
        ),
        Choice("model.fusion", ("mean", "max")),
        Choice("model.attention_units", (50, 100, 200)),
        Choice("model.encoder", ("stack_gru", "transformer")),
        Choice("model.depth", (1, 2, 3, 4), aliases=["l_s"], when={"model.encoder": ["stack_gru"]}),
        Choice("model.units", (128, 256), when={"model.encoder": ["stack_gru"]}),
    ]
    pictures = (
        PictureSpec("selection", "step unit joint", "Read again", READ, reread=True),
        PictureSpec(
            "coverage",
            "step unit joint",
            "Coverage",
            "What is left to read of each piece after each step.",
            top=1,
        ),
        PictureSpec("unit_weights", "step reader", "Weights of the units", "At each step.", top=1),
        PictureSpec("layer_weights", "block", "Weights of the encoder's blocks"),
    )

    def __init__(
        self,
        backbone: Any,
        num_classes: int = 3,
        trainable_backbone: bool = True,
        encoder: str = "transformer",
        units: int = 256,
        depth: int = 3,
        layer_weighting: str = "softmax",
        widths: Sequence[int] = (2, 3),
        hidden_filters: int = 500,
        attention_units: int = 200,
        steps: int = 5,
        beta: float = 10.0,
        fuse_word: bool = True,
        coverage: str = "multiply",
        clip_coverage: bool = True,
        coverage_update: str = "probability",
        select_special: bool = True,
        use_global: bool = True,
        fusion: str = "mean",
        hidden_units: int | None = None,
        dropout: float = 0.1,
        backbone_dropout: float | None = None,
        **kwargs: Any,
    ):
        for name, value, allowed in (
            ("encoder", encoder, ENCODERS),
            ("layer_weighting", layer_weighting, LAYER_WEIGHTINGS),
            ("fusion", fusion, FUSIONS),
        ):
            if value not in allowed:
                raise InputError(f"{name} must be one of {allowed}. Received: {name}={value!r}")
        if steps < 0:
            raise InputError(f"steps must be at least 0. Received: steps={steps!r}")
        if not (use_global or steps):
            raise InputError(
                "Nothing is left to classify: set use_global to True or steps above 0."
            )
        dtype = keras.dtype_policies.get(kwargs.get("dtype"))

        # === Layers, in the order of the paper ===
        bert = Encoder(backbone, dtype, backbone_dropout)
        weigh = LayerWeightedSum(layer_weighting == "softmax", dtype=dtype, name="layer_weighting")
        gru = StackRNN(units, depth, dtype=dtype, name="stack_gru")

        def pooling(name: str) -> SelfAttentionPooling:
            return SelfAttentionPooling(attention_units, dtype=dtype, name=f"pooling_{name}")

        poolings = [pooling(str(r)) for r in range(1, len(widths) + 1)]
        phrase_cnn: Any = widths and PhraseCNN(
            widths, hidden_filters, dtype=dtype, name="phrase_cnn"
        )
        rereading: Any = steps and DynamicSequentialAttention(
            steps,
            attention_units,
            beta,
            fuse_word,
            coverage,
            clip_coverage,
            coverage_update,
            dtype=dtype,
            name="rereading",
        )
        drops = [keras.layers.Dropout(dropout, dtype=dtype, name=f"dropout_{i}") for i in (1, 2)]
        classify = classifier(num_classes)

        # === Functional model ===
        inputs = bert.inputs()
        mask = mask_of(inputs)
        x = bert.embed(inputs)
        if encoder == "stack_gru":
            words = gru(x, mask)
            whole = pooling("words")(words, mask)
        else:
            states = []
            for block in bert.blocks:
                x = block(x, padding_mask=inputs["padding_mask"])
                states.append(x)
            words = weigh(states) if widths or steps else None  # eq 9
            whole = first_state(x, mask)  # [CLS] in the last block
        of_units, vectors = [words], [whole]
        if widths:
            phrases = phrase_cnn(words, mask)  # eq 10
            of_units += [phrases[:, r] for r in range(len(widths))]
            vectors += [pool(h, mask) for pool, h in zip(poolings, of_units[1:])]  # eq 11
        h_ab = ops.mean(ops.stack(vectors, axis=1), axis=1)
        selectable = None
        if not select_special:
            selectable = ops.logical_not(ops.logical_or(*special_tokens(inputs)))
        hidden = keras.layers.Dense(
            hidden_units or whole.shape[-1], "relu", dtype=dtype, name="hidden"
        )

        read: tuple = ()
        if steps:
            read = (ops.stack(of_units, axis=1), mask, h_ab, selectable)

        def predict(states: Any) -> Any:
            """Eq 15."""
            parts = [ops.expand_dims(h_ab, 1)] if use_global else []
            parts += [states] if steps else []
            reduce = ops.mean if fusion == "mean" else ops.max
            v = reduce(ops.concatenate(parts, axis=1), axis=1)
            return classify(drops[1](hidden(drops[0](v))))

        def explain() -> dict[str, Any]:
            shown, states = {}, None
            if steps:
                call = _CallWith(rereading, return_sequences=True, return_selection=True)
                states, *found = call(*read)
                shown = dict(zip(("selection", "coverage", "unit_weights"), found))
            if weigh.built:
                shown["layer_weights"] = _Weights(weigh)(mask)
            return {"probabilities": predict(states), **shown}

        outputs = predict(rereading(*read, return_sequences=True) if steps else None)  # eq 12-14
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)

        # === Config ===
        backbone = bert.config
        self._keep_config(locals())
        self._keep_backbone(bert, trainable_backbone)
        self._explain = explain

    def explainer(self) -> keras.Model:
        """A functional model on the same weights and inputs that shows what was read again.

        Returns:
            A model whose output is a dict: `probabilities` `[B, C]`; `selection` `[B, steps, R+1, L]`, what each unit chose
            at each step, the tokens first, then a unit for each of `widths`: the arg-max of a row is the token read, or
            the phrase around it; `coverage`, of the same shape, what is left to read after the step; `unit_weights`
            `[B, steps, R+1]`, how much each unit counts; `layer_weights` `[B, blocks]`, the same for all rows. What is
            switched off is absent.
        """
        return keras.Model(self.input, self._explain(), name=f"{self.name}_explainer")


class _Weights(keras.layers.Layer):
    """The weights of a LayerWeightedSum, once for each row of a batch."""

    def __init__(self, layer: LayerWeightedSum):
        super().__init__(dtype="float32", autocast=False)
        self.layer = layer
        self.built = True

    def call(self, x: Any) -> Any:
        scalars = ops.convert_to_tensor(self.layer.scalars)
        weights = ops.softmax(scalars) if self.layer.normalize else scalars
        return ops.tile(ops.expand_dims(weights, 0), (ops.shape(x)[0], 1))

    def compute_output_spec(self, x: Any) -> Any:
        return keras.KerasTensor((x.shape[0], self.layer.scalars.shape[0]), dtype="float32")
