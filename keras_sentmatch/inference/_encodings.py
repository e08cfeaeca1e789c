"""Sentences that are encoded once and ranked against many queries."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_sentmatch.encoders import PairEncoder, SubwordPairEncoder
from keras_sentmatch.encoders.batches import prediction_batches

if TYPE_CHECKING:
    import keras


class Corpus:
    """Candidate sentences with their cached encodings, made by `Matcher.encode`.

    The encodings are tensors on the device, padded to a few lengths, in blocks of at most
    `batch_size` sentences. They belong to the matcher that made them.

    Attributes:
        sentences: The candidates in the order given.
        blocks: Row numbers and encodings by name of each block.

    Example:

    ```python
    corpus = matcher.encode(["A dog runs.", "It rains."])
    matcher.rank("Is the weather bad?", corpus)
    ```
    """

    def __init__(
        self, sentences: Sequence[str], blocks: list[tuple[np.ndarray, dict[str, Any]]], owner: Any
    ):
        self.sentences = list(sentences)
        self.blocks = blocks
        self.owner = owner

    def __len__(self) -> int:
        return len(self.sentences)

    def __repr__(self) -> str:
        return f"<Corpus of {len(self)} sentences, {self.nbytes / 2**20:.1f} MiB>"

    @property
    def nbytes(self) -> int:
        """Size of the encodings in bytes."""
        import keras

        return sum(
            int(np.prod(x.shape)) * np.dtype(str(keras.backend.standardize_dtype(x.dtype))).itemsize
            for _, block in self.blocks
            for x in block.values()
        )


def encode_blocks(
    model: "keras.Model",
    encoder: PairEncoder | SubwordPairEncoder,
    sentences: Sequence[str],
    batch_size: int,
) -> list[tuple[np.ndarray, dict[str, Any]]]:
    """Encode sentences with one of the halves of `PairModel.split`, in blocks of similar length.

    Returns the row numbers of each block, and tensors by name with 1, 8 or `batch_size` rows, filled
    up with copies of the last row.
    """
    from keras import ops

    encoded = encoder.encode_pairs(sentences, None)
    blocks = []
    for rows, size, length in prediction_batches(
        encoded.lengths[:, 0], batch_size, encoder.max_length
    ):
        filled = np.pad(rows, (0, size - len(rows)), mode="edge")
        arrays = encoded.arrays(filled, length)
        inputs = {name: arrays[f"{name}_1"] for name in model.input}
        done = model.predict_on_batch(inputs)
        blocks.append((rows, {name: ops.convert_to_tensor(x) for name, x in done.items()}))
    return blocks


def score_blocks(interaction: "keras.Model", query: dict[str, Any], corpus: Corpus) -> np.ndarray:
    """Return the outputs of the model for a query (tensors with one row) and each sentence."""
    from keras import ops

    scores = np.zeros((len(corpus), interaction.output_shape[-1]), "float32")
    repeated: dict[int, dict[str, Any]] = {}  # by number of rows: three at most
    for rows, block in corpus.blocks:
        size = len(next(iter(block.values())))
        if size not in repeated:
            repeated[size] = {f"{n}_1": ops.repeat(x, size, axis=0) for n, x in query.items()}
        inputs = repeated[size] | {f"{name}_2": x for name, x in block.items()}
        scores[rows] = interaction.predict_on_batch(inputs)[: len(rows)]
    return scores
