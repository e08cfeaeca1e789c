"""Predictions through onnxruntime: the ONNX model kept in a run folder, without a backend."""

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.encoders.batches import prediction_batches
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.base import Array
from keras_sentmatch.inference.learned import LearnedPairs
from keras_sentmatch.inference.matcher import OneModelMatcher, run_folder
from keras_sentmatch.inference.run_folder import CALIBRATION, load_run_encoder, read_card
from keras_sentmatch.inference.unseen_words import UnseenWords, new_rows
from keras_sentmatch.safety import check_types, first_line, read_bytes, read_object
from keras_sentmatch.vectors.built_in import WordTable

FOLDER = "onnx"  # in the run folder
FORMAT = 3  # of what is in it
NOTE = "run.json"  # the digests of the run and of the other files; written last
REMAKE = (
    'Make the model with keras_sentmatch.load(folder, engine="onnx"), or on the command line with '
    "keras-sentmatch export RUN --format onnx."
)
_ELSEWHERE = b"location"  # the key under which an ONNX file names another file
_FACTS: dict[str, Any] = {"spare_rows": int, "tables": dict}


def digest(folder: Path) -> str:
    """Return a digest of what an ONNX model is made from: weights, configuration, encoder."""
    encoder, model = folder / "encoder", folder / "model.keras"
    if not encoder.is_dir() or not model.is_file():
        raise InputError(
            f"{folder} lacks model.keras or encoder/. Copy the whole run folder again."
        )
    return _digest(folder, [model, *encoder.rglob("*")])


def note_of(folder: Path) -> dict[str, Any]:
    """Return what `run.json` must hold: the digests of a run and of its ONNX model."""
    made = folder / FOLDER
    files = [path for path in made.rglob("*") if path.name not in (NOTE, "README.md")]
    return {"format": FORMAT, "run": digest(folder), "files": _digest(made, files)}


def is_current(folder: Path) -> bool:
    """Whether a run has an ONNX model that was made from its present files."""
    read_card(folder)
    note = folder / FOLDER / NOTE
    return note.is_file() and read_object(note) == note_of(folder)


