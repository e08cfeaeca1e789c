"""Searching: the space of each application, and `search` through it with KerasTuner.

Names are loaded when touched: importing this package loads neither Keras nor KerasTuner.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_sentmatch.tuning.hypermodel import PairHyperModel as PairHyperModel
    from keras_sentmatch.tuning.report import write_report as write_report
    from keras_sentmatch.tuning.space import Around as Around
    from keras_sentmatch.tuning.space import Choice as Choice
    from keras_sentmatch.tuning.space import Space as Space
    from keras_sentmatch.tuning.spaces import space_of as space_of
    from keras_sentmatch.tuning.study import SearchResult as SearchResult
    from keras_sentmatch.tuning.study import search as search

_MODULES = {
    "Around": "space",
    "Choice": "space",
    "PairHyperModel": "hypermodel",
    "SearchResult": "study",
    "Space": "space",
    "search": "study",
    "space_of": "spaces",
    "write_report": "report",
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        module = importlib.import_module(f"keras_sentmatch.tuning.{_MODULES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module 'keras_sentmatch.tuning' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
