"""The library's models next to public PyTorch codes: same pairs, tokens, word vectors and selection.

    python benchmarks/public_codes.py --data path/to/data --vectors path/to/glove.txt.gz \
        --public path/to/codes
    python benchmarks/public_codes.py --data path/to/data --vectors path/to/glove.txt.gz \
        --models din --sets sick --sides library --set model.compare_means=true

`--public` is a folder with clones of coetaur0/ESIM, galsang/BIMPM-pytorch and
alibaba-edu/simple-effective-text-matching-pytorch (RE2). They are used as they come: the network,
and the optimizer, batch size, clipping and schedule of its own trainer. Both sides train for the
same number of epochs without stopping early, and keep the epoch with the best validation accuracy.
With `--constant-rate` neither side changes its learning rate.

SICK has its own parts. Of MSRP only the training pairs are read, in five folds: the seed chooses the
fold that is measured, and a tenth of the other pairs validates. The baselines are the most frequent
label, the bag of words that `train` prints, and a logistic regression on mean word vectors (both
means, their difference and product). Each run is one row, and existing rows are not run again.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import measuring
import numpy as np
import torch

from keras_sentmatch.data import PairDataset, load_pairs, read_pairs, split_pairs
from keras_sentmatch.data.splits import part_numbers
from keras_sentmatch.training import Recipe, load_recipe, train
from keras_sentmatch.training.encoding import EncodingCache

RESULTS = measuring.Results("public_codes")
LIBRARY, PUBLIC = "library", "public code"
BASELINES = ("majority", "bag of words", "mean vectors")
EPOCHS = {"re2": 18}  # of each model; 20 of the others
FOLDS = 5
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Parts = dict[str, PairDataset]
Arrays = dict[str, np.ndarray]


@dataclass
class Code:
    """A public network, and how its own trainer trains it."""

    network: Any
    logits: Callable[[Any, Any], Any]  # of both sentences' ids, [B, L] each
    rate: float
    batch: int
    clip: float | None = None
    plateau: float | None = None  # factor of the learning rate after an epoch that is not better
    later: bool = False  # whether the later of two equally good epochs is kept


def esim(folder: Path, matrix: np.ndarray, classes: int) -> Code:
    from torch.nn.utils import rnn

    sys.path.insert(0, str(folder / "ESIM"))
    from esim.model import ESIM

    pack = rnn.pack_padded_sequence  # wants lengths on the CPU, since PyTorch 1.7
    rnn.pack_padded_sequence = lambda x, lengths, **more: pack(x, lengths.cpu(), **more)
    options = {"dropout": 0.5, "num_classes": classes, "device": DEVICE}
    network = ESIM(*matrix.shape, 300, torch.tensor(matrix), **options)

    def logits(one: Any, two: Any) -> Any:
        return network(one, (one != 0).sum(1), two, (two != 0).sum(1))[0]

    return Code(network, logits, rate=4e-4, batch=32, clip=10.0, plateau=0.5, later=True)


def re2(folder: Path, matrix: np.ndarray, classes: int) -> Code:
    sys.path.insert(0, str(folder / "simple-effective-text-matching-pytorch"))
    from src.network import Network

    blocks, width = 3, 150  # of its file for SNLI
    options = SimpleNamespace(
        num_vocab=len(matrix), embedding_dim=matrix.shape[1], num_classes=classes,
        hidden_size=width, blocks=blocks, enc_layers=2, kernel_sizes=[3], dropout=0.2,
        alignment="linear", fusion="full", connection="aug", prediction="full",
        fix_embeddings=True,
    )  # fmt: skip
    network = Network(options)
    network.embedding.set_(matrix)

    def logits(one: Any, two: Any) -> Any:
        sides = {"text1": one, "text2": two}
        masks = {"mask1": (one != 0).unsqueeze(2), "mask2": (two != 0).unsqueeze(2)}
        return network(sides | masks)

    return Code(network, logits, rate=1e-3, batch=128, clip=5.0)


def bimpm(folder: Path, matrix: np.ndarray, classes: int) -> Code:
    sys.path.insert(0, str(folder / "BIMPM-pytorch"))
    from model.BIMPM import BIMPM

    swapped = torch.tensor([1, 0])  # it has the unknown word first and the padding second
    vectors = torch.tensor(matrix)
    vectors[:2] = vectors[swapped]
    options = SimpleNamespace(
        word_dim=matrix.shape[1], use_char_emb=False, char_hidden_size=50, num_perspective=20,
        char_vocab_size=2, char_dim=20, word_vocab_size=len(matrix), hidden_size=100,
        class_size=classes, dropout=0.1,
    )  # fmt: skip
    text = SimpleNamespace(vocab=SimpleNamespace(vectors=vectors))
    network = BIMPM(options, SimpleNamespace(TEXT=text))

    def logits(one: Any, two: Any) -> Any:
        one, two = (torch.where(ids < 2, 1 - ids, ids) for ids in (one, two))
        return network(p=one, h=two)

    return Code(network, logits, rate=1e-3, batch=64)


CODES = {"esim": esim, "re2": re2, "bimpm": bimpm}


def parts_of(root: Path, data: str, seed: int) -> Parts:
    if data == "sick":
        return dict(load_pairs(str(root / data)))
    pairs = read_pairs(root / "msrp" / "msr_paraphrase_train.txt")
    part = part_numbers(pairs, [1 / FOLDS] * FOLDS, seed=0)
    rows = {"train": part != seed % FOLDS, "validation": part == seed % FOLDS}
    parts = {role: pairs.select(some) for role, some in rows.items()}
    training, validation = split_pairs(parts["train"], [0.9, 0.1], seed=seed)
    return {"train": training, "validation": validation, "test": parts["validation"]}


def settings_of(args: argparse.Namespace, side: str) -> list[str]:
    """Return the settings of a side, as its rows name them."""
    rate = ["training.plateau_factor=1.0"] if args.constant_rate else []
    return {LIBRARY: [*args.set, *rate], PUBLIC: rate}.get(side, [])


def plan(args: argparse.Namespace, data: str, model: str, epochs: int) -> Recipe:
    settings = [f"vectors.source={args.vectors}", "encoder.features=['word']"]
    settings += settings_of(args, LIBRARY)
    recipe = load_recipe(model, data, overrides=settings)
    return recipe.with_training(epochs=epochs, patience=epochs, folds=0, monitor="val_accuracy")


def library(parts: Parts, recipe: Recipe, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        metrics = train(recipe, parts, Path(folder) / "run", seed=seed, baseline=False).metrics
    return {
        "parameters": metrics["parameters_without_word_embeddings"],
        "epoch": metrics["best_epoch"],
        "validation": metrics["validation"]["accuracy"],
        "test": metrics["test"]["accuracy"],
    }


def encoded(parts: Parts, recipe: Recipe, seed: int) -> tuple[dict[str, Arrays], np.ndarray]:
    """Return ids and labels of each part, and the word vectors, as on the library's side."""
    fitted = EncodingCache().fit(recipe, parts, False)
    arrays = {
        name: {
            **fitted.encoder.encode(list(pairs.sentence1), list(pairs.sentence2)),
            "labels": np.asarray(pairs.labels),
        }
        for name, pairs in parts.items()
    }
    return arrays, fitted.vectors.matrix_for(fitted.encoder.vocabulary, seed)


