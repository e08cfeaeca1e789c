"""Models by name: those of this package and those of your own files."""

import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import keras

from keras_sentmatch.applications.pair_model import PairModel
from keras_sentmatch.errors import InputError

_MODELS: dict[str, type[PairModel]] = {}
CODE = "SENTMATCH_CODE"  # the environment variable that names Python files with models


def register_model(name: str) -> Callable[[type[PairModel]], type[PairModel]]:
    """Class decorator: make the model known to `build_model` and to `keras.saving`.

    Raises:
        InputError: The model or its class is named like one of this package.
    """

    def register(cls: type[PairModel]) -> type[PairModel]:
        for known, other in _MODELS.items():
            taken = known == name or other.__name__ == cls.__name__
            own = other.__module__.startswith("keras_sentmatch.")
            if taken and own and cls.__module__ != other.__module__:
                raise InputError(
                    f"The model {name!r}, class {cls.__name__}, is named like the built-in "
                    f"{known!r}, class {other.__name__}. Give the class another name."
                )
        _MODELS[name] = cls
        return keras.saving.register_keras_serializable(package="keras_sentmatch")(cls)

    return register


def list_models() -> list[str]:
    """Return the names that `build_model` accepts."""
    return sorted(_MODELS)


def get_model_class(name: str) -> type[PairModel]:
    """Return the class of a name in `list_models()`."""
    if name not in _MODELS:
        raise InputError(f"There is no model {name!r}. Use one of: {', '.join(list_models())}.")
    return _MODELS[name]


def build_model(name: str, **config) -> PairModel:
    """Build a model by name.

    Args:
        name: One of `list_models()`.
        **config: The model's arguments, and `preset`, the name of one of its presets.

    Raises:
        InputError: The model, the preset or an argument is unknown.
    """
    cls = get_model_class(name)
    preset = config.pop("preset", None)
    if preset is not None and preset not in cls.presets:
        raise InputError(f"{name} has no preset {preset!r}. Use one of: {', '.join(cls.presets)}.")
    cls.check_arguments(config)
    return cls(**{**cls.presets.get(preset, {}), **config})


def load_models(file: str | Path) -> list[str]:
    """Import a Python file, register the models that it defines, and return their names.

    A model without `register_model` is registered under the name of its class: `MyMatcher` becomes
    `my_matcher`.
    """
    path = Path(file).expanduser().resolve()
    name = f"keras_sentmatch_code_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if not path.is_file() or spec is None or spec.loader is None:
            raise InputError(f"{file} is missing or not a Python file. Name a file ending in .py.")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            if isinstance(error, InputError):
                raise
            what = f"{type(error).__name__}: {error}"
            raise InputError(f"{file} cannot be imported ({what}).") from error
    values = [v for v in vars(sys.modules[name]).values() if isinstance(v, type)]
    classes = [v for v in values if issubclass(v, PairModel) and v.__module__ == name]
    for cls in classes:
        if cls not in _MODELS.values():
            own = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
            register_model(own)(cls)
    if not classes:
        raise InputError(f"{file} defines no subclass of keras_sentmatch.applications.PairModel.")
    return [name for name, cls in _MODELS.items() if cls in classes]


def load_own_models() -> None:
    """Load the models of the files that `$SENTMATCH_CODE` names."""
    for file in filter(None, os.environ.get(CODE, "").split(os.pathsep)):
        load_models(file)
