"""Time and peak memory of reading word vectors.

    python benchmarks/vectors.py [--words 400000] [--dim 300] [--keep 30000] [--seed 0]

Writes a GloVe-like text file into a temporary folder (distinct words; the numbers of 4096 random
rows, repeated) and reads it in a fresh process for each row of the table.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import measuring
import numpy as np

WAYS = {
    "all": "read_vectors, whole file",
    "some": "read_vectors, {keep:,} words",
    "some ": "the same again, from the cache",
    "naive": "dict of NumPy rows, then {keep:,} words",
}


def write_file(path: Path, words: int, dim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(0, 0.4, (min(words, 4096), dim))
    texts = [" ".join(f"{value:.5f}" for value in row) for row in rows]
    with open(path, "w", encoding="utf-8") as out:
        out.writelines(f"word{i} {texts[i % len(texts)]}\n" for i in range(words))


def subset(words: int, keep: int, seed: int) -> list[str]:
    chosen = np.random.default_rng(seed).choice(words, keep, replace=False)
    return [f"word{i}" for i in chosen]


def naive(path: Path, wanted: list[str]) -> np.ndarray:
    """As in tutorials: reads the whole file into a dict, then takes the rows of the vocabulary."""
    table = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            word, *values = line.split()
            table[word] = np.asarray(values, "float32")
    return np.stack([table[word] for word in wanted])


def measure(way: str, path: Path, wanted: list[str]) -> None:
    """Runs in the fresh process; prints one line of JSON."""
    from keras_sentmatch.vectors import read_vectors

    before = measuring.peak_mib()
    start, busy = time.perf_counter(), time.process_time()
    if way == "naive":
        matrix = naive(path, wanted)
    else:
        words = wanted if way == "some" else None
        matrix = read_vectors(path, words, cache_dir=path.parent, progress=False).matrix
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    peak = measuring.peak_mib()
    print(json.dumps((seconds, busy, peak, peak - before, matrix.nbytes / 2**20)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", type=int, default=400_000)
    parser.add_argument("--dim", type=int, default=300)
    parser.add_argument("--keep", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--measure", nargs=2, metavar=("WAY", "FILE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    wanted = subset(args.words, args.keep, args.seed)
    if args.measure:
        measure(args.measure[0], Path(args.measure[1]), wanted)
        return

    head = ["way", "seconds", "CPU seconds", "peak MiB", "grown by MiB", "matrix MiB"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.txt"
        write_file(path, args.words, args.dim, args.seed)
        lines = []
        for way, title in WAYS.items():
            options = [*sys.argv[1:], "--measure", way.strip(), path]
            numbers = measuring.run_child("", *options)
            lines.append([title.format(keep=args.keep), *(f"{n:,.1f}" for n in numbers)])
        size = path.stat().st_size / 2**20
    measuring.print_table(
        head, lines, f"{args.words:,} words × {args.dim}, file of {size:,.0f} MiB"
    )
    print(f"python {' '.join(sys.argv)}; {measuring.versions()}, {measuring.cpus()} CPUs")


if __name__ == "__main__":
    main()
