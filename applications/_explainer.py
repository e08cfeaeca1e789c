"""The model that returns what a pair model shows of its work."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
from keras import ops

Shown = tuple[Callable[[], Mapping[str, Any]], bool]  # see `PairModel.show`


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


def make_explainer(model: keras.Model, shown: Iterable[Shown]) -> keras.Model:
    """Return a functional model on the weights of `model`; see `PairModel.explainer`."""
    found: dict[str, list[Any]] = {}
    for show, each in shown:
        for name, x in show().items():
            found.setdefault(name, []).append(ops.expand_dims(x, 1) if each else x)
    if not found:
        raise NotImplementedError(f"{type(model).__name__} has nothing to show.")
    outputs = {n: ops.concatenate(xs, axis=1) if xs[1:] else xs[0] for n, xs in found.items()}
    return keras.Model(
        model.input, {"probabilities": model.output, **outputs}, name=f"{model.name}_explainer"
    )
