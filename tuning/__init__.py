"""Hyperparameter search: the space of each model, and `search` through it with KerasTuner.

Importing this package loads neither Keras nor KerasTuner.
"""

from typing import TYPE_CHECKING

from keras_sentmatch.lazy import lazy

if TYPE_CHECKING:
    from keras_sentmatch.tuning._search import SearchResult as SearchResult
    from keras_sentmatch.tuning._search import search as search
    from keras_sentmatch.tuning._space import SearchSpace as SearchSpace

_modules = {
    "SearchResult": "tuning._search",
    "SearchSpace": "tuning._space",
    "search": "tuning._search",
}
__all__, __getattr__, __dir__ = lazy(__name__, _modules)
