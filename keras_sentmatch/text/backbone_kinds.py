"""The kinds of pretrained encoders: all differences between them except for tokenization.

An encoder is a KerasHub backbone that takes `token_ids` and `padding_mask`, some also
`segment_ids`. How text becomes pieces is in `pieces.py`, by the family of the tokenizer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class EncoderKind:
    """A kind of encoder.

    Attributes:
        name: Its usual name.
        prefix: Of its classes in `keras_hub.models`: `Bert` has a `BertBackbone` and a
            `BertTokenizer`.
        separators: Tokens between two sentences: `[CLS] a [SEP] b [SEP]` has one,
            `<s> a </s></s> b </s>` two.
        segments: Whether the second sentence is of segment 1. Otherwise all is of segment 0, for
            encoders that have segments: XLM-RoBERTa's tokenizer may feed a BERT.
        converted: Whether KerasHub converts Hugging Face folders of this kind.
        plain_attention: Whether its blocks attend as BERT's do.
    """

    name: str
    prefix: str
    separators: int = 1
    segments: bool = True
    converted: bool = True
    plain_attention: bool = True

    def is_tokenizer(self, tokenizer: Any, hub: Any) -> bool:
        return isinstance(tokenizer, getattr(hub.models, f"{self.prefix}Tokenizer"))

    def is_backbone(self, backbone: Any, hub: Any) -> bool:
        return isinstance(backbone, getattr(hub.models, f"{self.prefix}Backbone"))


KINDS = (
    EncoderKind("BERT", "Bert"),
    EncoderKind("RoBERTa", "Roberta", separators=2, segments=False),
    EncoderKind("XLM-RoBERTa", "XLMRoberta", separators=2, segments=False),
    EncoderKind("ALBERT", "Albert"),
    EncoderKind("DistilBERT", "DistilBert"),
    EncoderKind("ELECTRA", "Electra", converted=False),
    EncoderKind("DeBERTa-v3", "DebertaV3", converted=False, plain_attention=False),
)
SUPPORTED = ", ".join(kind.name for kind in KINDS[:-1]) + f" or {KINDS[-1].name}"
CONVERTED = ", ".join(kind.name for kind in KINDS if kind.converted)


def embed(backbone: Any, inputs: Mapping[str, Any]) -> Any:
    """What the first block of a backbone takes, `[B, L, D]`, from the backbone's inputs by name."""
    if hasattr(backbone, "embeddings"):  # tokens and positions in one layer
        x = backbone.embeddings(inputs["token_ids"])
    else:
        x = backbone.token_embedding(inputs["token_ids"])
        if hasattr(backbone, "segment_embedding"):
            segments = backbone.segment_embedding(inputs["segment_ids"])
            x = backbone.embeddings_add((x, backbone.position_embedding(x), segments))
    x = backbone.embeddings_dropout(backbone.embeddings_layer_norm(x))
    project = getattr(backbone, "embeddings_projection", None)  # where the table is narrower
    return x if project is None else project(x)


def blocks_of(backbone: Any) -> list[Any]:
    """The transformer blocks in the order of their calls; ALBERT calls the same ones again."""
    layers = list(backbone.transformer_layers)
    if not layers or not isinstance(layers[0], list):
        return layers
    calls = backbone.num_layers // backbone.num_groups
    return [block for group in layers for _ in range(calls) for block in group]


def block_options(backbone: Any, x: Any) -> dict[str, Any]:
    """What blocks are called with beside their input `x`, `[B, L, D]`, and `padding_mask`."""
    relative = getattr(backbone, "relative_embeddings", None)
    return {} if relative is None else {"rel_embeddings": relative(x)}


def takes_segments(backbone: Any) -> bool:
    """Whether a backbone takes `segment_ids`."""
    return "segment_ids" in backbone.input
