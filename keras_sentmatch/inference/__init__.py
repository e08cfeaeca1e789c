"""Inference: run folders in, named answers out.

Names are loaded when they are first used, so importing this package chooses no backend.
"""

from typing import TYPE_CHECKING

from keras_sentmatch.lazy import lazy

if TYPE_CHECKING:
    from keras_sentmatch.inference._batch_scorer import BatchScorer as BatchScorer
    from keras_sentmatch.inference.loading import load as load
    from keras_sentmatch.inference.matcher import Matcher as Matcher

_modules = {
    "BatchScorer": "inference._batch_scorer",
    "Matcher": "inference.matcher",
    "load": "inference.loading",
}
__all__, __getattr__, __dir__ = lazy(__name__, _modules)
