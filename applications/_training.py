"""What training asks of a pair model beyond `fit`."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np

Arrays = Mapping[str, np.ndarray]  # inputs of a model by name
Examples = tuple[Sequence[Arrays], np.ndarray, np.ndarray | None]  # batches, labels, weights


class TrainingHooks:
    """Hooks of `PairModel` for weights that `fit` does not train. By default they do nothing.

    Training calls, in this order: `set_word_vectors`; with `training.init` `own_weights`;
    `before_fit`; `fit`, unless `fit_trains` is `"nothing"`; and `after_fit`, when the best weights
    are in place.
    """

    fit_trains: ClassVar[str] = "all"  # of the weights; else "part" or "nothing"

    def fit(self, *args, **kwargs):
        """`keras.Model.fit`; on PyTorch without denormal numbers, which slow it down."""
        with _denormals_flushed():
            return super().fit(*args, **kwargs)  # type: ignore[misc]

    def before_fit(
        self, words: Sequence[str], examples: Callable[[str], Examples], chosen: Mapping[str, float]
    ) -> dict[str, float]:
        """Find the weights that `fit` does not train, and return the choices made, by name.

        `words` is the vocabulary. `examples("train")` and `examples("validation")` return the
        model's inputs in batches, all labels, and the weight of each pair (or None). `chosen` has
        choices of earlier runs (folds), which replace those by validation pairs.
        """
        return {}

    def after_fit(
        self, examples: Callable[[str], Examples], chosen: Mapping[str, float]
    ) -> dict[str, float]:
        """Make the remaining choices when the best weights are in place; see `before_fit`."""
        return {}

    def own_weights(self, other: keras.Model) -> list[Any]:
        """The weights that are not copied from `other` when training begins with it."""
        return []


@contextlib.contextmanager
def _denormals_flushed() -> Iterator[None]:
    """Flush denormal numbers (float32 below 1e-38) to zero inside, as TensorFlow and JAX always do.

    They occur in the gradients of almost certain predictions, and make a CPU many times slower.
    """
    if keras.config.backend() != "torch" or np.float32(1e-30) * np.float32(1e-10) == 0:
        yield  # they are flushed already
        return
    import torch

    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
