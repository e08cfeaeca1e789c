"""Word vectors distilled from a sentence encoder: no multi-gigabyte download of vectors."""

import contextlib
import random
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.data.vectors import WordVectors, cached, progress_bar
from keras_sentmatch.errors import InputError

_LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)  # word pieces; each is one compilation
_NORM = 5.0
_INPUTS = {"token_ids", "segment_ids", "padding_mask"}


def distil_vectors(
    preset_or_folder: str | Path,
    words: Collection[str],
    *,
    dim: int = 300,
    batch_size: int = 256,
    counts: Mapping[str, int] | None = None,
    cache_dir: str | Path | None = None,
    progress: bool = True,
) -> WordVectors:
    """Distil word vectors from a BERT-like encoder.

    Each word is run alone through the encoder (`[CLS] word [SEP]`); the last layer is averaged over
    its word pieces (at most 64; `[CLS]` and `[SEP]` left out), centred, reduced to `dim` by PCA and
    scaled to length 5. Words that the encoder's tokenizer does not know at all are left out. Each
    principal axis points to where its largest loading is positive, so that vectors do not depend
    on the backend. Where the encoder is narrower than `dim`, or there are fewer words than `dim`,
    the last columns are zero, and the report says so.

    Args:
        preset_or_folder: A KerasHub preset name, or a folder with a KerasHub or Hugging Face BERT.
        words: The words.
        dim: Dimension of the vectors.
        batch_size: Words in one call of the encoder.
        counts: Token count of each word. If given, the mean and the covariance of the PCA are those
            of running text (each word weighs as its count, at least 1), not of the list of words.
        cache_dir: See `read_vectors`; an entry belongs to the encoder, the words, `dim`, `counts`.
        progress: Show a progress bar where standard error is a terminal.

    Returns:
        The vectors.

    Raises:
        InputError: where KerasHub is not installed, the encoder cannot be loaded or is not
            BERT-like, or fewer than two words are known to it.

    Example:

    ```python
    vectors = distil_vectors("bert_tiny_en_uncased", ["cat", "dog", "house"], dim=128)
    vectors["cat"]
    ```
    """
    if dim < 1 or batch_size < 1:
        raise InputError(f"dim={dim}, batch_size={batch_size}: both must be at least 1")
    name = str(preset_or_folder)
    folder = Path(name).expanduser()
    files: list[list[Any]] = []
    if folder.is_dir():
        name = str(folder.resolve())
        stats = [(file, file.stat()) for file in sorted(folder.iterdir())]
        files = [[file.name, stat.st_size, stat.st_mtime_ns] for file, stat in stats]
    elif folder.is_absolute() or name.startswith("."):
        raise InputError(
            f"{name}: no such folder; give the folder of an encoder or a KerasHub preset"
        )
    wanted = sorted(set(words))
    weights = None if counts is None else [max(int(counts.get(word, 1)), 1) for word in wanted]

    def make() -> WordVectors:
        with _same_random_state():
            tokenizer, backbone = _load(name)
            rows, hidden, unknown = _encode(tokenizer, backbone, wanted, batch_size, progress)
        known = [word for word, row in zip(wanted, rows) if row >= 0]
        if len(known) < 2:
            raise InputError(
                f"{name}: its tokenizer knows {len(known)} of the {len(wanted)} words given, "
                "expected two or more; give more words or another encoder"
            )
        chosen = np.array([row for row in rows if row >= 0])
        weight = None
        if weights is not None:
            weight = np.array([w for w, row in zip(weights, rows) if row >= 0], np.float64)
        matrix, rank, share = _reduce(hidden[chosen], dim, weight)
        report = f"{len(known)} words distilled, {rank} of {hidden.shape[1]} dimensions keep "
        report += f"{share:.1%} of the variance"
        report += f", the last {dim - rank} of {dim} columns are zero" if rank < dim else ""
        report += f", {unknown} words unknown to the encoder left out" if unknown else ""
        return WordVectors({w: i for i, w in enumerate(known)}, matrix, f"distil:{name}", report)

    return cached(["distil", name, files, wanted, dim, weights], cache_dir, make)


@contextlib.contextmanager
def _same_random_state() -> Iterator[None]:
    """Building an encoder draws seeds; a run must not depend on whether its vectors were cached."""
    states = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


def _load(name: str) -> tuple[Any, Any]:
    install = 'pip install "keras-sentmatch[bert]"'
    try:
        import keras_hub
    except ImportError as error:
        raise InputError(
            f"distilled vectors need KerasHub ({error}); install it with {install}, or give a file "
            "of vectors"
        ) from error
    try:
        tokenizer = keras_hub.tokenizers.Tokenizer.from_preset(name)
        backbone = keras_hub.models.Backbone.from_preset(name, dtype="float32")
    except Exception as error:  # KerasHub raises whatever its download or conversion met
        hint = f"; install it with {install}" if isinstance(error, ImportError) else ""
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"cannot load the encoder {name!r}: {first}{hint}. Expected a KerasHub preset such as "
            "bert_tiny_en_uncased, or a folder with config.json, tokenizer files and weights"
        ) from error
    inputs = set(backbone.input) if isinstance(backbone.input, dict) else set()
    ends = [getattr(tokenizer, f"{end}_token_id", None) for end in ("start", "end")]
    if not {"token_ids", "padding_mask"} <= inputs <= _INPUTS or None in ends:
        raise InputError(
            f"{name}: a {type(backbone).__name__} with inputs {', '.join(sorted(inputs))}, "
            "expected a BERT-like encoder (token_ids, padding_mask, segment_ids; start, end tokens)"
        )
    return tokenizer, backbone