def _digest(folder: Path, paths: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for path in sorted(path for path in paths if path.is_file()):
        with path.open("rb") as file:
            one = hashlib.file_digest(file, "sha256").hexdigest()
        found.update(f"{path.relative_to(folder).as_posix()} {one}\n".encode())
    return found.hexdigest()


def check_installed() -> None:
    """Refuse to use ONNX without the packages that run the model."""
    if missing := [name for name in ("onnxruntime", "onnx") if find_spec(name) is None]:
        raise InputError(
            f'engine="onnx" needs {" and ".join(missing)}. To predict, run pip install onnxruntime '
            'onnx. To make the ONNX model as well, run pip install "keras-sentmatch[onnx]".'
        )


class OnnxMatcher(OneModelMatcher):
    """A matcher whose model runs in onnxruntime, the fastest engine on a CPU, without a backend.

    It predicts, ranks, evaluates and calibrates as the `Matcher` of the run does, to 1e-5. To explain,
    save or export a run, or to cache encodings, load it as a `Matcher`.
    """

    threads = os.cpu_count() or 1

    def __init__(self, folder: Path) -> None:
        card = read_card(folder)
        names = card["label_names"]
        super().__init__(
            names and tuple(names),
            card["task"],
            card["temperature"],
            card["threshold"],
            card.get("abstain_below"),
        )
        made = folder / FOLDER
        facts = read_object(made / "facts.json")
        check_types(facts, _FACTS, made / "facts.json")
        self.folder, self.info = folder, card["info"]
        self.learned = LearnedPairs.read(folder, len(names or "1"))
        self.encoder = load_run_encoder(folder / "encoder")
        self._session, self._tables = _start(made / "model.onnx", facts.get("tables", {}))
        self._inputs = [node.name for node in self._session.get_inputs()]
        self._roles: dict[str, str] = facts.get("tables", {})
        self._spare = facts.get("spare_rows", 0)
        outputs = [output.shape for output in self._session.get_outputs()]
        fits = len(outputs) == 1 and (outputs[0][1:] == [len(names)] if names else True)
        if not fits or not set(self._inputs) <= set(self.encoder.input_names):
            raise InputError(
                f"{made} belongs to another run than the rest of {folder}. Delete {made}. {REMAKE}"
            )
        rows = self.encoder.vocabulary_size + self._spare
        if any(len(self._tables.get(name, ())) < rows for name in self._roles):
            raise InputError(
                f"{made} is damaged: its word tables have fewer than {rows:,} rows. Delete {made}. "
                f"{REMAKE}"
            )
        self.word_table = WordTable.load(folder / "encoder")
        if self.word_table and self._roles and isinstance(self.encoder, PairEncoder):
            self.unseen_words = UnseenWords(
                self.word_table, self.encoder, self._spare, self._write_rows
            )

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "OnnxMatcher":
        """Load a run whose ONNX model has been made.

        Raises:
            InputError: The run has no ONNX model of its present weights, a file is damaged, or
                onnxruntime is missing.
        """
        folder = run_folder(Path(folder))
        read_card(folder)
        check_installed()
        if not is_current(folder):
            raise InputError(f"{folder} has no ONNX model of its present weights. {REMAKE}")
        return cls(folder)

    def __repr__(self) -> str:
        answers = "score" if self.label_names is None else "/".join(self.label_names)
        return f"<OnnxMatcher {self.folder.name}: {self.task}, {answers:.200}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path of the run folder, and the calibration as it is now."""
        return _load_again, (self.folder.resolve(), {n: vars(self)[n] for n in CALIBRATION})

    def batches(self, lengths: Array, batch_size: int) -> Iterator[tuple[Array, int, int]]:
        """As for `Matcher`, without filling up: nothing is compiled for a shape."""
        for rows, _, _ in prediction_batches(lengths, batch_size, self.encoder.max_length):
            yield rows, len(rows), max(int(lengths[rows].max()), self.encoder.shortest)

    def score_arrays(self, arrays: Mapping[str, Array]) -> Array:
        inputs = {name: arrays[name] for name in self._inputs}
        rows, outputs = len(next(iter(arrays.values()))), len(self.label_names or "1")
        try:
            (scores,) = self._session.run(None, inputs | self._tables)
        except Exception as error:  # onnxruntime raises whatever the model led to
            raise self._broken(first_line(error)) from error
        found = np.asarray(scores)
        if found.size != rows * outputs or found.dtype.kind not in "fiu":
            raise self._broken(f"it returns {found.dtype} {found.shape} for {rows} pairs")
        return np.reshape(found, (rows, outputs))

    def _broken(self, why: str) -> InputError:
        made = self.folder / FOLDER
        return InputError(f"{made / 'model.onnx'} cannot be used ({why}). Delete {made}. {REMAKE}")

    def _write_rows(self, start: int, words: Sequence[str], vectors: Array) -> None:
        for name, role in self._roles.items():
            self._tables[name][start : start + len(words)] = new_rows(role, words, vectors)


def _load_again(folder: Path, calibration: dict[str, Any]) -> OnnxMatcher:
    matcher = OnnxMatcher.load(folder)
    vars(matcher).update(calibration)
    return matcher


def _start(path: Path, names: Collection[str]) -> tuple[Any, dict[str, Array]]:
    """Start a model in onnxruntime; return it and copies of its tables with these names.

    It runs on one thread: starting more takes longer than one pair.
    """
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.load_model_format", "ONNX")
    content = read_bytes(path, "TEXT_BYTES")
    try:
        model = onnx.load_model_from_string(content)
        _check_model(model, content)
        tables = {
            tensor.name: np.array(onnx.numpy_helper.to_array(tensor))
            for tensor in model.graph.initializer
            if tensor.name in names
        }
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # both libraries raise whatever the bytes led to
        raise InputError(
            f"{path} is refused ({first_line(error)}). Delete {path.parent}. {REMAKE}"
        ) from error
    return session, tables


def _check_model(model: Any, content: bytes) -> None:
    """Refuse a model that reads other files, runs foreign code, or may never end."""
    if _ELSEWHERE in content:
        raise ValueError("it may have values in other files, which are not opened")
    if model.functions:
        raise ValueError("it defines functions of its own")
    for node in model.graph.node:
        if node.domain not in ("", "ai.onnx"):
            raise ValueError(f"it has the foreign operation {node.domain}.{node.op_type}")
        if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
            raise ValueError(f"it has the loop or branch {node.op_type}")
