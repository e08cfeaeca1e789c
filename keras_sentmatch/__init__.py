"""Sentence-pair matching for Keras 3: inference, paraphrase, answer selection.

Importing this package only defines names: no backend is chosen until one of them is used, so
`KERAS_BACKEND` (or the command line's `--backend`) can still be set after the import.
`import keras_sentmatch.applications` registers every class for `keras.saving`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_sentmatch.inference.matcher import Matcher as Matcher

__version__ = "0.1.0"
__all__ = [
    "Matcher",
    "analysis",
    "applications",
    "corpus",
    "data",
    "encoders",
    "explanations",
    "exports",
    "inference",
    "layers",
    "metrics",
    "ops",
    "sklearn",
    "text",
    "training",
    "transformations",
    "tuning",
    "vectors",
]


def __getattr__(name: str) -> Any:
    if name == "Matcher":
        return importlib.import_module("keras_sentmatch.inference.matcher").Matcher
    if name in __all__:
        return importlib.import_module(f"keras_sentmatch.{name}")
    raise AttributeError(f"module 'keras_sentmatch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
