"""Similarity without a model: cosines of static vectors."""

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError, argument
from keras_sentmatch.inference.base import Array, BaseMatcher
from keras_sentmatch.inference.pairs import check_count
from keras_sentmatch.vectors.static import load_static


class StaticMatcher(BaseMatcher):
    """Scores pairs by the cosine of their static vectors, tens of thousands per second.

    The vector of a sentence is the weighted mean of its built-in word vectors, so the order of the words
    does not count. `load("static")` returns it.

    Raises:
        InputError: An engine is named, as there is no model to run.
    """

    def __init__(self, engine: str | None = None) -> None:
        if engine is not None:
            raise InputError(
                f"{argument('engine', engine)} needs a model, and static similarity has none. Leave "
                "it out, or name a run folder."
            )
        super().__init__(None, "regression", 1.0, None)
        self.info: dict[str, str] = {}

    @property
    def engine(self) -> str:
        """The name of the engine, `"static"`."""
        return "static"

    def raw_scores(self, pairs: PairDataset, batch_size: int) -> Array:
        check_count("batch_size", batch_size)
        vectors = load_static()
        one, two = vectors(pairs.sentence1), vectors(pairs.sentence2)
        return np.asarray(np.einsum("ij,ij->i", one, two))
