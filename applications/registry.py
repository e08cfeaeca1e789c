"""Models by name: those of this package, of installed packages, and of your own files."""

import hashlib
import importlib.metadata
import importlib.util
import logging
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
log = logging.getLogger(__name__)


def register_model(name: str) -> Callable[[type[PairModel]], type[PairModel]]:
    """Class decorator: make the model known to `build_model` and to `keras.saving`."""

    def register(cls: type[PairModel]) -> type[PairModel]:
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
    cls.check_arguments(config)
    return cls.from_preset(preset, **config) if preset else cls(**config)


def load_models(file: str | Path) -> list[str]:
    """Import a Python file of yours, register its models, and return their names.

    A model without `register_model` is registered under the name of its class: `MyMatcher` becomes
    `my_matcher`.
    """
    path = Path(file).expanduser().resolve()
    name = f"keras_sentmatch_code_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if not path.is_file() or spec is None or spec.loader is None:
            raise InputError(f"{file} is missing or no Python file. Name a file that ends in .py.")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            what = f"{type(error).__name__}: {error}"
            raise InputError(f"{file} cannot be imported ({what}).") from error
    classes = [c for c in vars(sys.modules[name]).values() if _is_own(c, name)]
    for cls in classes:
        own = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
        if own not in _MODELS and cls not in _MODELS.values():
            register_model(own)(cls)
    found = [name for name, cls in _MODELS.items() if cls in classes]
    if not found:
        raise InputError(f"{file} defines no subclass of keras_sentmatch.applications.PairModel.")
    return found


def _is_own(value: object, module: str) -> bool:
    ours = isinstance(value, type) and issubclass(value, PairModel)
    return ours and value.__module__ == module


def load_own_models() -> None:
    """Load the models of entry points, and of the files that `$SENTMATCH_CODE` names."""
    for entry in importlib.metadata.entry_points(group="keras_sentmatch.models"):
        try:
            found = entry.load()
        except Exception as error:
            log.warning(f"The models of the entry point {entry.value} cannot be loaded: {error}")
            continue
        if isinstance(found, type) and found not in _MODELS.values():
            register_model(entry.name)(found)
    for file in filter(None, os.environ.get(CODE, "").split(os.pathsep)):
        load_models(file)
