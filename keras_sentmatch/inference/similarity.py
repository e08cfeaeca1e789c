"""The matcher in the package: how similar two English sentences are, without any training."""

import hashlib
import importlib.resources
import io
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch import __version__
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.inference.new_words import BLOCK
from keras_sentmatch.inference.run_folder import SIMILARITY
from keras_sentmatch.safety import cache_folder
from keras_sentmatch.vectors.built_in import load_word_table

_FILE = "similarity_matcher.npz"
_LONGEST = 64  # words


def similarity_parts() -> dict[str, Any]:
    """The arguments of a `Matcher` with the weights in the package, see `Matcher.similarity`."""
    from keras_sentmatch.applications import RE2

    content = _content()
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        weights = {name: arrays[name].astype(np.float32) for name in arrays.files}
    table = load_word_table()
    encoder = PairEncoder(table.words, (), features=("word",), max_length=_LONGEST)
    model = RE2(
        vocabulary_size=encoder.vocabulary_size + BLOCK,
        num_classes=1,
        embedding_dim=table.dim,
        units=len(weights["hidden/bias"]),
        name=SIMILARITY,
    )
    model.set_word_vectors(np.pad(table.matrix(), [(2, BLOCK), (0, 0)]))
    for variable in model.weights:
        if variable.path in weights:
            variable.assign(weights[variable.path])
    return {
        "model": model,
        "encoder": encoder,
        "label_names": None,
        "task": "regression",
        "info": {"taught_by": "all-MiniLM-L6-v2", "weights": _digest(content)},
        "vector_extractor": table,
    }


def similarity_folder() -> Path:
    """Where it is kept as a run folder; it can be deleted at any time."""
    version = _digest(_content() + f"{__version__} {load_word_table().digest}".encode())
    return cache_folder() / f"{SIMILARITY}-{version}"


def _content() -> bytes:
    return (importlib.resources.files("keras_sentmatch.vectors") / "tables" / _FILE).read_bytes()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
