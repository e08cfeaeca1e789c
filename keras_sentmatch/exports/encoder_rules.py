"""The encoder as plain files that `score.py` reads: rules and vocabularies, no code."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_sentmatch.encoders import PairEncoder, SubwordPairEncoder
from keras_sentmatch.encoders.words import NORMALIZATION
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from keras_sentmatch.text.tokens import CONTRACTIONS, LAST, clean_table, token_pattern, word_ranges
from keras_sentmatch.text.word_pieces import BertPieces, BytePairs, SentencePieces, separators

SCORE = Path(__file__).with_name("score.py")


def write_encoder(
    ensemble: EnsembleMatcher,
    folder: Path,
    inputs: Sequence[str],
    shape: Sequence[int | None],
    tables: Mapping[str, str],
) -> str:
    """Writes the encoder into `encoder/`, and `score.py` with the files that it reads.

    `inputs` are the names of the model's inputs, `shape` the pairs and tokens that it takes at once
    (`None` for any number), `tables` those that new words get rows in, and what such a row holds.
    Returns why there is no `score.py`; "" if there is.
    """
    encoder = ensemble.members[0].encoder
    encoder.save(folder / "encoder")
    reason, rules = "", None
    try:
        rules = rules_of(encoder, folder)
        shutil.copy(SCORE, folder / "score.py")
    except InputError as error:
        reason = str(error)
    facts = {
        "inputs": list(inputs),
        "shape": shape,
        "tables": dict(tables),
        "label_names": ensemble.label_names,
        "threshold": ensemble.threshold,
        "abstain_below": ensemble.abstain_below,
        "encoder": rules,
    }
    (folder / "facts.json").write_text(json.dumps(facts) + "\n", encoding="utf-8", newline="\n")
    return reason


def rules_of(encoder: PairEncoder | SubwordPairEncoder, folder: Path) -> dict[str, Any]:
    """How text becomes ids, for JSON; writes the vocabularies into `folder`."""
    if isinstance(encoder, PairEncoder):
        return _rules_of_words(encoder, folder)
    return _rules_of_pieces(encoder, folder)


def _rules_of_words(encoder: PairEncoder, folder: Path) -> dict[str, Any]:
    name = encoder.tokenizer.name
    encoder.check_graph()
    encoder.vocabulary.save(folder / "vocabulary.txt")
    encoder.characters.save(folder / "characters.txt")
    rules = []
    if name != "whitespace":
        rules.append((token_pattern(name, _character_class(word_ranges())), r" \g<0> "))
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
        "size": encoder.vocabulary_size,
        **_RULES[type(pieces)](pieces, folder),
    }


def _rules_of_word_pieces(pieces: BertPieces, folder: Path) -> dict[str, Any]:
    pieces.check_graph()  # refuses what its rules cannot express
    text, tokenizer = pieces.text, pieces.plain
    lines = "".join(f"{piece}\n" for piece in tokenizer.get_vocabulary())
    (folder / "vocabulary.txt").write_text(lines, encoding="utf-8", newline="\n")
    clean = {code: text[code] for code in range(LAST + 1) if text[code] != chr(code)}
    separating = _character_class(separators(tokenizer.split_on_cjk))
    return {
        "kind": "word pieces",
        "suffix": tokenizer.suffix_indicator,
        "normalization": None,
        "clean": clean,
        "rules": [
            (f"[{_character_class([(LAST + 1, 0x10FFFF)])}]", ""),
            (f"[{separating}]", r" \g<0> "),
        ],
    }


def _rules_of_byte_pairs(pieces: BytePairs, folder: Path) -> dict[str, Any]:
    (folder / "byte_pairs.json").write_text(pieces.bpe.to_str(), "utf-8", newline="\n")
    return {"kind": "byte pairs"}


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


def _character_class(ranges: Sequence[tuple[int, int]]) -> str:
    return "".join(rf"\U{low:08x}-\U{high:08x}" for low, high in ranges)
