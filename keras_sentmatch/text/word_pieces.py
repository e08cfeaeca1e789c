"""Tokenization into pieces as in the pretraining of each encoder, without TensorFlow.

KerasHub's tokenizers hold the vocabularies. Two things differ from what they do: text for word
pieces is cleaned as BERT's was (see `BertText`), and byte pairs are split as in GPT-2 and RoBERTa.
In Python, KerasHub 0.32 splits them as in Llama, so numbers become other pieces than in TensorFlow.
"""

import unicodedata
from functools import cache
from typing import Any

from keras_sentmatch.errors import InputError
from keras_sentmatch.text.bert_text import BertText, without_accents
from keras_sentmatch.text.hub import INSTALL, keras_hub
from keras_sentmatch.text.tensorflow_byte_pairs import BytePairGraph
from keras_sentmatch.text.tensorflow_word_pieces import WordPieces

_CHUNK = 4096  # sentences in one call of the tokenizer


class Pieces:
    """The pieces of a KerasHub tokenizer.

    Attributes:
        tokenizer: The tokenizer.
        unknown: The id of pieces that are not in the vocabulary; -1 if there are none.
    """

    def __init__(self, tokenizer: Any):
        self.tokenizer = tokenizer
        self.unknown = int(tokenizer.token_to_id("<unk>"))

    def ids(self, sentences: list[str]) -> list[list[int]]:
        """The ids of the pieces of each sentence."""
        found: list[list[int]] = []
        for i in range(0, len(sentences), _CHUNK):
            found += self._ids(sentences[i : i + _CHUNK])
        return found

    def _ids(self, sentences: list[str]) -> Any:
        return self.tokenizer.tokenize(sentences)

    def word_ids(self, words: list[str]) -> list[list[int]]:
        """As `ids`, of words as they are inside a sentence."""
        return self.ids(words)

    def places(self, sentence: str) -> list[int] | None:
        """Where each piece begins in the sentence; None if the tokenizer does not tell."""
        return None

    def readable(self, token: str) -> str:
        """A token as people write it."""
        return token

    def tables(self) -> Any:
        """The lookup tables of `tf_ids`; `InputError` where it is not TensorFlow's own operations."""
        raise InputError(
            f"The pieces of this {type(self.tokenizer).__name__} are not made by TensorFlow's own "
            "operations: encode in Python (encode, PairBatches)."
        )

    def tf_ids(self, sentences: Any, limit: int) -> Any:
        """The ids of sentences `[B]` in a graph, ragged int32 `[B, None]`; the first `limit` or more."""
        return self.tables()  # refuses


class BertPieces(Pieces):
    """Word pieces: BERT's, DistilBERT's and ELECTRA's."""

    def __init__(self, tokenizer: Any):
        self.tokenizer = tokenizer
        self.unknown = tokenizer.token_to_id(tokenizer.oov_token)
        self.text = BertText(tokenizer.lowercase, tokenizer.strip_accents)
        plain = {"lowercase": False, "strip_accents": False}
        self.plain = type(tokenizer).from_config(tokenizer.get_config() | plain)
        self.plain.set_vocabulary(tokenizer.get_vocabulary())
        self._graph: WordPieces | None = None

    def _ids(self, sentences: list[str]) -> Any:
        return self.plain.tokenize([text.translate(self.text) for text in sentences])

    def tables(self) -> Any:
        if self.plain.special_tokens_in_strings:
            return super().tables()
        if self._graph is None:
            self._graph = WordPieces(self.plain)
        return self._graph.table

    def tf_ids(self, sentences: Any, limit: int) -> Any:
        self.tables()
        assert self._graph is not None
        return self._graph(self.text.tf_translate(sentences), limit)


