"""A matcher as an ONNX, LiteRT or TensorFlow model that takes ids, with the files that turn text into ids."""

import json
import logging
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_sentmatch.encoders import PairEncoder, SubwordPairEncoder
from keras_sentmatch.encoders.words import NORMALIZATION
from keras_sentmatch.errors import InputError
from keras_sentmatch.exports._saved_model import ServingFunctions, describe_specs, quiet
from keras_sentmatch.inference import score
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from keras_sentmatch.inference.unseen_words import row_tables, spare_rows
from keras_sentmatch.safety import first_line
from keras_sentmatch.text.tokens import (
    CONTRACTIONS,
    LAST,
    NEGATIONS,
    clean_table,
    token_pattern,
    word_ranges,
)
from keras_sentmatch.text.word_pieces import BertPieces, BytePairs, SentencePieces, separators
from keras_sentmatch.vectors import word_lookup
from keras_sentmatch.vectors.built_in import table_content

OPSET = 18
SCORE = Path(score.__file__)
Tables = Mapping[str, tuple[str, Any]]  # role of a row of an unseen word, and the variable


def write_onnx(ensemble: EnsembleMatcher, folder: Path) -> dict[str, Any]:
    """Write `model.onnx`, and `score.py` with the files that it reads; see `write_saved_model`.

    The word tables are inputs with defaults, so that unseen words can get rows.
    """
    members = [member for member in ensemble.members if member.unseen_words]
    rows = min((spare_rows(member.model, member.encoder) for member in members), default=0)
    found = [pair for member in members for pair in row_tables(member.model)]
    tables = {f"words_{number}": pair for number, pair in enumerate(found)}
    report = _write(ensemble, folder, partial(_convert_to_onnx, tables=tables), tables, rows)
    if rows:
        shutil.copy(word_lookup.__file__, folder)
        (folder / "word_table.npz").write_bytes(table_content())
    return report


def write_litert(ensemble: EnsembleMatcher, folder: Path) -> dict[str, Any]:
    """Write `model.tflite`, and `score.py` with the files that it reads."""
    return _write(ensemble, folder, _convert_to_litert)


def write_saved_model_of_ids(ensemble: EnsembleMatcher, folder: Path) -> dict[str, Any]:
    """Write a SavedModel that takes ids, and `score.py` with the files that it reads."""
    return _write(ensemble, folder, _convert_to_saved_model)


def _convert_to_saved_model(served: ServingFunctions, folder: Path) -> tuple[Any, Any]:
    import tensorflow as tf

    specs, module = served.specs(), tf.Module(name="matcher")
    module.weights = served.variables()
    with quiet("tensorflow"):
        function = tf.function(served.scores_of_ids, autograph=False)
        traced = function.get_concrete_function(**specs)
        tf.saved_model.save(module, str(folder), signatures={"serving_default": traced})
    return specs, traced.structured_outputs


def _write(
    ensemble: EnsembleMatcher,
    folder: Path,
    convert: Callable[[ServingFunctions, Path], Any],
    tables: Tables = {},  # noqa: B006
    spare: int = 0,
) -> dict[str, Any]:
    served = ServingFunctions(ensemble)
    folder.mkdir()
    inputs, outputs = convert(served, folder)
    shutil.copy(SCORE, folder / "score.py")
    facts = {
        "inputs": list(inputs),
        "shape": next(iter(inputs.values())).shape[:2].as_list(),
        "tables": {name: role for name, (role, _) in tables.items()},
        "places": _places(folder / "model.onnx", tables),
        "spare_rows": spare,
        "label_names": ensemble.label_names,
        "threshold": ensemble.threshold,
        "abstain_below": ensemble.abstain_below,
        "encoder": rules_of(served.encoder, folder),
    }
    (folder / "facts.json").write_text(json.dumps(facts) + "\n", encoding="utf-8", newline="\n")
    return describe_specs(inputs, outputs)


def _places(path: Path, tables: Tables) -> dict[str, Any]:
    """Return where the values of the word tables begin in the file, and their shapes."""
    content = path.read_bytes() if tables else b""
    found = {}
    for name, (_, variable) in tables.items():
        values = keras.ops.convert_to_numpy(variable)
        found[name] = content.index(values.tobytes()), values.shape
    return found


