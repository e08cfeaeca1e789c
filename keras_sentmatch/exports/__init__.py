"""Trained matchers as artifacts that answer without this library.

Names are loaded when they are first used, so importing this package chooses no backend.
"""

from typing import TYPE_CHECKING

from keras_sentmatch.lazy import lazy

if TYPE_CHECKING:
    from keras_sentmatch.exports.exporting import export as export

_modules = {"export": "exports.exporting"}
__all__, __getattr__, __dir__ = lazy(__name__, _modules)
