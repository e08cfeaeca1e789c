"""The ONNX model in a run folder: predictions through onnxruntime, without Keras or a backend."""

import hashlib
import hmac
import logging
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.errors import InputError, argument
from keras_sentmatch.inference.onnx_file import MADE, check_model, tables
from keras_sentmatch.inference.run_folder import read_card
from keras_sentmatch.inference.unseen_words import new_rows
from keras_sentmatch.safety import (
    cache_folder,
    check_types,
    first_line,
    read_bytes,
    read_object,
    replace_file,
)
from keras_sentmatch.version import __version__

Array = np.ndarray
log = logging.getLogger(__name__)
FOLDER = "onnx"  # in the run folder
FORMAT = 4  # of the files in this folder
NOTE = "run.json"  # digests of the run and of the model, and how to use the model; written last
REMAKE = (
    'Make it where Keras is installed, with keras_sentmatch.load(folder, engine="onnx"), or on the '
    "command line with --engine onnx."
)
_FACTS: dict[str, Any] = {"spare_rows": int, "tables": dict, "refused": (str, None), "seal": str}
_ELSEWHERE = b"location"  # the key under which an ONNX file names another file


ENGINES = ("keras", "onnx")
_said: set[str] = set()  # in this process


def check_engine(engine: str | None) -> None:
    """Refuse a name that is not an engine's, and onnxruntime if it is not installed."""
    if engine not in (None, *ENGINES):
        raise InputError(
            f"{argument('engine', engine)} is not an engine. Expected one of "
            f"{', '.join(map(repr, ENGINES))}."
        )
    if engine == "onnx" and not is_installed("onnxruntime"):
        raise InputError(
            f"{argument('engine', engine)} needs onnxruntime, which is not installed. Run pip install "
            "onnxruntime."
        )


def is_installed(package: str) -> bool:
    """Whether a package is installed. It is not imported."""
    return find_spec(package) is not None


def say_once(text: str) -> None:
    """Log a fact once per process."""
    if text not in _said:
        _said.add(text)
        log.info(text)


def is_fastest() -> bool:
    """Whether onnxruntime is the engine to use: it is installed, and no GPU is visible to Keras."""
    if not is_installed("onnxruntime"):
        say_once(
            "onnxruntime is not installed, so Keras predicts. It is faster: pip install onnxruntime"
        )
        return False
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1")
    return hidden or not Path("/dev/nvidia0").exists()


def may_use(folder: Path, engine: str | None) -> bool:
    """Whether a run is to be loaded with its ONNX model.

    Raises:
        InputError: `engine` is `"onnx"`, and the model is missing, or not known to be that of the run.
    """
    if engine == "keras" or engine is None and not (is_installed("keras") or is_fastest()):
        return False
    state = state_of(folder)
    if state == "foreign" and not is_installed("keras"):
        say_once(
            f"{folder} comes from elsewhere. Keras, which could compare its ONNX model with its weights, "
            "is not installed."
        )
        return True
    if state != "current" and (engine == "onnx" or not is_installed("keras")):
        raise InputError(f"{folder} has no ONNX model of its present weights. {REMAKE}")
    return state == "current" and (engine == "onnx" or is_fastest())


def has_model(folder: Path) -> bool:
    """Whether a run has an ONNX model, whatever it is made from."""
    return (folder / FOLDER / "model.onnx").is_file()


def state_of(folder: Path) -> str:
    """Return what the ONNX model of a run is.

    Returns:
        `"current"`: made here from the present files of the run. `"foreign"`: it fits them by its
        own account, but was not made by this user on this machine, and may answer differently.
        `"refused"`: none can be made from the present files. `"old"`: made from other files or by
        another version. `"missing"`.
    """
    made = folder / FOLDER
    if not (made / NOTE).is_file():
        return "missing"
    read_card(folder)  # no links
    note = read_object(made / NOTE)
    facts = {name: note.get(name) for name in note if name != "seal"}
    if {**facts, **identity(folder)} != facts:
        return "old"
    own = seal(facts)
    if not own or not hmac.compare_digest(str(note.get("seal")), own):
        return "foreign"
    return "refused" if facts.get("refused") else "current"


def digest(folder: Path) -> str:
    """Return a digest of what an ONNX model is made from: weights, configuration, encoder."""
    encoder, model = folder / "encoder", folder / "model.keras"
    if not encoder.is_dir() or not model.is_file():
        raise InputError(
            f"{folder} lacks model.keras or encoder/. Copy the whole run folder again."
        )
    return _digest(folder, [model, *encoder.rglob("*")])


