"""Inference: run folders, `Matcher` and `EnsembleMatcher`, and what they answer.

Names are loaded when touched, so that importing this chooses no backend.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_sentmatch.inference.base import Prediction as Prediction
    from keras_sentmatch.inference.corpus import Corpus as Corpus
    from keras_sentmatch.inference.ensemble import EnsembleMatcher as EnsembleMatcher
    from keras_sentmatch.inference.matcher import Matcher as Matcher

_MODULES = {
    "Corpus": "corpus",
    "EnsembleMatcher": "ensemble",
    "Matcher": "matcher",
    "Prediction": "base",
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        module = importlib.import_module(f"keras_sentmatch.inference.{_MODULES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module 'keras_sentmatch.inference' has no attribute {name!r}")
