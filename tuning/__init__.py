"""Searching: the space of each application, and `search` through it with KerasTuner.

Names are loaded when touched: importing this package loads neither Keras nor KerasTuner.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_sentmatch.applications.search_space import Choice as Choice
    from keras_sentmatch.applications.search_space import LogUniform as LogUniform
    from keras_sentmatch.tuning.hypermodel import PairHyperModel as PairHyperModel
    from keras_sentmatch.tuning.report import write_report as write_report
    from keras_sentmatch.tuning.searching import search as search
    from keras_sentmatch.tuning.space import Space as Space
    from keras_sentmatch.tuning.spaces import space_of as space_of
    from keras_sentmatch.tuning.study import SearchResult as SearchResult

_MODULES = {
    "Choice": "applications.search_space",
    "LogUniform": "applications.search_space",
    "PairHyperModel": "tuning.hypermodel",
    "SearchResult": "tuning.study",
    "Space": "tuning.space",
    "search": "tuning.searching",
    "space_of": "tuning.spaces",
    "write_report": "tuning.report",
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        module = importlib.import_module(f"keras_sentmatch.{_MODULES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module 'keras_sentmatch.tuning' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
