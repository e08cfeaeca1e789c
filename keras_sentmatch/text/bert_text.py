"""BERT's own cleaning of text, which comes before its word pieces; in Python and in TensorFlow."""

import unicodedata
from typing import Any

import numpy as np

LAST = 0x323AF  # letters end here; above are only tags, selectors and private characters


class BertText(dict[int, str]):
    """A table for `str.translate` that cleans text as BERT's training data (Devlin et al. 2019).

    White space of any kind becomes a space; control, format and private characters are dropped;
    so are accents and case where the encoder does without them. KerasHub's tokenizers fold more:
    `"…"` into three dots, `"ß"` into `"ss"`, and a no-break space joins two words.

    Example:

    ```python
    from keras_sentmatch.text.bert_text import BertText

    "Un\u00a0CAFÉ…".translate(BertText(True, True))  # "un cafe…"
    ```
    """

    def __init__(self, lowercase: bool, strip_accents: bool):
        super().__init__()
        self.lowercase = lowercase
        self.strip_accents = strip_accents

    def __missing__(self, code: int) -> str:
        self[code] = clean = self._clean(chr(code))
        return clean

    def _clean(self, char: str) -> str:
        category = unicodedata.category(char)
        if char in "\t\n\r" or category in ("Zs", "Zl", "Zp"):
            return " "
        if char == "\ufffd" or category in ("Cc", "Cf", "Co", "Cs") or ord(char) > LAST:
            return ""
        text = without_accents(char) if self.strip_accents else char
        return text.lower() if self.lowercase else text

    def tf_translate(self, sentences: Any) -> Any:
        """The same for a string tensor `[B]`, by TensorFlow operations."""
        import tensorflow as tf

        clean = [self[code] for code in range(LAST + 2)]
        ends = np.cumsum([0, *map(len, clean)])
        letters = np.array([ord(char) for text in clean for char in text], "int32")
        table = tf.RaggedTensor.from_row_splits(letters, ends, validate=False)
        codes = tf.strings.unicode_decode(sentences, "UTF-8")
        flat = tf.minimum(codes.flat_values, LAST + 1)
        merged = codes.with_flat_values(tf.gather(table, flat)).merge_dims(1, 2)
        return tf.strings.unicode_encode(merged, "UTF-8")


def without_accents(text: str) -> str:
    """The text, decomposed (NFD), without its combining marks."""
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(char for char in decomposed if unicodedata.category(char) != "Mn")
