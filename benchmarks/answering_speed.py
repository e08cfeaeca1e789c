"""Pairs per second of finished runs, which answer the same pairs in turns in one process.

    python benchmarks/answering_speed.py runs/encoder runs/re2 runs/drcn --data path/to/sick
    python benchmarks/answering_speed.py --show --write docs/results.md

`Matcher.predict_proba` from raw sentences to probabilities, on the test part, or the validation
part if there is no test part. One round of all runs is not timed (compilation); the median of
`--repeats` rounds counts.
"""

import argparse
import json
import os
import shlex
import statistics
import sys
from pathlib import Path
from typing import Any

import measuring

RESULTS = measuring.Results("answering_speed")


def about(folder: Path) -> dict[str, Any]:
    """Facts from a run's metrics."""
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    figures = metrics.get("test") or metrics["validation"]
    vectors, teacher = metrics["vectors"], metrics.get("teacher")
    return {
        "model": metrics["model"],
        "vectors": Path(vectors["source"].removesuffix("/model")).name if vectors else "",
        "teacher": "yes" if teacher else "",
        "trained_on": metrics["data"],
        "seed": metrics["seed"],
        "parameters": metrics["parameters"],
        "without_word_embeddings": metrics["parameters_without_word_embeddings"],
        "part": "test" if metrics.get("test") else "validation",
        "figure": figures["primary"],
        "value": round(figures[figures["primary"]], 4),
    }


def measure(args: argparse.Namespace) -> None:
    os.environ["KERAS_BACKEND"] = args.backend
    from keras_sentmatch import Matcher
    from keras_sentmatch.data import load_pairs

    parts = load_pairs(args.data)
    pairs = parts.get("test", parts["validation"])
    pairs = pairs.select(range(min(len(pairs), args.pairs)))
    matchers = [Matcher.load(folder) for folder in args.runs]
    calls = [lambda m=m: m.predict_proba(pairs, batch_size=args.batch_size) for m in matchers]
    measuring.timed(calls)
    rounds, busy = measuring.busy_while(
        lambda: [measuring.timed(calls) for _ in range(args.repeats)]
    )
    first = 0.0
    for folder, times in zip(args.runs, zip(*rounds)):
        rate = len(pairs) / statistics.median(times)
        first = first or rate
        RESULTS.add(
            {
                **about(folder),
                "pairs": len(pairs),
                "backend": args.backend,
                "pairs_per_s": round(rate, 1),
                "times_the_first": round(rate / first, 2),
                "batch_size": args.batch_size,
                "cpus": measuring.cpus(),
                "others_cpu": round(busy, 2),
                "command": shlex.join(["python", *sys.argv]),
            }
        )


def table() -> tuple[list[str], list[list[str]]]:
    head = ["model", "vectors", "teacher", "data", "parameters", "without word vectors", "figure"]
    head += ["backend", "pairs/s", "× the first", "others' CPUs"]
    lines = []
    for row in RESULTS.rows():
        sizes = [f"{int(row[n]):,}" for n in ("parameters", "without_word_embeddings")]
        figure = f"{row['part']} {row['figure']} {float(row['value']):.3f}"
        line = [row["model"], row["vectors"], row["teacher"], row["trained_on"], *sizes, figure]
        line += [row["backend"], row["pairs_per_s"], row["times_the_first"], row["others_cpu"]]
        lines.append(line)
    return head, lines


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument("runs", nargs="*", type=Path, help="run folders")
    parser.add_argument("--data", help="folder of the data set whose pairs are answered")
    parser.add_argument("--pairs", type=int, default=1024, help="how many of them, at most")
    parser.add_argument("--backend", default="tensorflow", choices=measuring.BACKENDS)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    if not args.show:
        if not args.runs or not args.data:
            parser.error("name run folders and --data, or --show")
        measure(args)
    RESULTS.show(*table(), args.write)


if __name__ == "__main__":
    main()
