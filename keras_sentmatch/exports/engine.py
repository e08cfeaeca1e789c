"""Answers through onnxruntime: a run's model as ONNX, kept in the run folder, and no backend."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from keras_sentmatch.encoders import SubwordPairEncoder
from keras_sentmatch.encoders.subwords import Encoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.exports.score import ENCODERS, Pieces
from keras_sentmatch.inference.base import Array
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.new_words import BLOCK, NewWords
from keras_sentmatch.inference.one_model import OneModelMatcher
from keras_sentmatch.inference.pairs import batches
from keras_sentmatch.inference.run_folder import load_run_encoder, read_card
from keras_sentmatch.safety import check_tree, first_line, inside, read_bytes, read_object
from keras_sentmatch.text.backbones import BackboneKind
from keras_sentmatch.text.tokens import word_facts
from keras_sentmatch.vectors.built_in import WordTable
from keras_sentmatch.vectors.extraction import VectorExtractor, WordEncoder

FOLDER = "onnx"  # in the run folder
FORMAT = 1  # of what is in it
_NOTE = "run.json"  # what it was made of; written last
_ELSEWHERE = b"location"  # the key under which an ONNX file names another file


def load_onnx(folder: Path, word_encoder: str | Path | WordEncoder | None = None) -> "OnnxMatcher":
    """The matcher of a run folder; its ONNX model is made first if it is missing or another run's."""
    if missing := [name for name in ("onnxruntime", "onnx") if find_spec(name) is None]:
        raise InputError(
            f'engine="onnx" needs {" and ".join(missing)}: pip install onnxruntime onnx (to answer), '
            'or pip install "keras-sentmatch[onnx]" (to make the ONNX model as well).'
        )
    read_card(folder)
    if _noted(folder / FOLDER) != digest(folder):
        make_onnx(folder)
    matcher = OnnxMatcher(folder)
    if word_encoder is not None:
        matcher.new_words = NewWords(matcher, word_encoder)
    return matcher


def make_onnx(folder: Path) -> dict[str, Any]:
    """Makes the ONNX model in a run folder, or makes it again; the report of `export`."""
    from keras_sentmatch.exports.exporting import write_artifact

    made = digest(folder)
    try:
        matcher = Matcher.load(folder)
        matcher.temperature, matcher.threshold = 1.0, None  # applied to what the model gives
        matcher.abstain_below = None
        with tempfile.TemporaryDirectory(prefix=f".{FOLDER}-", dir=folder) as temporary:
            new, kept = Path(temporary, "new"), folder / FOLDER
            report = write_artifact(matcher, new, "engine")
            (new / _NOTE).write_text(json.dumps({"format": FORMAT, "digest": made}) + "\n", "utf-8")
            if kept.exists():
                os.replace(kept, Path(temporary, "old"))
            os.replace(new, kept)
    except InputError as error:
        raise InputError(
            f"{folder} holds no ONNX model of its weights, and none was made: {error}"
        ) from error
    except OSError as error:
        if _noted(folder / FOLDER) != made:  # another process was faster
            raise InputError(
                f"{folder} holds no ONNX model of its weights, and none can be written there "
                f"({first_line(error)}): export it where the folder can be changed."
            ) from error
        report = {}
    return {**report, "format": "onnx", "folder": str(folder / FOLDER)}


def digest(folder: Path) -> str:
    """What an ONNX model is made of: the weights, the configuration, the encoder."""
    found = hashlib.sha256()
    encoder = folder / "encoder"
    if not encoder.is_dir() or not (folder / "model.keras").is_file():
        raise InputError(
            f"{folder} lacks model.keras or encoder/: copy the whole run folder again."
        )
    check_tree(encoder)
    files = sorted(path for path in encoder.rglob("*") if path.is_file())
    for path in (inside(folder, "model.keras"), *files):
        with path.open("rb") as file:
            one = hashlib.file_digest(file, "sha256").hexdigest()
        found.update(f"{path.relative_to(folder).as_posix()} {one}\n".encode())
    return found.hexdigest()


def _noted(made: Path) -> str | None:
    """Of what an ONNX model was made; None if there is none, or one of another format."""
    if not (made / _NOTE).is_file():
        return None
    note = read_object(inside(inside(made.parent, made.name), _NOTE))
    return note.get("digest") if note.get("format") == FORMAT else None