def identity(folder: Path) -> dict[str, Any]:
    model = folder / FOLDER / "model.onnx"
    files = _digest(folder, [model])
    return {"format": FORMAT, "version": __version__, "run": digest(folder), "model": files}


def _digest(folder: Path, paths: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for path in sorted(path for path in paths if path.is_file()):
        with path.open("rb") as file:
            one = hashlib.file_digest(file, "sha256").hexdigest()
        found.update(f"{path.relative_to(folder).as_posix()} {one}\n".encode())
    return found.hexdigest()


def make_key() -> None:
    """Make the key of this user, in the cache folder, unless there is one."""
    if not _key().is_file():
        _key().parent.mkdir(parents=True, exist_ok=True)
        replace_file(_key(), secrets.token_bytes(32))
        _key().chmod(0o600)


def _key() -> Path:
    return cache_folder() / "onnx.key"


def seal(facts: Mapping[str, Any]) -> str:
    """Return a code of a note that only this user can make; empty without a key."""
    if not _key().is_file():
        return ""
    text = repr(sorted(facts.items())).encode()
    return hmac.new(read_bytes(_key(), "JSON_BYTES"), text, "sha256").hexdigest()


# === Use ===


class OnnxModel:
    """An ONNX model in onnxruntime. Word tables are its inputs, so that unseen words get rows.

    Args:
        content: The bytes of the model.
        facts: `tables`, roles of the word tables by the names of their inputs; and `spare_rows`.
        path: The file that the bytes came from, for messages.
    """

    def __init__(self, content: bytes, facts: Mapping[str, Any], path: Path) -> None:
        import onnxruntime

        self.path = path
        self.roles: dict[str, str] = facts.get("tables", {})
        self.spare_rows: int = facts.get("spare_rows", 0)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # batches run in parallel
        options.log_severity_level = 3
        options.add_session_config_entry("session.load_model_format", "ONNX")
        try:
            if _ELSEWHERE in content:
                raise ValueError("it may have values in other files, which are not opened")
            graph = check_model(content, MADE)
            self.tables = tables(graph, self.roles)
            start, providers = onnxruntime.InferenceSession, ["CPUExecutionProvider"]
            self.session = start(content, options, providers=providers)
        except Exception as error:  # onnxruntime raises whatever the bytes led to
            raise self._broken(first_line(error)) from error
        self.inputs = [node.name for node in self.session.get_inputs()]
        shapes = [output.shape for output in self.session.get_outputs()]
        if len(shapes) != 1 or len(self.tables) != len(self.roles):
            raise self._broken("it has other outputs or tables")
        self.outputs = int(shapes[0][1]) if len(shapes[0]) == 2 else 1

    @classmethod
    def load(cls, folder: Path) -> "OnnxModel":
        """Load the model in a run folder."""
        made = folder / FOLDER
        facts = read_object(made / NOTE)
        check_types(facts, _FACTS, made / NOTE)
        return cls(read_bytes(made / "model.onnx", "TEXT_BYTES"), facts, made / "model.onnx")

    def __call__(self, arrays: Mapping[str, Array]) -> Array:
        """Return the outputs `[rows, outputs]` for encoded pairs."""
        inputs = {name: arrays[name] for name in self.inputs}
        rows = len(next(iter(arrays.values())))
        try:
            (found,) = self.session.run(None, inputs | self.tables)
        except Exception as error:  # onnxruntime raises whatever the model led to
            raise self._broken(first_line(error)) from error
        if found.size != rows * self.outputs or found.dtype.kind not in "fiu":
            raise self._broken(f"it returns {found.dtype} {found.shape} for {rows} pairs")
        return np.reshape(found, (rows, self.outputs))

    def write_rows(self, start: int, words: Sequence[str], vectors: Array) -> None:
        """Write the rows of words, from `start` on, into every word table."""
        for name, role in self.roles.items():
            self.tables[name][start : start + len(words)] = new_rows(role, words, vectors)

    def check_rows(self, vocabulary_size: int) -> None:
        """Refuse word tables that are too short."""
        rows = vocabulary_size + self.spare_rows
        if any(len(table) < rows for table in self.tables.values()):
            raise self._broken(f"its word tables have fewer than {rows:,} rows")

    def _broken(self, why: str) -> InputError:
        return InputError(
            f"{self.path} cannot be used ({why}). Delete {self.path.parent}, or use the engine keras."
        )
