"""Checks of untrusted files: limits of size and depth, links, array headers, classes.

Every check raises an `InputError` that names the file, what was found and what was expected. The
environment variable `SENTMATCH_MAX_` plus a name in `LIMITS` changes that limit.
"""

import atexit
import contextlib
import functools
import io
import json
import math
import os
import re
import secrets
import shutil
import stat
import threading
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from keras_sentmatch.errors import InputError

LIMITS = {
    "JSON_BYTES": 64 << 20,  # size of a JSON or TOML file
    "JSON_DEPTH": 100,  # depth of lists and objects
    "TEXT_BYTES": 1 << 30,  # size of a vocabulary or a lexicon: some 100 million words
    "LINE_BYTES": 1 << 30,  # size of a line of pairs or of vectors
    "VECTOR_DIM": 100_000,  # dimension of a word vector
    "EXPANSION": 200,  # ratio of the sizes of a file without and with compression, above 256 MiB
}
_FREE = 256 << 20  # size that every compressed file may expand to
_HEADER = 1 << 16  # size of the header of an array: a dtype and a shape
_WEIGHTS_EXPANSION = 100
_MOST_STEPS = 1000  # steps of re-reading per prediction
_MOST_LAYERS = 100  # layers of a model with fewer arrays of weights
_LAYERS = re.compile(r"depth|blocks|branches|\w*layers\w*")  # arguments that count layers
_MOST_WITHOUT_WEIGHTS = 10_000  # lengths and the like may exceed the weights of a tiny model
COPY = "Copy the whole folder again"

# A saved model may name Keras's own parts, and classes that are registered in this process.
_MODULES = re.compile(
    r"keras|keras\.(layers|models|initializers|regularizers|constraints|activations|ops|random|dtype_policies)"
    r"|keras\.src\.(layers|models|ops|dtype_policies|initializers)(\.\w+)+"
)
_SPECIAL = ("__keras_tensor__", "__ellipsis__", "__slice__", "__tensor__", "__numpy__")
_RUN_CODE = ("Lambda", "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer")
_READ_FILES = ("StringLookup", "IntegerLookup", "TextVectorization", "IndexLookup")
_FROM_FILES = ("backbone", "vocabulary", "merges", "proto")  # keys that can name a file
_FUNCTIONS = ("builtins", "keras.activations", "keras.ops")
_building = threading.Lock()


def limit(name: str) -> int:
    """Return a limit by its name in `LIMITS`, or its value in the environment."""
    variable = f"SENTMATCH_MAX_{name}"
    value = os.environ.get(variable, str(LIMITS[name]))
    if not re.fullmatch(r"[0-9]{1,18}", value) or not int(value):
        raise InputError(f"{variable}={value!r} is not a limit. Expected a positive integer.")
    return int(value)


def raise_limit_hint(name: str) -> str:
    """Say how to raise a limit, for the end of a message."""
    return f"If you trust the file, set the environment variable SENTMATCH_MAX_{name}."


def compressed_room(path: Path) -> int:
    """Return the maximum size to which a compressed file may expand."""
    return max(_FREE, limit("EXPANSION") * path.stat().st_size)


def expansion_error(path: Path) -> InputError:
    """Return the error for a file that expands to more."""
    return InputError(
        f"{path} expands from {path.stat().st_size:,} bytes to more than {compressed_room(path):,}, "
        f"which no real text does. {raise_limit_hint('EXPANSION')}"
    )


def inside(folder: Path, name: str) -> Path:
    """Return the path of a file in a folder; refuse a link that leads out of the folder."""
    path = folder / name
    if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        return path
    raise InputError(
        f"{path} leads out of its folder (to {os.path.realpath(path)}). Only files inside are read. "
        "Put the file itself there."
    )


def check_tree(folder: Path) -> None:
    """Refuse a folder that holds anything but files and folders, such as a link or a pipe."""
    for path in folder.rglob("*"):
        mode = path.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            kind = f"a link to {os.readlink(path)}" if stat.S_ISLNK(mode) else "a pipe or a device"
            raise InputError(
                f"{path} is {kind}. Expected only files and folders in {folder}. Put the file itself "
                "there."
            )


