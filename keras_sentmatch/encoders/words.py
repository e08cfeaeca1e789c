"""Sentence pairs as arrays of words: one encoder for training, prediction and export."""

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders._tensorflow_graph import lookup_tables, tf_encode_pairs
from keras_sentmatch.encoders.base import (
    MAX_TOKENS,
    BaseEncoder,
    EncodedPairs,
    Tags,
    sentence_columns,
)
from keras_sentmatch.errors import InputError, wording
from keras_sentmatch.safety import check_integers, check_types, inside
from keras_sentmatch.text import Tokenizer
from keras_sentmatch.text.tags import align_tags, spacy_tagger
from keras_sentmatch.text.tokens import Vocabulary, read_word_pairs

FEATURES = {"word": "word_ids", "char": "char_ids", "pos": "pos", "antonym": "antonym"}
_MAX_ROWS = 1_000_000  # most rows of the table of tokens
_LONGEST_WORD = 10_000  # greatest max_word_length of an encoder in a file
NORMALIZATION = "NFC"  # of text before tokenization
_KINDS: dict[str, Any] = {"tokenizer": str, "lowercase": bool, "tagger": str}  # in encoder.json
_KINDS |= {"features": [str], "tags": [str], "antonyms": [[str]]}


class _TokenTable(dict[str, int]):
    """Map every token met so far to its row in the tables of ids. Row 0 is padding."""

    def __init__(self, vocabulary: Vocabulary, characters: Mapping[str, int], width: int):
        super().__init__()
        self.vocabulary, self.characters = vocabulary, characters
        self.lent: Mapping[str, int] = {}
        self.tokens = [""]  # by row
        self.word_ids = np.zeros(256, "int32")
        self.char_ids = np.zeros((256, width), "int32")
        self._lock = threading.Lock()

    def __missing__(self, token: str) -> int:
        with self._lock:  # servers encode in several threads
            return self[token] if token in self else self._add(token)

    def lend(self, ids: Mapping[str, int]) -> None:
        """Give words outside the vocabulary these ids, instead of the ones lent before."""
        with self._lock:
            for lent in (dict.fromkeys(self.lent, 1), ids):
                for token, number in lent.items():
                    if token in self:
                        self.word_ids[self[token]] = number
            self.lent = ids

    def _add(self, token: str) -> int:
        row = len(self) + 1
        if row == len(self.word_ids):
            self.word_ids = np.concatenate([self.word_ids, np.zeros_like(self.word_ids)])
            self.char_ids = np.concatenate([self.char_ids, np.zeros_like(self.char_ids)])
        self.word_ids[row] = self.lent.get(token) or self.vocabulary[token]
        ids = [self.characters.get(char, 1) for char in token[: self.char_ids.shape[1]]]
        self.char_ids[row, : len(ids)] = ids
        self.tokens.append(token)
        self[token] = row
        return row


@dataclass
class _WordPairs(EncodedPairs):
    features: tuple[str, ...]
    table: _TokenTable
    offsets: tuple[np.ndarray, ...]
    flat: dict[str, list[np.ndarray]]  # "token", "pos", "antonym" -> one flat array per side

    def arrays(self, rows: np.ndarray, length: int) -> dict[str, np.ndarray]:
        out, column = {}, np.arange(length)
        tables = {"word": self.table.word_ids, "char": self.table.char_ids}
        for side in range(self.lengths.shape[1]):
            real = column < self.lengths[rows, side][:, None]
            where = np.where(real, self.offsets[side][rows][:, None] + column, -1)
            tokens = self.flat["token"][side][where]  # the last entry of a flat array is a 0
            for name in self.features:
                value = tables[name][tokens] if name in tables else self.flat[name][side][where]
                out[f"{FEATURES[name]}_{side + 1}"] = value
        return out


