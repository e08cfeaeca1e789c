"""Trained matchers as artifacts that answer without this library.

Names are loaded when touched, so that answering by onnxruntime imports no backend.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_sentmatch.export.engine import OnnxMatcher as OnnxMatcher
    from keras_sentmatch.export.examples import TOLERANCE as TOLERANCE
    from keras_sentmatch.export.exporting import FORMATS as FORMATS
    from keras_sentmatch.export.exporting import export as export

_MODULES = {
    "FORMATS": "exporting",
    "OnnxMatcher": "engine",
    "TOLERANCE": "examples",
    "export": "exporting",
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        module = importlib.import_module(f"keras_sentmatch.export.{_MODULES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module 'keras_sentmatch.export' has no attribute {name!r}")
