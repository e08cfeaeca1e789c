"""A matcher as the evaluators of sentence-transformers call it."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset


def _ignore(*arguments: Any, **options: Any) -> None:
    """Stands for a function that writes a model card."""


class AsCrossEncoder:
    """The attributes of a `CrossEncoder` that evaluators use, for `Matcher.as_cross_encoder`."""

    def __init__(self, matcher: Any, column: int | None) -> None:
        self.matcher, self.column = matcher, column
        names = matcher.label_names
        self.num_labels = 1 if names is None or column is not None else len(names)
        self.config = SimpleNamespace(num_labels=self.num_labels)
        self.model_card_data = SimpleNamespace(set_evaluation_metrics=_ignore)
        self.prompts: dict[str, str] = {}
        self.default_prompt_name = None
        self.device = "cpu"

    def predict(
        self, sentences: Sequence[Sequence[str]], batch_size: int = 64, **ignored: Any
    ) -> np.ndarray:
        """Return log odds or scores `[pairs]`, or probabilities `[pairs, classes]`; one row for one pair."""
        given: Any = sentences
        if len(given) == 2 and all(isinstance(side, str) for side in given):
            return np.asarray(self.predict([given], batch_size)[0])
        pairs = PairDataset([a for a, _ in sentences], [b for _, b in sentences])
        raw = self.matcher.raw_scores(pairs, batch_size)
        if self.column is None:
            return np.asarray(self.matcher.tempered(raw))
        return np.asarray(self.matcher.order(raw, self.column))
