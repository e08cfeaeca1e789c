"""What `keras-sentmatch train --data FILE` reaches next to bag of words, on six data sets.

    python benchmarks/first_hour.py --data path/to/data --seeds 0,1,2
    python benchmarks/first_hour.py --data path/to/data --seeds 0,1,2 --models cross_encoder \
        --encoder path/to/minilm --backend torch --set training.epochs=4 \
        --set training.learning_rate=5e-5 --set training.folds=0
    python benchmarks/first_hour.py --data path/to/data --choose --models hybrid,re2 --sizes 500,all

Without `--choose` each data set is measured on its test part. The test parts of MSRP and Quora are
kept apart, so a part of their training files is measured, on which nothing was chosen. With
`--choose` the measured part is cut from the training pairs. Each run is one row, and existing rows
are not run again.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import measuring
import numpy as np

from keras_sentmatch.data import PairDataset, load_pairs, read_pairs, split_pairs

RESULTS = measuring.Results("first_hour")
KEY = ("part", "data", "size", "model", "settings", "backend", "seed")
SETS = ("sick", "msrp", "quora", "stsb", "wikiqa", "quora_1500")


def whole(name: str, root: Path) -> tuple[PairDataset, PairDataset]:
    """Return the pairs to train on and the pairs to measure."""
    if name == "msrp":
        pairs = read_pairs(root / "msrp" / "msr_paraphrase_train.txt")
        pool, test = split_pairs(pairs, [0.8, 0.2], seed=0)
    elif name.startswith("quora"):
        pairs = read_pairs(root / "quora" / "quora-dev.csv", on_error="skip")
        others = read_pairs(root / "quora" / "bimpm_dev.tsv", on_error="skip")
        known = {*others.sentence1, *others.sentence2}
        sides = zip(pairs.sentence1, pairs.sentence2)
        kept = [row for row, both in enumerate(sides) if known.isdisjoint(both)]
        pairs = pairs.select(np.array(kept))
        share = 12_000 / len(pairs)
        pairs, _ = split_pairs(pairs, [share, 1 - share], seed=0)
        pool, test = split_pairs(pairs, [2 / 3, 1 / 3], seed=0)
        if name == "quora_1500":
            pool, _ = split_pairs(pool, [1500 / len(pool), 1 - 1500 / len(pool)], seed=0)
    else:
        splits = load_pairs(str(root / name))
        pool, test = splits["train"], splits.get("test", splits["validation"])
    return pool, test


def prepare(name: str, size: str, choose: bool, root: Path, folder: Path) -> None:
    """Write train.tsv and test.tsv. The command splits off its own validation pairs."""
    pool, test = whole(name, root)
    if choose:
        pool, test = split_pairs(pool, [0.8, 0.2], seed=1)
    if size != "all" and int(size) < len(pool):
        share = int(size) / len(pool)
        pool, _ = split_pairs(pool, [share, 1 - share], seed=1)
    for part, pairs in (("train", pool), ("test", test)):
        with open(folder / f"{part}.tsv", "w", encoding="utf-8", newline="") as file:
            groups = [] if pairs.groups is None else [pairs.groups]
            labels = pairs.labels if pairs.labels is not None else []
            names = pairs.label_names
            writer = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_MINIMAL)
            head = ["sentence1", "sentence2", "label", *(["question_id"] if groups else [])]
            writer.writerow(head)
            for *texts, label in zip(pairs.sentence1, pairs.sentence2, *groups, labels):
                answer = f"{label:.4f}" if names is None else names[int(label)]
                one, two, *group = (" ".join(str(text).split()) for text in texts)
                writer.writerow([one, two, answer, *group])


def run(args: argparse.Namespace, name: str, size: str, model: str, seed: str) -> None:
    values = ["choose" if args.choose else "test", name, size, model or "(default)"]
    key = dict(zip(KEY, [*values, " ".join(args.set), args.backend, seed]))
    if RESULTS.has(key):
        return
    with tempfile.TemporaryDirectory() as temporary:
        # A folder named like a known data set would get the sizes of that one's recipe.
        data = Path(temporary, "pairs" if args.choose else name)
        out = Path(temporary, "run")
        data.mkdir()
        prepare(name, size, args.choose, args.data, data)
        command = ["keras-sentmatch", "train", *([model] if model else []), "--data", str(data)]
        command += ["--out", str(out), "--backend", args.backend, "--seed", seed]
        command += ["--backbone", args.encoder] if model == "cross_encoder" else []
        command += [part for setting in args.set for part in ("--set", setting)]
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=sys.stderr)
        seconds = time.perf_counter() - start
        metrics = json.loads((out / "metrics.json").read_text("utf-8"))
    test, bag = metrics["test"], metrics["baseline"]["test"]
    metric = test["primary"]
    RESULTS.add(
        {
            **key,
            "metric": metric,
            "value": round(test[metric], 4),
            "bag_of_words": round(bag[metric], 4),
            "validation": round(metrics["validation"][metric], 4),
            "train_rows": metrics["rows"]["train"],
            "test_rows": metrics["rows"]["test"],
            "epochs": metrics["epochs"],
            "seconds": round(seconds, 1),
            "cores": measuring.cpus(),
            "command": measuring.public(command).replace(f"{temporary}/", ""),
        }
    )


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with a folder for each data set"
    )
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--sizes", default="all", help="such as 500,2000,all")
    parser.add_argument("--models", default="", help="default: the model that `train` chooses")
    parser.add_argument("--encoder", help="folder of the backbone of cross_encoder")
    parser.add_argument("--choose", action="store_true")
    parser.add_argument(
        "--set", action="append", default=[], help="passed to keras-sentmatch train"
    )
    parser.add_argument("--backend", default="tensorflow", choices=measuring.BACKENDS)
    parser.add_argument("--seeds", default="0")
    args = parser.parse_args()
    if "cross_encoder" in args.models and args.encoder is None:
        parser.error("cross_encoder needs --encoder")
    for seed in args.seeds.split(","):
        for size in args.sizes.split(","):
            for name in args.sets.split(","):
                for model in args.models.split(","):
                    run(args, name, size, model, seed)


if __name__ == "__main__":
    main()
