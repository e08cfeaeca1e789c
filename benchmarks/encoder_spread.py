"""What makes a fine-tuned encoder better, or vary less with the seed: one change at a time.

    python benchmarks/encoder_spread.py --data path/to/data --encoder path/to/minilm --runs runs/spread
    python benchmarks/encoder_spread.py --show --write docs/results.md

Each run trains the recipe of `cross_encoder` (5e-5, 4 epochs, the best epoch by the validation part),
or a variant of it, on the training pairs of MSRP, SICK or STS-B less a fifth, which is held back, as
in the first fold of `encoder_control.py`. Every seed has the same pairs, so the standard deviation
over the seeds is that of the training alone. A row with all seeds measures the mean of their answers. The
official test parts are not read. Answers are kept in `--runs`; existing rows are not run again.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import keras
import measuring
import numpy as np
from encoder_control import LENGTH, RATE, Parts, parts_of

from keras_sentmatch.data import read_pairs
from keras_sentmatch.metrics import evaluate_predictions
from keras_sentmatch.training import load_recipe, train
from keras_sentmatch.training.config import POLICIES

RESULTS = measuring.Results("encoder_spread")
KEY = ("data", "variant", "dtype_policy", "seeds")
FILES = {
    "msrp": "msrp/msr_paraphrase_train.txt",
    "sick": "sick/SICK_train.txt",
    "stsb": "stsb/stsb-en-train.csv",
}
METRICS = {"stsb": "pearson"}  # accuracy elsewhere
VARIANTS: dict[str, dict[str, Any]] = {
    "recipe": {},
    "8 epochs": {"epochs": 8, "patience": 8},
    "batches of all lengths": {"length_buckets": 1},
    "batches of 64": {"batch_size": 64},
    "two blocks new": {},
}


class NewBlocks(keras.callbacks.Callback):
    """Gives the last `count` blocks of the encoder new weights before training (Zhang et al. 2021)."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def on_train_begin(self, logs: Any = None) -> None:
        for block in self.model.bert.blocks[-self.count :]:
            fresh = type(block).from_config(block.get_config())
            fresh.build((None, None, self.model.bert.width))
            block.set_weights(fresh.get_weights())


def measure(args: argparse.Namespace, parts: Parts, variant: str, seed: int) -> Any:
    """Trains; the validation figures, the figures on the pairs held back, and the answers to these."""
    settings = {"learning_rate": RATE, "epochs": 4, "folds": 0, "seed": seed} | VARIANTS[variant]
    settings["dtype_policy"] = args.dtype_policy
    options = [f"model.backbone={args.encoder}", f"encoder.max_length={LENGTH}"]
    plan = load_recipe("cross_encoder", "pairs", overrides=options).with_training(**settings)
    splits = {name: parts[name] for name in ("train", "validation")}
    callbacks = [NewBlocks(2)] if variant == "two blocks new" else []
    with tempfile.TemporaryDirectory() as folder:
        result = train(plan, splits, Path(folder, "run"), baseline=False, callbacks=callbacks)
    answers = result.matcher.predict_proba(parts["test"])
    held = evaluate_predictions(parts["test"], answers)
    return result.metrics["validation"], held, answers


def run(args: argparse.Namespace, data: str) -> None:
    metric = METRICS.get(data, "accuracy")
    parts = parts_of(read_pairs(args.data / FILES[data]), 0)
    facts = {"metric": metric, "rows": len(parts["test"])}
    for variant in args.variants.split(","):
        kept = []
        for seed in range(args.seeds):
            name = f"{data}-{variant}-{args.dtype_policy}-{seed}.npy"
            file = args.runs / name.replace(" ", "_")
            key = dict(zip(KEY, (data, variant, args.dtype_policy, str(seed))))
            if not (RESULTS.has(key) and file.exists()):
                validation, held, answers = measure(args, parts, variant, seed)
                np.save(file, answers)
                figures = {"validation": validation[metric], "held_back": held[metric]}
                figures = {name: round(float(value), 4) for name, value in figures.items()}
                RESULTS.replace([key | figures | facts], KEY)
            kept.append(np.load(file))
        held = evaluate_predictions(parts["test"], np.mean(kept, axis=0))
        key = dict(zip(KEY, (data, variant, args.dtype_policy, f"all {args.seeds}")))
        figures = {"validation": "", "held_back": round(held[metric], 4)}
        RESULTS.replace([key | figures | facts], KEY)


def table() -> tuple[list[str], list[list[str]]]:
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in RESULTS.rows():
        groups.setdefault(tuple(row[name] for name in KEY[:-1]), []).append(row)
    lines = []
    for about, rows in groups.items():
        single = [row for row in rows if not row["seeds"].startswith("all")]
        together = [row["held_back"] for row in rows if row["seeds"].startswith("all")]
        cells = [*about, rows[0]["metric"], rows[0]["rows"], str(len(single))]
        for name in ("validation", "held_back"):
            cells.append(measuring.mean_and_deviation([100 * float(row[name]) for row in single]))
        held_back = [float(row["held_back"]) for row in single]
        cells.append(measuring.percent_error(rows[0]["metric"], held_back, int(rows[0]["rows"])))
        lines.append([*cells, *[f"{100 * float(value):.1f}" for value in together[-1:]]])
    head = "data, variant, dtype policy, measure, pairs, seeds, validation, held back"
    return [*head.split(", "), "standard error", "mean of the answers"], lines


def main() -> None:
    parser = measuring.parser(__doc__ or "")
    parser.add_argument("--data", type=Path, help="folder with a folder for each data set")
    parser.add_argument("--encoder", help="folder with Hugging Face's files of an encoder")
    parser.add_argument("--runs", type=Path, help="folder for the answers")
    parser.add_argument("--sets", default=",".join(FILES))
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--dtype-policy", default="float32", choices=POLICIES)
    args = parser.parse_args()
    if not args.show:
        if None in (args.data, args.encoder, args.runs):
            parser.error("--data, --encoder and --runs are needed to run anything")
        args.runs.mkdir(parents=True, exist_ok=True)
        for data in args.sets.split(","):
            run(args, data)
    RESULTS.show(*table(), args.write)


if __name__ == "__main__":
    main()
