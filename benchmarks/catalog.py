"""One query against a catalog on disk: `Index.build`, and the time of each `Index.rank`.

    python benchmarks/catalog.py --data path/to/data --run runs/quora --sizes 20000,1000000

The catalog holds the questions of quora/bimpm_dev.tsv and sentences made from them, as in `mine.py`.
Each question of `--queries` labeled duplicates (seed 0) is ranked; its duplicate is in the catalog.
A row gives the time of the retrievers and of the whole query (median and 95th percentile), and the
share of the duplicates among the first 10. Building and querying run in separate processes; peak
memory includes the pages of the index that were read. One row for each size, engine and number of
candidates; existing rows are not run again.
"""

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import measuring
import numpy as np
from mine import questions

KEY = ("backend", "engine", "sentences", "candidates")
FIRST = 10


def build(args: Any) -> dict[str, Any]:
    """Build the index. Returns seconds, peak memory and size on disk."""
    from keras_sentmatch.corpus import Index

    sentences, _ = questions(args.data / "quora" / "bimpm_dev.tsv", args.size)
    start = time.perf_counter()
    Index.build(sentences, args.index)
    seconds = time.perf_counter() - start
    files = [path for path in args.index.rglob("*") if path.is_file()]
    return {
        "build_s": round(seconds, 1),
        "build_peak_mib": measuring.peak_mib(),
        "disk_mib": round(sum(path.stat().st_size for path in files) / 2**20),
    }


def ask(args: Any) -> dict[str, Any]:
    """Rank every query. Returns milliseconds and the share of duplicates found."""
    from keras_sentmatch import load
    from keras_sentmatch.corpus import Index

    sentences, labels = questions(args.data / "quora" / "bimpm_dev.tsv", args.size)
    duplicates = [pair for pair, label in labels.items() if label]
    chosen = np.random.default_rng(0).permutation(len(duplicates))[: args.queries]
    queries = [(sentences[i], j) for i, j in (duplicates[n] for n in chosen)]
    del sentences
    matcher = load(args.run, engine=args.engine)
    start = time.perf_counter()
    index = Index(args.index, matcher)
    opened = time.perf_counter() - start
    for query, _ in queries[:10]:  # warm up
        index.rank(query, candidates=args.candidates)

    times: list[tuple[float, float]] = []
    hits = [0, 0]

    def ask_all() -> None:
        for query, duplicate in queries:
            begin = time.perf_counter()
            found = index.candidates(query, args.candidates)
            middle = time.perf_counter()
            # The query itself is in the catalog and comes first.
            best = index.rank(query, top_k=FIRST + 1, candidates=args.candidates)
            times.append((middle - begin, time.perf_counter() - middle))
            hits[0] += duplicate in found
            hits[1] += duplicate in [one["index"] for one in best]

    _, others = measuring.busy_while(ask_all)
    stages = {}
    for name, values in zip(("retrieve", "rank"), zip(*times)):
        for share in (50, 95):
            stages[f"{name}_p{share}_ms"] = round(1000 * float(np.percentile(values, share)), 1)
    return {
        "open_s": round(opened, 2),
        "queries": len(queries),
        **stages,
        "duplicate_retrieved": round(hits[0] / len(queries), 3),
        f"duplicate_in_first_{FIRST}": round(hits[1] / len(queries), 3),
        "peak_mib": measuring.peak_mib(),
        "others_cpus": round(others, 2),
        "cores": measuring.cpus(),
    }


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with a folder for each data set"
    )
    parser.add_argument(
        "--run", required=True, help="a run that tells duplicates, not trained on the catalog"
    )
    parser.add_argument("--sizes", default="20000,1000000")
    parser.add_argument("--engines", default="keras")
    parser.add_argument(
        "--candidates", default="100", help="that the matcher scores for each query"
    )
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--backend", default="torch", choices=measuring.BACKENDS)
    parser.add_argument("--out", type=Path, help="a CSV file (results/catalog.csv)")
    parser.add_argument("--child", choices=["build", "ask"], help=measuring.argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=measuring.argparse.SUPPRESS)
    parser.add_argument("--engine", help=measuring.argparse.SUPPRESS)
    parser.add_argument("--index", type=Path, help=measuring.argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        args.candidates = int(args.candidates)
        print(json.dumps(build(args) if args.child == "build" else ask(args)))
        return
    results = measuring.Results(args.out or "catalog")
    for size in args.sizes.split(","):
        wanted = [(e, c) for e in args.engines.split(",") for c in args.candidates.split(",")]
        keys = [dict(zip(KEY, (args.backend, engine, size, n))) for engine, n in wanted]
        if not (keys := [key for key in keys if not results.has(key)]):
            continue
        with tempfile.TemporaryDirectory() as home:
            given = ["--data", args.data, "--run", args.run, "--size", size]
            given += ["--index", Path(home, "index"), "--queries", args.queries]
            built = measuring.run_child(args.backend, "--child", "build", *given)
            for key in keys:
                options = ["--engine", key["engine"], "--candidates", key["candidates"]]
                found = measuring.run_child(args.backend, "--child", "ask", *given, *options)
                results.add(key | built | found)


if __name__ == "__main__":
    main()
