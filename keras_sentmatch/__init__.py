"""Sentence-pair matching for Keras 3: inference, paraphrase, answer selection.

Importing this package only defines names. No backend is chosen until one of them is used, so
`KERAS_BACKEND` (or the command line's `--backend`) can still be set after the import.
`import keras_sentmatch.applications` registers every class for `keras.saving`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from keras_sentmatch.errors import InputError as InputError
from keras_sentmatch.version import __version__ as __version__

if TYPE_CHECKING:
    from keras_sentmatch.corpus import group as group
    from keras_sentmatch.corpus import mine as mine
    from keras_sentmatch.explanations import explain as explain
    from keras_sentmatch.exports import export as export
    from keras_sentmatch.inference import Matcher as Matcher
    from keras_sentmatch.inference import load as load

_names = {
    "Matcher": "inference",
    "explain": "explanations",
    "export": "exports",
    "group": "corpus",
    "load": "inference",
    "mine": "corpus",
}
_packages = [
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
    "reproduction",
    "sklearn",
    "text",
    "training",
    "transformations",
    "tuning",
    "vectors",
]
__all__ = ["InputError", *_names, *_packages]


def __getattr__(name: str) -> Any:
    if name in _names:
        return getattr(importlib.import_module(f"keras_sentmatch.{_names[name]}"), name)
    if name in _packages:
        return importlib.import_module(f"keras_sentmatch.{name}")
    raise AttributeError(f"module 'keras_sentmatch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
