"""Corpora: matching pairs among many sentences, their groups, and indexes to rank against.

Names are loaded on first use, so importing this package chooses no backend.
"""

from typing import TYPE_CHECKING

from keras_sentmatch.lazy import lazy

if TYPE_CHECKING:
    from keras_sentmatch.corpus._grouping import group as group
    from keras_sentmatch.corpus._index import Index as Index
    from keras_sentmatch.corpus._mining import mine as mine

_modules = {"Index": "corpus._index", "group": "corpus._grouping", "mine": "corpus._mining"}
__all__, __getattr__, __dir__ = lazy(__name__, _modules)
