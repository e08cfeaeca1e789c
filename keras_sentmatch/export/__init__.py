"""Trained matchers as artifacts that answer without this library.

Names are loaded when touched, so that answering by onnxruntime imports no backend.
"""

from typing import TYPE_CHECKING

from keras_sentmatch.lazy import lazy

if TYPE_CHECKING:
    from keras_sentmatch.export.engine import OnnxMatcher as OnnxMatcher
    from keras_sentmatch.export.examples import TOLERANCE as TOLERANCE
    from keras_sentmatch.export.exporting import FORMATS as FORMATS
    from keras_sentmatch.export.exporting import export as export

_modules = {
    "FORMATS": "export.exporting",
    "OnnxMatcher": "export.engine",
    "TOLERANCE": "export.examples",
    "export": "export.exporting",
}
__all__, __getattr__, __dir__ = lazy(__name__, _modules)
