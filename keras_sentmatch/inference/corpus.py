"""Corpus: sentences encoded once, to be ranked against many queries."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_sentmatch.encoders import PairEncoder, SubwordPairEncoder
from keras_sentmatch.inference.pairs import batches, check_count

if TYPE_CHECKING:
    import keras


class Corpus:
    """Candidate sentences and their kept encodings; made by `Matcher.encode`.

    The encodings are tensors on the device, padded to few lengths, in blocks of at most
    `batch_size` sentences: `nbytes` says how large they are. They belong to the matcher that made
    them.

    Attributes:
        sentences: The candidates in the order given.
        blocks: The row numbers of each block, and its encodings by name.

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
        """Bytes of the encodings."""
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
    """Runs one of the encoders of `PairModel.split` over sentences of like length at a time.

    For each block there are its row numbers, and tensors by name of 1, 8 or `batch_size` rows:
    copies of the last row fill up.
    """
    from keras import ops

    encoded = encoder.encode_pairs(sentences, None)
    blocks = []
    for rows, size, length in batches(encoded.lengths[:, 0], batch_size, encoder.max_length):
        filled = np.pad(rows, (0, size - len(rows)), mode="edge")
        arrays = encoded.arrays(filled, length)
        inputs = {name: arrays[f"{name}_1"] for name in model.input}
        done = model.predict_on_batch(inputs)
        blocks.append((rows, {name: ops.convert_to_tensor(x) for name, x in done.items()}))
    return blocks


def best_first(
    scores: np.ndarray, candidates: Sequence[str] | Corpus, top_k: int | None
) -> list[dict[str, Any]]:
    """`index`, `sentence` and `score` of the `top_k` highest scores; equal ones keep their order."""
    if top_k is not None:
        check_count("top_k", top_k)
    sentences = candidates.sentences if isinstance(candidates, Corpus) else list(candidates)
    order = np.argsort(-scores, kind="stable")[:top_k]
    return [{"index": int(i), "sentence": sentences[i], "score": float(scores[i])} for i in order]


def score_blocks(interaction: "keras.Model", query: dict[str, Any], corpus: Corpus) -> np.ndarray:
    """The model's output for a query (tensors of one row) with each sentence of the corpus."""
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
