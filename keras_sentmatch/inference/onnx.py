"""Predictions through onnxruntime: the ONNX model kept in a run folder, without a backend."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from keras_sentmatch.encoders import PairEncoder, SubwordPairEncoder
from keras_sentmatch.encoders.batches import prediction_batches
from keras_sentmatch.encoders.subwords import Encoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.base import Array
from keras_sentmatch.inference.learned import LearnedPairs
from keras_sentmatch.inference.matcher import OneModelMatcher, run_folder
from keras_sentmatch.inference.run_folder import load_run_encoder, read_card
from keras_sentmatch.inference.score import ENCODERS, Pieces
from keras_sentmatch.inference.unseen_words import UnseenWords, new_rows
from keras_sentmatch.safety import (
    check_tree,
    check_types,
    first_line,
    inside,
    read_bytes,
    read_object,
)
from keras_sentmatch.text.backbones import BackboneKind
from keras_sentmatch.vectors.built_in import WordTable

FOLDER = "onnx"  # in the run folder
FORMAT = 2  # of what is in it
NOTE = "run.json"  # the digest of the run; written last
REMAKE = (
    'Make the model with keras_sentmatch.load(folder, engine="onnx"), or on the command line with '
    "keras-sentmatch export RUN --format onnx."
)
_ELSEWHERE = b"location"  # the key under which an ONNX file names another file


def digest(folder: Path) -> str:
    """Return a digest of what an ONNX model is made from: weights, configuration, encoder."""
    found = hashlib.sha256()
    encoder = folder / "encoder"
    if not encoder.is_dir() or not (folder / "model.keras").is_file():
        raise InputError(
            f"{folder} lacks model.keras or encoder/. Copy the whole run folder again."
        )
    check_tree(encoder)
    files = sorted(path for path in encoder.rglob("*") if path.is_file())
    for path in (inside(folder, "model.keras"), *files):
        with path.open("rb") as file:
            one = hashlib.file_digest(file, "sha256").hexdigest()
        found.update(f"{path.relative_to(folder).as_posix()} {one}\n".encode())
    return found.hexdigest()


def noted_digest(made: Path) -> str | None:
    """Read the digest of the run that an ONNX model was made from.

    Returns None if there is no model, or one in another format.
    """
    if not (made / NOTE).is_file():
        return None
    note = read_object(inside(inside(made.parent, made.name), NOTE))
    return note.get("digest") if note.get("format") == FORMAT else None


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

    `keras_sentmatch.load(folder, engine="onnx")` first makes the ONNX model if it is missing.
    """

    threads = os.cpu_count() or 1
    can_cache_encodings = False

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
        facts = read_object(inside(made, "facts.json"))
        check_types(facts, {"spare_rows": int}, made / "facts.json")
        self.folder, self.info = folder, card["info"]
        self.learned = LearnedPairs.read(folder)
        self.encoder = _encoder(folder / "encoder", made, facts)
        self._session = _session(inside(made, "model.onnx"))
        self._inputs = [node.name for node in self._session.get_inputs()]
        self._roles: dict[str, str] = facts.get("tables") or {}
        self._tables: dict[str, Array] = {}  # word tables with the rows of unseen words
        outputs = self._session.get_outputs()
        width = outputs[0].shape[-1] if names else None
        if not set(self._inputs) <= set(self.encoder.input_names) or len(names or ()) != (
            width or 0
        ):
            raise InputError(
                f"{made} belongs to another run than the rest of {folder}. Delete {made}. {REMAKE}"
            )
        self.word_table = WordTable.load(folder / "encoder")
        self._spare = facts.get("spare_rows", 0)
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
        if noted_digest(folder / FOLDER) != digest(folder):
            raise InputError(f"{folder} has no ONNX model of its present weights. {REMAKE}")
        return cls(folder)

    def __repr__(self) -> str:
        answers = "score" if self.label_names is None else "/".join(self.label_names)
        return f"<OnnxMatcher {self.folder.name}: {self.task}, {answers}>"

    def batches(self, lengths: Array, batch_size: int) -> Iterator[tuple[Array, int, int]]:
        """As for `Matcher`, without filling up: nothing is compiled for a shape."""
        for rows, _, _ in prediction_batches(lengths, batch_size, self.encoder.max_length):
            yield rows, len(rows), max(int(lengths[rows].max()), self.encoder.shortest)

    def score_arrays(self, arrays: Mapping[str, Array]) -> Array:
        inputs = {name: arrays[name] for name in self._inputs}
        (scores,) = self._session.run(None, inputs | self._tables)
        return np.reshape(scores, (len(scores), -1))

    def read_tables(self) -> None:
        """Read the word tables, so that the folder is not needed any more."""
        if self._roles and not self._tables:
            import onnx

            model = onnx.load_model_from_string(_content(self.folder / FOLDER / "model.onnx"))
            self._tables = {
                tensor.name: np.array(onnx.numpy_helper.to_array(tensor))
                for tensor in model.graph.initializer
                if tensor.name in self._roles
            }
            rows = self.encoder.vocabulary_size + self._spare
            if any(len(table) < rows for table in self._tables.values()):
                raise InputError(
                    f"{self.folder / FOLDER} is damaged: its word tables have fewer than {rows:,} "
                    f"rows. Delete this folder. {REMAKE}"
                )

    def _write_rows(self, start: int, words: Sequence[str], vectors: Array) -> None:
        self.read_tables()
        for name, role in self._roles.items():
            self._tables[name][start : start + len(words)] = new_rows(role, words, vectors)