class OnnxMatcher(OneModelMatcher):
    """What `Matcher.load(run, engine="onnx")` gives: a `Matcher` whose model runs in onnxruntime.

    It predicts, ranks, evaluates, calibrates and learns words. It does not explain, keep encodings,
    save or export: load the run without `engine` for that.
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
        facts = read_object(inside(made, "facts.json"))
        self.folder, self.info = folder, card["info"]
        self.encoder = _encoder(folder / "encoder", made, facts)
        self._session = _session(inside(made, "model.onnx"))
        self._inputs = [node.name for node in self._session.get_inputs()]
        self._roles: dict[str, str] = facts.get("tables") or {}
        self._tables: dict[str, Array] = {}  # those that have grown
        outputs = self._session.get_outputs()
        width = outputs[0].shape[-1] if names else None
        if not set(self._inputs) <= set(self.encoder.input_names) or len(names or ()) != (
            width or 0
        ):
            raise InputError(f"{made} does not fit its run: delete it, and it is made again.")
        encoder = folder / "encoder"
        self.vector_extractor = VectorExtractor.load(encoder) or WordTable.load(encoder)
        if isinstance(self.vector_extractor, WordTable) and self._roles:
            self.new_words = NewWords(self)

    def __repr__(self) -> str:
        answers = "score" if self.label_names is None else "/".join(self.label_names)
        return f"<OnnxMatcher {self.folder.name}: {self.task}, {answers}>"

    @property
    def can_cache_encodings(self) -> bool:
        return False

    def batches(self, lengths: Array, batch_size: int) -> Iterator[tuple[Array, int, int]]:
        """Any shape will do: nothing is compiled for it."""
        for rows, _, _ in batches(lengths, batch_size, self.encoder.max_length):
            yield rows, len(rows), max(int(lengths[rows].max()), self.encoder.shortest)

    def score_arrays(self, arrays: Mapping[str, Array]) -> Array:
        inputs = {name: arrays[name] for name in self._inputs}
        (scores,) = self._session.run(None, inputs | self._tables)
        return np.reshape(scores, (len(scores), -1))

    def add_rows(self, start: int, words: Sequence[str], vectors: Array) -> None:
        if not self._roles:
            raise InputError(f"{self!r} has no tables of word vectors to add words to.")
        end = start + len(words)
        new = {
            "vectors": vectors,
            "zeros": 0.0,
            "facts": np.pad(word_facts(words), [(0, 0), (1, 0)]),
        }
        tables = self._tables or self._stored_tables()
        grown = {}
        for name, role in self._roles.items():
            table = tables[name]
            if end > len(table):
                more = -(-(end - len(table)) // BLOCK) * BLOCK
                table = np.pad(table, [(0, more), (0, 0)])
            table[start:end] = new[role]
            grown[name] = table
        self._tables = grown

    def _stored_tables(self) -> dict[str, Array]:
        import onnx

        model = onnx.load_model_from_string(_content(self.folder / FOLDER / "model.onnx"))
        return {
            tensor.name: np.array(onnx.numpy_helper.to_array(tensor))
            for tensor in model.graph.initializer
            if tensor.name in self._roles
        }

    def explain(self, *args: Any, **options: Any) -> NoReturn:
        self._refuse("explain")

    def encode(self, *args: Any, **options: Any) -> NoReturn:
        self._refuse("encode")

    def save(self, *args: Any, **options: Any) -> NoReturn:
        self._refuse("save")

    def export(self, *args: Any, **options: Any) -> NoReturn:
        self._refuse("export")

    def _refuse(self, method: str) -> NoReturn:
        raise InputError(
            f'With engine="onnx" there is no {method}, which needs the Keras model: load '
            f"{self.folder} without engine."
        )


class _Pieces(SubwordPairEncoder):
    """The pieces of a pretrained encoder by the rules of an artifact, without KerasHub."""

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
    """The encoder of a run; that of pieces by the rules in `facts`, if they are there."""
    rules = facts.get("encoder")
    if rules is None or rules["kind"] == "words":
        return load_run_encoder(folder)
    try:
        return _Pieces(rules, made)
    except ImportError as error:
        raise InputError(
            f"This run's pieces need {error.name}: pip install {error.name}."
        ) from error
    except Exception as error:  # the libraries raise whatever their files led to
        raise InputError(
            f"{made / 'facts.json'} is damaged ({first_line(error)}): delete {made}, and it is made "
            "again."
        ) from error


def _content(path: Path) -> bytes:
    """An ONNX file that holds all its values."""
    content = read_bytes(path, "TEXT_BYTES")
    if _ELSEWHERE in content:
        raise InputError(
            f"{path} may have values in other files, which are not opened: delete {path.parent}, "
            "and it is made again."
        )
    return content


def _session(path: Path) -> Any:
    """The model in onnxruntime, on one thread: starting others takes longer than a pair does."""
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
            f"{path} is damaged ({first_line(error)}): delete {path.parent}, and it is made again."
        ) from error
