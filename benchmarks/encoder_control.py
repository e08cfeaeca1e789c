"""Is fine-tuning an encoder here as good as in plain Hugging Face PyTorch? Five folds of MSRP's training pairs.

    python benchmarks/encoder_control.py --data path/to/data --encoder path/to/minilm
    python benchmarks/encoder_control.py --data path/to/data --encoder path/to/minilm --sides dabert,ladra_net
    python benchmarks/encoder_control.py --show --write docs/results.md

Both fine-tune the same weights on the same pairs with the same settings: AdamW at 5e-5 with decay .01
off biases and norms, batches of 32, 4 epochs, a warm-up over a tenth of the batches, then a line down
to zero, clipping at norm 1. Of each fold a tenth of the other pairs chooses the epoch by accuracy.
Hugging Face's `AutoModelForSequenceClassification` is used as it comes (`pip install transformers`).
A side is that or one of this library's models on an encoder. New layers of `ladra_net` keep the
learning rate of its recipe. One row for each side and fold; existing rows are not run again.
"""

import argparse
import csv
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import measuring
import numpy as np

from keras_sentmatch.data import PairDataset, read_pairs, split_pairs
from keras_sentmatch.training.folds import fold_splits

RESULTS = measuring.Results("encoder_control")
KEY = ("data", "side", "fold", "settings")
FILES = {"msrp": "msrp/msr_paraphrase_train.txt", "sick": "sick/SICK_train.txt"}
HUGGING_FACE = "Hugging Face"
SIDES = ("cross_encoder", HUGGING_FACE)
FOLDS, EPOCHS, BATCH, LENGTH, RATE = 5, 4, 32, 128, 5e-5
Parts = dict[str, PairDataset]


def parts_of(pairs: PairDataset, fold: int) -> Parts:
    parts = list(fold_splits(pairs, FOLDS, seed=0))[fold]
    train, validation = split_pairs(parts["train"], [0.9, 0.1], seed=fold)
    return {"train": train, "validation": validation, "test": parts["validation"]}


def library(parts: Parts, args: argparse.Namespace, model: str, fold: int) -> dict[str, Any]:
    rate = "backbone_learning_rate" if model == "ladra_net" else "learning_rate"
    with tempfile.TemporaryDirectory() as temporary:
        data, out = Path(temporary, "data"), Path(temporary, "run")
        data.mkdir()
        for role, pairs in parts.items():
            assert pairs.labels is not None and pairs.label_names
            name = {"validation": "dev"}.get(role, role)
            with open(data / f"{name}.tsv", "w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, delimiter="\t")
                writer.writerow(["sentence1", "sentence2", "label"])
                labels = (pairs.label_names[label] for label in pairs.labels)
                writer.writerows(zip(pairs.sentence1, pairs.sentence2, labels))
        command = ["keras-sentmatch", "train", model, "--data", str(data)]
        command += ["--out", str(out), "--backbone", args.encoder, "--backend", args.backend]
        command += ["--epochs", str(EPOCHS), "--batch-size", str(BATCH), "--seed", str(fold)]
        settings = [f"training.{rate}={RATE}", f"encoder.max_length={LENGTH}", *args.set]
        for setting in [*settings, "training.monitor=val_accuracy"]:
            command += ["--set", setting]
        subprocess.run(command, check=True, stdout=sys.stderr)
        metrics = json.loads((out / "metrics.json").read_text("utf-8"))
    return {
        "epoch": metrics["best_epoch"],
        "validation": round(metrics["validation"]["accuracy"], 4),
        "held_back": round(metrics["test"]["accuracy"], 4),
    }


def hugging_face(parts: Parts, args: argparse.Namespace, fold: int) -> dict[str, Any]:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(fold)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(args.encoder)
    count = parts["train"].num_classes
    model = AutoModelForSequenceClassification.from_pretrained(args.encoder, num_labels=count)
    model.to(device)
    plain = [p for n, p in model.named_parameters() if "bias" in n or "LayerNorm" in n]
    plain_ids = {id(p) for p in plain}
    decayed = [p for p in model.parameters() if id(p) not in plain_ids]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, RATE)
    steps = EPOCHS * -(-len(parts["train"]) // BATCH)
    warm = steps // 10
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: min((i + 1) / max(warm, 1), (steps - i) / (steps - warm))
    )

    def logits_of(pairs: PairDataset) -> Any:
        sides = list(pairs.sentence1), list(pairs.sentence2)
        options = {"padding": True, "truncation": True, "max_length": LENGTH}
        return model(**tokenizer(*sides, **options, return_tensors="pt").to(device)).logits

    def accuracy(pairs: PairDataset) -> float:
        model.eval()
        right = 0
        with torch.no_grad():
            for start in range(0, len(pairs), 64):
                part = pairs.select(range(start, min(start + 64, len(pairs))))
                right += int((logits_of(part).argmax(-1).cpu().numpy() == part.labels).sum())
        return right / len(pairs)

    rng, curve = np.random.default_rng(fold), []
    for _ in range(EPOCHS):
        model.train()
        order = rng.permutation(len(parts["train"]))
        for start in range(0, len(order), BATCH):
            part = parts["train"].select(order[start : start + BATCH])
            labels = torch.tensor(np.asarray(part.labels), dtype=torch.long, device=device)
            torch.nn.functional.cross_entropy(logits_of(part), labels).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        curve.append((accuracy(parts["validation"]), accuracy(parts["test"])))
    best = int(np.argmax([validation for validation, _ in curve]))
    found = {"validation": curve[best][0], "held_back": curve[best][1]}
    return {"epoch": best + 1, **{name: round(value, 4) for name, value in found.items()}}


