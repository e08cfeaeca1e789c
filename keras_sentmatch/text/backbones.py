"""Pretrained backbones of KerasHub: their kinds, and loading them with their tokenizers."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_sentmatch.errors import InputError
from keras_sentmatch.text.tokens import without_accents


@dataclass(frozen=True)
class BackboneKind:
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
    BackboneKind("BERT", "Bert"),
    BackboneKind("RoBERTa", "Roberta", separators=2, segments=False),
    BackboneKind("XLM-RoBERTa", "XLMRoberta", separators=2, segments=False),
    BackboneKind("ALBERT", "Albert"),
    BackboneKind("DistilBERT", "DistilBert"),
    BackboneKind("ELECTRA", "Electra", converted=False),
    BackboneKind("DeBERTa-v3", "DebertaV3", converted=False, plain_attention=False),
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


INSTALL = 'pip install "keras-sentmatch[bert]"'


def load_tokenizer(preset_or_folder: str | Path) -> Any:
    """Loads the KerasHub tokenizer of a preset, or of a folder (KerasHub's or Hugging Face's).

    One that lowers the case also strips accents, as the encoders of lower-case text were trained,
    unless its vocabulary holds pieces with accents. KerasHub keeps them by default.
    """
    name = backbone_name(preset_or_folder)
    tokenizer = _from_preset("tokenizers", "Tokenizer", name)
    check_tokenizer(tokenizer, name)
    if getattr(tokenizer, "lowercase", False) and hasattr(tokenizer, "strip_accents"):
        pieces = tokenizer.get_vocabulary()
        tokenizer.strip_accents = all(piece == without_accents(piece) for piece in pieces)
    return tokenizer


def load_backbone(preset_or_folder: str | Path, dtype: Any = None) -> Any:
    """Loads the KerasHub backbone of an encoder with its weights, named as its tokenizer."""
    name = backbone_name(preset_or_folder)
    options = {} if dtype is None else {"dtype": dtype}
    backbone = _from_preset("models", "Backbone", name, **options)
    check_backbone(backbone, name)
    return backbone


def check_backbone(backbone: Any, name: str) -> BackboneKind:
    """The kind of a KerasHub backbone; refuses encoders that are not supported."""
    hub = keras_hub()
    for kind in KINDS:
        if kind.is_backbone(backbone, hub):
            return kind
    raise unsupported_backbone(backbone, name)


def unsupported_backbone(backbone: Any, name: str) -> InputError:
    """The error for an encoder that is not supported."""
    return InputError(
        f"{name}: a {type(backbone).__name__} is not a supported encoder. Expected "
        f"{SUPPORTED}: a KerasHub preset such as bert_base_en_uncased, a folder with one, a "
        "backbone of keras_hub.models, or the serialized config of one."
    )


def backbone_name(preset_or_folder: str | Path) -> str:
    """The absolute path of a folder, or the name of a preset; refuses a folder that is missing."""
    name = str(preset_or_folder)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return str(folder.resolve())
    if folder.is_absolute() or name.startswith("."):
        raise InputError(
            f"{name}: no such folder; give the folder of an encoder or a KerasHub preset"
        )
    return name


def keras_hub() -> Any:
    """The module `keras_hub`, or an error that says how to install it."""
    try:
        import keras_hub
    except ImportError as error:
        raise InputError(
            f"pretrained encoders need KerasHub ({error}); install it with {INSTALL}"
        ) from error
    return keras_hub


def check_tokenizer(tokenizer: Any, name: str) -> BackboneKind:
    """The kind of a tokenizer; refuses others, and one that gives no lists of ids."""
    hub = keras_hub()
    kind = next((kind for kind in KINDS if kind.is_tokenizer(tokenizer, hub)), None)
    if kind is None:
        raise InputError(
            f"{name}: a {type(tokenizer).__name__}, expected a KerasHub tokenizer of {SUPPORTED}"
        )
    for key, wanted in {"sequence_length": None, "split": True, "compute_dtype": "int32"}.items():
        if (found := getattr(tokenizer, key, wanted)) != wanted:
            option = key.removeprefix("compute_")
            raise InputError(
                f"{name}: a {type(tokenizer).__name__} with {option}={found!r}, expected "
                f"{option}={wanted!r}"
            )
    return kind


def _from_preset(module: str, kind: str, name: str, **options: Any) -> Any:
    loader = getattr(getattr(keras_hub(), module), kind)
    try:
        return loader.from_preset(name, **options)
    except Exception as error:  # KerasHub raises whatever its download or conversion met
        hint = f"; install it with {INSTALL}" if isinstance(error, ImportError) else ""
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"cannot load the encoder {name!r}: {first}{hint}. Expected {SUPPORTED} as a KerasHub "
            "preset such as bert_tiny_en_uncased or a folder of one, or a Hugging Face folder "
            f"({CONVERTED}) with config.json, model.safetensors and the tokenizer's files"
        ) from error