def public_code(
    parts: Parts,
    recipe: Recipe,
    seed: int,
    make: Callable[..., Code],
    folder: Path,
    constant_rate: bool,
) -> dict[str, Any]:
    """Train a public network as its own trainer does. Returns the accuracies of the epoch kept."""
    torch.manual_seed(seed)
    arrays, matrix = encoded(parts, recipe, seed)
    code = make(folder, matrix.astype("float32"), parts["train"].num_classes)
    plateau = None if constant_rate else code.plateau
    network = code.network.to(DEVICE)
    weights = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(weights, code.rate)

    def run(part: Arrays, rows: Any) -> Any:
        sides = (torch.tensor(part[f"word_ids_{side}"][rows], device=DEVICE) for side in "12")
        return code.logits(*(ids[:, : int((ids != 0).sum(1).max())] for ids in sides))

    def accuracy(part: Arrays) -> float:
        network.eval()
        starts, count = range(0, len(part["labels"]), 64), len(part["labels"])
        with torch.no_grad():
            answers = [run(part, slice(i, i + 64)).argmax(-1) for i in starts]
        return float((torch.cat(answers).cpu().numpy() == part["labels"]).sum() / count)

    rng, best = np.random.default_rng(seed), {"epoch": 0, "validation": -1.0, "test": 0.0}
    for epoch in range(1, recipe.training.epochs + 1):
        network.train()
        order = rng.permutation(len(arrays["train"]["labels"]))
        for start in range(0, len(order), code.batch):
            rows = order[start : start + code.batch]
            labels = torch.tensor(arrays["train"]["labels"][rows]).long().to(DEVICE)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(run(arrays["train"], rows), labels).backward()
            if code.clip:
                torch.nn.utils.clip_grad_norm_(weights, code.clip)
            optimizer.step()
        found = accuracy(arrays["validation"])
        print(f"epoch {epoch}: validation {found:.4f}", file=sys.stderr, flush=True)
        if found > best["validation"] or (code.later and found == best["validation"]):
            best = {"epoch": epoch, "validation": found, "test": accuracy(arrays["test"])}
        elif plateau:
            optimizer.param_groups[0]["lr"] *= plateau
    return {"parameters": sum(p.numel() for p in weights if p.shape != matrix.shape), **best}


