"""The base of models on pretrained backbones: a KerasHub backbone, called layer by layer."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
from keras import ops

from keras_sentmatch.applications.pair_model import PairModel, Sentence
from keras_sentmatch.errors import InputError
from keras_sentmatch.ops.masking import zero_padding
from keras_sentmatch.ops.sequence import last_state
from keras_sentmatch.text.backbones import block_options, blocks_of, embed, takes_segments

FROM_MODEL = ("name", "dtype", "trainable")  # which the model has of its own


class BackboneModel(PairModel):
    """A model that reads both sentences as one sequence, with the layers of a pretrained backbone.

    A subclass's mathematics stands in `read(pair)`, with the layers of `self.bert`.

    Args:
        backbone: A KerasHub preset name, or a folder with a KerasHub or Hugging Face model, whose
            weights are loaded; a KerasHub backbone, whose weights are copied; or the serialized
            config of one, which has no weights. It is kept as a serialized config, so a saved model
            does not need the preset it was made from. The kinds are those of
            `keras_sentmatch.text.backbones`: BERT, RoBERTa, XLM-RoBERTa, ALBERT, DistilBERT,
            ELECTRA or DeBERTa-v3.
        trainable_backbone: Whether the backbone is trained.
        dropout: Rate before the dense layers of the classifier.
        backbone_dropout: Rate within the backbone; `None` keeps its own.

    Inputs:
        A dict of int32 `[B, L]`: `token_ids`, `padding_mask` (1 = real) and, where the backbone has
        segments, `segment_ids`, as `SubwordPairEncoder` makes them. Right-padded, whatever the id of
        padding.

    Masking:
        Padding changes nothing and is never read. A row without tokens gives a finite output.

    Raises:
        InputError: The backbone is not supported or cannot be loaded.
    """

    unused = inspect.signature(PairModel.__init__).parameters.keys() - {"num_classes", "dropout"}

    def read(self, pair: Sentence):
        """The output from `token_ids`, `padding_mask`, `mask` and perhaps `segment_ids` of a pair."""
        raise NotImplementedError

    def __init__(
        self,
        backbone,
        num_classes: int = 3,
        trainable_backbone: bool = True,
        dropout: float = 0.1,
        backbone_dropout: float | None = None,
        **kwargs,
    ):
        self.check_arguments(kwargs)
        super().__init__(num_classes=num_classes, dropout=dropout, **kwargs)
        self.trainable_backbone = trainable_backbone
        self.backbone_dropout = backbone_dropout
        self.bert = Backbone(backbone, self.policy, backbone_dropout)
        self.backbone = self.bert.config
        self.max_length = self.bert.max_length

    def make_graph(self) -> None:
        super().make_graph()
        for layer in [] if self.trainable_backbone else self.backbone_layers():
            layer.trainable = False  # only now: `keras.Model` may make it trainable again

    def make_inputs(self) -> dict[str, Any]:
        names = ["token_ids", "padding_mask"]
        if self.bert.has_segments:
            names.insert(1, "segment_ids")
        return {name: keras.Input((None,), dtype="int32", name=name) for name in names}

    def connect(self, inputs: Mapping[str, Any]):
        return self.read(Sentence(**inputs, mask=ops.not_equal(inputs["padding_mask"], 0)))

    @property
    def why_not_splittable(self) -> str:
        return "it reads both sentences as one sequence"

    def backbone_layers(self) -> list[keras.layers.Layer]:
        """The layers that came from the backbone."""
        names = {layer.name for layer in self.bert.backbone.layers}
        return [layer for layer in self.layers if layer.name in names]

    @property
    def backbone_variables(self) -> list[Any]:
        """The variables of the backbone, e.g. for a lower learning rate; all others are new."""
        return [v for layer in self.backbone_layers() for v in layer.weights]

    def set_word_vectors(self, matrix, similarity=None) -> None:
        raise InputError(
            f"{type(self).__name__} reads word pieces, whose vectors come with its backbone. "
            "It has no word vectors to set."
        )

    def count_params_without_word_embeddings(self) -> int:
        """All parameters but the table of the word pieces."""
        return self.count_params() - self.bert.backbone.token_embedding.count_params()


class Backbone:
    """The layers of a KerasHub backbone, called one by one in the graph of a model.

    `config` is serialized, without what the model has of its own; ALBERT's one block stands in
    `blocks` several times; `max_length` counts word pieces.
    """

    def __init__(self, backbone, dtype, dropout: float | None = None):
        from keras_sentmatch.text.backbones import (
            check_backbone,
            keras_hub,
            load_backbone,
            unsupported_backbone,
        )

        keras_hub()  # registers the backbones
        shown = f"backbone: {str(backbone)[:80]!r}"
        if isinstance(backbone, (str, Path)):
            backbone = load_backbone(backbone, "float32")
        source = None if isinstance(backbone, Mapping) else backbone
        saved = backbone if source is None else keras.saving.serialize_keras_object(source)
        here = {"dtype": keras.dtype_policies.serialize(keras.dtype_policies.get(dtype))}
        here |= {} if dropout is None else {"dropout": dropout}
        try:
            kind = {n: saved[n] for n in ("module", "class_name", "registered_name")}
            config = {n: v for n, v in saved["config"].items() if n not in FROM_MODEL}
            made = keras.saving.deserialize_keras_object({**kind, "config": {**config, **here}})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise unsupported_backbone(backbone, shown) from error
        self.kind = check_backbone(made, shown)
        for new, old in zip(made.weights, source.weights if source is not None else []):
            new.assign(ops.convert_to_numpy(old))  # a copy: JAX gives away the arrays it trains on
        self.config = {**kind, "config": config}
        self.backbone = made
        self.has_segments = takes_segments(made)
        self.blocks = blocks_of(made)
        self.width = made.hidden_dim
        self.max_length = made.max_sequence_length
        # RoBERTa and others were not pretrained with a pooler: they get a new one.
        self._pooler = getattr(made, "pooled_dense", None)

    def embed(self, pair: Sentence):
        """The input of the first block, `[B, L, D]`."""
        return embed(self.backbone, vars(pair))

    def block(self, i: int, x, pair: Sentence):
        """The output of block `i` for its input `x`, `[B, L, D]`."""
        options = block_options(self.backbone, x)
        return self.blocks[i](x, padding_mask=pair.padding_mask, **options)

    def attention(self, i: int, x, pair: Sentence):
        """From each token to the real ones in block `i`, `[B, heads, L, L]`; rows sum to 1."""
        options = block_options(self.backbone, x)
        return _Attention(self.blocks[i])(x, pair.padding_mask, **options)

    def pool(self, x, mask):
        """The first token's state through a tanh layer: BERT's pooler, or a new one."""
        if self._pooler is None:
            self._pooler = keras.layers.Dense(
                self.width,
                "tanh",
                kernel_initializer=initializer(),
                dtype=self.backbone.dtype_policy,
                name="pooler",
            )
        return self._pooler(first_state(x, mask))


class _Attention(keras.layers.Layer):
    """The attention weights of a transformer block of KerasHub."""

    def __init__(self, block: keras.layers.Layer):
        super().__init__(dtype=block.dtype_policy)
        self.block = block
        self.built = True

    def call(self, x, padding_mask, rel_embeddings=None):
        if rel_embeddings is None:
            return self.block(x, padding_mask=padding_mask, return_attention_scores=True)[1]
        mask = ops.expand_dims(ops.cast(padding_mask, "bool"), 1)  # to each from each
        attend = self.block._self_attention_layer  # DeBERTa's blocks do not return it
        return attend(x, rel_embeddings, attention_mask=mask, return_attention_scores=True)[1]

    def compute_output_spec(self, x, padding_mask, rel_embeddings=None):
        batch, length = x.shape[:2]
        shape = (batch, self.block.num_heads, length, length)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)


def initializer() -> keras.initializers.Initializer:
    """The initializer of BERT's own dense layers."""
    return keras.initializers.TruncatedNormal(stddev=0.02)


def first_state(x, mask):
    """The state of the first token, `[CLS]`: `[B, D]`; zeros for a row without tokens."""
    return zero_padding(x[:, :1], mask[:, :1])[:, 0]


def segments_of(pair: Sentence):
    """The sentence of each token, 0 or 1, from the tokens that close a sentence.

    Every sequence ends with such a token, whatever the backbone. The last one closes the second
    sentence, and all before it the first: one in `[CLS] a [SEP] b [SEP]`, two in `<s> a </s></s> b
    </s>`.
    """
    last = last_state(ops.expand_dims(pair.token_ids, -1), pair.mask)
    closes = ops.cast(ops.logical_and(ops.equal(pair.token_ids, last), pair.mask), "int32")
    before = ops.cumsum(closes, axis=1) - closes
    separators = ops.sum(closes, axis=1, keepdims=True) - 1
    return ops.cast(ops.logical_and(before >= separators, pair.mask), "int32")
