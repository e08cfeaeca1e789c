"""Time and peak memory of reading word vectors.

    python benchmarks/vectors.py [--words 400000] [--dim 300] [--keep 30000] [--seed 0]

Writes a GloVe-like text file into a temporary folder (distinct words; the numbers of 4096 seeded
rows, repeated) and reads it in a fresh process for each row of the table, so each peak is its own.
"""

import argparse
import json
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

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
    """What tutorials do: the whole file into a dict, then the rows of the vocabulary."""
    table = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            word, *values = line.split()
            table[word] = np.asarray(values, "float32")
    return np.stack([table[word] for word in wanted])


def peak_memory() -> int:
    """KiB. Linux hands the parent's ru_maxrss down to a new process; VmHWM starts anew."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(way: str, path: Path, wanted: list[str]) -> None:
    """Runs in the fresh process; prints one line of JSON."""
    from keras_sentmatch.data import read_vectors

    before = peak_memory()
    start, busy = time.perf_counter(), time.process_time()
    if way == "naive":
        matrix = naive(path, wanted)
    else:
        words = wanted if way == "some" else None
        matrix = read_vectors(path, words, cache_dir=path.parent, progress=False).matrix
    seconds = time.perf_counter() - start
    busy, peak = time.process_time() - busy, peak_memory()
    numbers = (seconds, busy, peak / 1024, (peak - before) / 1024, matrix.nbytes / 2**20)
    print(json.dumps(numbers))


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

    from rich.console import Console
    from rich.table import Table

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.txt"
        write_file(path, args.words, args.dim, args.seed)
        size = path.stat().st_size / 2**20
        table = Table(title=f"{args.words:,} words × {args.dim}, file of {size:,.0f} MiB")
        for heading in (
            "way",
            "seconds",
            "CPU seconds",
            "peak MiB",
            "grown by MiB",
            "kept matrix MiB",
        ):
            table.add_column(heading, justify="left" if heading == "way" else "right")
        for way, title in WAYS.items():
            command = [sys.executable, __file__, *sys.argv[1:], "--measure", way.strip(), str(path)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            numbers = json.loads(done.stdout)
            table.add_row(title.format(keep=args.keep), *(f"{number:,.1f}" for number in numbers))
    console = Console()
    console.print(table)
    console.print(
        f"python {' '.join(sys.argv)}; Python {platform.python_version()}, NumPy "
        f"{np.__version__}, keras-sentmatch {version('keras-sentmatch')}, "
        f"{platform.machine()}, {os.cpu_count()} cores",
        soft_wrap=True,
        highlight=False,
    )


if __name__ == "__main__":
    main()
