"""Pairs a second through the encoder: the Python road, and the TensorFlow graph in `tf.data`.

    python benchmarks/encoding.py --pairs 100000 --batch-size 256

The sentences are synthetic, seeded: about 12 words each, of 30,000 with natural frequencies.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from keras_sentmatch.data import PairEncoder


def sentences(count: int, words: list[str], rng: np.random.Generator) -> list[str]:
    """Makes sentences whose words follow Zipf's law; one in ten holds a contraction or a comma."""
    ranks = np.arange(1, len(words) + 1)
    weights = (1 / ranks) / (1 / ranks).sum()
    lengths = np.clip(rng.poisson(12, count), 3, 40)
    drawn = iter(rng.choice(len(words), lengths.sum(), p=weights).tolist())
    out = []
    for length, kind in zip(lengths.tolist(), rng.integers(0, 10, count).tolist()):
        sentence = [words[next(drawn)] for _ in range(length)]
        if kind == 0:
            sentence[1] = "isn't," if length % 2 else sentence[1] + ","
        out.append(" ".join(sentence).capitalize() + ".")
    return out


def measure(name: str, features: tuple[str, ...], work: Callable[[], int], pairs: int) -> dict:
    """Runs `work` once and returns its row of the table."""
    start, cpu = time.perf_counter(), time.process_time()
    done = work()
    if done != pairs:
        raise RuntimeError(f"{name}: {done} pairs came out, {pairs} went in")
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    row = {
        "road": name,
        "features": "+".join(features),
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
    }
    return {**row, "pairs_per_second": round(pairs / seconds)}


def main() -> None:
    """Measures both roads and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--vocabulary", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--python-only", action="store_true", help="leave TensorFlow out")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    args = parser.parse_args()

    rng = np.random.default_rng(args.seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    words = sorted(
        {"".join(rng.choice(letters, n)) for n in rng.integers(2, 11, 2 * args.vocabulary)},
        key=len,
    )[: args.vocabulary]
    first, second = sentences(args.pairs, words, rng), sentences(args.pairs, words, rng)
    starts = range(0, args.pairs, args.batch_size)

    rows = []
    for features in (("word",), ("word", "char")):
        encoder = PairEncoder(words, features=features)

        def python_once(encoder: PairEncoder = encoder) -> int:
            return len(encoder.encode_pairs(first, second))

        def python_batches(encoder: PairEncoder = encoder) -> int:
            done = 0
            for i in starts:
                batch = encoder.encode(
                    first[i : i + args.batch_size], second[i : i + args.batch_size]
                )
                done += len(batch["word_ids_1"])
            return done

        rows.append(
            measure("Python, data set at once (unpadded)", features, python_once, args.pairs)
        )
        rows.append(measure("Python, batches (padded)", features, python_batches, args.pairs))
        if not args.python_only:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
            import tensorflow as tf

            data = tf.data.Dataset.from_tensor_slices((first, second)).batch(args.batch_size)
            data = data.map(encoder.tf_encode, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)

            def graph(data: tf.data.Dataset = data) -> int:
                return sum(len(batch["word_ids_1"]) for batch in data)

            rows.append(measure("TensorFlow, tf.data map", features, graph, args.pairs))

    versions = [f"python {platform.python_version()}"]
    for package in ("keras-sentmatch", "numpy", "tensorflow"):
        if package != "tensorflow" or not args.python_only:
            versions.append(f"{package} {importlib.metadata.version(package)}")
    title = f"{args.pairs:,} pairs, seed {args.seed}, {os.cpu_count()} CPUs; {', '.join(versions)}"
    table = Table(title=title, caption=f"python {shlex.join(sys.argv)}")
    for name in ("road", "features", "seconds", "CPU s", "pairs/s"):
        table.add_column(name, justify="left" if name in ("road", "features") else "right")
    for row in rows:
        times = (f"{row['seconds']:.2f}", f"{row['cpu_seconds']:.2f}")
        table.add_row(row["road"], row["features"], *times, f"{row['pairs_per_second']:,}")
    Console(width=100).print(table)
    if args.json:
        command = shlex.join(["python", *sys.argv])
        text = json.dumps({"command": command, "versions": versions, "rows": rows}, indent=1)
        args.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
