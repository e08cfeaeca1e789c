"""Searching: the space of each application, and `search` through it with KerasTuner.

Names are loaded when touched: importing this package loads neither Keras nor KerasTuner.
"""

from typing import TYPE_CHECKING

from keras_sentmatch.lazy import lazy

if TYPE_CHECKING:
    from keras_sentmatch.applications import Choice as Choice
    from keras_sentmatch.applications import LogUniform as LogUniform
    from keras_sentmatch.tuning.hypermodel import PairHyperModel as PairHyperModel
    from keras_sentmatch.tuning.report import write_report as write_report
    from keras_sentmatch.tuning.searching import search as search
    from keras_sentmatch.tuning.space import Space as Space
    from keras_sentmatch.tuning.spaces import space_of as space_of
    from keras_sentmatch.tuning.study import SearchResult as SearchResult

_modules = {
    "Choice": "applications.hyperparameters",
    "LogUniform": "applications.hyperparameters",
    "PairHyperModel": "tuning.hypermodel",
    "SearchResult": "tuning.study",
    "Space": "tuning.space",
    "search": "tuning.searching",
    "space_of": "tuning.spaces",
    "write_report": "tuning.report",
}
__all__, __getattr__, __dir__ = lazy(__name__, _modules)
