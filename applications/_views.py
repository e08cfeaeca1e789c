"""Models on the weights of a pair model: its explainer, and its three parts."""

from typing import Any

import keras
from keras import ops

from keras_sentmatch.applications._sentences import Sentence
from keras_sentmatch.errors import InputError


class CallWith(keras.layers.Layer):
    """Call `layer` with options that change what it returns, on the layer's own weights.

    In one graph Keras expects every call of a layer to return the same number of tensors. This
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


def explainer(model: Any) -> keras.Model:
    """`PairModel.explainer`."""
    found: dict[str, list[Any]] = {}
    for show, each in model._shown:
        for name, x in show().items():
            found.setdefault(name, []).append(ops.expand_dims(x, 1) if each else x)
    if not found:
        raise NotImplementedError(f"{type(model).__name__} has nothing to show.")
    outputs = {n: ops.concatenate(xs, axis=1) if xs[1:] else xs[0] for n, xs in found.items()}
    outputs = {"probabilities": model.output, **outputs}
    return keras.Model(model.input, outputs, name=f"{model.name}_explainer")


def split(model: Any) -> tuple[keras.Model, keras.Model, keras.Model]:
    """`PairModel.split`."""
    if model.why_not_splittable:
        raise InputError(
            f"This {type(model).__name__} can't encode a sentence alone: {model.why_not_splittable}."
        )
    encoders, sides = [], []
    cached: dict[str, Any] = {}
    for side in "12":
        names = [name for name in model.input if name.endswith(f"_{side}")]
        inputs = {name: _input_like(model.input[name], name[:-2]) for name in names}
        encoded = vars(model.encode(model.make_sentence(side, inputs, None)))
        ids = {name[:-2]: x for name, x in inputs.items()}
        encoders.append(keras.Model(ids, encoded, name=f"{model.name}_encoder_{side}"))
        here = {name: _input_like(x, f"{name}_{side}") for name, x in encoded.items()}
        cached |= {f"{name}_{side}": x for name, x in here.items()}
        sides.append(Sentence(**here))
    interaction = keras.Model(cached, model.interact(*sides), name=f"{model.name}_interaction")
    return encoders[0], encoders[1], interaction


def _input_like(x, name: str):
    return keras.Input(x.shape[1:], dtype=x.dtype, name=name)
