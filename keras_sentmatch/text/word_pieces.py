"""Word pieces as in the pretraining of each backbone, without TensorFlow.

KerasHub's tokenizers hold the vocabularies. Two things are done differently here: text for word
pieces is cleaned as BERT's was (see `BertText`), and byte pairs are split as in GPT-2 and RoBERTa. In
Python, KerasHub 0.32 splits them as in Llama, which gives other pieces for numbers.
"""

import unicodedata
from functools import cache
from typing import Any

from keras_sentmatch.errors import InputError
from keras_sentmatch.text.backbones import INSTALL, keras_hub
from keras_sentmatch.text.tokens import LAST, code_ranges, without_accents


class BertText(dict[int, str]):
    """A table for `str.translate` that cleans text as in BERT's training data (Devlin et al. 2019).

    White space of any kind becomes a space. Control, format and private characters are dropped, and so
    are accents and case if the backbone ignores them. KerasHub's tokenizers fold more: `"…"` into
    three dots, `"ß"` into `"ss"`, and a no-break space joins two words.
    """

    def __init__(self, lowercase: bool, strip_accents: bool):
        super().__init__()
        self.lowercase, self.strip_accents = lowercase, strip_accents

    def __missing__(self, code: int) -> str:
        char, category = chr(code), unicodedata.category(chr(code))
        if char in "\t\n\r" or category in ("Zs", "Zl", "Zp"):
            text = " "
        elif char == "\ufffd" or category in ("Cc", "Cf", "Co", "Cs") or code > LAST:
            text = ""
        else:
            text = without_accents(char) if self.strip_accents else char
        self[code] = text = text.lower() if self.lowercase else text
        return text


# What KerasHub treats as punctuation in addition to Unicode's own, and as ideographs.
_ASCII = ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E))
_IDEOGRAPHS = (
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF), (0x2A700, 0x2CEAF), (0x2F800, 0x2FA1F),
)  # fmt: skip
_CHUNK = 4096  # sentences in one call of the tokenizer


class Pieces:
    """The pieces of a KerasHub tokenizer."""

    def __init__(self, tokenizer: Any):
        self.tokenizer = tokenizer
        # The id of pieces outside the vocabulary; -1 if there are no such pieces.
        self.unknown = int(tokenizer.token_to_id("<unk>"))

    def ids(self, sentences: list[str]) -> list[list[int]]:
        """Return the piece ids of each sentence."""
        found: list[list[int]] = []
        for i in range(0, len(sentences), _CHUNK):
            found += self._ids(sentences[i : i + _CHUNK])
        return found

    def _ids(self, sentences: list[str]) -> Any:
        return self.tokenizer.tokenize(sentences)

    def word_ids(self, words: list[str]) -> list[list[int]]:
        """Return the piece ids of words as they stand inside a sentence."""
        return self.ids(words)

    def readable(self, token: str) -> str:
        """Return a token as people write it."""
        return token


class BertPieces(Pieces):
    """Word pieces: BERT's, DistilBERT's and ELECTRA's."""

    def __init__(self, tokenizer: Any):
        self.tokenizer = tokenizer
        self.unknown = tokenizer.token_to_id(tokenizer.oov_token)
        self.text = BertText(tokenizer.lowercase, tokenizer.strip_accents)
        plain = {"lowercase": False, "strip_accents": False, "special_tokens_in_strings": False}
        self.plain = type(tokenizer).from_config(tokenizer.get_config() | plain)
        self.plain.set_vocabulary(tokenizer.get_vocabulary())

    def _ids(self, sentences: list[str]) -> Any:
        return self.plain.tokenize([text.translate(self.text) for text in sentences])


class BytePairs(Pieces):
    """Byte-level byte-pair encoding: RoBERTa's."""

    def __init__(self, tokenizer: Any):
        from tokenizers import Tokenizer, models, pre_tokenizers

        self.tokenizer = tokenizer
        vocabulary = dict(tokenizer.vocabulary)
        self.unknown = vocabulary.get("<unk>", -1)
        lines = (line for line in tokenizer.merges if not line.startswith("#version:"))
        merges = [tuple(line.split(" ")) for line in lines]
        unknown = "<unk>" if "<unk>" in vocabulary else None
        self.bpe = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token=unknown))
        start = tokenizer.add_prefix_space
        self.bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=start)

    def _ids(self, sentences: list[str]) -> Any:
        return [found.ids for found in self.bpe.encode_batch_fast(list(map(_encodable, sentences)))]

    def word_ids(self, words: list[str]) -> list[list[int]]:
        return self.ids([f" {word}" for word in words])

    def readable(self, token: str) -> str:
        space = token[:1] == "Ġ"
        try:
            return "Ġ" * space + bytes(byte_of()[char] for char in token[space:]).decode("utf-8")
        except (KeyError, UnicodeDecodeError):  # the token is part of a character
            return token


class SentencePieces(Pieces):
    """SentencePiece: XLM-RoBERTa's, DeBERTa-v3's and ALBERT's.

    ALBERT's text is lowered and loses its accents, unless its vocabulary has capitals or accents.
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
        # Some vocabularies read "[SEP]" in a sentence as the token that ends it.
        return [[self.unknown if i in self._ends else i for i in ids] for ids in found]

    def _clean(self, text: str) -> str:
        text = _encodable(text)
        if self.without_accents:
            text = without_accents(unicodedata.normalize("NFKD", text))
        return text.lower() if self.lowercase else text


def pieces_of(tokenizer: Any) -> Pieces:
    """Return the `Pieces` of a tokenizer that `check_tokenizer` accepts."""
    hub = keras_hub().tokenizers
    try:
        if isinstance(tokenizer, hub.WordPieceTokenizer):
            return BertPieces(tokenizer)
        if isinstance(tokenizer, hub.BytePairTokenizer):
            return BytePairs(tokenizer)
        return SentencePieces(tokenizer)
    except ImportError as error:
        why = f"This tokenizer needs {error.name}"
        raise InputError(f"{why}. Install it with {INSTALL}.") from error


def _encodable(text: str) -> str:
    """Replace each lone surrogate, which UTF-8 cannot express, with a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


@cache
def byte_of() -> dict[str, int]:
    """Return the byte that each character of a byte-level vocabulary stands for."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): b for i, b in enumerate(others)}


@cache
def separators(ideographs: bool) -> tuple[tuple[int, int], ...]:
    """Return the ranges of code points that are words by themselves."""
    import regex  # which KerasHub uses; Unicode's newest characters differ between engines

    everything = "".join(map(chr, range(LAST + 1)))
    codes = {ord(char) for char in regex.findall(r"\p{P}", everything)}
    for low, high in _ASCII + (_IDEOGRAPHS if ideographs else ()):
        codes.update(range(low, high + 1))
    return code_ranges(codes)
