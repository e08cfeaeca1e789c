"""A pretrained encoder that reads words alone, for word vectors."""

import contextlib
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from keras_sentmatch.display.progress import progress_bar
from keras_sentmatch.errors import InputError
from keras_sentmatch.text.backbone_kinds import block_options, blocks_of, embed
from keras_sentmatch.text.hub import encoder_name, load_backbone, load_tokenizer
from keras_sentmatch.text.word_pieces import pieces_of

Pooling = Literal["mean", "first", "cls"]
POOLINGS = get_args(Pooling)
# Word pieces, and words in one call beside the batch size: each shape may be one compilation
_LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
_SIZES = (8, 64)


class WordEncoder:
    """A pretrained encoder that reads each word alone: `[CLS] word [SEP]`.

    It is loaded when it is first needed. RoBERTa's pieces are those of a word after a space, as most
    words stand in text.

    Args:
        preset_or_folder: A KerasHub preset name, or a folder with a KerasHub or Hugging Face
            encoder (BERT, RoBERTa, XLM-RoBERTa, …).

    Raises:
        InputError: where a folder is missing; when it is first needed: where KerasHub is not
            installed, or the encoder cannot be loaded or is not supported.

    Example:

    ```python
    rows, states = WordEncoder("bert_tiny_en_uncased").states(["cat", "dog"])
    states[rows[1]].shape  # (128,)
    ```
    """

    def __init__(self, preset_or_folder: str | Path):
        self.name = encoder_name(preset_or_folder)
        self._parts: tuple[Any, Any] | None = None
        self._readers: dict[int | str, Any] = {}

    def states(
        self,
        words: Sequence[str],
        *,
        layer: int | str = -1,
        pooling: Pooling = "mean",
        batch_size: int = 256,
        progress: bool = True,
    ) -> tuple[list[int], np.ndarray]:
        """The encoder's state of each word.

        Args:
            words: The words; of a long one the first 64 word pieces are read.
            layer: Whose output: 0 the embeddings, 1 the first layer, …, -1 the last; or `"mean"`,
                the mean of all of these.
            pooling: `"mean"` of the word pieces, the `"first"` of them, or `"cls"`, the state of
                `[CLS]`.
            batch_size: Words in one call of the encoder.
            progress: Show a progress bar where standard error is a terminal.

        Returns:
            The row of each word, -1 for one that the tokenizer does not know at all; and the
            states, float32 `[rows, width]`. Words of the same pieces share a row.

        Raises:
            InputError: where the encoder has no such layer.
        """
        with _same_random_state():
            if self._parts is None:
                tokenizer = load_tokenizer(self.name)
                self._parts = tokenizer, load_backbone(self.name, "float32")
            tokenizer, backbone = self._parts
            if layer not in self._readers:
                self._readers[layer] = _reader(backbone, layer, self.name)
            pieces, rows = _pieces(tokenizer, words)
            states = _states(self._readers[layer], tokenizer, pieces, pooling, batch_size, progress)
        return rows, states


@contextlib.contextmanager
def _same_random_state() -> Iterator[None]:
    """Building an encoder draws seeds; a run must not depend on whether its vectors were cached."""
    states = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


def _reader(backbone: Any, layer: int | str, name: str) -> Any:
    """A model with the encoder's inputs that gives the states of one layer, or the mean of all."""
    import keras

    blocks = blocks_of(backbone)
    if layer != "mean" and not -len(blocks) - 1 <= int(layer) <= len(blocks):
        raise InputError(
            f"{name} has no layer {layer}: expected -1 (the last), 0 (embeddings) to {len(blocks)}, "
            "or 'mean'"
        )
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in backbone.input}
    states = [embed(backbone, inputs)]
    options = block_options(backbone, states[0])
    for block in blocks:
        states.append(block(states[-1], padding_mask=inputs["padding_mask"], **options))
    chosen = sum(states[1:], states[0]) / len(states) if layer == "mean" else states[int(layer)]
    reader = keras.Model(inputs, chosen)
    if keras.config.backend() == "tensorflow":
        reader.jit_compile = False  # compiling takes longer than most lists of words
    return reader


def _pieces(tokenizer: Any, words: Sequence[str]) -> tuple[list[tuple[int, ...]], list[int]]:
    """The distinct sequences of word pieces, and the number of each word's (-1: unknown)."""
    cut = pieces_of(tokenizer)
    blank = {cut.unknown}
    index: dict[tuple[int, ...], int] = {}
    rows = []
    for ids in cut.word_ids(list(words)):
        kept = tuple(map(int, ids))[: _LENGTHS[-1]]
        rows.append(-1 if set(kept) <= blank else index.setdefault(kept, len(index)))
    return list(index), rows


def _states(
    reader: Any,
    tokenizer: Any,
    pieces: list[tuple[int, ...]],
    pooling: str,
    batch_size: int,
    progress: bool,
) -> np.ndarray:
    length = np.array([len(p) for p in pieces], int)
    names = set(reader.input)
    states = np.zeros((len(pieces), reader.output_shape[-1]), np.float32)
    done = 0
    with progress_bar("Extracting", len(pieces), progress, in_bytes=False) as update:
        for shorter, longest in zip((0, *_LENGTHS), _LENGTHS):
            bucket = np.flatnonzero((length > shorter) & (length <= longest))
            most = min(len(bucket), batch_size)
            size = min(next(s for s in (*_SIZES, batch_size) if s >= most), batch_size)
            for start in range(0, len(bucket), size):
                here = bucket[start : start + size]
                ids = np.full((size, longest + 2), tokenizer.pad_token_id, np.int32)
                real = np.zeros((size, longest + 2), np.int32)
                real[:, 0] = 1  # an empty row of the last batch attends to something
                for i, row in enumerate(here):
                    packed = (tokenizer.start_token_id, *pieces[row], tokenizer.end_token_id)
                    ids[i, : len(packed)] = packed
                    real[i, : len(packed)] = 1
                batch = {"token_ids": ids, "padding_mask": real, "segment_ids": 0 * ids}
                output = reader.predict_on_batch({name: batch[name] for name in names})
                output = np.asarray(output, np.float32)[: len(here)]
                if pooling == "mean":
                    inner = np.arange(longest + 2) <= length[here, None]
                    inner[:, 0] = False
                    total = np.einsum("btd,bt->bd", output, inner)
                    states[here] = total / length[here, None]
                else:
                    states[here] = output[:, 0 if pooling == "cls" else 1]
                done += len(here)
                update(done)
    return states
