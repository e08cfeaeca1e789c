"""Tokenizers and encoders of KerasHub, which is imported only when one is asked for."""

from pathlib import Path
from typing import Any

from keras_sentmatch.errors import InputError
from keras_sentmatch.text.backbone_kinds import CONVERTED, KINDS, SUPPORTED, EncoderKind
from keras_sentmatch.text.bert_text import without_accents

INSTALL = 'pip install "keras-sentmatch[bert]"'


def load_tokenizer(preset_or_folder: str | Path) -> Any:
    """Loads the KerasHub tokenizer of a preset, or of a folder (KerasHub's or Hugging Face's).

    One that lowers the case also strips accents, as the encoders of lower-case text were trained,
    unless its vocabulary holds pieces with accents. KerasHub keeps them by default.
    """
    name = encoder_name(preset_or_folder)
    tokenizer = _from_preset("tokenizers", "Tokenizer", name)
    check_tokenizer(tokenizer, name)
    if getattr(tokenizer, "lowercase", False) and hasattr(tokenizer, "strip_accents"):
        pieces = tokenizer.get_vocabulary()
        tokenizer.strip_accents = all(piece == without_accents(piece) for piece in pieces)
    return tokenizer


def load_backbone(preset_or_folder: str | Path, dtype: Any = None) -> Any:
    """Loads the KerasHub backbone of an encoder with its weights, named as its tokenizer."""
    name = encoder_name(preset_or_folder)
    options = {} if dtype is None else {"dtype": dtype}
    backbone = _from_preset("models", "Backbone", name, **options)
    check_backbone(backbone, name)
    return backbone


def check_backbone(backbone: Any, name: str) -> EncoderKind:
    """The kind of a KerasHub backbone; refuses encoders that are not supported."""
    hub = keras_hub()
    for kind in KINDS:
        if kind.is_backbone(backbone, hub):
            return kind
    raise unsupported_encoder(backbone, name)


def unsupported_encoder(backbone: Any, name: str) -> InputError:
    """The error for an encoder that is not supported."""
    return InputError(
        f"{name}: a {type(backbone).__name__} is not a supported encoder. Expected "
        f"{SUPPORTED}: a KerasHub preset such as bert_base_en_uncased, a folder with one, a "
        "backbone of keras_hub.models, or the serialized config of one."
    )


def encoder_name(preset_or_folder: str | Path) -> str:
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


def check_tokenizer(tokenizer: Any, name: str) -> EncoderKind:
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
