"""Choosing Keras's backend before Keras is imported."""

import json
import logging
import os
import sys
from importlib.util import find_spec
from pathlib import Path

from keras_sentmatch.errors import InputError

log = logging.getLogger(__name__)
BACKENDS = ("tensorflow", "jax", "torch")


def use_backend(asked: str | None) -> str:
    """Sets KERAS_BACKEND to what `--backend` names, or to the default, and returns it."""
    name, source = choose_backend(asked)
    if name not in BACKENDS:
        raise InputError(f"backend {name!r} (from {source}) is not one of {', '.join(BACKENDS)}.")
    if not is_installed(name):
        others = [other for other in BACKENDS if is_installed(other)]
        raise InputError(
            f"backend {name} (from {source}) is not installed: "
            f'pip install "keras-sentmatch[{name}]"'
            + (f", or use --backend {others[0]}." if others else ".")
        )
    if "keras" in sys.modules and sys.modules["keras"].config.backend() != name:
        running = sys.modules["keras"].config.backend()
        raise InputError(f"Keras already runs on {running} in this process, not on {name}.")
    os.environ["KERAS_BACKEND"] = name
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's errors come as exceptions
    log.info("backend: %s (from %s)", name, source)
    return name


def choose_backend(asked: str | None) -> tuple[str, str]:
    """The backend's name, and what decided it."""
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
        "no backend is installed: "
        + ", ".join(f'pip install "keras-sentmatch[{name}]"' for name in BACKENDS)
        + " (one is enough)."
    )


def is_installed(name: str) -> bool:
    """Whether the package can be found; nothing is imported."""
    return find_spec(name) is not None
