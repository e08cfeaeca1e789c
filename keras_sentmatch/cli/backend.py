"""The choice of Keras's backend, before Keras is imported."""

import json
import logging
import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from keras_sentmatch.errors import InputError

log = logging.getLogger(__name__)
BACKENDS = ("tensorflow", "jax", "torch")


def use_backend(asked: str | None, imports_keras: bool = True) -> str:
    """Set KERAS_BACKEND to `--backend` or the default, and return it.

    `imports_keras` says whether the command needs Keras at all.
    """
    name, source = choose_backend(asked)
    if name not in BACKENDS:
        raise InputError(
            f"The backend is {name!r} (from {source}). Expected one of {', '.join(BACKENDS)}."
        )
    if not is_installed(name):
        others = [other for other in BACKENDS if is_installed(other)]
        raise InputError(
            f"The backend {name} (from {source}) is not installed. "
            f'Run pip install "keras-sentmatch[{name}]"'
            + (f", or use --backend {others[0]}." if others else ".")
        )
    if "keras" in sys.modules and sys.modules["keras"].config.backend() != name:
        running = sys.modules["keras"].config.backend()
        raise InputError(f"Keras already runs on {running} in this process, not on {name}.")
    os.environ["KERAS_BACKEND"] = name
    if name == "jax":
        keep_compiled_programs()  # JAX reads the variables when it is imported
    if "tensorflow" not in sys.modules:
        if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "3":
            sys.meta_path.insert(0, QuietTensorFlow())
            # Batches have several lengths, so TensorFlow traces a model several times.
            retraces = "triggered tf.function retracing"
            logging.getLogger("tensorflow").addFilter(lambda r: retraces not in r.getMessage())
        if name != "tensorflow" and imports_keras:
            from keras.src.utils import module_utils

            # Keras would import TensorFlow only to know its types.
            module_utils.tensorflow._available = False
    if imports_keras:
        log.info("backend: %s (from %s)", name, source)
    return name


def choose_backend(asked: str | None) -> tuple[str, str]:
    """Return the backend's name and what decided it."""
    if asked:
        return asked, "--backend"
    if os.environ.get("KERAS_BACKEND"):
        return os.environ["KERAS_BACKEND"], "$KERAS_BACKEND"
    settings = Path(os.environ.get("KERAS_HOME", Path.home() / ".keras")) / "keras.json"
    try:
        preferred = json.loads(settings.read_text(encoding="utf-8"))["backend"]
    except (OSError, ValueError, KeyError, TypeError):
        preferred = None
    if preferred in BACKENDS and is_installed(preferred):
        return preferred, str(settings)
    for name in BACKENDS:
        if is_installed(name):
            return name, "what is installed"
    raise InputError(
        "No backend is installed. Run one of "
        + ", ".join(f'pip install "keras-sentmatch[{name}]"' for name in BACKENDS)
        + "."
    )


def is_installed(name: str) -> bool:
    """Whether the package is installed. Nothing is imported."""
    return find_spec(name) is not None


def keep_compiled_programs() -> None:
    """Let JAX keep compiled programs for the next run, unless `SENTMATCH_JAX_CACHE=0`.

    The folder can be deleted at any time. JAX's own variables take precedence.
    """
    if os.environ.get("SENTMATCH_JAX_CACHE") == "0":
        return
    from keras_sentmatch.safety import cache_folder

    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_folder() / "jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")


class QuietTensorFlow(MetaPathFinder):
    """Imports TensorFlow without its messages; its errors come as exceptions.

    The variable TF_CPP_MIN_LOG_LEVEL does not reach what is logged before TensorFlow has read it.
    """

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != "tensorflow":
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def quietly(module: ModuleType) -> None:
                sys.stderr.flush()
                kept = os.dup(2)
                with open(os.devnull, "wb") as nowhere:
                    os.dup2(nowhere.fileno(), 2)
                try:
                    execute(module)
                finally:
                    os.dup2(kept, 2)
                    os.close(kept)

            spec.loader.exec_module = quietly  # type: ignore[method-assign]
        return spec
