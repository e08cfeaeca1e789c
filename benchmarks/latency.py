"""Latency of one pair and throughput of 1,024: Matcher.predict on each backend, SavedModel, ONNX.

    python benchmarks/latency.py --runs runs/exported --pairs runs/exported/pairs.tsv
    python benchmarks/latency.py --show --write docs/results.md

`--runs` is that of export_table.py: MODEL-tensorflow is loaded on each backend,
MODEL-tensorflow-saved_model and MODEL-tensorflow-onnx are its artifacts. Each is measured from two
strings to probabilities, in a separate process, one after the other. "first ms" is the first pair,
with compilation and tracing; "one pair" the median (and 90th percentile) of `--repeats` different
pairs after that; "pairs/s" the better of two passes over 1,024 pairs in batches of 64, sorted by
length for all (as Matcher.predict does by itself), after one untimed pass. Existing rows (same
model, contender, processors) are not measured again.
"""

import argparse
import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measuring
import numpy as np

RESULTS = measuring.Results("latency")
CONTENDERS = ("tensorflow", "jax", "torch", "saved_model", "onnx")
MODELS = ("drcn", "esim-sfa", "ladra_net")
MANY, BATCH = 1024, 64
Pairs = list[tuple[str, str]]


def contender(name: str, folder: Path) -> Callable[[Pairs], Any]:
    """A function from pairs of strings to probabilities."""
    if name == "saved_model":
        import tensorflow as tf

        loaded = tf.saved_model.load(f"{folder}-saved_model")
        serve = loaded.signatures["serving_default"]

        def ask(pairs: Pairs) -> Any:
            first, second = (tf.constant(column) for column in zip(*pairs))
            return loaded and serve(sentence1=first, sentence2=second)["probabilities"].numpy()

        return ask
    if name == "onnx":
        artifact = Path(f"{folder}-onnx")
        return runpy.run_path(str(artifact / "score.py"))["Scorer"](artifact).scores
    from keras_sentmatch.cli.runs import Run

    matcher = Run.load(folder).matcher

    def predict(pairs: Pairs) -> Any:
        first, second = zip(*pairs)
        return matcher.predict_proba(sentence1=first, sentence2=second, batch_size=BATCH)

    return predict


def measure(name: str, folder: Path, pairs: Pairs, repeats: int) -> dict[str, Any]:
    """Runs in the process of one contender."""
    ask = contender(name, folder)
    singles = [[pair] for pair in pairs[:repeats]]
    (first,) = measuring.timed([lambda: ask(singles[0])])
    for one in singles:  # every length once
        ask(one)
    alone = measuring.timed([lambda one=one: ask(one) for one in singles])
    many = sorted((pairs * (MANY // len(pairs) + 1))[:MANY], key=lambda pair: max(map(len, pair)))
    blocks = [many[i : i + BATCH] for i in range(0, MANY, BATCH)]

    def everything() -> None:
        for block in blocks:
            ask(block)

    passes, others = measuring.busy_while(lambda: measuring.timed([everything] * 3))
    best = min(passes[1:])
    return {
        "first_ms": round(1000 * first, 1),
        "median_ms": round(1000 * float(np.median(alone)), 2),
        "p90_ms": round(1000 * float(np.quantile(alone, 0.9)), 2),
        "pairs_s": round(MANY / best, 1),
        "others_cpu": round(others, 2),
    }


def read_pairs(path: Path) -> Pairs:
    lines = path.read_text("utf-8").splitlines()[1:]
    return [(a, b) for a, b in (line.split("\t")[:2] for line in lines)]


def run_all(args: argparse.Namespace) -> None:
    for model in args.models.split(","):
        for name in args.contenders.split(","):
            key = {"model": model, "contender": name, "cpus": measuring.cpus()}
            if RESULTS.has(key):
                continue
            options = ["--runs", args.runs, "--pairs", args.pairs, "--repeats", args.repeats]
            backend = name if name in measuring.BACKENDS else "tensorflow"
            found = measuring.run_child(backend, "--measure", f"{model}:{name}", *options)
            RESULTS.add({**key, **found})
            if found["others_cpu"] > 0.2:
                print(f"Other programs used {found['others_cpu']} processors meanwhile.")


def table() -> tuple[list[str], list[list[str]]]:
    head = ["model", "from strings by", "first ms", "one pair ms", "90 % ms", "pairs/s", "CPUs"]
    lines = []
    for row in RESULTS.rows():
        name = row["contender"]
        shown = f"`Matcher.predict`, {name}" if name in measuring.BACKENDS else name
        figures = [row[n] for n in ("first_ms", "median_ms", "p90_ms", "pairs_s", "cpus")]
        lines.append([row["model"], shown, *figures])
    return head, lines


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs/exported"))
    parser.add_argument("--pairs", type=Path, default=Path("runs/exported/pairs.tsv"))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--contenders", default=",".join(CONTENDERS))
    parser.add_argument("--repeats", type=int, default=200, help="pairs asked one by one")
    parser.add_argument("--measure", metavar="MODEL:CONTENDER", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        model, name = args.measure.split(":")
        pairs = read_pairs(args.pairs)
        print(json.dumps(measure(name, args.runs / f"{model}-tensorflow", pairs, args.repeats)))
        return
    if not args.show:
        run_all(args)
    RESULTS.show(*table(), args.write)


if __name__ == "__main__":
    main()
