"""What every layer of this package shares: its config, its masks, and checks of arguments."""

import inspect
from collections.abc import Collection
from typing import Any

import keras


class Layer(keras.layers.Layer):
    """A layer that keeps each constructor argument as the attribute of the same name."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)

    def get_config(self) -> dict[str, Any]:
        arguments = inspect.signature(type(self).__init__).parameters.values()
        names = [a.name for a in arguments if a.kind is a.POSITIONAL_OR_KEYWORD][1:]
        return {**super().get_config(), **{n: _serialize(getattr(self, n)) for n in names}}

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        return None  # masks are explicit arguments: Keras has none to pass on

    def spec(self, *shape: int | None, dtype: str | None = None) -> keras.KerasTensor:
        """The symbolic tensor of an output, in the compute dtype unless `dtype` says otherwise."""
        return keras.KerasTensor(shape, dtype=dtype or self.compute_dtype)


def _serialize(value: Any) -> Any:
    if isinstance(value, (keras.Initializer, keras.Regularizer)):
        return keras.saving.serialize_keras_object(value)
    return keras.activations.serialize(value) if callable(value) else value


def require_choice(allowed: Collection[str], **arguments: str) -> None:
    """Raise a `ValueError` that names the argument that is none of `allowed`."""
    for name, value in arguments.items():
        if value not in allowed:
            raise ValueError(f"{name} must be one of {tuple(allowed)}. Received: {name}={value!r}")


def require_positive(**arguments: int) -> None:
    """Raise a `ValueError` that names the argument that is below 1."""
    for name, number in arguments.items():
        if number < 1:
            raise ValueError(f"{name} must be at least 1. Received: {name}={number!r}")