class _Pieces(SubwordPairEncoder):
    """The encoder of a backbone's pieces by the rules of an artifact, without KerasHub."""

    def __init__(self, rules: dict[str, Any], folder: Path) -> None:
        rules["clean"] = {int(code): text for code, text in rules.get("clean", {}).items()}
        read: Pieces = ENCODERS[rules["kind"]](rules, folder)
        self.pieces: Any = SimpleNamespace(
            ids=lambda sentences: [read.sentence(text) for text in sentences],
            unknown=rules["unknown"],
        )
        layout = {"separators": rules["separators"], "segments": bool(rules["segments"])}
        self.encoder_kind = BackboneKind(rules["kind"], "", **layout)
        self.shortest = self._special = 2 + rules["separators"]
        self.max_length = rules["max_length"]
        ids = {f"{name}_token_id": rules[key] for name, key in _SPECIAL.items()}
        self.tokenizer = SimpleNamespace(vocabulary_size=lambda: rules["size"], **ids)
        self.reset_report()


_SPECIAL = {"start": "start", "end": "end", "pad": "padding"}


def _encoder(folder: Path, made: Path, facts: dict[str, Any]) -> Encoder:
    """Load the encoder of a run; pieces follow the rules in `facts` if there are any."""
    rules = facts.get("encoder")
    if rules is None or rules["kind"] == "words":
        return load_run_encoder(folder)
    try:
        return _Pieces(rules, made)
    except ImportError as error:
        raise InputError(
            f"The word pieces of this run need {error.name}. Run pip install {error.name}."
        ) from error
    except Exception as error:  # the libraries raise whatever their files led to
        raise InputError(
            f"{made / 'facts.json'} is damaged ({first_line(error)}). Delete {made}. {REMAKE}"
        ) from error


def _content(path: Path) -> bytes:
    """Read an ONNX file; refuse one whose values may be in other files."""
    content = read_bytes(path, "TEXT_BYTES")
    if _ELSEWHERE in content:
        raise InputError(
            f"{path} may have values in other files, which are not opened. Delete {path.parent}. "
            f"{REMAKE}"
        )
    return content


def _session(path: Path) -> Any:
    """Start the model in onnxruntime on one thread: starting more takes longer than one pair."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.load_model_format", "ONNX")
    content = _content(path)
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises whatever the bytes led to
        raise InputError(
            f"{path} is damaged ({first_line(error)}). Delete {path.parent}. {REMAKE}"
        ) from error
