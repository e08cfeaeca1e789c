"""Word vectors by the short text that names them in recipes and on the command line."""

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from keras_sentmatch.errors import InputError
from keras_sentmatch.vectors.built_in import load_word_table
from keras_sentmatch.vectors.extraction import extract_vectors
from keras_sentmatch.vectors.reading import read_vectors
from keras_sentmatch.vectors.word_vectors import WordVectors

log = logging.getLogger(__name__)

ENGLISH = 0.75  # share of the running words that the table must have for `auto` to use it


def load_vectors(
    spec: str | Path,
    words: Collection[str],
    *,
    dim: int | None = None,
    counts: Mapping[str, int] | None = None,
    cache_dir: str | Path | None = None,
    progress: bool = True,
    **options: Any,
) -> WordVectors | None:
    """Load word vectors by a short text, as the command line and the recipes name them.

    Args:
        spec: `"table"`, the English words in the package (see `WordTable`); `"auto"`, the same
            where the text is mostly English, else none; `"none"`; the path of a file (see
            `read_vectors`); or `"encoder:PRESET_OR_FOLDER"` (see `extract_vectors`).
        words: The words to keep, perhaps with their counts.
        dim: Dimension: of the extracted vectors (300 by default), or what a file must have.
        counts: Token counts, for the options of extracted vectors that weight words.
        cache_dir, progress: See `read_vectors`.
        **options: Further arguments of `extract_vectors`, for extracted vectors only.

    Returns:
        The vectors, or None for `"none"`, and for `"auto"` where the text is not English.

    Raises:
        InputError: for a file that is missing, damaged or of another dimension, or options that
            do not apply.

    Example:

    >>> load_vectors("none", ["cat"]) is None
    True
    """
    spec = str(spec)
    common: dict[str, Any] = {"cache_dir": cache_dir, "progress": progress}
    if spec.startswith("encoder:"):
        name = spec.removeprefix("encoder:")
        return extract_vectors(name, words, dim=dim or 300, counts=counts, **common, **options)
    if options:
        raise InputError(
            f"{', '.join(options)}: an option of extracted vectors (encoder:NAME), not of {spec!r}"
        )
    if spec == "none":
        return None
    if spec == "auto" and (share := english_share(words)) < ENGLISH:
        log.warning(
            f"The package's English word vectors know {share:.0%} of the running words: too few, so "
            "random ones are trained instead. For better ones give a file (--vectors FILE) or an "
            "encoder (--vectors encoder:NAME)."
        )
        return None
    if spec in ("auto", "table"):
        return load_word_table().word_vectors(words)
    vectors = read_vectors(spec, words, **common)
    if dim is not None and vectors.dim != dim:
        raise InputError(
            f"{spec}: vectors of dimension {vectors.dim}, expected {dim}; "
            f"ask for dim={vectors.dim} or give another file"
        )
    return vectors


def english_share(words: Collection[str]) -> float:
    """The share of the running words that the package's table has, from 0 to 1."""
    counts = words if isinstance(words, Mapping) else dict.fromkeys(words, 1)
    counts = {word: n for word, n in counts.items() if any(map(str.isalpha, word))}
    table = load_word_table()
    found = sum(n for word, n in counts.items() if word in table)
    return found / max(sum(counts.values()), 1)
