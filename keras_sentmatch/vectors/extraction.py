"""Word vectors extracted from a pretrained backbone: no multi-gigabyte download."""

import contextlib
import json
import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from keras_sentmatch.display.progress import progress_bar
from keras_sentmatch.errors import InputError
from keras_sentmatch.safety import COPY, check_types, inside, read_arrays, read_object
from keras_sentmatch.text.backbones import (
    backbone_name,
    block_options,
    blocks_of,
    embed,
    load_backbone,
    load_tokenizer,
)
from keras_sentmatch.text.word_pieces import pieces_of
from keras_sentmatch.vectors.word_vectors import WordVectors, cached

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
        self.name = backbone_name(preset_or_folder)
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


_FORMAT = 1
_FILES = "vector_extractor.json", "vector_extractor.npz"
_KINDS = {  # of what vector_extractor.json holds
    "encoder": str,
    "layer": (int, str),
    "pooling": str,
    "scale": float,
    "dim": int,
    "probes": [str],
}
_PART = 8192  # rows; no wide copy of all
_TOLERANCE = 0.05  # how far two vectors of one word may be apart, as a share of their length


@dataclass(frozen=True)
class VectorExtractor:
    """The projection of an encoder's states of words to word vectors.

    `extract_vectors` makes it, `WordVectors.extractor` holds it, and a run folder keeps it: with the
    encoder, words that training never saw get vectors like those that it saw.

    Attributes:
        encoder: Preset or folder of the encoder.
        layer, pooling: See `WordEncoder.states`.
        scale: Length of the vectors; 0 leaves them as they are.
        dim: Dimension of the vectors.
        mean: What is subtracted from the states, float32 `[width]`.
        axes: The axes of the PCA, float32 `[width, rank]`; rank is at most `dim`.
        probes: Some words, to check that an encoder is the same one.
        probe_vectors: Their vectors, float32 `[probes, dim]`.
    """

    encoder: str
    layer: int | str
    pooling: Any
    scale: float
    dim: int
    mean: np.ndarray
    axes: np.ndarray
    probes: Sequence[str] = ()
    probe_vectors: Any = ()

    def project(self, states: np.ndarray) -> np.ndarray:
        """The vectors `[n, dim]` of states `[n, width]`; the columns beyond the rank are zero."""
        matrix = np.zeros((len(states), self.dim), np.float32)
        for start in range(0, len(states), _PART):
            part = (states[start : start + _PART] - self.mean.astype(float)) @ self.axes
            if self.scale:
                norm = np.linalg.norm(part, axis=1, keepdims=True)
                part = np.divide(self.scale * part, norm, where=norm > 0, out=part)
            matrix[start : start + _PART, : part.shape[1]] = part
        return matrix

    def extract(self, words: Collection[str], encoder: WordEncoder) -> tuple[list[str], np.ndarray]:
        """The words that the encoder's tokenizer knows, and their vectors `[words, dim]`.

        Raises:
            InputError: where it is another encoder than the one the first vectors came from.
        """
        wanted = list(dict.fromkeys((*self.probes, *words)))
        options = {"layer": self.layer, "pooling": self.pooling, "progress": False}
        rows, states = encoder.states(wanted, **options)
        place = dict(zip(wanted, rows))
        same = states.shape[1] == len(self.mean) and all(place[word] >= 0 for word in self.probes)
        if same:
            found = self.project(states[[place[word] for word in self.probes]])
            apart = np.linalg.norm(found - self.probe_vectors, axis=1)
            same = bool((apart <= _TOLERANCE * np.linalg.norm(self.probe_vectors, axis=1)).all())
        if not same:
            raise InputError(
                f"{encoder.name} is not the encoder that the vectors were extracted from "
                f"({self.encoder}): it gives {', '.join(self.probes)} other vectors. Give that one."
            )
        known = [word for word in dict.fromkeys(words) if place[word] >= 0]
        return known, self.project(states[[place[word] for word in known]])

    def parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Its settings for JSON, and its arrays: `VectorExtractor(**settings, **arrays)`."""
        arrays = {name: getattr(self, name) for name in ("mean", "axes", "probe_vectors")}
        return {name: v for name, v in vars(self).items() if name not in arrays}, arrays

    def save(self, folder: str | Path) -> None:
        """Writes `vector_extractor.json` and `vector_extractor.npz` into a folder."""
        plain, arrays = self.parts()
        text = json.dumps({"format": _FORMAT, **plain}, indent=1, ensure_ascii=False)
        (Path(folder) / _FILES[0]).write_text(text + "\n", encoding="utf-8", newline="\n")
        np.savez(Path(folder) / _FILES[1], **arrays)

    @classmethod
    def load(cls, folder: str | Path) -> "VectorExtractor | None":
        """Reads what `save` wrote; None where the folder holds none.

        Raises:
            InputError: for files that are damaged, or of another format.
        """
        path = Path(folder) / _FILES[0]
        if not path.is_file():
            return None
        plain = read_object(inside(path.parent, path.name))
        check_types(plain, {"format": int}, path)
        if (number := plain.pop("format", None)) != _FORMAT:
            raise InputError(f"{path} is of format {number}, this version reads {_FORMAT}.")
        file = inside(path.parent, _FILES[1])
        if not file.is_file():
            raise InputError(f"{file} is missing, and {path.name} is there: {COPY}.")
        check_types(plain, _KINDS, path)
        try:
            made = cls(**{**plain, **read_arrays(file)})
        except TypeError as error:
            raise InputError(f"{path} and {file.name} do not fit ({error}): {COPY}.") from error
        arrays = [np.asarray(a) for a in (made.mean, made.axes, made.probe_vectors)]
        found = [array.shape for array in arrays]
        width, rank = made.mean.size, made.axes.size // max(made.mean.size, 1)
        right = [(width,), (width, rank), (len(made.probes), made.dim)]
        finite = all(a.dtype.kind == "f" and np.isfinite(a).all() for a in arrays)
        if found != right or rank > made.dim or not finite or not math.isfinite(made.scale):
            raise InputError(
                f"{file} has arrays of the shapes {found}, expected finite numbers of {right}: {COPY}."
            )
        return made


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
    return cached(
        ["encoder", name, files, wanted, options, weights], cache_dir, make, VectorExtractor
    )


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
