"""The cross-encoder: a classifier on the `[CLS]` state of a pretrained encoder (Devlin et al., NAACL 2019)."""

from typing import Any, ClassVar

import keras

from keras_sentmatch.applications.backbone import BackboneModel, Encoder, initializer, mask_of
from keras_sentmatch.applications.base import classifier, register_model
from keras_sentmatch.applications.pictures import ENCODER_ATTENTION
from keras_sentmatch.applications.search_space import BACKBONES, Choice, Parameter
from keras_sentmatch.errors import InputError
from keras_sentmatch.ops import masked_mean

POOLINGS = ("cls", "mean")


@register_model("cross_encoder")
class CrossEncoder(BackboneModel):
    """BERT or RoBERTa over both sentences as one sequence, and a classifier on one vector of it.

    Args:
        backbone: a KerasHub preset name, or a folder with a KerasHub or Hugging Face BERT or RoBERTa, whose weights are
            loaded; a KerasHub backbone, whose weights are copied; or the serialised config of one, which has no weights.
        num_classes: width of the output; 1 gives a score instead of probabilities. Defaults to `3`.
        trainable_backbone: whether the backbone learns. Defaults to `True`.
        pooling: `"cls"`, the state of the first token through a tanh layer (BERT's own; a new one for RoBERTa), or
            `"mean"`, the mean of the states of all tokens. Defaults to `"cls"`.
        dropout: rate before the classifier. Defaults to `0.1`.
        backbone_dropout: rate within the backbone. Defaults to `None`, its own.

    Inputs:
        A dict of int32 `[B, L]`: `token_ids`, `padding_mask` (1 = real) and, for BERT, `segment_ids`. Right-padded with 0 or
        the tokenizer's padding id.

    Masking:
        Padding changes nothing and is never read. A row without tokens gives a finite answer.

    Raises:
        InputError: for an unknown pooling, or a backbone that is no BERT or RoBERTa or cannot be loaded.

    Example:
        >>> import keras_hub, numpy as np
        >>> from keras_sentmatch.applications import CrossEncoder
        >>> backbone = keras_hub.models.BertBackbone(
        ...     vocabulary_size=30, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16
        ... )
        >>> model = CrossEncoder(backbone)
        >>> ids = np.array([[2, 5, 3, 6, 3]])
        >>> inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}
        >>> tuple(model(inputs).shape)
        (1, 3)

    References:
        Devlin, Chang, Lee, Toutanova: "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
        NAACL 2019.
    """

    paper = "Devlin et al. 2019"
    summary_line = "BERT or RoBERTa over both sentences at once, and a classifier"
    presets = {"cls": {}, "mean": {"pooling": "mean"}}
    search_space: ClassVar[list[Parameter]] = [*BACKBONES, Choice("model.pooling", ("cls", "mean"))]
    pictures = (ENCODER_ATTENTION,)

    def __init__(
        self,
        backbone: Any,
        num_classes: int = 3,
        trainable_backbone: bool = True,
        pooling: str = "cls",
        dropout: float = 0.1,
        backbone_dropout: float | None = None,
        **kwargs: Any,
    ):
        if pooling not in POOLINGS:
            raise InputError(f"pooling must be one of {POOLINGS}. Received: pooling={pooling!r}")
        dtype = keras.dtype_policies.get(kwargs.get("dtype"))

        # === Layers ===
        encoder = Encoder(backbone, dtype, backbone_dropout)
        drop = keras.layers.Dropout(dropout, dtype=dtype, name="dropout")
        classify = classifier(num_classes, kernel_initializer=initializer())

        # === Functional model ===
        inputs = encoder.inputs()
        mask = mask_of(inputs)
        embedded = x = encoder.embed(inputs)
        for block in encoder.blocks:
            x = block(x, padding_mask=inputs["padding_mask"])

        def predict(x: Any) -> Any:
            return classify(drop((encoder.pool if pooling == "cls" else masked_mean)(x, mask)))

        def explain() -> dict[str, Any]:
            x, shown = embedded, {}
            for i, block in enumerate(encoder.blocks):
                x, shown[f"attention_{i}"] = _WithAttention(block)(x, inputs["padding_mask"])
            return {"probabilities": predict(x), **shown}

        super().__init__(inputs=inputs, outputs=predict(x), **kwargs)

        # === Config ===
        backbone = encoder.config
        self._keep_config(locals())
        self._keep_backbone(encoder, trainable_backbone)
        self._explain = explain

    def explainer(self) -> keras.Model:
        """A functional model on the same weights and inputs that shows what attended to what.

        Returns:
            A model whose output is a dict: `probabilities` `[B, C]`, and for each transformer block i `attention_i`
            `[B, heads, L, L]`: from each token to the real ones, rows sum to 1.
        """
        return keras.Model(self.input, self._explain(), name=f"{self.name}_explainer")


class _WithAttention(keras.layers.Layer):
    """A transformer block of KerasHub, called on its own weights so that it returns its attention too."""

    def __init__(self, block: keras.layers.Layer):
        super().__init__(dtype=block.dtype_policy)
        self.block = block
        self.built = True

    def call(self, x: Any, padding_mask: Any) -> Any:
        return self.block(x, padding_mask=padding_mask, return_attention_scores=True)

    def compute_output_spec(self, x: Any, padding_mask: Any) -> Any:
        batch, length = x.shape[:2]
        maps = (batch, self.block.num_heads, length, length)
        return tuple(keras.KerasTensor(s, dtype=self.compute_dtype) for s in (x.shape, maps))