def baseline(parts: Parts, recipe: Recipe, seed: int, kind: str) -> dict[str, Any]:
    """Measure a baseline without a network. Choices are made on the validation pairs."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from keras_sentmatch.training.baseline import bag_of_words_baseline

    if kind == "bag of words":
        found = bag_of_words_baseline(parts["train"], parts["validation"], parts["test"])
        return {part: found[part]["accuracy"] for part in ("validation", "test")}
    labels = {name: np.asarray(pairs.labels) for name, pairs in parts.items()}
    if kind == "majority":
        most = np.bincount(labels["train"]).argmax()
        return {part: float((labels[part] == most).mean()) for part in ("validation", "test")}
    arrays, matrix = encoded(parts, recipe, seed)

    def features(part: Arrays) -> np.ndarray:
        ids = [part[f"word_ids_{side}"] for side in "12"]
        one, two = (matrix[i].sum(1) / np.maximum((i != 0).sum(1, keepdims=True), 1) for i in ids)
        return np.concatenate([one, two, abs(one - two), one * two], axis=1)

    sides = {name: features(part) for name, part in arrays.items()}
    scores = []
    for strength in (0.001, 0.01, 0.1, 1.0):
        model = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=2000))
        model.fit(sides["train"], labels["train"])
        scores.append([model.score(sides[part], labels[part]) for part in ("validation", "test")])
    validation, test = max(scores, key=lambda both: both[0])
    return {"validation": validation, "test": test}


def run(args: argparse.Namespace, data: str, model: str, side: str, seed: int) -> None:
    epochs = args.epochs or EPOCHS.get(model, 20)
    settings = " ".join(settings_of(args, side))
    vectors = Path(args.vectors).name
    key = {"data": data, "model": model, "side": side, "seed": str(seed), "settings": settings}
    key |= {"vectors": vectors, "epochs": epochs if model else ""}
    if RESULTS.has(key):
        return
    parts, recipe = parts_of(args.data, data, seed), plan(args, data, model or "re2", epochs)
    start = time.perf_counter()
    if side == LIBRARY:
        found = library(parts, recipe, seed)
    elif side == PUBLIC:
        code = CODES[model]
        found = public_code(parts, recipe, seed, code, args.public, args.constant_rate)
    else:
        found = baseline(parts, recipe, seed, side)
    blank = {"parameters": "", "epoch": ""}
    rounded = {name: round(found[name], 4) for name in ("validation", "test")}
    facts = {
        "train_rows": len(parts["train"]),
        "test_rows": len(parts["test"]),
        "backend": keras.backend.backend() if side == LIBRARY else "",
        "seconds": round(time.perf_counter() - start),
        "device": measuring.device_name("torch"),
    }
    RESULTS.add({**key, **blank, **found, **rounded, **facts})


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with a folder for each data set"
    )
    parser.add_argument("--vectors", required=True, help="file of word vectors")
    parser.add_argument("--public", type=Path, help="folder with clones of the public codes")
    parser.add_argument("--sets", default="sick,msrp")
    parser.add_argument("--models", default=",".join(CODES))
    parser.add_argument("--sides", default=",".join((*BASELINES, LIBRARY, PUBLIC)))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--epochs", type=int, help="of both sides; by default each model's own")
    parser.add_argument(
        "--set", action="append", default=[], help="passed to keras-sentmatch train"
    )
    parser.add_argument("--constant-rate", action="store_true", help="on both sides")
    args = parser.parse_args()
    sides = args.sides.split(",")
    if PUBLIC in sides and args.public is None:
        parser.error("--public is needed for the side 'public code'")
    for data in args.sets.split(","):
        for seed in map(int, args.seeds.split(",")):
            for side in sides:
                for model in [""] if side in BASELINES else args.models.split(","):
                    run(args, data, model, side, seed)


if __name__ == "__main__":
    main()
