"""Word vectors extracted from a sentence encoder: no multi-gigabyte download."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from keras_sentmatch.errors import InputError
from keras_sentmatch.vectors.backbone_words import POOLINGS, Pooling, WordEncoder
from keras_sentmatch.vectors.extractor import VectorExtractor
from keras_sentmatch.vectors.word_vectors import WordVectors, cached

_PROBES = 3


def extract_vectors(
    preset_or_folder: str | Path,
    words: Collection[str],
    *,
    dim: int = 300,
    layer: int | str = -1,
    pooling: Pooling = "mean",
    center: bool = True,
    scale: float = 5.0,
    frequency_weighting: bool = False,
    sif: float = 0.0,
    counts: Mapping[str, int] | None = None,
    batch_size: int = 256,
    cache_dir: str | Path | None = None,
    progress: bool = True,
) -> WordVectors:
    """Extract word vectors from a pretrained encoder (BERT, RoBERTa, XLM-RoBERTa, …).

    Each word is run alone through the encoder (`[CLS] word [SEP]`); by default the last layer is
    averaged over its word pieces (at most 64; `[CLS]` and `[SEP]` left out), centered, reduced to
    `dim` by PCA and scaled to length 5. Words that the encoder's tokenizer does not know at all are
    left out. The largest loading of each principal axis is positive, so that vectors do not depend
    on the backend. Where there are fewer than `dim` axes, the last columns are zero.

    Args:
        preset_or_folder: A KerasHub preset name, or a folder with a KerasHub or Hugging Face
            encoder.
        words: The words.
        dim: Dimension of the vectors.
        layer, pooling, batch_size: See `WordEncoder.states`.
        center: Whether the mean of the words is subtracted.
        scale: The length of each vector; 0 leaves them as long as the PCA makes them.
        frequency_weighting: Whether a word weighs as its count in the mean and the covariance of
            the PCA.
        sif: Where above 0, a word of frequency p is multiplied by `sif / (sif + p)`, so that
            frequent words are short; usual is 1e-3 (Arora et al., 2017).
        counts: Token count of each word, for the two options before.
        cache_dir: See `read_vectors`; an entry belongs to the encoder, the words and all options.
        progress: Show a progress bar where standard error is a terminal.

    Returns:
        The vectors; their `extractor` makes those of further words.

    Raises:
        InputError: where KerasHub is not installed, the encoder cannot be loaded, is not
            supported or has no such layer, an option is out of its range, or fewer than two words
            are known to the encoder.

    Example:

    ```python
    vectors = extract_vectors("bert_tiny_en_uncased", ["cat", "dog", "house"], dim=128)
    vectors["cat"]
    ```
    """
    if dim < 1 or batch_size < 1:
        raise InputError(f"dim={dim}, batch_size={batch_size}: both must be at least 1")
    if scale < 0 or sif < 0:
        raise InputError(f"scale={scale}, sif={sif}: both must be at least 0")
    if layer != "mean" and type(layer) is not int:
        raise InputError(f"layer={layer!r}: expected the number of a layer, or 'mean'")
    if pooling not in POOLINGS:
        raise InputError(f"pooling={pooling!r}: expected one of {', '.join(POOLINGS)}")
    if (frequency_weighting or sif) and not counts:
        raise InputError("frequency_weighting and sif weight words by their counts: give counts=…")
    encoder = WordEncoder(preset_or_folder)
    name = encoder.name
    files: list[list[object]] = []
    if Path(name).is_dir():
        stats = [(file, file.stat()) for file in sorted(Path(name).iterdir())]
        files = [[file.name, stat.st_size, stat.st_mtime_ns] for file, stat in stats]
    wanted = sorted(set(words))
    count = np.array([(counts or {}).get(word, 0) for word in wanted], np.float64)
    total = max(sum((counts or {}).values()), 1)

    def make() -> WordVectors:
        rows, states = encoder.states(
            wanted, layer=layer, pooling=pooling, batch_size=batch_size, progress=progress
        )
        kept = np.array([i for i, row in enumerate(rows) if row >= 0], int)
        known = [wanted[i] for i in kept]
        if len(known) < 2:
            raise InputError(
                f"{name}: its tokenizer knows {len(known)} of the {len(wanted)} words given, "
                "expected two or more; give more words or another encoder"
            )
        states = states[np.array(rows)[kept]]
        weight = np.maximum(count[kept], 1) if frequency_weighting else np.ones(len(known))
        mean, axes, share = principal_axes(states, dim, weight, center)
        extractor = VectorExtractor(name, layer, pooling, float(scale), dim, mean, axes)
        matrix = extractor.project(states)
        probes = np.argsort(-count[kept], kind="stable")[:_PROBES]
        extractor = replace(
            extractor, probes=[known[i] for i in probes], probe_vectors=matrix[probes]
        )
        if sif:
            matrix *= (sif / (sif + count[kept] / total)).astype(np.float32)[:, None]
        rank = axes.shape[1]
        report = f"{len(known)} words extracted, {rank} of {len(axes)} dimensions keep "
        report += f"{share:.1%} of the variance"
        report += f", the last {dim - rank} of {dim} columns are zero" if rank < dim else ""
        unknown = len(wanted) - len(known)
        report += f", {unknown} words unknown to the encoder left out" if unknown else ""
        places = {word: i for i, word in enumerate(known)}
        return WordVectors(places, matrix, f"encoder:{name}", report, extractor)

    options = [dim, layer, pooling, center, scale, frequency_weighting, sif]
    weights = [count.tolist(), total] if frequency_weighting or sif else None
    return cached(["encoder", name, files, wanted, options, weights], cache_dir, make)


def principal_axes(
    states: np.ndarray, dim: int, weight: np.ndarray, center: bool = True
) -> tuple[np.ndarray, np.ndarray, float]:
    """PCA of weighted rows: mean `[width]`, axes `[width, rank]`, share of the variance they keep.

    The mean is zero if not `center`; rank is at most `dim`.
    """
    parts = [slice(i, i + 8192) for i in range(0, len(states), 8192)]  # no wide copy of all
    weight = weight / weight.sum()
    mean = np.zeros(states.shape[1])
    if center:
        mean = sum((weight[part] @ states[part].astype(float) for part in parts), mean)
    covariance = np.zeros((len(mean), len(mean)))
    for part in parts:
        x = states[part] - mean
        covariance += (x * weight[part, None]).T @ x
    variance, axes = np.linalg.eigh(covariance)
    variance, axes = variance[::-1], axes[:, ::-1]
    rank = min(dim, int(np.count_nonzero(variance > 1e-10 * variance[0])))
    axes = axes[:, :rank]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(rank)])
    share = float(variance[:rank].sum() / max(variance.sum(), 1e-30))
    return mean.astype(np.float32), axes.astype(np.float32), share
