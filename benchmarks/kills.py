"""Kills a small training run at random moments, resumes it, and compares it with an undisturbed run.

    python benchmarks/kills.py --kills 34
    python benchmarks/kills.py --show --write docs/results.md

A child process trains a tiny ESIM on generated pairs. It is killed (SIGKILL) and started again with
`resume`, up to five times, and then finishes. Half of the kills come at a random moment of the time
that `train` takes, half within 30 ms after a file of a checkpoint or of the best weights was begun.
The results are compared by the SHA-256 of the weights, of `history.csv` and of `metrics.json`
without its seconds. A row is one run; rows are added until each backend has `--kills` kills.
"""

import argparse
import csv
import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import measuring

RESULTS = measuring.Results("kills")
EPOCHS, PAIRS, MOST = 6, 512, 5
OVERRIDES = [
    "model.units=4",
    "vectors.dim=8",
    "encoder.max_length=8",
    f"training.epochs={EPOCHS}",
    "training.batch_size=32",
    "training.learning_rate=0.003",
    "training.patience=3",
    "training.plateau_factor=0.5",
]


def child(folder: Path) -> None:
    """The run that is killed: starts, or resumes."""
    from keras_sentmatch.data import natural_logic_pairs
    from keras_sentmatch.training import load_recipe, train
    from keras_sentmatch.training.resume import finished_metrics

    if finished_metrics(folder):
        return  # it was killed between its end and its exit
    splits = {
        part: natural_logic_pairs(rows, seed=0, split=part)
        for part, rows in (("train", PAIRS), ("validation", 128))
    }
    recipe = load_recipe("esim", "embedded", overrides=OVERRIDES)
    print("started", flush=True)
    train(recipe, splits, folder, resume=True, progress=False, baseline=False)


def digest_of(folder: Path) -> str:
    """A digest of a finished run."""
    import h5py

    digest = hashlib.sha256()
    with zipfile.ZipFile(folder / "model.keras") as archive:
        with archive.open("model.weights.h5") as member, h5py.File(member, "r") as weights:

            def add(name: str, item: object) -> None:
                if isinstance(item, h5py.Dataset):
                    digest.update(name.encode() + str(item.dtype).encode() + item[()].tobytes())

            weights.visititems(add)
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    plain = {k: v for k, v in metrics.items() if not k.endswith("seconds")}
    digest.update(json.dumps(plain, sort_keys=True).encode())
    digest.update((folder / "history.csv").read_bytes())
    left = [p.name for p in folder.iterdir() if p.name.startswith(("resume-", "best-", ".resume"))]
    return digest.hexdigest() + "".join(left)


def start(folder: Path, backend: str) -> subprocess.Popen:
    command = [sys.executable, __file__, "--child", str(folder)]
    return subprocess.Popen(command, env=measuring.environment(backend), stdout=subprocess.PIPE)


def wait_for_start(process: subprocess.Popen) -> None:
    """Waits until everything is imported and `train` is called."""
    assert process.stdout is not None
    process.stdout.readline()


def finish(process: subprocess.Popen) -> None:
    if process.wait() != 0:
        raise SystemExit(f"the run ended with {process.returncode}")


def files(folder: Path) -> set[str]:
    """The names of the files whose writing a kill may hit."""
    names = (path.name for path in (folder.glob("*") if folder.is_dir() else ()))
    return {name for name in names if name.startswith((".resume", "best-"))}


def wait_and_kill(
    process: subprocess.Popen, folder: Path, seconds: float, rng: random.Random
) -> bool:
    """Kills at a random moment; False if the run ended before."""
    if rng.random() < 0.5:
        wait_for_start(process)
        stop = time.monotonic() + rng.uniform(0, seconds)
        while process.poll() is None and time.monotonic() < stop:
            time.sleep(0.01)
    else:
        for _ in range(rng.randint(1, 6)):
            before = now = files(folder)
            while process.poll() is None and now <= before:  # until one appears
                time.sleep(0.0005)
                before, now = now, files(folder)
        time.sleep(rng.uniform(0, 0.03))
    if process.poll() is not None:
        finish(process)
        return False
    process.send_signal(signal.SIGKILL)
    process.wait()
    return True


def epochs_done(folder: Path) -> int:
    path = folder / "history.csv"
    if not path.exists():
        return 0
    with path.open(newline="", encoding="utf-8") as file:
        return max(len(list(csv.reader(file))) - 1, 0)


def run_all(args: argparse.Namespace) -> None:
    for backend in args.backends.split(","):
        done = [row for row in RESULTS.rows() if row["backend"] == backend]
        kills = sum(int(row["kills"]) for row in done)
        if kills >= args.kills:
            continue
        rng = random.Random(f"{backend} {len(done)}")
        with tempfile.TemporaryDirectory() as home:
            process = start(Path(home, "whole"), backend)
            wait_for_start(process)
            training = time.monotonic()
            finish(process)
            seconds = time.monotonic() - training
            whole = digest_of(Path(home, "whole"))
            while kills < args.kills:
                folder = Path(home, "killed")
                moments: list[int] = []
                for _ in range(min(MOST, args.kills - kills)):
                    process = start(folder, backend)
                    if not wait_and_kill(process, folder, seconds, rng):
                        break
                    moments.append(epochs_done(folder))
                else:
                    finish(start(folder, backend))
                if not moments:  # it ended before its first kill
                    shutil.rmtree(folder)
                    continue
                row = {
                    "backend": backend,
                    "kills": len(moments),
                    "epochs_done_at_kills": " ".join(map(str, moments)),
                    "equal": digest_of(folder) == whole,
                    "seconds_undisturbed": round(seconds, 1),
                }
                RESULTS.add(row)
                kills += len(moments)
                shutil.rmtree(folder)


def table() -> tuple[list[str], list[list[str]]]:
    rows, lines = RESULTS.rows(), []
    for backend in dict.fromkeys(row["backend"] for row in rows):
        mine = [row for row in rows if row["backend"] == backend]
        kills = sum(int(row["kills"]) for row in mine)
        equal = sum(row["equal"] == "True" for row in mine)
        moments = [int(n) for row in mine for n in row["epochs_done_at_kills"].split()]
        share = [str(moments.count(n)) for n in range(EPOCHS + 1)]
        lines.append([backend, str(kills), str(len(mine)), str(equal), " ".join(share)])
    return ["backend", "kills", "runs", "equal ends", f"kills after 0 … {EPOCHS} epochs"], lines


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument("--backends", default="torch,jax,tensorflow")
    parser.add_argument(
        "--kills", type=int, default=34, help="of each backend, with the existing rows"
    )
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child)
        return
    if not args.show:
        run_all(args)
    RESULTS.show(*table(), args.write)


if __name__ == "__main__":
    main()
