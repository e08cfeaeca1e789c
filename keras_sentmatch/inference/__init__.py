"""Inference: run folders, `Matcher` and `EnsembleMatcher`, and what they answer.

Names are loaded when touched, so that importing this chooses no backend.
"""

from typing import TYPE_CHECKING

from keras_sentmatch.lazy import lazy

if TYPE_CHECKING:
    from keras_sentmatch.inference.base import Prediction as Prediction
    from keras_sentmatch.inference.batch_scorer import BatchScorer as BatchScorer
    from keras_sentmatch.inference.corpus import Corpus as Corpus
    from keras_sentmatch.inference.ensemble import EnsembleMatcher as EnsembleMatcher
    from keras_sentmatch.inference.matcher import Matcher as Matcher

_modules = {
    "BatchScorer": "inference.batch_scorer",
    "Corpus": "inference.corpus",
    "EnsembleMatcher": "inference.ensemble",
    "Matcher": "inference.matcher",
    "Prediction": "inference.base",
}
__all__, __getattr__, __dir__ = lazy(__name__, _modules)