def replace_file(path: Path, content: str | bytes) -> None:
    """Replace a file at once, so that it is never half written. Links are replaced, not followed."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name[:99]}-{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:  # fails if somebody has made it
            file.write(data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def working_folder(parent: Path, name: str) -> Iterator[Path]:
    """Make a new hidden folder in `parent` that only this user can open, and delete it afterwards.

    It is also deleted if Ctrl-C comes while it is made or deleted, or at the latest when Python ends.
    """
    made = parent / f".{name}-{secrets.token_hex(8)}"
    delete = functools.partial(shutil.rmtree, made, ignore_errors=True)
    atexit.register(delete)
    try:
        made.mkdir(mode=0o700)
        yield made
    finally:
        try:
            delete()
        finally:  # again, if Ctrl-C came in between
            delete()
        atexit.unregister(delete)


def read_bytes(path: Path, name: str) -> bytes:
    """Read the bytes of a file that must not exceed the limit `name`."""
    most = limit(name)
    try:
        if path.exists() and not path.is_file():  # opening a pipe would wait forever
            raise InputError(f"{path} is not a file. Give the path of a file.")
        with open(path, "rb") as file:
            found = file.read(most + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(
            f"{path} cannot be read ({why}). Check the path, or copy the file again."
        ) from error
    if len(found) > most:
        raise InputError(f"{path} is larger than {most:,} bytes. {raise_limit_hint(name)}")
    return found


def parse_json(text: str | bytes, place: Any, fix: str = COPY) -> Any:
    """Return the value of a JSON text; `place` and `fix` are parts of the error message."""
    try:
        value = json.loads(text if isinstance(text, str) else text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place} is damaged ({error}). Expected JSON. {fix}.") from error
    opened = ("[", "{") if isinstance(text, str) else (b"[", b"{")
    if sum(map(text.count, opened)) > limit("JSON_DEPTH"):  # type: ignore[arg-type]
        check_depth(value, place)
    return value


def check_depth(value: Any, place: Any) -> None:
    """Refuse lists and dicts that are nested too deeply."""
    level, depth, most = [value], 0, limit("JSON_DEPTH")
    while level:
        if depth > most:
            raise InputError(
                f"{place} is damaged: lists and objects are nested more than {most} deep. "
                f"{raise_limit_hint('JSON_DEPTH')}"
            )
        inner = (v for v in level if isinstance(v, dict | list))
        level = [x for v in inner for x in (v.values() if isinstance(v, dict) else v)]
        depth += 1


def read_object(path: Path, fix: str = COPY) -> dict[str, Any]:
    """Read the object of a JSON file; `fix` says what to do if the file is damaged."""
    found = parse_json(read_bytes(path, "JSON_BYTES"), path, fix)
    if not isinstance(found, dict):
        raise InputError(f"{path} holds {found!r:.40}. Expected a JSON object. {fix}.")
    return found


def check_types(values: Mapping[str, Any], kinds: Mapping[str, Any], place: Any) -> None:
    """Refuse values of unexpected types; missing names are skipped.

    A kind is a type, `None`, `[kind]` for a list, or a tuple of possible kinds. A `bool` is not an
    `int`; an `int` is a `float`.
    """
    for name, kind in kinds.items():
        if name in values and not _is(values[name], kind):
            raise InputError(
                f"{place} is damaged: {name} is {values[name]!r:.60}. Expected {_describe(kind)}. "
                f"{COPY}."
            )


def _is(value: Any, kind: Any) -> bool:
    if isinstance(kind, tuple):
        return any(_is(value, one) for one in kind)
    if isinstance(kind, list):
        return isinstance(value, list) and all(_is(v, kind[0]) for v in value)
    if kind is None:
        return value is None
    return type(value) is kind or (kind is float and type(value) is int)


def _describe(kind: Any) -> str:
    if isinstance(kind, tuple):
        return " or ".join(map(_describe, kind))
    return (
        f"a list of {_describe(kind[0])}"
        if isinstance(kind, list)
        else getattr(kind, "__name__", "null")
    )


def check_integers(values: Mapping[str, Any], place: Any, **most: int) -> None:
    """Refuse a value that is not an integer from 1 to `most`; a missing value is skipped."""
    for name, high in most.items():
        value = values.get(name, 1)
        if type(value) is not int or not 1 <= value <= high:
            raise InputError(
                f"{place} is damaged: {name} is {value!r:.60}. Expected an integer from 1 to {high:,}. "
                f"{COPY}."
            )


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of an uncompressed `.npz` file without unpickling.

    The header of each member is checked against its size before memory is allocated. Compressed
    members and objects are refused.
    """
    try:
        size = path.stat().st_size
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if info.compress_type != zipfile.ZIP_STORED or info.file_size > size:
                    raise InputError(f"{path} is damaged: {info.filename} is compressed. {COPY}.")
                with archive.open(info) as file:
                    shape, dtype = _header(file)
                    values = info.file_size - file.tell()
                if dtype.hasobject or int(np.prod(shape, dtype=object)) * dtype.itemsize != values:
                    raise InputError(
                        f"{path} is damaged: {info.filename} says it is {dtype} {shape}, but has "
                        f"{values:,} bytes of values. {COPY}."
                    )
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (InputError, FileNotFoundError):
        raise
    except Exception as error:  # zipfile and NumPy raise whatever the bytes led to
        raise InputError(f"{path} is damaged ({first_line(error)}). {COPY}.") from error


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    version = np.lib.format.read_magic(file)
    reader = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, _, dtype = reader(file, max_header_size=_HEADER)
    if any(n < 0 for n in shape):
        raise ValueError(f"a shape of {shape}")
    return shape, dtype


