"""The base of all layers of this package, and checks of arguments."""

import difflib
import inspect
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import keras

from keras_sentmatch.errors import InputError


class Layer(keras.layers.Layer):
    """A layer that stores each constructor argument as an attribute of the same name.

    `super().__init__(**kwargs)` sets them: lists as tuples, and activations, initializers and
    regularizers as objects.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> "Layer":
        layer = super().__new__(cls, *args, **kwargs)
        signature = inspect.signature(cls.__init__)
        given = signature.bind(layer, *args, **kwargs)
        given.apply_defaults()
        own = [n for n, p in signature.parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        refuse_unknown(cls.__name__, given.arguments.get("kwargs", {}), own[1:])
        layer.__dict__["arguments"] = {name: given.arguments[name] for name in own[1:]}
        return layer

    def __init__(self, **kwargs: Any):
        arguments = self.__dict__.pop("arguments")
        super().__init__(**kwargs)
        self._argument_names = tuple(arguments)
        for name, value in arguments.items():
            setattr(self, name, _OBJECTS.get(name.rsplit("_")[-1], _unchanged)(value))

    def get_config(self) -> dict[str, Any]:
        own = {name: _serialize(getattr(self, name)) for name in self._argument_names}
        return {**super().get_config(), **own}

    def compute_mask(self, *args, **kwargs) -> None:
        return None  # masks are explicit arguments, so Keras has none to pass on

    def sublayer(self, cls: type["Layer"], name: str, **options: Any) -> Any:
        """Create a sublayer with this layer's dtype policy.

        Arguments that both layers have are passed on; `options` adds to them and overrides them.
        """
        takes = inspect.signature(cls.__init__).parameters
        given = {n: getattr(self, n) for n in self._argument_names if n in takes}
        return cls(**{**given, **options}, dtype=self.dtype_policy, name=name)

    def dense(
        self, units: int, name: str, activation: Any = None, inputs: int = 0, **options: Any
    ) -> keras.layers.Dense:
        """Create a dense layer with this layer's policy and penalty, built for `inputs` if given."""
        layer = keras.layers.Dense(
            units,
            activation,
            kernel_regularizer=getattr(self, "kernel_regularizer", None),
            dtype=self.dtype_policy,
            name=name,
            **options,
        )
        if inputs:
            layer.build((None, inputs))
        return layer

    @property
    def wide_dtype(self) -> str:
        """The dtype of scores and weights: float32, or float64 under a float64 policy."""
        return "float64" if self.compute_dtype == "float64" else "float32"

    def spec(self, *shape: int | None, dtype: str | None = None) -> keras.KerasTensor:
        """Return the symbolic tensor of an output, by default in the compute dtype."""
        return keras.KerasTensor(shape, dtype=dtype or self.compute_dtype)


def _unchanged(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_OBJECTS = {
    "activation": keras.activations.get,
    "initializer": keras.initializers.get,
    "regularizer": keras.regularizers.get,
}


def _serialize(value):
    if isinstance(value, (keras.Initializer, keras.Regularizer)):
        return keras.saving.serialize_keras_object(value)
    return keras.activations.serialize(value) if callable(value) else value


_OF_KERAS = tuple(inspect.signature(keras.layers.Layer.__init__).parameters)[1:-1]


def refuse_unknown(owner: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise an `InputError` for arguments that are neither `known` nor those of every Keras layer."""
    unknown = [name for name in given if name not in (*known, *_OF_KERAS)]
    if not unknown:
        return
    near = [n for name in unknown for n in difflib.get_close_matches(name, known, n=1)]
    hint = f" Did you mean {', '.join(near)}?" if near else ""
    raise InputError(
        f"{owner} has no argument {', '.join(map(repr, unknown))}.{hint} "
        f"It has: {', '.join(known) or 'none'}."
    )


def require(holds: Any, message: str) -> None:
    """Raise an `InputError` with this message unless a condition holds."""
    if not holds:
        raise InputError(message)


def require_choice(allowed: Collection[str], **arguments: str) -> None:
    """Raise an `InputError` that names the argument whose value is not in `allowed`."""
    for name, value in arguments.items():
        if value not in allowed:
            raise InputError(f"{name} must be one of {tuple(allowed)}. Received: {name}={value!r}")


def require_above_zero(**arguments: float) -> None:
    """Raise an `InputError` that names the argument that is not above 0."""
    for name, number in arguments.items():
        if not number > 0:
            raise InputError(f"{name} must be above 0. Received: {name}={number!r}")


def require_positive(**arguments: int) -> None:
    """Raise an `InputError` that names the argument that is below 1."""
    for name, number in arguments.items():
        if number < 1:
            raise InputError(f"{name} must be at least 1. Received: {name}={number!r}")