class BytePairs(Pieces):
    """Byte-level byte-pair encoding: RoBERTa's."""

    def __init__(self, tokenizer: Any):
        from tokenizers import Tokenizer, models, pre_tokenizers

        self.tokenizer = tokenizer
        vocabulary = dict(tokenizer.vocabulary)
        self.unknown = vocabulary.get("<unk>", -1)
        merges = [
            tuple(merge.split(" "))
            for merge in tokenizer.merges
            if not merge.startswith("#version:")
        ]
        unknown = "<unk>" if "<unk>" in vocabulary else None
        self.bpe = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token=unknown))
        self.bpe.pre_tokenizer = pre_tokenizers.ByteLevel(
            add_prefix_space=tokenizer.add_prefix_space
        )
        self._merges = merges
        self._graph: BytePairGraph | None = None

    def _ids(self, sentences: list[str]) -> Any:
        return [found.ids for found in self.bpe.encode_batch_fast(list(map(_encodable, sentences)))]

    def word_ids(self, words: list[str]) -> list[list[int]]:
        return self.ids([f" {word}" for word in words])

    def places(self, sentence: str) -> list[int]:
        text = _encodable(sentence)
        starts = []
        for start, end in self.bpe.encode(text).offsets:
            blank = len(text[start:end]) - len(text[start:end].lstrip())
            starts.append(start + blank if start + blank < end else start)
        return starts

    def tables(self) -> Any:
        vocabulary, bytes_of = self.tokenizer.vocabulary, _byte_of()
        if not bytes_of.keys() <= vocabulary.keys():
            return super().tables()
        if self._graph is None:
            prefix_space = self.tokenizer.add_prefix_space
            self._graph = BytePairGraph(vocabulary, self._merges, bytes_of, prefix_space)
        return self._graph.table

    def tf_ids(self, sentences: Any, limit: int) -> Any:
        self.tables()
        assert self._graph is not None
        return self._graph(sentences)

    def readable(self, token: str) -> str:
        space = token[:1] == "Ġ"
        codes = [_byte_of().get(char) for char in token[space:]]
        if None in codes:
            return token
        try:
            return "Ġ" * space + bytes(codes).decode("utf-8")  # type: ignore[arg-type]
        except UnicodeDecodeError:  # a part of a character
            return token


class SentencePieces(Pieces):
    """SentencePiece: XLM-RoBERTa's, DeBERTa-v3's and ALBERT's.

    ALBERT's text was cleaned beforehand: in lower case and without accents, unless its vocabulary
    has them.
    """

    def __init__(self, tokenizer: Any):
        super().__init__(tokenizer)
        self.lowercase = self.without_accents = False
        hub = keras_hub().tokenizers
        if isinstance(tokenizer, hub.AlbertTokenizer):
            special = set(tokenizer.special_tokens)
            pieces = "".join(p for p in tokenizer.get_vocabulary() if p not in special)
            self.lowercase = pieces == pieces.lower()
            self.without_accents = pieces == without_accents(pieces)
        # XLM-RoBERTa's own special tokens stand before all others.
        self.shift = int(isinstance(tokenizer, hub.XLMRobertaTokenizer))
        self._ends = {tokenizer.start_token_id, tokenizer.end_token_id, tokenizer.pad_token_id}

    def _ids(self, sentences: list[str]) -> Any:
        found = self.tokenizer.tokenize([self._clean(text) for text in sentences])
        # A vocabulary may take "[SEP]" in a sentence for the token that ends it.
        return [[self.unknown if i in self._ends else i for i in ids] for ids in found]

    def _clean(self, text: str) -> str:
        text = _encodable(text)
        if self.without_accents:
            text = without_accents(unicodedata.normalize("NFKD", text))
        return text.lower() if self.lowercase else text


def pieces_of(tokenizer: Any) -> Pieces:
    """What makes the pieces of a tokenizer that `check_tokenizer` accepts."""
    hub = keras_hub().tokenizers
    try:
        if isinstance(tokenizer, hub.WordPieceTokenizer):
            return BertPieces(tokenizer)
        if isinstance(tokenizer, hub.BytePairTokenizer):
            return BytePairs(tokenizer)
        return SentencePieces(tokenizer)
    except ImportError as error:
        raise InputError(f"this tokenizer needs {error.name}; install it with {INSTALL}") from error


def _encodable(text: str) -> str:
    """The text with a question mark for each lone surrogate, which UTF-8 cannot express."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


@cache
def _byte_of() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): b for i, b in enumerate(others)}