def _convert_to_onnx(served: ServingFunctions, folder: Path, tables: Tables) -> tuple[Any, Any]:
    """Write model.onnx; return specs of inputs and outputs. `tables` become inputs with defaults."""
    try:
        import onnx
        import onnxruntime  # noqa: F401  (checked before anything is written)
        import tensorflow as tf
        import tf2onnx
    except ImportError as error:
        raise InputError(
            f'ONNX needs more packages ({error}). Run pip install "keras-sentmatch[onnx]".'
        ) from error
    specs = served.specs()
    variables = [variable for _, variable in tables.values()]
    named = list(specs.values()) + [
        tf.TensorSpec(variable.shape, variable.dtype, name)
        for name, variable in zip(tables, variables)
    ]

    def answer(*arrays: Any) -> Any:
        with keras.StatelessScope(list(zip(variables, arrays[len(specs) :]))):
            return served.scores_of_ids(**dict(zip(specs, arrays)))

    function = tf.function(answer, input_signature=named, autograph=False)
    with _tensordot_as_matmul():
        traced = function.get_concrete_function()
    try:
        with quiet("tf2onnx", logging.CRITICAL), quiet("tensorflow"):
            model, _ = tf2onnx.convert.from_function(
                function, named, opset=OPSET, custom_op_handlers={"Erfc": (_erfc, [])}
            )
        constants = {inner.name: outer for outer, inner in traced.graph.captures}
        for value in list(model.graph.input):
            if value.name in specs:
                batch, length, *_ = value.type.tensor_type.shape.dim
                batch.dim_param, length.dim_param = "batch", "length"
            elif value.name in tables:
                number = keras.ops.convert_to_numpy(tables[value.name][1])
                model.graph.initializer.append(onnx.numpy_helper.from_array(number, value.name))
                value.type.tensor_type.shape.dim[0].dim_param = "words"
            else:  # a constant that was computed while the model was built
                number = constants[value.name].numpy()
                model.graph.initializer.append(onnx.numpy_helper.from_array(number, value.name))
                model.graph.input.remove(value)
        path = str(folder / "model.onnx")
        onnx.save(model, path)
        onnx.checker.check_model(path)  # the converter leaves in what it cannot convert
    except Exception as error:  # the converter raises anything
        raise _refused("ONNX", served, [_reason(error)]) from error
    return specs, traced.structured_outputs


@contextmanager
def _tensordot_as_matmul() -> Iterator[None]:
    """Trace products of `[B, L, D]` and `[D, K]` as one `tf.matmul`.

    Keras calls `tf.tensordot`, which becomes seven ONNX nodes.
    """
    import tensorflow

    tf: Any = tensorflow
    tensordot = tf.tensordot

    def product(a: Any, b: Any, axes: Any, name: str | None = None) -> Any:
        is_matmul = axes == [[-1], [0]] and b.shape.rank == 2
        return tf.matmul(a, b, name=name) if is_matmul else tensordot(a, b, axes, name=name)

    tf.tensordot = product
    try:
        yield
    finally:
        tf.tensordot = tensordot


def _erfc(graph: Any, node: Any, name: str, arguments: Any) -> None:
    """Express erfc, which the GELU of RoBERTa and others needs and ONNX lacks, as 1 - erf."""
    x, output = node.input[0], node.output[0]
    shapes, dtypes = node.output_shapes, node.output_dtypes
    graph.remove_node(node.name)
    one = graph.make_const(f"{name}_one", np.ones((), "float32")).output[0]
    erf = graph.make_node("Erf", [x], shapes=shapes, dtypes=dtypes).output[0]
    graph.make_node("Sub", [one, erf], outputs=[output], shapes=shapes, dtypes=dtypes)


def _convert_to_litert(served: ServingFunctions, folder: Path) -> tuple[Any, Any]:
    """Try any shape, then one pair of any length, then one pair of the full length."""
    reasons = []
    for shape in ((None, None), (1, None), (1, served.encoder.max_length)):
        try:
            return _litert(served, folder / "model.tflite", shape)
        except Exception as error:  # the converter raises anything
            reasons.append(_reason(error))
    raise _refused("LiteRT", served, reasons)


def _litert(
    served: ServingFunctions, path: Path, shape: tuple[int | None, int | None]
) -> tuple[Any, Any]:
    import tensorflow as tf

    specs = {
        name: tf.TensorSpec([*shape, *spec.shape[2:]], spec.dtype, name)
        for name, spec in served.specs().items()
    }
    function = tf.function(served.scores_of_ids, autograph=False).get_concrete_function(**specs)
    module = tf.Module()
    module.weights = served.variables()
    with tempfile.TemporaryDirectory() as saved, quiet("tensorflow"):
        tf.saved_model.save(module, saved, signatures={"serving_default": function})
        converter = tf.lite.TFLiteConverter.from_saved_model(
            saved, signature_keys=["serving_default"]
        )
        path.write_bytes(converter.convert())
    return specs, function.structured_outputs


