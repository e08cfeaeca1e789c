"""Pretrained backbones of KerasHub: their kinds, and loading them with their tokenizers."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_sentmatch.errors import InputError
from keras_sentmatch.safety import first_line
from keras_sentmatch.text.tokens import without_accents


@dataclass(frozen=True)
class BackboneKind:
    """A kind of pretrained backbone: a KerasHub model of `token_ids` and `padding_mask`."""

    name: str
    prefix: str  # of its classes in keras_hub.models
    separators: int = 1  # tokens between two sentences: two in `<s> a </s></s> b </s>`
    segments: bool = True  # whether the second sentence has segment 1, not 0 as the first
    converted: bool = True  # whether KerasHub converts Hugging Face folders of this kind
    plain_attention: bool = True  # whether the blocks attend as BERT's do


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
    """Compute the input of a backbone's first block, `[B, L, D]`, from the backbone's inputs."""
    if hasattr(backbone, "embeddings"):  # tokens and positions in one layer
        x = backbone.embeddings(inputs["token_ids"])
    else:
        x = backbone.token_embedding(inputs["token_ids"])
        if hasattr(backbone, "segment_embedding"):
            segments = backbone.segment_embedding(inputs["segment_ids"])
            x = backbone.embeddings_add((x, backbone.position_embedding(x), segments))
    x = backbone.embeddings_dropout(backbone.embeddings_layer_norm(x))
    project = getattr(backbone, "embeddings_projection", None)  # if the table is narrower
    return x if project is None else project(x)


def blocks_of(backbone: Any) -> list[Any]:
    """Return the transformer blocks in the order of their calls; ALBERT repeats its blocks."""
    layers = list(backbone.transformer_layers)
    if not layers or not isinstance(layers[0], list):
        return layers
    calls = backbone.num_layers // backbone.num_groups
    return [block for group in layers for _ in range(calls) for block in group]


def block_options(backbone: Any, x: Any) -> dict[str, Any]:
    """Return the arguments of blocks in addition to their input `x`, `[B, L, D]`, and `padding_mask`."""
    relative = getattr(backbone, "relative_embeddings", None)
    return {} if relative is None else {"rel_embeddings": relative(x)}


def takes_segments(backbone: Any) -> bool:
    """Return whether a backbone accepts `segment_ids`."""
    return "segment_ids" in backbone.input


INSTALL = 'pip install "keras-sentmatch[bert]"'


def load_tokenizer(preset_or_folder: str | Path) -> Any:
    """Load the KerasHub tokenizer of a preset, or of a folder (KerasHub's or Hugging Face's).

    A tokenizer that lowers the case also strips accents, as in pretraining, unless its vocabulary
    has pieces with accents. KerasHub keeps accents by default.
    """
    name = backbone_name(preset_or_folder)
    tokenizer = _from_preset("tokenizers", "Tokenizer", name)
    check_tokenizer(tokenizer, name)
    if getattr(tokenizer, "lowercase", False) and hasattr(tokenizer, "strip_accents"):
        pieces = tokenizer.get_vocabulary()
        tokenizer.strip_accents = all(piece == without_accents(piece) for piece in pieces)
    return tokenizer


def load_backbone(preset_or_folder: str | Path, dtype: Any = None) -> Any:
    """Load the KerasHub backbone of a preset or folder, with its weights."""
    name = backbone_name(preset_or_folder)
    options = {} if dtype is None else {"dtype": dtype}
    backbone = _from_preset("models", "Backbone", name, **options)
    check_backbone(backbone, name)
    return backbone


def check_backbone(backbone: Any, name: str) -> BackboneKind:
    """Return the kind of a KerasHub backbone, or raise `InputError` if it is not supported."""
    if (kind := _kind(backbone, "Backbone")) is None:
        raise unsupported_backbone(backbone, name)
    return kind


def _kind(thing: Any, suffix: str) -> BackboneKind | None:
    models = keras_hub().models
    found = (kind for kind in KINDS if isinstance(thing, getattr(models, f"{kind.prefix}{suffix}")))
    return next(found, None)


def unsupported_backbone(backbone: Any, name: str) -> InputError:
    """Return the error for a backbone that is not supported."""
    return InputError(
        f"{name} is a {type(backbone).__name__}, which is not a supported backbone. Expected "
        f"{SUPPORTED}: a KerasHub preset such as bert_base_en_uncased, its folder or its config."
    )


def backbone_name(preset_or_folder: str | Path) -> str:
    """Return the absolute path of a folder, or the name of a preset."""
    name = str(preset_or_folder)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return str(folder.resolve())
    if folder.is_absolute() or name.startswith("."):
        raise InputError(f"There is no folder {name}. Give a folder or a KerasHub preset.")
    return name


def keras_hub() -> Any:
    """Import `keras_hub`, or raise an error that says how to install it."""
    try:
        import keras_hub
    except ImportError as error:
        wrong = f"Pretrained backbones need KerasHub, which cannot be imported ({error})"
        raise InputError(f"{wrong}. Install it with {INSTALL}.") from error
    return keras_hub


def check_tokenizer(tokenizer: Any, name: str) -> BackboneKind:
    """Return the kind of a tokenizer that gives lists of ids, or raise `InputError`."""
    kind, given = _kind(tokenizer, "Tokenizer"), f"{name} is a {type(tokenizer).__name__}"
    if kind is None:
        raise InputError(f"{given}. Expected a KerasHub tokenizer of {SUPPORTED}.")
    for key, wanted in {"sequence_length": None, "split": True, "compute_dtype": "int32"}.items():
        if (found := getattr(tokenizer, key, wanted)) != wanted:
            option = key.removeprefix("compute_")
            raise InputError(f"{given} with {option}={found!r}. Make it with {option}={wanted!r}.")
    return kind


def _from_preset(module: str, kind: str, name: str, **options: Any) -> Any:
    loader = getattr(getattr(keras_hub(), module), kind)
    try:
        return loader.from_preset(name, **options)
    except Exception as error:  # KerasHub raises whatever its download or conversion met
        hint = f" Install it with {INSTALL}." if isinstance(error, ImportError) else ""
        why = first_line(error).rstrip(".")
        raise InputError(
            f"The backbone {name!r} cannot be loaded: {why}.{hint} Expected {SUPPORTED}: "
            "a KerasHub preset such as bert_tiny_en_uncased or its folder, or a Hugging Face folder "
            f"({CONVERTED}) with config.json, model.safetensors and the tokenizer's files."
        ) from error
