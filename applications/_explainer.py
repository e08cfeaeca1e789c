"""Explainers: models that return attention and other inner tensors of a pair model."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
from keras import ops

Shown = tuple[Callable[[], Mapping[str, Any]], bool]  # see `Explained.show`


class CallWith(keras.layers.Layer):
    """Call `layer` with options that change what it returns, on the layer's own weights.

    In one graph Keras expects every call of a layer to return as many tensors as the first. This
    layer makes a call of its own: `CallWith(attention, return_norms=True)(x1, x2, mask_1, mask_2)`.
    """

    def __init__(self, layer: keras.layers.Layer, **options):
        super().__init__(dtype=layer.dtype_policy)
        self.layer = layer
        self.options = options
        self.built = True

    def call(self, *args):
        return self.layer(*args, **self.options)

    def compute_output_spec(self, *args):
        return self.layer.compute_output_spec(*args, **self.options)


class Explained:
    """The part of `PairModel` that names what is worth looking at."""

    name: str
    input: Any
    output: Any
    _made: bool
    _shown: list[Shown]

    def show(
        self, later: Callable[[], Mapping[str, Any]] | None = None, *, each: bool = False, **tensors
    ) -> None:
        """Name tensors for `explainer`, while the graph is made.

        Args:
            later: A function that returns tensors by name, called only for an explainer.
            each: Whether layers show theirs under one name, stacked along an axis after the batch.
                (What is shown again without it is concatenated along axis 1.)
            **tensors: Tensors by name.
        """
        if not self._made:
            self._shown.append((later or (lambda: tensors), each))

    def explainer(self) -> keras.Model:
        """Return a functional model on the same weights and inputs.

        Its output is a dict: `probabilities` `[B, C]`, and what the model names with `show`.
        """
        found: dict[str, list[Any]] = {}
        for show, each in self._shown:
            for name, x in show().items():
                found.setdefault(name, []).append(ops.expand_dims(x, 1) if each else x)
        if not found:
            raise NotImplementedError(f"{type(self).__name__} has nothing to show.")
        outputs = {n: ops.concatenate(xs, axis=1) if xs[1:] else xs[0] for n, xs in found.items()}
        return keras.Model(
            self.input, {"probabilities": self.output, **outputs}, name=f"{self.name}_explainer"
        )
