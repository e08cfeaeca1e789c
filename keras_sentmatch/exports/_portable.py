"""A matcher as an ONNX, LiteRT or TensorFlow model that takes ids, with the files that turn text into ids."""

import json
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_sentmatch.encoders import PairEncoder, SubwordPairEncoder
from keras_sentmatch.encoders.words import NORMALIZATION
from keras_sentmatch.errors import InputError
from keras_sentmatch.exports._saved_model import ServingFunctions, describe_specs, quiet
from keras_sentmatch.inference import score
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from keras_sentmatch.inference.onnx_export import ensemble_model
from keras_sentmatch.inference.onnx_file import MADE, check_model, tables
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

SCORE = Path(score.__file__)


def write_onnx(ensemble: EnsembleMatcher, folder: Path) -> dict[str, Any]:
    """Write `model.onnx`, and `score.py` with the files that it reads.

    The word tables are inputs with defaults, so that unseen words can get rows. Every backend can
    write it.
    """
    content, more, signature = ensemble_model(ensemble)
    folder.mkdir()
    (folder / "model.onnx").write_bytes(content)
    found = tables(check_model(content, MADE), more["tables"])
    more["places"] = {n: (content.index(x.tobytes()), x.shape) for n, x in found.items()}
    _write_rules(ensemble, folder, signature["inputs"], more)
    if more["spare_rows"]:
        shutil.copy(word_lookup.__file__, folder)
        (folder / "word_table.npz").write_bytes(table_content())
    return signature


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
    ensemble: EnsembleMatcher, folder: Path, convert: Callable[[ServingFunctions, Path], Any]
) -> dict[str, Any]:
    folder.mkdir()
    signature = describe_specs(*convert(ServingFunctions(ensemble), folder))
    _write_rules(ensemble, folder, signature["inputs"], {})
    return signature


def _write_rules(
    ensemble: EnsembleMatcher, folder: Path, inputs: dict[str, Any], more: dict[str, Any]
) -> None:
    """Write `score.py` and what it needs to turn sentences into ids, and scores into labels."""
    shutil.copy(SCORE, folder / "score.py")
    facts = {
        "inputs": list(inputs),
        "shape": next(iter(inputs.values()))["shape"][:2],
        "tables": {},
        "places": {},
        "spare_rows": 0,
        **more,
        "label_names": ensemble.label_names,
        "threshold": ensemble.threshold,
        "abstain_below": ensemble.abstain_below,
        "encoder": rules_of(ensemble.members[0].encoder, folder),
    }
    (folder / "facts.json").write_text(json.dumps(facts) + "\n", encoding="utf-8", newline="\n")


def _convert_to_litert(served: ServingFunctions, folder: Path) -> tuple[Any, Any]:
    """Try any shape, then one pair of any length, then one pair of the full length."""
    reasons = []
    for shape in ((None, None), (1, None), (1, served.encoder.max_length)):
        try:
            return _litert(served, folder / "model.tflite", shape)
        except Exception as error:  # the converter raises anything
            reasons.append(_reason(error))
    raise _refused(served, reasons)


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


def _refused(served: ServingFunctions, reasons: list[str]) -> InputError:
    return InputError(
        f"LiteRT cannot express this {type(served.members[0].model).__name__}: "
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
