"""Trained matchers as artifacts that answer without this library.

Names are loaded when touched, so that answering by onnxruntime imports no backend.
"""

from typing import TYPE_CHECKING

from keras_sentmatch.lazy import lazy

if TYPE_CHECKING:
    from keras_sentmatch.exports.engine import OnnxMatcher as OnnxMatcher
    from keras_sentmatch.exports.examples import TOLERANCE as TOLERANCE
    from keras_sentmatch.exports.exporting import FORMATS as FORMATS
    from keras_sentmatch.exports.exporting import export as export

_modules = {
    "FORMATS": "exports.exporting",
    "OnnxMatcher": "exports.engine",
    "TOLERANCE": "exports.examples",
    "export": "exports.exporting",
}
__all__, __getattr__, __dir__ = lazy(__name__, _modules)