def weight_sizes(content: bytes, place: Any) -> tuple[int, int]:
    """Return the numbers of arrays and of values in the HDF5 file of a model's weights.

    Links, values in other files, and arrays that claim far more values than fit into the file are
    refused.
    """
    import h5py

    arrays = values = claimed = 0
    try:
        with h5py.File(io.BytesIO(content), "r") as file:
            groups, seen = [file], {file.id.__hash__()}
            while groups:
                group = groups.pop()
                for name in group:
                    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                        raise ValueError(f"{name} is a link")
                    item = group[name]
                    if isinstance(item, h5py.Dataset):
                        if item.external or item.is_virtual or item.dtype.hasobject:
                            raise ValueError(f"{name} has its values elsewhere")
                        claimed += item.nbytes
                        if claimed > max(_WEIGHTS_EXPANSION * len(content), 1 << 20):
                            raise ValueError(f"its arrays claim more than {claimed:,} bytes")
                        arrays, values = arrays + 1, values + item.size
                    elif item.id.__hash__() not in seen:  # a group may be linked into itself
                        seen.add(item.id.__hash__())
                        groups.append(item)
    except Exception as error:  # h5py raises whatever the bytes led to
        raise InputError(f"{place} is damaged ({first_line(error)}). {COPY}.") from error
    return arrays, values


def _dicts_in(config: Any) -> Iterator[dict[Any, Any]]:
    """Yield all dicts inside lists and dicts, without recursion: a file may nest them deeply."""
    waiting = [config]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        if isinstance(item, dict):
            waiting += item.values()
            yield item


def check_config(config: Any, place: Any) -> None:
    """Refuse the config of a saved Keras object that names files or code from elsewhere.

    Allowed are Keras's own layers, operations, initializers and the like, and classes that are
    registered in this process. Lambdas, layers that wrap foreign code or read files, and all other
    classes and functions are refused.
    """
    import keras

    for item in _dicts_in(config):
        for key in _FROM_FILES:
            if isinstance(item.get(key), str):
                raise InputError(
                    f"{place} names a file under {key} ({item[key]!r:.60}), but a saved model must "
                    "hold all it needs. Do not load it, or save it again."
                )
        if "class_name" not in item:
            continue
        name, module, registered = map(item.get, ("class_name", "module", "registered_name"))
        known = isinstance(registered, str) and keras.saving.get_registered_object(registered)
        plain = isinstance(module, str) and bool(_MODULES.fullmatch(module))
        if name == "function":
            allowed = isinstance(item.get("config"), str) and module in _FUNCTIONS
        elif str(name).startswith("__"):
            allowed = name in _SPECIAL
        else:
            allowed = (known or plain) and name not in _RUN_CODE + _READ_FILES
        if not allowed:
            raise InputError(
                f"{place} names {f'{module}.{name}'!r:.80}, which is neither a layer or an operation of "
                "Keras nor a class registered here. It is not loaded, because it may run foreign code. If "
                "it is yours, import its module first, which registers it "
                "(keras.saving.register_keras_serializable)."
            )


def check_sizes(config: Any, arrays: int, values: int, place: Any) -> None:
    """Refuse integers in the config of a saved model that do not fit its weights.

    Widths and vocabularies are at most as large as the number of weights, depths as the number of
    arrays. Steps of training are free; steps that are repeated per prediction have a limit of their
    own.
    """
    for item in _dicts_in(config):
        for name, value in item.items():
            if name == "seed" or str(name).endswith("_steps"):
                continue
            most = max(values, _MOST_WITHOUT_WEIGHTS)
            if name == "steps":
                most = _MOST_STEPS
            elif _LAYERS.fullmatch(str(name)):
                most = max(arrays, _MOST_LAYERS)
            for number in value if isinstance(value, list) else [value]:
                if type(number) is int and abs(number) > most:
                    raise InputError(
                        f"{place} is damaged: {name} is {number:,}. Expected at most {most:,} in a "
                        f"model of {values:,} weights. {COPY}."
                    )


@contextlib.contextmanager
def no_larger_than(arrays: int, values: int, described: int = 0) -> Iterator[None]:
    """Stop a model that makes far more weights or layers than its file holds.

    The file holds arrays with a number of values, and its config describes a number of objects.
    """
    import keras

    initialize, add, thread = keras.Layer.__init__, keras.Layer.add_weight, threading.get_ident()
    left = {
        "layers": described + 3 * arrays + 200,
        "arrays": 2 * arrays + 100,
        "weights": 2 * values + 100_000,
    }

    def take(**sizes: int) -> None:
        if threading.get_ident() != thread:
            return
        for name, size in sizes.items():
            left[name] -= size
            if left[name] < 0:
                raise ValueError(
                    f"its config asks for more {name} than its {values:,} weights allow"
                )

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        take(layers=1)
        initialize(self, *args, **kwargs)

    def add_weight(self: Any, shape: Any = None, *args: Any, **kwargs: Any) -> Any:
        whole = () if shape is None else (shape,) if isinstance(shape, int) else shape
        take(arrays=1, weights=math.prod(whole))
        return add(self, shape, *args, **kwargs)

    with _building:
        keras.Layer.__init__, keras.Layer.add_weight = __init__, add_weight
        try:
            yield
        finally:
            keras.Layer.__init__, keras.Layer.add_weight = initialize, add


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its class."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def cache_folder() -> Path:
    """Return the folder for files that can be made again, in `$XDG_CACHE_HOME` or `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "keras_sentmatch")
