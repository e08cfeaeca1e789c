"""Words that training never met: rows for them in a model, and vectors from the encoder at hand."""

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.errors import InputError, wording
from keras_sentmatch.text.tokens import PAD, UNK
from keras_sentmatch.vectors.built_in import WordTable
from keras_sentmatch.vectors.extraction import WordEncoder

if TYPE_CHECKING:
    import keras

MOST = 100_000  # new words; a service that meets more leaves the others unknown
BLOCK = 1024  # rows by which the tables of a model grow: each time it is made (and compiled) again


class NewWords:
    """Gives a matcher the words that it meets for the first time.

    A new word gets, in every table of word vectors that the model has, what it would have had when
    training began: the vector extracted from `encoder` (by default the one that the run names).
    """

    def __init__(self, matcher: Any, encoder: str | Path | WordEncoder | None = None):
        self.matcher = matcher
        if matcher.vector_extractor is None or not isinstance(matcher.encoder, PairEncoder):
            raise InputError(
                f"{matcher!r} has no word vectors extracted from an encoder, so there is nothing to "
                "make those of new words like: train it with extracted ones (--vectors "
                "encoder:NAME), or use it without a word encoder."
            )
        if isinstance(matcher.vector_extractor, WordTable):
            if encoder is not None:
                raise InputError(
                    "The word vectors come from the package's own table, which new words are looked "
                    "up in: leave the word encoder out."
                )
        elif encoder is None and not Path(matcher.vector_extractor.encoder).is_dir():
            raise InputError(
                f"The word vectors come from {matcher.vector_extractor.encoder!r:.80}, says the run "
                "folder; that is no folder here, and nothing is downloaded because a run folder "
                "says so. If you trust it, give it yourself "
                f"({wording('word_encoder=…, encoder=…', '--word-encoder')})."
            )
        elif not isinstance(encoder, WordEncoder):
            encoder = WordEncoder(encoder or matcher.vector_extractor.encoder)
        self.encoder = encoder
        self.learned = 0
        self._unknown: set[str] = set()  # to the encoder too
        self._lock = threading.Lock()

    def learn(self, sentences: Iterable[str]) -> list[str]:
        """Adds the words that are not in the vocabulary, if the encoder's tokenizer knows them."""
        matcher = self.matcher
        with self._lock:  # servers answer in several threads
            known, skipped = matcher.encoder.vocabulary, self._unknown
            met = (t for s in sentences if isinstance(s, str) for t in matcher.encoder.tokens(s))
            wanted = [t for t in dict.fromkeys(met) if t not in known and t not in skipped]
            wanted = [t for t in wanted if t not in ("", PAD, UNK) and "\n" not in t]
            wanted = wanted[: MOST - self.learned]
            if not wanted:
                return []
            added: list[str]
            added, vectors = matcher.vector_extractor.extract(wanted, self.encoder)
            skipped.update(set(wanted) - set(added))
            if len(skipped) > MOST:
                skipped.clear()
            if added:
                self.learned += len(added)
                matcher.add_rows(len(known), added, vectors)
                matcher.encoder.add_words(added)  # last: an id is used only when its row is there
            return added


def word_tables(model: "keras.Model") -> list[Any]:
    """The variables `[words, dim]` that hold a model's word vectors."""
    layers: list[Any] = getattr(model, "_word_representations", list)()
    return [table.embeddings for layer in layers for table in layer.word_embeddings]


def row_tables(model: "keras.Model") -> Iterator[tuple[str, Any]]:
    """The variables with a row for each word, and what the row of a new word holds."""
    for table in word_tables(model):
        yield "vectors", table
    if hasattr(model, "wide"):
        yield "facts", model.wide.matching.facts
        logits = model.wide.logits
        for table in (logits.words_1, logits.words_2, logits.words_both):
            yield "zeros", table


def with_rows(model: "keras.Model", rows: int) -> "keras.Model":
    """A model whose word tables have at least `rows` rows: the same one, or a copy that has more.

    A copy has the weights of the model, with further rows of zeros, a multiple of `BLOCK` of them.
    """
    from keras import ops

    tables = word_tables(model)
    if not tables:
        raise InputError(f"A {type(model).__name__} has no tables of word vectors to add words to.")
    size = tables[0].shape[0]
    if rows <= size:
        return model
    more = -(-(rows - size) // BLOCK) * BLOCK
    grown = type(model).from_config({**model.get_config(), "vocabulary_size": size + more})
    for new, old in zip(grown.weights, model.weights):
        value = ops.convert_to_numpy(old)
        # Beside the word vectors, linear models have a row for each word.
        new.assign(np.pad(value, [(0, more), (0, 0)]) if new.shape != old.shape else value)
    grown.jit_compile = model.jit_compile
    return grown


def put_vectors(model: "keras.Model", start: int, vectors: np.ndarray) -> None:
    """Writes vectors into every word table, from row `start`."""
    from keras import ops

    for table in word_tables(model):
        value = np.array(ops.convert_to_numpy(table))
        value[start : start + len(vectors)] = vectors
        table.assign(value)