def run(args: argparse.Namespace, data: str, fold: int) -> None:
    pairs = read_pairs(args.data / FILES[data])
    pairs = pairs.select(range(min(args.limit or len(pairs), len(pairs))))
    for side in args.sides.split(","):
        settings = " ".join(args.set) if side != HUGGING_FACE else ""
        key = {"data": data, "side": side, "fold": str(fold), "settings": settings}
        if not RESULTS.has(key):
            start = time.perf_counter()
            parts = parts_of(pairs, fold)
            if side == HUGGING_FACE:
                found = hugging_face(parts, args, fold)
            else:
                found = library(parts, args, side, fold)
            seconds = round(time.perf_counter() - start)
            device = measuring.device_name(args.backend)
            facts = {"train_rows": len(pairs), "backend": args.backend, "device": device}
            facts["seconds"] = seconds
            RESULTS.add({**key, **found, **facts})


def table() -> tuple[list[str], list[list[str]]]:
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in RESULTS.rows():
        groups.setdefault((row["data"], row["side"], row["settings"]), []).append(row)
    lines = []
    for key, rows in groups.items():
        figures = [said([float(row[name]) for row in rows]) for name in ("validation", "held_back")]
        epochs = ", ".join(row["epoch"] for row in rows)
        lines.append([*key, str(len(rows)), epochs, *figures])
    head = ["data", "side", "settings", "folds", "epochs kept", "validation", "held back"]
    return head, lines


def said(values: Sequence[float]) -> str:
    """Mean and standard error, in percent."""
    mean = 100 * statistics.mean(values)
    if len(values) < 2:
        return f"{mean:.1f}"
    return f"{mean:.1f} ± {100 * statistics.stdev(values) / len(values) ** 0.5:.1f}"


def main() -> None:
    parser = measuring.parser(__doc__ or "")
    parser.add_argument("--data", type=Path, help="folder with a folder for each data set")
    parser.add_argument("--encoder", help="folder with Hugging Face's files of an encoder")
    parser.add_argument("--sets", default="msrp")
    parser.add_argument("--sides", default=",".join(SIDES), help="dabert and ladra_net too")
    parser.add_argument("--folds", default="0,1,2,3,4", help=f"some of {FOLDS}")
    parser.add_argument("--limit", type=int, help="pairs, for a quick try")
    parser.add_argument("--set", action="append", default=[], help="as of keras-sentmatch train")
    parser.add_argument("--backend", default="torch", choices=measuring.BACKENDS)
    args = parser.parse_args()
    if not args.show:
        if args.data is None or args.encoder is None:
            parser.error("--data and --encoder are needed to run anything")
        for data in args.sets.split(","):
            for fold in map(int, args.folds.split(",")):
                run(args, data, fold)
    RESULTS.show(*table(), args.write)


if __name__ == "__main__":
    main()
