"""Word vectors extracted from a pretrained backbone: no multi-gigabyte download."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.display.progress import progress_bar
from keras_sentmatch.errors import InputError
from keras_sentmatch.text import backbones
from keras_sentmatch.text.word_pieces import pieces_of
from keras_sentmatch.vectors.files import WordVectors

_SCALE = 5.0  # length of each vector
_PART = 8192  # rows that are projected at once, so that no wide copy of all is made
_LONGEST = 64  # word pieces of a text that are read


def extract_vectors(
    preset_or_folder: str | Path, words: Collection[str], *, dim: int = 300, progress: bool = True
) -> WordVectors:
    """Extract word vectors from a pretrained backbone (BERT, RoBERTa, XLM-RoBERTa, …).

    Each word is run alone through the backbone (`[CLS] word [SEP]`). The last layer is averaged over
    the word's pieces (at most 64, without `[CLS]` and `[SEP]`), centered, reduced to `dim` by PCA and
    scaled to length 5. Words that the tokenizer does not know at all are left out. If there are fewer
    than `dim` axes, the last columns are zero.

    Args:
        preset_or_folder: KerasHub preset, or folder with a KerasHub or Hugging Face backbone.
        words: The words.
        dim: Dimension of the vectors. Defaults to `300`.
        progress: Whether to show a progress bar on a terminal. Defaults to `True`.

    Raises:
        InputError: If KerasHub is not installed, the backbone cannot be loaded or is not supported,
            `dim` is below 1, or the backbone knows fewer than two of the words.
    """
    if dim < 1:
        raise InputError(f"dim={dim} must be at least 1.")
    name, wanted = backbones.backbone_name(preset_or_folder), sorted(set(words))
    rows, states = backbone_means(name, wanted, progress=progress)
    known = [word for word, row in zip(wanted, rows) if row >= 0]
    if len(known) < 2:
        found = f"The tokenizer of {name} knows {len(known)} of the {len(wanted)} words"
        raise InputError(f"{found}. At least two are needed. Give more words, or another backbone.")
    states = states[[row for row in rows if row >= 0]]
    mean, axes, share = principal_axes(states, dim)
    matrix = np.zeros((len(states), dim), np.float32)
    for start in range(0, len(states), _PART):
        projected = (states[start : start + _PART] - mean.astype(float)) @ axes
        norm = np.linalg.norm(projected, axis=1, keepdims=True)
        np.divide(_SCALE * projected, norm, where=norm > 0, out=projected)
        matrix[start : start + _PART, : axes.shape[1]] = projected
    rank, unknown = axes.shape[1], len(wanted) - len(known)
    report = f"{len(known)} words extracted, {rank} of {len(axes)} dimensions keep "
    report += f"{share:.1%} of the variance"
    report += f", the last {dim - rank} of {dim} columns are zero" if rank < dim else ""
    report += f", {unknown} words unknown to the backbone left out" if unknown else ""
    places = {word: i for i, word in enumerate(known)}
    return WordVectors(places, matrix, f"encoder:{name}", report)


def principal_axes(states: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Compute a PCA: mean `[width]`, axes `[width, rank]`, and the share of variance they keep.

    The largest loading of each axis is positive, so that vectors do not depend on the backend.
    """
    mean = states.mean(axis=0, dtype=float)
    covariance = np.zeros((len(mean), len(mean)))
    for start in range(0, len(states), _PART):
        x = states[start : start + _PART] - mean
        covariance += x.T @ x / len(states)
    variance, axes = np.linalg.eigh(covariance)
    variance, axes = variance[::-1], axes[:, ::-1]
    rank = min(dim, int(np.count_nonzero(variance > 1e-10 * variance[0])))
    axes = axes[:, :rank]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(rank)])
    share = float(variance[:rank].sum() / max(variance.sum(), 1e-30))
    return mean.astype(np.float32), axes.astype(np.float32), share


def backbone_means(
    preset_or_folder: str | Path,
    texts: Sequence[str],
    *,
    batch_size: int = 256,
    progress: bool = True,
) -> tuple[list[int], np.ndarray]:
    """Average the last layer of a pretrained backbone over the pieces of each text.

    It reads one text at a time, `[CLS] text [SEP]`, and at most 64 pieces of it. RoBERTa's pieces are
    those of a word after a space, as most words stand in text.

    Returns:
        The row of each text, -1 if the tokenizer does not know it at all; and the means, float32
        `[rows, width]`. Texts with the same pieces share a row.
    """
    tokenizer = backbones.load_tokenizer(preset_or_folder)
    reader = _last_layer(backbones.load_backbone(preset_or_folder, "float32"))
    cut = pieces_of(tokenizer)
    index: dict[tuple[int, ...], int] = {}
    rows = []
    for ids in cut.word_ids(list(texts)):
        kept = tuple(map(int, ids))[:_LONGEST]
        known = not set(kept) <= {cut.unknown}
        rows.append(index.setdefault(kept, len(index)) if known else -1)
    return rows, _means(reader, tokenizer, list(index), batch_size, progress)


def _last_layer(backbone: Any) -> Any:
    """Return a model from the backbone's inputs to the states of its last layer, `[B, L, D]`."""
    import keras

    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in backbone.input}
    state = backbones.embed(backbone, inputs)
    options = backbones.block_options(backbone, state)
    for block in backbones.blocks_of(backbone):
        state = block(state, padding_mask=inputs["padding_mask"], **options)
    reader = keras.Model(inputs, state)
    if keras.config.backend() == "tensorflow":
        reader.jit_compile = False  # compiling takes longer than most lists of words
    return reader


def _means(
    reader: Any, tokenizer: Any, pieces: list[tuple[int, ...]], batch_size: int, progress: bool
) -> np.ndarray:
    length = np.array([len(p) for p in pieces], int)
    order = np.argsort(length, kind="stable")
    means = np.zeros((len(pieces), reader.output_shape[-1]), np.float32)
    with progress_bar("Extracting", len(pieces), progress) as update:
        for start in range(0, len(pieces), batch_size):
            here = order[start : start + batch_size]
            # Whole batches of few lengths: each shape may be compiled once.
            width = 2 + 2 ** int(np.ceil(np.log2(length[here].max())))
            ids = np.full((batch_size, width), tokenizer.pad_token_id, np.int32)
            real = np.zeros((batch_size, width), np.int32)
            real[:, 0] = 1  # an empty row of the last batch attends to something
            for i, row in enumerate(here):
                packed = (tokenizer.start_token_id, *pieces[row], tokenizer.end_token_id)
                ids[i, : len(packed)] = packed
                real[i, : len(packed)] = 1
            batch = {"token_ids": ids, "padding_mask": real, "segment_ids": 0 * ids}
            output = reader.predict_on_batch({name: batch[name] for name in reader.input})
            output = np.asarray(output, np.float32)[: len(here)]
            inner = np.arange(width) <= length[here, None]
            inner[:, 0] = False
            means[here] = np.einsum("btd,bt->bd", output, inner) / length[here, None]
            update(start + len(here))
    return means