def _surface(word: str, lowercase: bool) -> str:
    """What an uncased BERT was trained on: lower case without accents (KerasHub keeps them)."""
    if not lowercase:
        return word
    decomposed = unicodedata.normalize("NFD", word.lower())
    return "".join(c for c in decomposed if unicodedata.category(c) != "Mn")


def _encode(
    tokenizer: Any, backbone: Any, words: list[str], batch_size: int, progress: bool
) -> tuple[list[int], np.ndarray, int]:
    """Row of each word (-1: unknown to the tokenizer), float32 vectors `[rows, width]`, unknown."""
    lowercase = bool(getattr(tokenizer, "lowercase", False))
    index: dict[str, int] = {}
    rows = [index.setdefault(_surface(word, lowercase), len(index)) for word in words]
    tokens = tokenizer(list(index)) if index else []
    tokens = tokens.to_list() if hasattr(tokens, "to_list") else tokens  # ragged in older KerasHub
    oov = getattr(tokenizer, "oov_token", None)
    blank = {tokenizer.token_to_id(oov)} if oov else set()
    pieces = [[] if set(p) <= blank else list(p)[: _LENGTHS[-1]] for p in tokens]
    length = np.array([len(p) for p in pieces])

    names = set(backbone.input)
    hidden: np.ndarray | None = None
    done = 0
    with progress_bar("Distilling", len(pieces), progress, in_bytes=False) as update:
        for shorter, longest in zip((0, *_LENGTHS), _LENGTHS):
            bucket = np.flatnonzero((length > shorter) & (length <= longest))
            size = min(batch_size, 1 << max(len(bucket) - 1, 0).bit_length())
            for start in range(0, len(bucket), size):
                rows_here = bucket[start : start + size]
                ids = np.full((size, longest + 2), tokenizer.pad_token_id, np.int32)
                real = np.zeros((size, longest + 2), np.int32)
                real[:, 0] = 1  # an empty row of the last batch attends to something
                for i, row in enumerate(rows_here):
                    end = length[row] + 2
                    ids[i, :end] = [
                        tokenizer.start_token_id,
                        *pieces[row],
                        tokenizer.end_token_id,
                    ]
                    real[i, :end] = 1
                batch = {"token_ids": ids, "padding_mask": real, "segment_ids": 0 * ids}
                output = backbone.predict_on_batch({name: batch[name] for name in names})
                output = output["sequence_output"] if isinstance(output, dict) else output
                output = np.asarray(output, np.float32)[: len(rows_here)]
                inner = np.arange(longest + 2) <= length[rows_here, None]
                inner[:, 0] = False
                if hidden is None:
                    hidden = np.zeros((len(pieces), output.shape[-1]), np.float32)
                total = np.einsum("btd,bt->bd", output, inner)
                hidden[rows_here] = total / length[rows_here, None]
                done += len(rows_here)
                update(done)
    rows = [row if length[row] else -1 for row in rows]
    return rows, np.zeros((0, 0)) if hidden is None else hidden, rows.count(-1)


def _reduce(
    hidden: np.ndarray, dim: int, weight: np.ndarray | None
) -> tuple[np.ndarray, int, float]:
    """Centred, PCA to `dim`, rows of length 5; also the rank kept and its share of the variance."""
    parts = [slice(i, i + 8192) for i in range(0, len(hidden), 8192)]  # no wide copy of all
    weight = np.ones(len(hidden)) if weight is None else weight
    weight = weight / weight.sum()
    mean = sum(weight[part] @ hidden[part].astype(np.float64) for part in parts)
    centred = (hidden[part] - mean for part in parts)
    covariance = sum((x * weight[part, None]).T @ x for x, part in zip(centred, parts))
    variance, axes = np.linalg.eigh(covariance)
    variance, axes = variance[::-1], axes[:, ::-1]
    rank = min(dim, int(np.count_nonzero(variance > 1e-10 * variance[0])))
    axes = axes[:, :rank]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(rank)])
    matrix = np.zeros((len(hidden), dim), np.float32)
    for part in parts:
        projected = (hidden[part] - mean) @ axes
        norm = np.linalg.norm(projected, axis=1, keepdims=True)
        matrix[part, :rank] = np.divide(_NORM * projected, norm, where=norm > 0, out=projected)
    return matrix, rank, float(variance[:rank].sum() / max(variance.sum(), 1e-30))