def _refused(format: str, served: ServingFunctions, reasons: list[str]) -> InputError:
    return InputError(
        f"{format} cannot express this {type(served.members[0].model).__name__}: "
        f"{'; '.join(dict.fromkeys(reasons))}. Export it as a SavedModel."
    )


def _reason(error: Exception) -> str:
    """Return the operation that an error of the converter names, or the first line."""
    found = re.search(r"'tf\.\w+' op [^\n]*", str(error))
    return found[0] if found else first_line(error)


# === The encoder as plain files ===


def rules_of(encoder: PairEncoder | SubwordPairEncoder, folder: Path) -> dict[str, Any]:
    """Return the rules from text to ids, for JSON; write the vocabularies into `folder`."""
    if isinstance(encoder, PairEncoder):
        return _rules_of_words(encoder, folder)
    return _rules_of_pieces(encoder, folder)


def _rules_of_words(encoder: PairEncoder, folder: Path) -> dict[str, Any]:
    name = encoder.tokenizer.name
    encoder.vocabulary.save(folder / "vocabulary.txt")
    encoder.characters.save(folder / "characters.txt")
    rules = []
    if name != "whitespace":
        letters = "".join(rf"\U{low:08x}-\U{high:08x}" for low, high in word_ranges())
        rules.append((token_pattern(name, letters), r" \g<0> "))
    if name == "words":
        rules += CONTRACTIONS
    clean = clean_table(encoder.tokenizer.lowercase)
    return {
        "kind": "words",
        "max_length": encoder.max_length,
        "max_word_length": encoder.max_word_length,
        "antonyms": encoder.antonyms,
        "normalization": NORMALIZATION,
        "clean": {code: new or "" for code, new in clean.items()},
        "rules": rules,
        "negations": sorted(NEGATIONS),
    }


def _rules_of_pieces(encoder: SubwordPairEncoder, folder: Path) -> dict[str, Any]:
    tokenizer, pieces = encoder.tokenizer, encoder.pieces
    return {
        "max_length": encoder.max_length,
        "separators": encoder.encoder_kind.separators,
        "segments": int(encoder.encoder_kind.segments),
        "start": tokenizer.start_token_id,
        "end": tokenizer.end_token_id,
        "padding": tokenizer.pad_token_id,
        "unknown": pieces.unknown,
        **_RULES[type(pieces)](pieces, folder),
    }


def _rules_of_word_pieces(pieces: BertPieces, folder: Path) -> dict[str, Any]:
    text, tokenizer = pieces.text, pieces.plain
    lines = "".join(f"{piece}\n" for piece in tokenizer.get_vocabulary())
    (folder / "vocabulary.txt").write_text(lines, encoding="utf-8", newline="\n")
    clean = {code: text[code] for code in range(LAST + 1) if text[code] != chr(code)}
    return {
        "kind": "word pieces",
        "suffix": tokenizer.suffix_indicator,
        "last": LAST,
        "clean": clean,
        "separating": separators(tokenizer.split_on_cjk),
    }


def _rules_of_byte_pairs(pieces: BytePairs, folder: Path) -> dict[str, Any]:
    tokenizer = pieces.tokenizer
    merges = [merge.split(" ") for merge in tokenizer.merges if not merge.startswith("#version:")]
    found = {"vocabulary": dict(tokenizer.vocabulary), "merges": merges}
    (folder / "byte_pairs.json").write_text(json.dumps(found) + "\n", "utf-8", newline="\n")
    return {"kind": "byte pairs", "prefix_space": bool(tokenizer.add_prefix_space)}


def _rules_of_sentence_pieces(pieces: SentencePieces, folder: Path) -> dict[str, Any]:
    (folder / "sentence_pieces.model").write_bytes(pieces.tokenizer.proto)
    return {
        "kind": "sentence pieces",
        "shift": pieces.shift,
        "lowercase": pieces.lowercase,
        "without_accents": pieces.without_accents,
    }


_RULES: dict[type, Any] = {
    BertPieces: _rules_of_word_pieces,
    BytePairs: _rules_of_byte_pairs,
    SentencePieces: _rules_of_sentence_pieces,
}
