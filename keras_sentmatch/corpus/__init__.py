"""Corpora: matching pairs among many sentences, groups of them, and indexes to rank against.

Names are loaded when touched, so that importing this chooses no backend.
"""

from typing import TYPE_CHECKING

from keras_sentmatch.lazy import lazy

if TYPE_CHECKING:
    from keras_sentmatch.corpus.grouping import group as group
    from keras_sentmatch.corpus.grouping import save_page as save_page
    from keras_sentmatch.corpus.index import Index as Index
    from keras_sentmatch.corpus.mining import Miner as Miner
    from keras_sentmatch.corpus.positives import from_positives as from_positives

_modules = {
    "Index": "corpus.index",
    "Miner": "corpus.mining",
    "from_positives": "corpus.positives",
    "group": "corpus.grouping",
    "save_page": "corpus.grouping",
}
__all__, __getattr__, __dir__ = lazy(__name__, _modules)
