"""Inference: run folders in, named answers out.

Names are loaded when they are first used, so importing this package chooses no backend.
"""

from typing import TYPE_CHECKING

from keras_sentmatch.lazy import lazy

if TYPE_CHECKING:
    from keras_sentmatch.inference._batch_scorer import BatchScorer as BatchScorer
    from keras_sentmatch.inference.base import Prediction as Prediction
    from keras_sentmatch.inference.ensemble import EnsembleMatcher as EnsembleMatcher
    from keras_sentmatch.inference.matcher import Matcher as Matcher
    from keras_sentmatch.inference.onnx import OnnxMatcher as OnnxMatcher

_modules = {
    "BatchScorer": "inference._batch_scorer",
    "EnsembleMatcher": "inference.ensemble",
    "Matcher": "inference.matcher",
    "OnnxMatcher": "inference.onnx",
    "Prediction": "inference.base",
}
__all__, __getattr__, __dir__ = lazy(__name__, _modules)
