"""Sentence pairs as one sequence of word pieces, for models on pretrained backbones."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch import safety
from keras_sentmatch.encoders.base import (
    MAX_TOKENS,
    BaseEncoder,
    EncodedPairs,
    Tags,
    read_description,
    sentence_columns,
)
from keras_sentmatch.encoders.words import PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.text.backbones import BackboneKind, check_tokenizer, keras_hub, load_tokenizer
from keras_sentmatch.text.word_pieces import pieces_of

_TOKENIZER = "tokenizer"  # folder


@dataclass
class _PackedPairs(EncodedPairs):
    kept: np.ndarray  # [N, 2]: pieces of each sentence
    starts: np.ndarray  # [N, 2]: where they begin in flat
    flat: np.ndarray  # pieces of each distinct sentence; the last three are start, end, padding
    kind: BackboneKind  # of the tokenizer

    def arrays(self, rows: np.ndarray, length: int) -> dict[str, np.ndarray]:
        column = np.arange(length)
        first, second = self.kept[rows].T[:, :, None]
        begin = 1 + first + self.kind.separators  # of the second sentence
        end = begin + second
        start_at, end_at, pad_at = np.arange(-3, 0)
        where = np.where(column <= end, end_at, pad_at)  # what no sentence fills
        where[:, 0] = start_at
        for sentence, (low, high) in enumerate(((1, 1 + first), (begin, end))):
            offset = self.starts[rows, sentence][:, None] - low
            where = np.where((column >= low) & (column < high), offset + column, where)
        real = column <= end
        return {
            "token_ids": self.flat[where],
            "segment_ids": (real & (column >= begin) & self.kind.segments).astype("int32"),
            "padding_mask": real.astype("int32"),
        }


class SubwordPairEncoder(BaseEncoder):
    """Turn pairs of sentences into the packed word pieces that a pretrained backbone reads.

    A pair is one sequence: `[CLS] a [SEP] b [SEP]` for BERT, `<s> a </s></s> b </s>` for RoBERTa. A
    pair that is too long loses pieces from the end of its longer sentence, one at a time. The pieces
    are those of pretraining, with two exceptions: a word of more than 100 bytes is unknown to BERT
    (originally 100 characters), and special tokens in a sentence, such as `"[SEP]"`, are plain text.

    Args:
        tokenizer: A KerasHub tokenizer of a supported kind.
        max_length: Maximum number of word pieces per pair, including special tokens. Defaults to `128`.

    Raises:
        InputError: If the tokenizer is not supported, or `max_length` leaves no room for two sentences.

    Example:

    ```python
    from keras_sentmatch.encoders import SubwordPairEncoder

    encoder = SubwordPairEncoder.from_preset("bert_tiny_en_uncased")
    encoder.encode(["A dog runs."], ["It moves."])
    # {"token_ids": array([[101, 1037, 3899, 3216, 1012, 102, 2009, 5829, 1012, 102]]),
    #  "segment_ids": array([[0, 0, 0, 0, 0, 0, 1, 1, 1, 1]]), "padding_mask": array([[1, …]])}
    ```
    """

    kind = "subword"
    features = ("subword",)

    def __init__(self, tokenizer: Any, *, max_length: int = 128):
        self.encoder_kind = check_tokenizer(tokenizer, "tokenizer")
        self.tokenizer = tokenizer
        self.pieces = pieces_of(tokenizer)
        self.shortest = self._special = 2 + self.encoder_kind.separators
        self.max_length = max_length
        self.check_length("max_length", max_length)
        self.reset_report()

    @classmethod
    def from_preset(
        cls, preset_or_folder: str | Path, max_length: int = 128
    ) -> "SubwordPairEncoder":
        """Make an encoder from the tokenizer of a KerasHub preset, or of a folder with a backbone."""
        return cls(load_tokenizer(preset_or_folder), max_length=max_length)

    @property
    def input_names(self) -> list[str]:
        """Names of the arrays that `encode` returns."""
        return ["token_ids", "segment_ids", "padding_mask"]

    @property
    def vocabulary_size(self) -> int:
        """Number of word pieces of the tokenizer, including special tokens."""
        return int(self.tokenizer.vocabulary_size())

    def tokens(self, sentence: str) -> list[str]:
        """Return the word pieces of one sentence, before it is packed with another."""
        (ids,) = self.pieces.ids([sentence])
        return [self.tokenizer.id_to_token(int(i)) for i in ids]

    def pair_tokens(self, sentence1: str, sentence2: str) -> dict[str, list[str]]:
        """Return the kept word pieces of `"1"` and of `"2"`, and the packed pair (`"joint"`)."""
        first, second = self.tokens(sentence1), self.tokens(sentence2)
        ((m, n),) = trim(np.array([[len(first), len(second)]]), self.max_length - self._special)
        ends = self.tokenizer.start_token_id, self.tokenizer.end_token_id
        first, second = ([self.pieces.readable(x) for x in side] for side in (first, second))
        start, end = (self.tokenizer.id_to_token(int(i)) for i in ends)
        joint = [start, *first[:m], *[end] * self.encoder_kind.separators, *second[:n], end]
        return {"1": first[:m], "2": second[:n], "joint": joint}

    def encode_pairs(
        self,
        sentence1: Sequence[str],
        sentence2: Sequence[str] | None,
        *,
        tags: Tags | None = None,
        limit: int | None = None,
    ) -> EncodedPairs:
        if sentence2 is None:
            raise InputError("Word pieces are packed in pairs. Give sentence2 as well.")
        if tags is not None:
            raise InputError("Tags go with words, not with word pieces. Omit the tags.")
        if limit is not None:
            self.check_length("length", limit)
        limit = min(limit or self.max_length, self.max_length)
        columns = sentence_columns(sentence1, sentence2)
        index: dict[str, int] = {}
        rows = [[index.setdefault(text, len(index)) for text in column] for column in columns]
        pieces = self.pieces.ids(list(index))
        counts = np.fromiter(map(len, pieces), "int64", len(pieces))
        flat = np.fromiter(chain.from_iterable(pieces), "int32", int(counts.sum()))
        where = np.array(rows, "int64").T
        full = counts[where]
        kept = trim(full, limit - self._special)
        before = np.concatenate([[0], np.cumsum(flat == self.pieces.unknown)])
        starts = (np.cumsum(counts) - counts)[where]
        unknown = int((before[starts + kept] - before[starts]).sum())
        self._count(full, kept, unknown, limit)
        ends = self.tokenizer.start_token_id, self.tokenizer.end_token_id
        flat = np.append(flat, [*ends, self.tokenizer.pad_token_id]).astype("int32")
        lengths = kept.sum(1, keepdims=True) + self._special
        return _PackedPairs(lengths, kept, starts, flat, self.encoder_kind)

    def tf_tables(self) -> Any:
        """Raise `InputError`, as TensorFlow's own operations cannot make word pieces."""
        raise InputError("Word pieces cannot be made in a TensorFlow graph. Encode in Python.")

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this encoder again."""
        return {"tokenizer": self.tokenizer, "max_length": self.max_length}

    def __reduce__(self) -> tuple[Any, ...]:
        with tempfile.TemporaryDirectory() as folder:
            self.save(folder)
            paths = [path for path in Path(folder).rglob("*") if path.is_file()]
            files = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
        return _from_files, (files,)

    def save(self, folder: str | Path) -> None:
        folder = self._write(folder, {"max_length": self.max_length})
        self.tokenizer.save_to_preset(str(folder / _TOKENIZER))

    @classmethod
    def load(cls, folder: str | Path) -> "SubwordPairEncoder":
        """Load an encoder from the folder that `save` wrote."""
        description, config = cls._read(folder)
        keras_hub()  # registers the tokenizers
        import keras

        safety.check_integers(config, description, max_length=MAX_TOKENS)
        path = safety.inside(description.parent, _TOKENIZER)
        safety.check_tree(path)
        described = safety.read_object(path / "tokenizer.json")
        safety.check_config(described, path / "tokenizer.json")
        assets = path / "assets" / "tokenizer"
        for file in sorted(assets.glob("*")):
            safety.read_bytes(file, "TEXT_BYTES")
        try:
            with safety.no_larger_than(0, 0):  # a tokenizer has no weights
                tokenizer = keras.saving.deserialize_keras_object(described, safe_mode=True)
            tokenizer.load_assets(str(assets))
        except Exception as error:  # KerasHub raises whatever its files led to
            raise InputError(f"{path} cannot be loaded ({error}). {safety.COPY}.") from error
        try:
            return cls(tokenizer, **config)
        except (InputError, TypeError) as error:
            raise InputError(f"{description} does not describe an encoder: {error}") from None

    def check_length(self, name: str, length: int) -> None:
        if length < self._special + 2:
            least = (
                f"{self._special + 2}: {self._special} special tokens and one piece per sentence"
            )
            raise InputError(f"{name}={length} is too short. A pair needs at least {least}.")


def trim(counts: np.ndarray, room: int) -> np.ndarray:
    """Return the numbers of pieces kept of two sentences, `[N, 2]`; the longer one is cut first."""
    first, second = counts[:, 0], counts[:, 1]
    first = np.minimum(first, np.maximum(room - room // 2, room - second))
    return np.stack([first, np.minimum(second, room - first)], 1)


def _from_files(files: dict[str, bytes]) -> SubwordPairEncoder:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return SubwordPairEncoder.load(folder)


Encoder = PairEncoder | SubwordPairEncoder


def load_encoder(folder: str | Path) -> Encoder:
    """Load an encoder of either kind from the folder that `save` wrote."""
    path, kind, _ = read_description(folder)
    if kind == "subword":
        return SubwordPairEncoder.load(folder)
    if kind != "word":
        raise InputError(f"{path} has the unknown kind {kind!r}. Expected 'word' or 'subword'.")
    return PairEncoder.load(folder)
