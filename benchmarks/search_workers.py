"""Wall time of a search with one worker, with two, and with two of which one is killed in a trial.

    python benchmarks/search_workers.py
    python benchmarks/search_workers.py --data path/to/sick --backend jax
    python benchmarks/search_workers.py --show --write docs/results.md

The search draws `--trials` random configurations of a small ESIM (hidden units, dropout, learning
rate), with the same seed each time; each worker has one thread. The kill (SIGKILL) comes as soon as
a trial has its first checkpoint. A row is one search, timed from the call of `search` to its end,
including the start of the workers; existing ones are not run again.
"""

import argparse
import json
import multiprocessing
import shlex
import tempfile
import threading
import time
from pathlib import Path

import measuring

RESULTS = measuring.Results("search_workers")
RUNS = ((1, False), (2, False), (2, True))  # workers, and whether one is killed
THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
KEY = ("backend", "data", "train_pairs", "epochs", "trials", "workers", "killed")


def kill_one(folder: Path) -> None:
    """Kills a worker when a trial has a checkpoint."""
    while not list(folder.glob("trials/*/resume-*.npz")):
        time.sleep(0.02)
    multiprocessing.active_children()[0].kill()


def child(args: argparse.Namespace, workers: int, killed: bool) -> None:
    """Runs one search, in a child process; prints its results as JSON."""
    from keras_sentmatch.data import load_pairs, natural_logic_pairs
    from keras_sentmatch.training import load_recipe
    from keras_sentmatch.tuning import Choice, LogUniform, Space, search

    if args.data == "generated":
        pairs = {
            "train": natural_logic_pairs(args.pairs, seed=0),
            "validation": natural_logic_pairs(args.pairs // 4, seed=0, split="validation"),
        }
    else:
        pairs = load_pairs(args.data)
        pairs["train"] = pairs["train"].limit(args.pairs)
    overrides = ["model.units=16", "model.dropout=0.3", "vectors.dim=16", "encoder.max_length=32"]
    overrides += [f"training.{key}={args.epochs}" for key in ("epochs", "patience")]
    recipe = load_recipe("esim", overrides=overrides)
    parameters = [
        Choice("model.units", (8, 16, 24)),
        Choice("model.dropout", (0.1, 0.3, 0.5)),
        LogUniform("training.learning_rate"),
    ]
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home, "search")
        if killed:
            threading.Thread(target=kill_one, args=[folder], daemon=True).start()
        start = time.monotonic()
        found = search(
            recipe,
            pairs,
            folder,
            space=Space(recipe, parameters),
            tuner="random",
            trials=args.trials,
            seed=0,
            retrain=0,
            workers=workers,
        )
        seconds = time.monotonic() - start
    figures = {
        "seconds": round(seconds, 1),
        "finished": sum(row["status"] == "completed" for row in found.trials),
        "requeued": sum(row["requeued"] for row in found.trials),
        "best": round(found.score, 4),
    }
    print(json.dumps(figures))


def run_all(args: argparse.Namespace) -> None:
    public = {"--data": Path(args.data).name, "--pairs": args.pairs, "--epochs": args.epochs}
    public |= {"--trials": args.trials, "--backend": args.backend}
    options = [str(part) for option in public.items() for part in option]
    for workers, killed in RUNS:
        values = (args.backend, public["--data"], args.pairs, args.epochs, args.trials)
        key = dict(zip(KEY, (*values, workers, killed)))
        if RESULTS.has(key):
            continue
        hidden = ["--data", args.data, "--child", workers, killed]
        threads = dict.fromkeys(THREADS, "1")
        found = measuring.run_child(args.backend, *options, *hidden, **threads)
        command = shlex.join(["python", "benchmarks/search_workers.py", *options])
        RESULTS.add({**key, **found, "cpus": measuring.cpus(), "command": command})


def table() -> tuple[list[str], list[list[str]]]:
    rows, lines = RESULTS.rows(), []
    for row in rows:
        of_one = {**{name: row[name] for name in KEY}, "workers": "1", "killed": "False"}
        one = next((r for r in rows if of_one.items() <= r.items()), None)
        ratio = f"{float(one['seconds']) / float(row['seconds']):.2f}" if one else ""
        killed = "one" if row["killed"] == "True" else "none"
        shown = [row[n] for n in ("backend", "data", "train_pairs", "cpus", "workers")]
        finished = f"{row['finished']} of {row['trials']}"
        lines.append(
            [*shown, killed, row["seconds"], ratio, finished, row["requeued"], row["best"]]
        )
    head = "backend,data,train pairs,CPUs,workers,killed,seconds,times as fast as one,finished,requeued"
    return [*head.split(","), "best accuracy"], lines


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument("--data", default="generated", help="as for `load_pairs`")
    parser.add_argument("--pairs", type=int, default=2000, help="most training pairs")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--backend", default="torch", choices=measuring.BACKENDS)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args, int(args.child[0]), args.child[1] == "True")
        return
    if not args.show:
        run_all(args)
    RESULTS.show(*table(), args.write)


if __name__ == "__main__":
    main()
