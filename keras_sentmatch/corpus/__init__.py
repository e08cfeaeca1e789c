"""Corpora: matching pairs among many sentences, groups, indexes to rank against, training pairs.

Names are loaded on first use, so importing this package chooses no backend.
"""

from typing import TYPE_CHECKING

from keras_sentmatch.lazy import lazy

if TYPE_CHECKING:
    from keras_sentmatch.corpus._grouping import group as group
    from keras_sentmatch.corpus._grouping import save_groups as save_groups
    from keras_sentmatch.corpus._index import Index as Index
    from keras_sentmatch.corpus._index import build_index as build_index
    from keras_sentmatch.corpus._mining import mine as mine
    from keras_sentmatch.corpus._positives import from_positives as from_positives

_modules = {
    "Index": "corpus._index",
    "build_index": "corpus._index",
    "from_positives": "corpus._positives",
    "group": "corpus._grouping",
    "mine": "corpus._mining",
    "save_groups": "corpus._grouping",
}
__all__, __getattr__, __dir__ = lazy(__name__, _modules)
