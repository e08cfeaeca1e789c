"""Rows per second and peak memory of `predict FILE`, with one process and with several.

    python benchmarks/streams.py --run runs/mine --rows 100000,1000000 --workers 1,2
    python benchmarks/streams.py --run runs/mine --data path/to/data --rows 100000
    python benchmarks/streams.py --show

The pairs are generated (seed 0), or those of quora/bimpm_dev.tsv in `--data`, from the start again
where they are too few. Peak memory is that of the largest process, and the sum of the peaks of all.
Each row is one command in a process of its own; sizes and workers take turns `--repeats` times, and
the median of the rates is shown. The time begins with the first answer that is written, so that
loading and compiling do not count; the column "seconds" is the whole command. `--engine ray` and
`--engine spark` run the recipes of docs/streams.md on the same pairs in Parquet files, with two
processes (`pip install "keras-sentmatch[ray]" pyspark`).
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


# The recipes of docs/streams.md; the answers in the order of the pairs.
ENGINES = {}  # a program each
ENGINES["ray"] = """
import sys

import pandas
import ray

from keras_sentmatch.inference import BatchScorer

run, pairs, out = sys.argv[1:]
ray.init(num_cpus=4, include_dashboard=False)
answers = ray.data.read_parquet(pairs).map_batches(
    BatchScorer,
    fn_constructor_args=(run,),
    compute=ray.data.ActorPoolStrategy(size=2),
    batch_size=4096,
)
answers.write_parquet(out + ".parquet")
frame = pandas.read_parquet(out + ".parquet").sort_values("id")
frame.to_csv(out, sep="\\t", index=False)
"""


ENGINES["spark"] = """
import sys

import pandas
from pyspark.sql import SparkSession

from keras_sentmatch import Matcher
from keras_sentmatch.inference import BatchScorer

run, pairs, out = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").getOrCreate()
frame = spark.read.parquet(pairs)
names = Matcher.load(run).label_names
schema = "id long, sentence1 string, sentence2 string, label string, " + ", ".join(
    f"probability_{name} float" for name in names
)
answers = frame.select("id", "sentence1", "sentence2").mapInPandas(
    BatchScorer(run).tables, schema=schema
)
answers.write.parquet("file://" + out + ".parquet")
frame = pandas.read_parquet(out + ".parquet").sort_values("id")
frame.to_csv(out, sep="\\t", index=False)
"""


def start_engine(name: str, args: Any, pairs: Path, out: Path) -> subprocess.Popen:
    """Ray or Spark, which answer a folder of Parquet files with two processes."""
    command = [sys.executable, "-c", ENGINES[name], str(args.run.resolve()), str(pairs), str(out)]
    # By default Ray's workers have a low priority: beside other programs they would starve.
    variables = {"PYSPARK_PYTHON": sys.executable, "RAY_worker_niceness": "0"}
    return subprocess.Popen(
        command,
        env=measuring.environment(args.backend) | variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def write_parts(pairs: Path, folder: Path) -> None:
    """The pairs in 20 Parquet files, so that Ray has parts to hand out."""
    import pandas

    frame = pandas.read_csv(pairs, sep="\t")
    folder.mkdir()
    for part in range(20):
        frame.iloc[part::20].to_parquet(folder / f"{part}.parquet", index=False)


def children_of(pid: int) -> list[int]:
    try:
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def measure(args: Any, pairs: Path, rows: int, workers: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as home:
        out = Path(home, "out.tsv")
        others = measuring.others_cpu()
        begin = time.monotonic()
        if args.engine in ENGINES:
            process = start_engine(args.engine, args, pairs.with_name("parts"), out)
        else:
            command = [*PREDICT, args.run, pairs, "--out", out, "--workers", workers]
            process = subprocess.Popen(
                [*map(str, command), "--engine", args.engine],
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
        figures: dict[str, Any] = {
            "rows_per_s": round(rows * share / (end - first), 1),
            "peak_mib": max(peaks.values()),
            "peaks_mib": sum(peaks.values()),
        }
        if args.engine in ENGINES:  # their processes are not seen, nor their first answer
            figures = dict.fromkeys(figures, "")
        return figures | {
            "seconds": round(end - begin, 1),
            "busy_cpus": round((measuring.others_cpu() - others) / (end - begin), 2),
            "cores": measuring.cpus(),
        }


def table(rows: list[dict[str, str]]) -> list[list[str]]:
    lines = []
    for key in dict.fromkeys(tuple(row[name] for name in KEY[:-1]) for row in rows):
        mine = [row for row in rows if tuple(row[name] for name in KEY[:-1]) == key]
        rates = [float(row["rows_per_s"]) for row in mine if row["rows_per_s"]]
        rate = f"{statistics.median(rates):,.0f}" if rates else "–"
        seconds = statistics.median(float(row["seconds"]) for row in mine)
        peaks = [
            max((row[name] for row in mine if row[name]), key=int, default="–")
            for name in ("peak_mib", "peaks_mib")
        ]
        lines.append([*key, str(len(mine)), rate, f"{seconds:.0f}", *peaks])
    return lines


def main() -> None:
    parser = measuring.parser(__doc__ or "")
    parser.add_argument("--run", type=Path, help="a run folder")
    parser.add_argument("--data", type=Path, help="folder with a folder for each data set")
    parser.add_argument("--rows", default="100000,1000000")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--engine", default="keras", help="keras, onnx, ray or spark")
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
                if args.engine in ENGINES:
                    write_parts(pairs, Path(home, "parts"))
                for repeat in range(args.repeats):
                    for workers in [2] if args.engine in ENGINES else args.workers.split(","):
                        values = args.backend, args.engine, args.run.name, data, rows, workers
                        key = dict(zip(KEY, (*values, repeat)))
                        if not results.has(key):
                            results.add(key | measure(args, pairs, rows, int(workers)))
    head = [*KEY[:-1], "runs", "rows per s", "seconds", "peak MiB", "all peaks MiB"]
    results.show(head, table(results.rows()), args.write)


if __name__ == "__main__":
    main()
