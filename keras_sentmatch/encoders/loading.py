"""Encoders of either kind, as a run folder keeps them."""

from pathlib import Path

from keras_sentmatch.encoders.base import read_description
from keras_sentmatch.encoders.subwords import SubwordPairEncoder
from keras_sentmatch.encoders.words import PairEncoder
from keras_sentmatch.errors import InputError

Encoder = PairEncoder | SubwordPairEncoder


def load_encoder(folder: str | Path) -> Encoder:
    """Reads what `PairEncoder.save` or `SubwordPairEncoder.save` wrote.

    Raises:
        InputError: A file that is missing, damaged or of a newer format, or an encoder with a
            tokenizer of your own: load that by `PairEncoder.load(folder, tokenizer=…)`.
    """
    path, kind, _ = read_description(folder)
    if kind == "subword":
        return SubwordPairEncoder.load(folder)
    if kind != "word":
        raise InputError(f"{path} is of the kind {kind!r}, expected 'word' or 'subword'.")
    return PairEncoder.load(folder)
