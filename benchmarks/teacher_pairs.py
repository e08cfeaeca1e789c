"""Do new pairs that only a teacher labels help a small matcher? (`training.teacher_pairs`)

    python benchmarks/teacher_pairs.py --data path/to/data --encoder path/to/minilm --runs runs/taught
    python benchmarks/teacher_pairs.py --show --write docs/results.md

Three encoders (5e-5, 4 epochs) are fine-tuned on the training pairs of MSRP, SICK or STS-B less a
fifth, as in `encoder_spread.py`. RE2 with 75 units, or the hybrid, then learns from the same pairs:
alone, with the three as its teacher, and with twice as many new pairs that the three label. All are
measured on the fifth that was held back; the official test parts are not read. The encoders stay in
`--runs`. One row for each run; existing rows are not run again.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import keras
import measuring
import numpy as np
from encoder_control import LENGTH, RATE, Parts, parts_of
from encoder_spread import FILES, METRICS

from keras_sentmatch import Matcher
from keras_sentmatch.data import PairDataset, read_pairs
from keras_sentmatch.metrics import evaluate_predictions
from keras_sentmatch.training import load_recipe, train
from keras_sentmatch.training.config import POLICIES

RESULTS = measuring.Results("teacher_pairs")
KEY = ("data", "matcher", "seed")
TEACHERS = 3
ENCODER, TOGETHER = "cross_encoder", f"mean of {TEACHERS} cross_encoders"
SETTINGS = {"re2": ["model.units=75", "training.epochs=15"], "hybrid": []}
SHARES = {"": None, ", taught": 0.0, ", taught on new pairs too": 2.0}  # of new pairs
MATCHERS = [model + how for model in SETTINGS for how in SHARES]


def teacher_folder(args: argparse.Namespace, data: str, seed: int) -> Path:
    return args.runs / f"{data}-{seed}"


def add(
    args: argparse.Namespace,
    key: dict[str, str],
    pairs: PairDataset,
    answers: np.ndarray,
    facts: dict[str, Any],
) -> None:
    metric = METRICS.get(key["data"], "accuracy")
    held_back = round(float(evaluate_predictions(pairs, answers)[metric]), 4)
    row = {**key, "metric": metric, "held_back": held_back, "rows": len(pairs), **facts}
    row |= {"backend": keras.backend.backend(), "dtype_policy": args.dtype_policy}
    RESULTS.add(row)


def teach(args: argparse.Namespace, data: str, parts: Parts) -> None:
    """Fine-tunes the encoders, and measures each and the mean of their answers."""
    splits = {name: parts[name] for name in ("train", "validation")}
    options = [f"model.backbone={args.encoder}", f"encoder.max_length={LENGTH}"]
    settings = {"learning_rate": RATE, "epochs": 4, "folds": 0, "dtype_policy": args.dtype_policy}
    plan = load_recipe(ENCODER, "pairs", overrides=options).with_training(**settings)
    folders = [teacher_folder(args, data, seed) for seed in range(TEACHERS)]
    for seed, folder in enumerate(folders):
        if not (folder / "metrics.json").exists():
            train(plan, splits, folder, seed=seed, resume=folder.exists(), baseline=False)
    keys = [dict(zip(KEY, (data, ENCODER, str(seed)))) for seed in range(TEACHERS)]
    keys.append(dict(zip(KEY, (data, TOGETHER, "all"))))
    if all(RESULTS.has(key) for key in keys):
        return
    answers = [Matcher.load(folder).predict_proba(parts["test"]) for folder in folders]
    for key, found in zip(keys, [*answers, np.mean(answers, axis=0)]):
        if not RESULTS.has(key):
            add(args, key, parts["test"], found, {})


def learn(args: argparse.Namespace, data: str, parts: Parts, name: str, seed: int) -> None:
    """Trains a small matcher, and measures it."""
    key = dict(zip(KEY, (data, name, str(seed))))
    if RESULTS.has(key):
        return
    model, _, _ = name.partition(",")
    plan = load_recipe(model, "pairs", overrides=SETTINGS[model])
    plan = plan.with_training(folds=0, init="none", dtype_policy=args.dtype_policy)
    if (share := SHARES[name.removeprefix(model)]) is not None:
        teachers = [str(teacher_folder(args, data, number)) for number in range(TEACHERS)]
        plan = plan.with_training(teacher=teachers, teacher_pairs=share)
    splits = {name: parts[name] for name in ("train", "validation")}
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        result = train(plan, splits, Path(folder, "run"), seed=seed, baseline=False)
        answers = result.matcher.predict_proba(parts["test"])
    validation = result.metrics["validation"]
    facts = {
        "validation": round(float(validation[METRICS.get(data, "accuracy")]), 4),
        "epoch": result.metrics["best_epoch"],
        "epochs": result.metrics["epochs"],
        "seconds": round(time.perf_counter() - start),
    }
    add(args, key, parts["test"], answers, facts)


def run(args: argparse.Namespace, data: str, seed: int) -> None:
    parts = parts_of(read_pairs(args.data / FILES[data]), 0)
    for name in args.matchers.split(";"):
        if name == ENCODER:
            teach(args, data, parts)
        else:
            learn(args, data, parts, name, seed)


def table() -> tuple[list[str], list[list[str]]]:
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in RESULTS.rows():
        groups.setdefault((row["data"], row["matcher"]), []).append(row)
    lines = []
    order = [ENCODER, TOGETHER, *MATCHERS]
    for (data, name), rows in sorted(groups.items(), key=lambda x: (x[0][0], order.index(x[0][1]))):
        values = [float(row["held_back"]) for row in rows]
        metric, pairs = rows[0]["metric"], int(rows[0]["rows"])
        error = measuring.percent_error(metric, values, pairs)
        kept = ", ".join(f"{row['epoch']}/{row['epochs']}" for row in rows if row.get("epoch"))
        cells = [data, name, metric, str(pairs), str(len(rows)), kept]
        lines.append([*cells, measuring.mean_and_deviation([100 * x for x in values]), error])
    head = "data, matcher, measure, pairs, runs, best epoch/epochs, held back, standard error"
    return head.split(", "), lines


def main() -> None:
    parser = measuring.parser(__doc__ or "")
    parser.add_argument("--data", type=Path, help="folder with a folder for each data set")
    parser.add_argument("--encoder", help="folder with Hugging Face's files of an encoder")
    parser.add_argument("--runs", type=Path, help="folder for the teachers")
    parser.add_argument("--sets", default=",".join(FILES))
    parser.add_argument("--matchers", default=";".join([ENCODER, *MATCHERS]))
    parser.add_argument("--seeds", default="0,1,2", help="of the small matchers")
    parser.add_argument("--dtype-policy", default="float32", choices=POLICIES)
    args = parser.parse_args()
    if not args.show:
        if None in (args.data, args.encoder, args.runs):
            parser.error("--data, --encoder and --runs are needed to run anything")
        for data in args.sets.split(","):
            for seed in map(int, args.seeds.split(",")):
                run(args, data, seed)
    RESULTS.show(*table(), args.write)


if __name__ == "__main__":
    main()