class PairEncoder(BaseEncoder):
    """Turn pairs of sentences into int32 arrays of words and characters.

    `encode` (NumPy), `PairBatches` (whole data sets) and `tf_encode` (TensorFlow graphs) give equal
    numbers. Arrays are right-padded with 0. A sentence with more than `max_length` tokens keeps the
    first ones. That is counted in `report`, with one warning. A word outside the vocabulary is unknown,
    unless a matcher lends it an id behind the vocabulary (`lend_ids`).

    Args:
        vocabulary: The words in the order of their ids, without padding and the unknown word.
        characters: The characters in the order of their ids. Defaults to the characters of the words.
        tokenizer: Name of a rule, see `Tokenizer`. Defaults to `"words"`.
        lowercase: Whether letters become lower case. Defaults to `True`.
        max_length: Maximum number of tokens per sentence. Defaults to `64`.
        max_word_length: Number of characters kept per word. Defaults to `16`.
        features: Arrays to make: `"word"`, `"char"`, `"pos"` (part-of-speech tags from the columns
            `tags_1` and `tags_2` or from `tagger`) and `"antonym"` (1 if an antonym of the word is in
            the other sentence). Defaults to `("word", "char")`.
        tags: Known part-of-speech tags, for the feature `"pos"`.
        antonyms: Pairs of words for the feature `"antonym"`, or the path of a file of pairs.
        tagger: `"spacy:PIPELINE"`, which tags sentences without tags. Defaults to none.

    Raises:
        InputError: If a limit is below 1, a feature is unknown, or a feature lacks what it needs.

    Example:

    >>> encoder = PairEncoder(["a", "dog", "runs"], features=("word",))
    >>> encoder.encode(["A dog runs"], ["dog"])["word_ids_2"].tolist()
    [[3, 0, 0]]
    """

    kind = "word"

    def __init__(
        self,
        vocabulary: Iterable[str],
        characters: Iterable[str] | None = None,
        *,
        tokenizer: str = "words",
        lowercase: bool = True,
        max_length: int = 64,
        max_word_length: int = 16,
        features: Sequence[str] = ("word", "char"),
        tags: Sequence[str] = (),
        antonyms: Iterable[tuple[str, str]] | str | Path = (),
        tagger: str = "",
    ):
        if isinstance(features, str) or not features or not set(features) <= FEATURES.keys():
            known = ", ".join(FEATURES)
            raise InputError(f"features={features!r} is not accepted. Give some of ({known}).")
        self.check_length("max_length", max_length)
        self.check_length("max_word_length", max_word_length)
        self.vocabulary = Vocabulary(vocabulary)
        letters = Counter(char for word in self.vocabulary.ids for char in word)
        of_words = Vocabulary.from_counts(letters)
        self.characters = of_words if characters is None else Vocabulary(characters)
        self.tokenizer = Tokenizer(tokenizer, lowercase)
        self.max_length, self.max_word_length = max_length, max_word_length
        self.features = tuple(name for name in FEATURES if name in features)
        self.tags = Vocabulary(tags)
        if tagger and not re.fullmatch(r"spacy:.+", tagger):
            raise InputError(f'tagger={tagger!r} is not a tagger. Expected "spacy:PIPELINE".')
        self.tagger = tagger
        if isinstance(antonyms, (str, Path)):
            antonyms = read_word_pairs(antonyms)
        self.antonyms = sorted({tuple(pair) for pair in antonyms})
        if bad := [pair for pair in self.antonyms if len(pair) != 2]:
            raise InputError(f"antonyms contains {bad[0]!r:.60}. Expected pairs of words.")
        needs = {"pos": ("tags", tags), "antonym": ("antonyms", self.antonyms)}
        for feature, (name, needed) in needs.items():
            if feature in features and not needed:
                raise InputError(f"The feature {feature!r} needs {name}. Give {name}=….")
        self._opposites: dict[str, set[str]] = {}
        for a, b in self.antonyms:
            self._opposites.setdefault(a, set()).add(b)
            self._opposites.setdefault(b, set()).add(a)
        self._lent: dict[str, int] = {}
        self._table = self._new_table()
        self._graph: Any = None
        self.reset_report()

    @classmethod
    def fit(
        cls,
        datasets: PairDataset | Sequence[PairDataset],
        *,
        keep_words: Collection[str] = (),
        more_words: Iterable[str] = (),
        **init: Any,
    ) -> "PairEncoder":
        """Make an encoder with the words and characters of the training data.

        Args:
            datasets: The training data, or a sequence that begins with it.
            keep_words: Words with a pretrained vector. If such words occur only in the other data sets,
                they follow the words of the training data. Nothing else is used of these data sets.
            more_words: Further words, which come last.
            **init: Further arguments of `PairEncoder`. `tags` defaults to the tags of the training data.

        Example:

        >>> data = PairDataset(["A dog."], ["One dog."])
        >>> PairEncoder.fit(data, features=("word",)).vocabulary.words
        ['[PAD]', '[UNK]', '.', 'dog', 'a', 'one']
        """
        datasets = [datasets] if isinstance(datasets, PairDataset) else list(datasets)
        tokenizer = Tokenizer(init.get("tokenizer", "words"), init.get("lowercase", True))
        limit = init.get("max_length", 64)
        first, *others = (
            Counter(t for text in data.sentence1 + data.sentence2 for t in tokenizer(text)[:limit])
            for data in datasets
        )
        kept = sum(others, Counter[str]())
        kept = Counter({w: n for w, n in kept.items() if w not in first and w in keep_words})
        words = [w for counts in (first, kept) for w in Vocabulary.from_counts(counts)]
        words = list(dict.fromkeys([*words, *more_words]))
        letters = Counter("".join(first.elements()))
        if "pos" in init.get("features", ()) and "tags" not in init:
            init["tags"] = _tag_set(datasets[0], tokenizer, init.get("tagger", ""))
        return cls(words, Vocabulary.from_counts(letters), **init)

    @property
    def vocabulary_size(self) -> int:
        """Number of words, including padding and the unknown word."""
        return len(self.vocabulary)

    @property
    def input_names(self) -> list[str]:
        return [f"{FEATURES[name]}_{side}" for side in (1, 2) for name in self.features]

    def tokens(self, sentence: str) -> list[str]:
        """Return the tokens that the encoder keeps of a sentence."""
        return self.tokenizer(sentence)[: self.max_length]

    def pair_tokens(self, sentence1: str, sentence2: str) -> dict[str, list[str]]:
        """Return the tokens that the encoder keeps of sentence `"1"` and of sentence `"2"`."""
        return {"1": self.tokens(sentence1), "2": self.tokens(sentence2)}

    def lend_ids(self, words: Sequence[str]) -> None:
        """Give words outside the vocabulary the ids behind it, until the next call."""
        self._lent = {word: self.vocabulary_size + i for i, word in enumerate(words)}
        self._table.lend(self._lent)

    def knows(self, word: str) -> bool:
        """Return whether a word has an id, its own or a lent one."""
        return word in self.vocabulary or word in self._lent

    def encode_pairs(
        self,
        sentence1: Sequence[str],
        sentence2: Sequence[str] | None,
        *,
        tags: Tags | None = None,
        limit: int | None = None,
    ) -> EncodedPairs:
        if limit is not None:
            self.check_length("length", limit)
        self._check_pairs(sentence2)
        columns = sentence_columns(sentence1, sentence2)
        if "pos" in self.features and tags is None and not self.tagger:
            how = wording("Pass tags=(tags_1, tags_2), give ", "Give ")
            raise InputError(
                f"The feature 'pos' needs a tag for every token, but no tags were given. {how}data with "
                "the columns tags_1 and tags_2, or make the encoder with a tagger or without 'pos'."
            )
        if len(self._table) > _MAX_ROWS:  # a long-running server; data sets keep their table
            self._table = self._new_table()
        table, limit = self._table, min(limit or self.max_length, self.max_length)
        flat: defaultdict[str, list[np.ndarray]] = defaultdict(list)
        lengths, offsets, unknown = [], [], 0
        for side, column in enumerate(columns):
            rows, counts = list[int](), list[int]()
            tokenized: list[list[str]] = []  # kept for the tags alone
            for sentence in column:
                tokens = self.tokenizer(sentence)
                if "pos" in self.features:
                    tokenized.append(tokens)
                counts.append(len(tokens))
                rows.extend(map(table.__getitem__, tokens[:limit]))
            lengths.append(np.array(counts, "int64"))
            kept = np.minimum(lengths[-1], limit)
            offsets.append(np.cumsum(kept) - kept)
            flat["token"].append(np.array([*rows, 0], "int32"))
            unknown += int((table.word_ids[flat["token"][-1]] == 1).sum())
            if "pos" in self.features:
                names = tags[side] if tags else spacy_tagger(self.tagger[6:])(tokenized)
                flat["pos"].append(self._tag_ids(side, names, tokenized, limit))
        full = np.stack(lengths, 1)
        kept = np.minimum(full, limit)
        if "antonym" in self.features:
            sides = [
                [[table.tokens[row] for row in part] for part in np.split(ids[:-1], starts[1:])]
                for ids, starts in zip(flat["token"], offsets)
            ]
            flat["antonym"] = [self._antonyms(*sides), self._antonyms(*sides[::-1])]
        self._count(full, kept, unknown, limit)
        return _WordPairs(kept, self.features, table, tuple(offsets), dict(flat))

    def tf_encode(
        self, sentence1: Any, sentence2: Any, length: Any = None, unseen: Any = None
    ) -> dict[str, Any]:
        """Encode UTF-8 string tensors `[B]` in a TensorFlow graph, equal to `encode`.

        `sentence2` may be None. `length` pads and truncates to a number or scalar tensor. An exported
        function must hold `tf_tables()`. `unseen` changes the ids of tokens, `(ids, tokens) -> ids`.
        """
        self._check_pairs(sentence2)
        return tf_encode_pairs(self, sentence1, sentence2, length, unseen)

    def tf_tables(self) -> Any:
        """Return the `tf.Module` with the lookup tables of `tf_encode`."""
        if "pos" in self.features:
            raise InputError(
                "The feature 'pos' cannot be made in a TensorFlow graph. Encode in Python, or make the "
                "encoder without it."
            )
        if self._graph is None:
            opposites = self._opposites if "antonym" in self.features else {}
            self._graph = lookup_tables(self.vocabulary.ids, self.characters.ids, opposites)
        return self._graph

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this encoder again."""
        return {
            "vocabulary": self.vocabulary.words[2:],
            "characters": self.characters.words[2:],
            "tokenizer": self.tokenizer.name,
            "lowercase": self.tokenizer.lowercase,
            "max_length": self.max_length,
            "max_word_length": self.max_word_length,
            "features": list(self.features),
            "tags": self.tags.words[2:],
            "antonyms": [list(pair) for pair in self.antonyms],
            "tagger": self.tagger,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(PairEncoder, **self.get_config()), ()

    def save(self, folder: str | Path) -> None:
        """Write `encoder.json`, `vocabulary.txt` and `characters.txt` into a folder."""
        config = self.get_config()
        del config["vocabulary"], config["characters"]
        folder = self._write(folder, config | {"normalization": NORMALIZATION})
        self.vocabulary.save(folder / "vocabulary.txt")
        self.characters.save(folder / "characters.txt")

    @classmethod
    def load(cls, folder: str | Path) -> "PairEncoder":
        """Load an encoder from the folder that `save` wrote."""
        path, config = cls._read(folder)
        check_types(config, _KINDS, path)
        check_integers(config, path, max_length=MAX_TOKENS, max_word_length=_LONGEST_WORD)
        tagger = config.get("tagger", "")
        if not re.fullmatch(r"(spacy:\w+)?", tagger):
            raise InputError(
                f"{path} names the tagger {tagger!r:.60}. Expected spacy: and the name of a pipeline that "
                "is installed as a package, not a path."
            )
        vocabulary = Vocabulary.load(inside(path.parent, "vocabulary.txt"))
        characters = Vocabulary.load(inside(path.parent, "characters.txt"))
        if (found := config.pop("normalization", None)) != NORMALIZATION:
            wrong = f"text was normalized to {found!r:.60}. Expected {NORMALIZATION!r}"
            raise InputError(f"{path} says that {wrong}. Train again with this version.")
        try:
            return cls(vocabulary, characters, **config)
        except (InputError, TypeError) as error:
            raise InputError(f"{path} does not describe an encoder: {error}") from None

    def check_length(self, name: str, length: int) -> None:
        if length < 1:
            raise InputError(f"{name}={length} must be at least 1.")

    def _check_pairs(self, sentence2: Any) -> None:
        if sentence2 is None and "antonym" in self.features:
            raise InputError("The feature 'antonym' needs both sentences. Encode pairs.")

    def _new_table(self) -> _TokenTable:
        table = _TokenTable(self.vocabulary, self.characters.ids, self.max_word_length)
        table.lend(self._lent)
        return table

    def _tag_ids(self, side: int, tags: Any, sentences: list[list[str]], limit: int) -> np.ndarray:
        if len(tags) != len(sentences):
            raise InputError(
                f"tags_{side + 1} has {len(tags)} rows. Expected one for each of {len(sentences)} sentences."
            )
        ids: list[int] = []
        for row, (names, tokens) in enumerate(zip(tags, sentences)):
            names = align_tags(tokens, names) if isinstance(names, str) else names
            if len(names) != len(tokens):
                wrong = f"has {len(names)} tags, but the sentence has {len(tokens)} tokens"
                how = "Give one string 'word TAG word TAG …'"
                raise InputError(f"tags_{side + 1}[{row}] {wrong}. {how}.")
            ids += [self.tags[tag] for tag in names[:limit]]
        return np.array([*ids, 0], "int32")

    def _antonyms(self, these: list[list[str]], others: list[list[str]]) -> np.ndarray:
        none: set[str] = set()
        hits = [
            not self._opposites.get(token, none).isdisjoint(other)
            for tokens, other in zip(these, others)
            for token in tokens
        ]
        return np.array([*hits, 0], "int32")


def _tag_set(data: PairDataset, tokenizer: Tokenizer, tagger: str) -> list[str]:
    """Return the tags of the training data, from its columns or from the tagger."""
    rows = [row for side in (1, 2) for row in data.columns.get(f"tags_{side}", ())]
    if not rows and tagger:
        texts = [tokenizer(text) for text in data.sentence1 + data.sentence2]
        rows = spacy_tagger(tagger.removeprefix("spacy:"))(texts)
    split = (row.split()[1::2] if isinstance(row, str) else row for row in rows)
    return sorted({tag for row in split for tag in row})
