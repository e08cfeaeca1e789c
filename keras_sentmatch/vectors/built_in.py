"""The built-in table of English word vectors, and word vectors by name."""

import hashlib
import importlib.resources
import io
import json
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path

import numpy as np

from keras_sentmatch.errors import InputError
from keras_sentmatch.safety import inside, read_object
from keras_sentmatch.vectors.extraction import extract_vectors
from keras_sentmatch.vectors.files import WordVectors, read_vectors
from keras_sentmatch.vectors.word_lookup import SCALE, WordLookup, plain, read_lookup

log = logging.getLogger(__name__)

NAME = "table"
_FILE = "word_table.json"
_KINDS = {
    "word": "words in the table",
    "pieces": "put together from word pieces",
    "spelling": "taken for misspellings",
    "unknown": "without a vector",
}


class WordTable(WordLookup):
    """Vectors for any English word, from whole words and word pieces.

    The words and pieces are those of all-MiniLM-L6-v2, with vectors as `extract_vectors` makes them.
    The vectors of the pieces inside a word (`##ing`) were fitted by ridge regression, so that their mean
    comes close to the word's own vector. `benchmarks/word_table.py` makes the table.

    A word is looked up in lower case and without accents. A word outside the table gets the vector of
    the most frequent word at one edit's distance (Norvig's spelling corrector), or else the mean of
    its word pieces: three points of accuracy on pairs with many unseen words.
    """

    digest = ""  # of the table's file

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return plain(word) in self.words

    def matrix(self) -> np.ndarray:
        """Return the vectors of all words, float32 `[words, dim]`."""
        return self.vectors.astype(np.float32) * np.float32(SCALE * self.scales[0])

    def word_vectors(self, counts: Mapping[str, int] | Iterable[str] = ()) -> WordVectors:
        """Return the vectors of the words of some data and of all words of the table.

        A word that `counts` counts more than once is not corrected. The `report` counts the words of
        the data by source.
        """
        counts = counts if isinstance(counts, Mapping) else dict.fromkeys(counts, 1)
        found = {word: self.lookup(word, correct=counts[word] < 2) for word in sorted(counts)}
        rows = {word: vector for word, (vector, _) in found.items() if vector is not None}
        kinds = Counter(kind for _, kind in found.values())
        report = ", ".join(f"{kinds[k]:,} {text}" for k, text in _KINDS.items() if kinds[k])
        more = [word for word in self.words if word not in rows]
        others = self.matrix()[[self.words[word] for word in more]]
        matrix = np.concatenate([np.reshape([*rows.values()], (-1, self.dim)), others])
        places = {word: row for row, word in enumerate([*rows, *more])}
        return WordVectors(places, matrix, NAME, report, built_in=True)

    def save(self, folder: str | Path) -> None:
        """Write `word_table.json`, which names the table by its digest."""
        text = json.dumps({"format": 1, "table": self.digest})
        (Path(folder) / _FILE).write_text(text + "\n", encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, folder: str | Path) -> "WordTable | None":
        """Return the built-in table if a folder names it, otherwise None."""
        file = Path(folder) / _FILE
        if not file.is_file():
            return None
        named = read_object(inside(file.parent, file.name)).get("table")
        table = load_word_table()
        if named == table.digest:
            return table
        log.warning(
            f"{file.parent.parent} was trained with the word vectors of another version. Words outside "
            "its vocabulary stay unknown. Train it again to change that."
        )
        return None


def table_content() -> bytes:
    """Return the file of the built-in table."""
    file = importlib.resources.files("keras_sentmatch.vectors") / "tables" / "minilm.npz"
    return file.read_bytes()


@cache
def load_word_table() -> WordTable:
    """Return the built-in table, which is read once."""
    content = table_content()
    table = WordTable(**read_lookup(io.BytesIO(content)))
    table.digest = hashlib.sha256(content).hexdigest()[:16]
    return table


@cache
def load_similarity() -> dict[str, np.ndarray]:
    """Return the weights of words, and a map under which means of word vectors are compared.

    The importance of a word with vector v is `context . tanh(v @ kernel + bias)`. The weighted mean of
    a sentence is mapped by `map` and `map_bias`. The cosines were fitted to those of all-MiniLM-L6-v2
    on SNLI, MultiNLI, PAWS, QNLI and BoolQ, without labels; `benchmarks/word_table.py` makes the file.
    """
    file = importlib.resources.files("keras_sentmatch.vectors") / "tables" / "similarity.npz"
    with np.load(io.BytesIO(file.read_bytes()), allow_pickle=False) as arrays:
        return {name: arrays[name].astype(np.float32) for name in arrays.files}


ENGLISH = 0.75  # least share of the running words that the table must have for `auto`


def load_vectors(
    spec: str | Path, words: Collection[str], *, dim: int | None = None, progress: bool = True
) -> WordVectors | None:
    """Load word vectors by their name in recipes and on the command line.

    Args:
        spec: `"table"`: the built-in table (see `WordTable`). `"auto"`: the same if the text is mostly
            English, otherwise none. `"none"`. The path of a file such as GloVe's. Or
            `"encoder:PRESET_OR_FOLDER"`: vectors extracted from a pretrained backbone.
        words: The words to keep, perhaps with their counts.
        dim: Dimension of extracted vectors (300 if it is `None`), or the dimension that a file must
            have.
        progress: Whether to show a progress bar on a terminal. Defaults to `True`.

    Returns:
        The vectors. `None` for `"none"`, and for `"auto"` if the text is not English.

    Raises:
        InputError: If a file is missing, damaged or of another dimension, or a backbone cannot be
            loaded.

    Example:

    >>> load_vectors("none", ["cat"]) is None
    True
    """
    spec = str(spec)
    if spec.startswith("encoder:"):
        name = spec.removeprefix("encoder:")
        return extract_vectors(name, words, dim=dim or 300, progress=progress)
    if spec == "none":
        return None
    if spec == "auto" and (share := english_share(words)) < ENGLISH:
        log.warning(
            f"The built-in English word vectors know {share:.0%} of the running words, which is too few. "
            "Random vectors are trained. Give better ones by --vectors FILE or --vectors encoder:NAME."
        )
        return None
    if spec in ("auto", "table"):
        return load_word_table().word_vectors(words)
    vectors = read_vectors(spec, words, progress=progress)
    if dim is not None and vectors.dim != dim:
        wrong = f"The vectors of {spec} have the dimension {vectors.dim}, but {dim} is wanted"
        raise InputError(f"{wrong}. Set dim={vectors.dim} or give another file.")
    return vectors


def english_share(words: Collection[str]) -> float:
    """Return the share of the running words that the built-in table has, from 0 to 1."""
    counts = words if isinstance(words, Mapping) else dict.fromkeys(words, 1)
    counts = {word: n for word, n in counts.items() if any(map(str.isalpha, word))}
    table = load_word_table()
    found = sum(n for word, n in counts.items() if word in table)
    return found / max(sum(counts.values()), 1)
