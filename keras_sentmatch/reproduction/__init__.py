"""The tables and figures of the papers: described by files, made by `reproduce`.

Names are loaded when touched, so that reading a description loads no Keras.
"""

from typing import TYPE_CHECKING

from keras_sentmatch.lazy import lazy

if TYPE_CHECKING:
    from keras_sentmatch.reproduction.artefact import list_artefacts as list_artefacts
    from keras_sentmatch.reproduction.artefact import load_artefact as load_artefact
    from keras_sentmatch.reproduction.run import reproduce as reproduce

_modules = {
    "list_artefacts": "reproduction.artefact",
    "load_artefact": "reproduction.artefact",
    "reproduce": "reproduction.run",
}
__all__, __getattr__, __dir__ = lazy(__name__, _modules)
