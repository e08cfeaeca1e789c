"""Kills searches at random moments, resumes them, and compares them with undisturbed searches.

    python benchmarks/search_kills.py
    python benchmarks/search_kills.py --show --write docs/results.md

For each tuner a child process searches hidden units, dropout and learning rate of a tiny ESIM on
generated pairs. It is killed (SIGKILL) and started again with `resume`, `--kills` times: first at a
random moment of the first quarter of the time that the undisturbed search took, then as long after
one trial was finished, after two, and so on. Then it finishes. It compares the number of trials,
their configurations and their scores, and checks that no trial that was finished at a kill was
written again. A row is one search; existing ones are not run again. The undisturbed searches of two
backends show whether they draw the same configurations.
"""

import argparse
import csv
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import measuring

RESULTS = measuring.Results("search_kills")
TUNERS = ("random", "bayesian", "hyperband", "grid")


def child(folder: Path, tuner: str) -> None:
    """The search that is killed: starts, or resumes."""
    from keras_sentmatch.data import natural_logic_pairs
    from keras_sentmatch.training import load_recipe
    from keras_sentmatch.tuning import Choice, LogUniform, Space, search

    pairs = {
        part: natural_logic_pairs(count, seed=0, split=part)
        for part, count in (("train", 384), ("validation", 128))
    }
    overrides = ["model.units=6", "model.dropout=0.1", "vectors.dim=8", "encoder.max_length=8"]
    overrides += ["training.epochs=3", "training.patience=3", "training.batch_size=32"]
    recipe = load_recipe("esim", overrides=overrides)
    parameters = [Choice("model.units", (4, 6)), Choice("model.dropout", (0.1, 0.3))]
    if tuner != "grid":
        parameters.append(LogUniform("training.learning_rate"))
    print("started", flush=True)
    search(
        recipe,
        pairs,
        folder,
        space=Space(recipe, parameters),
        tuner=tuner,
        trials=None if tuner in ("grid", "hyperband") else 5,
        seed=0,
        retrain=0,
        resume=(folder / "search.json").exists(),
        progress=False,
    )


def start(folder: Path, tuner: str, backend: str) -> subprocess.Popen:
    command = [sys.executable, __file__, "--child", str(folder), tuner]
    process = subprocess.Popen(command, env=measuring.environment(backend), stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def finish(process: subprocess.Popen) -> None:
    if process.wait() != 0:
        raise SystemExit(f"the search ended with {process.returncode}")


def trials(folder: Path) -> dict[str, dict[str, str]]:
    """The rows of finished trials by name, without what depends on the clock."""
    path = folder / "trials.csv"
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["status"] == "completed"]
    return {
        row["trial"]: {k: v for k, v in row.items() if "second" not in k and k != "requeued"}
        for row in rows
    }


def written(folder: Path, names: dict) -> dict[str, int]:
    """When the metrics of trials were written."""
    return {n: (folder / "trials" / n / "metrics.json").stat().st_mtime_ns for n in names}


def drawn(found: dict[str, dict[str, str]]) -> str:
    """The configurations that were tried, as JSON."""
    keys = [k for k in next(iter(found.values())) if "." in k]
    return json.dumps([[row[k] for k in keys] for row in found.values()])


def run_all(args: argparse.Namespace) -> None:
    for backend in args.backends.split(","):
        for tuner in TUNERS:
            key = {"backend": backend, "tuner": tuner, "kills": str(args.kills)}
            if RESULTS.has(key):
                continue
            with tempfile.TemporaryDirectory() as home:
                process = start(Path(home, "whole"), tuner, backend)
                begun = time.monotonic()
                finish(process)
                seconds = time.monotonic() - begun
                whole = trials(Path(home, "whole"))
                folder, rng = Path(home, "killed"), random.Random(f"{backend} {tuner}")
                moments, again, kills = [], 0, 0
                while kills < args.kills:
                    process = start(folder, tuner, backend)
                    while process.poll() is None and len(trials(folder)) < kills:
                        time.sleep(0.05)
                    time.sleep(rng.uniform(0, seconds / 4))
                    if process.poll() is not None:  # it ended before the kill
                        finish(process)
                        break
                    process.kill()
                    process.wait()
                    kills += 1
                    there = trials(folder)
                    moments.append((there, written(folder, there)))
                else:
                    finish(start(folder, tuner, backend))
                end = trials(folder)
                for there, times in moments:
                    now = written(folder, there)
                    again += sum(times[n] != now[n] for n in there)
            row = {
                **key,
                "killed": kills,
                "finished_at_kills": " ".join(str(len(there)) for there, _ in moments),
                "trials": len(end),
                "trials_undisturbed": len(whole),
                "equal": end == whole,
                "trained_again": again,
                "seconds_undisturbed": round(seconds, 1),
                "configurations": drawn(whole),
            }
            RESULTS.add(row)


def table() -> tuple[list[str], list[list[str]]]:
    rows = sorted(RESULTS.rows(), key=lambda row: TUNERS.index(row["tuner"]))
    lines = []
    for row in rows:
        first = next(other for other in rows if other["tuner"] == row["tuner"])
        same = "" if first is row else "yes" if alike(first, row) else "no"
        shown = ("backend", "tuner", "killed", "finished_at_kills", "trials")
        more = ("trials_undisturbed", "equal", "trained_again")
        lines.append([row[name] for name in (*shown, *more)] + [same])
    head = "backend,tuner,kills,finished trials at each,trials,trials undisturbed,all rows equal"
    return [*head.split(","), "finished trials trained again", "configurations as above"], lines


def alike(one: dict[str, str], other: dict[str, str]) -> bool:
    return one["configurations"] == other["configurations"]


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument("--backends", default="torch,jax")
    parser.add_argument("--kills", type=int, default=3, help="of each search")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(Path(args.child[0]), args.child[1])
        return
    if not args.show:
        run_all(args)
    RESULTS.show(*table(), args.write)


if __name__ == "__main__":
    main()
