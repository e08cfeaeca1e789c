"""Rows per second and peak memory of `predict FILE`, with one process and with several.

    python benchmarks/streams.py --run runs/mine --rows 100000,1000000 --workers 1,2
    python benchmarks/streams.py --run runs/mine --data path/to/data --rows 100000
    python benchmarks/streams.py --show

The pairs are generated (seed 0), or those of quora/bimpm_dev.tsv in `--data`, from the start again
where they are too few. Peak memory is that of the largest process, and the sum of the peaks of all.
Each row is one command in a process of its own; sizes and workers take turns `--repeats` times, and
the median of the rates is shown. The time begins with the first answer that is written, so that
loading and compiling do not count.
"""

import statistics
import subprocess
import sys
import tempfile
import threading
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import measuring

PREDICT = [sys.executable, "-c", "from keras_sentmatch.cli import main; main()", "predict"]
KEY = ("backend", "engine", "run", "data", "rows", "workers", "repeat")


def write_pairs(path: Path, rows: int, data: Path | None) -> None:
    """A TSV file of pairs."""
    from keras_sentmatch.data import natural_logic_pairs, read_pairs

    if data is None:
        pairs = natural_logic_pairs(min(rows, 200_000), seed=0)
    else:
        pairs = read_pairs(data / "quora" / "bimpm_dev.tsv", on_error="skip")
    sides = zip(pairs.sentence1, pairs.sentence2)
    with path.open("w", encoding="utf-8") as file:
        file.write("id\tsentence1\tsentence2\n")
        for number, sentences in enumerate(islice(cycle(sides), rows)):
            one, two = (" ".join(text.split()) for text in sentences)
            file.write(f"{number}\t{one}\t{two}\n")


def peaks_of(process: subprocess.Popen, found: dict[int, int]) -> None:
    """Notes the peak memory of a process and of its children, in MiB, as long as it runs."""
    while process.poll() is None:
        for pid in (process.pid, *children_of(process.pid)):
            try:
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            peak = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
            if peak:
                found[pid] = int(peak[0]) // 1024
        time.sleep(0.2)


def children_of(pid: int) -> list[int]:
    try:
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def measure(args: Any, pairs: Path, rows: int, workers: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as home:
        out = Path(home, "out.tsv")
        command = [*PREDICT, args.run, pairs, "--out", out, "--workers", workers]
        command += ["--engine", args.engine]
        others = measuring.others_cpu()
        begin = time.monotonic()
        process = subprocess.Popen(
            list(map(str, command)),
            env=measuring.environment(args.backend),
            stderr=subprocess.DEVNULL,
        )
        peaks: dict[int, int] = {}
        watch = threading.Thread(target=peaks_of, args=(process, peaks))
        watch.start()
        partial = Path(home, "out.tsv.partial")
        while process.poll() is None and not (partial.exists() and partial.stat().st_size):
            time.sleep(0.01)
        first = time.monotonic()
        written = partial.stat().st_size if partial.exists() else 0
        if process.wait() != 0:
            raise SystemExit(f"predict ended with {process.returncode}")
        end = time.monotonic()
        watch.join()
        share = 1 - written / out.stat().st_size
        return {
            "rows_per_s": round(rows * share / (end - first), 1),
            "seconds": round(end - begin, 1),
            "peak_mib": max(peaks.values()),
            "peaks_mib": sum(peaks.values()),
            "busy_cpus": round((measuring.others_cpu() - others) / (end - begin), 2),
            "cores": measuring.cpus(),
        }


def table(rows: list[dict[str, str]]) -> list[list[str]]:
    lines = []
    for key in dict.fromkeys(tuple(row[name] for name in KEY[:-1]) for row in rows):
        mine = [row for row in rows if tuple(row[name] for name in KEY[:-1]) == key]
        rate = statistics.median(float(row["rows_per_s"]) for row in mine)
        peaks = [str(max(int(row[name]) for row in mine)) for name in ("peak_mib", "peaks_mib")]
        lines.append([*key, str(len(mine)), f"{rate:,.0f}", *peaks])
    return lines


def main() -> None:
    parser = measuring.parser(__doc__ or "")
    parser.add_argument("--run", type=Path, help="a run folder")
    parser.add_argument("--data", type=Path, help="folder with a folder for each data set")
    parser.add_argument("--rows", default="100000,1000000")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--engine", default="keras")
    parser.add_argument("--backend", default="torch", choices=measuring.BACKENDS)
    parser.add_argument("--out", type=Path, help="a CSV file (results/streams.csv)")
    args = parser.parse_args()
    results = measuring.Results(args.out or "streams")
    if not args.show:
        if args.run is None:
            parser.error("--run is needed to measure anything")
        data = "quora" if args.data else "generated"
        for rows in map(int, args.rows.split(",")):
            with tempfile.TemporaryDirectory() as home:
                pairs = Path(home, "pairs.tsv")
                write_pairs(pairs, rows, args.data)
                for repeat in range(args.repeats):
                    for workers in map(int, args.workers.split(",")):
                        values = args.backend, args.engine, args.run.name, data, rows, workers
                        key = dict(zip(KEY, (*values, repeat)))
                        if not results.has(key):
                            results.add(key | measure(args, pairs, rows, workers))
    head = [*KEY[:-1], "runs", "rows per s", "peak MiB", "all peaks MiB"]
    results.show(head, table(results.rows()), args.write)


if __name__ == "__main__":
    main()
