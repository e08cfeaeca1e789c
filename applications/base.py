"""What every application model shares: its registry, word vectors, parameter counts."""

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import keras

from keras_sentmatch.errors import InputError
from keras_sentmatch.layers import WordRepresentation

_MODELS: dict[str, type["PairModel"]] = {}


class PairModel(keras.Model):
    """A functional Keras model of sentence pairs.

    A subclass's `__init__` builds layers, then the graph with `super().__init__(inputs, outputs)`, then calls
    `self._keep_config(locals())`. Inputs are a dict by name (`word_ids_1`, `char_ids_1`, ..., and the same with `_2`); the
    output is `[B, num_classes]` probabilities, or `[B, 1]` scores when `num_classes=1`, in float32 under every policy.
    """

    paper: ClassVar[str] = ""
    summary_line: ClassVar[str] = ""
    presets: ClassVar[dict[str, dict[str, Any]]] = {}

    def _keep_config(self, values: dict[str, Any]) -> None:
        names = [
            n
            for n in inspect.signature(type(self).__init__).parameters
            if n not in ("self", "kwargs")
        ]
        self._config = {name: values[name] for name in names}
        for name, value in self._config.items():
            setattr(self, name, value)

    def get_config(self) -> dict[str, Any]:
        return {
            **self._config,
            "name": self.name,
            "trainable": self.trainable,
            "dtype": self.dtype_policy,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "PairModel":
        return cls(**config)

    @classmethod
    def from_preset(cls, preset: str, **config: Any) -> "PairModel":
        """The model with one of the configurations in `presets`; `config` adds to it and overrides it."""
        if preset not in cls.presets:
            raise InputError(
                f"{cls.__name__} has no preset {preset!r}. Use one of: {', '.join(cls.presets)}."
            )
        return cls(**{**cls.presets[preset], **config})

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs, in order: the features an encoder must make."""
        return list(self._inputs_struct)

    def _word_representations(self) -> list[WordRepresentation]:
        return [layer for layer in self.layers if isinstance(layer, WordRepresentation)]

    def set_word_vectors(self, matrix: Any) -> None:
        """Put `matrix`, `[vocabulary_size, embedding_dim]`, into every word embedding of the model."""
        for layer in self._word_representations():
            layer.set_word_vectors(matrix)

    def count_params_without_word_embeddings(self) -> int:
        """The papers' count: all parameters but the word-embedding matrices (character embeddings do count)."""
        words = sum(
            e.count_params()
            for layer in self._word_representations()
            for e in layer.word_embeddings
        )
        return self.count_params() - words

    def explainer(self) -> keras.Model:
        """A functional model on the same weights and inputs that returns the tensors worth looking at, by name."""
        raise NotImplementedError


class _CallWith(keras.layers.Layer):
    """Calls `layer` with options that change what it returns, on the layer's own weights.

    A graph can't call one layer twice with different numbers of outputs (Keras checks all calls against the first), so an
    explainer wraps the layer: `_CallWith(attention, return_attention=True)(x1, x2, mask_1, mask_2)`.
    """

    def __init__(self, layer: keras.layers.Layer, **options: Any):
        super().__init__(dtype=layer.dtype_policy)
        self.layer = layer
        self.options = options
        self.built = True

    def call(self, *args: Any) -> Any:
        return self.layer(*args, **self.options)

    def compute_output_spec(self, *args: Any) -> Any:
        return self.layer.compute_output_spec(*args, **self.options)


def register_model(name: str) -> Callable[[type[PairModel]], type[PairModel]]:
    """Class decorator: makes the model known to `build_model` and to `keras.saving`."""

    def register(cls: type[PairModel]) -> type[PairModel]:
        _MODELS[name] = cls
        return keras.saving.register_keras_serializable(package="keras_sentmatch")(cls)

    return register


def list_models() -> list[str]:
    """Names that `build_model` takes."""
    return sorted(_MODELS)


def get_model_class(name: str) -> type[PairModel]:
    """The class behind a name of `list_models()`."""
    if name not in _MODELS:
        raise InputError(f"There is no model {name!r}. Use one of: {', '.join(list_models())}.")
    return _MODELS[name]


def build_model(name: str, **config: Any) -> PairModel:
    """Build a model by name; `config` are its arguments, and `preset=` one of its presets.

    Raises:
        InputError: unknown model, preset or argument.
    """
    cls = get_model_class(name)
    allowed = [n for n in inspect.signature(cls.__init__).parameters if n not in ("self", "kwargs")]
    unknown = [
        key for key in config if key not in (*allowed, "preset", "name", "dtype", "trainable")
    ]
    if unknown:
        raise InputError(
            f"{cls.__name__} has no argument {', '.join(map(repr, unknown))}. It has: {', '.join(allowed)}."
        )
    preset = config.pop("preset", None)
    return cls.from_preset(preset, **config) if preset else cls(**config)
