"""Kills `predict FILE` at random moments, goes on with --resume, and compares with an undisturbed run.

    python benchmarks/stream_kills.py --run runs/mine --rows 200000 --kills 20 --worker-kills 10 --ray-kills 10
    python benchmarks/stream_kills.py --show

Each of the kills is of a run of its own: SIGKILL comes at a random moment between the start and the
time that the undisturbed run took, then the command goes on with `--resume`. The outputs are compared
byte by byte. A kill of a worker hits one of the processes of `--workers 2`, and the command goes on
by itself; its output is compared with that of an undisturbed run with as many workers. Ray's workers
(`pip install "keras-sentmatch[ray]"`) score the pairs in the same way from a Parquet file, in two
processes, one of which is killed; the answers are compared in the order of the pairs. The pairs are
generated (seed 0). A row is one run.
"""

import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import measuring
from streams import PREDICT, children_of, start_engine, write_pairs, write_parts


def start(args: Any, pairs: Path, out: Path, *options: Any) -> subprocess.Popen:
    command = [*PREDICT, args.run, pairs, "--out", out]
    return subprocess.Popen(
        list(map(str, [*command, *options])),
        env=measuring.environment(args.backend),
        stderr=subprocess.DEVNULL,
    )


def finish(process: subprocess.Popen) -> None:
    if process.wait() != 0:
        raise SystemExit(f"predict ended with {process.returncode}")


def kill_whole(args: Any, pairs: Path, home: Path, seconds: float, rng: random.Random) -> int:
    """Kills a run and lets it go on; how many bytes of answers there were at the kill."""
    out = home / "out.tsv"
    process = start(args, pairs, out)
    time.sleep(rng.uniform(0, seconds))
    process.send_signal(signal.SIGKILL)
    process.wait()
    partial = home / "out.tsv.partial"
    size = partial.stat().st_size if partial.exists() else 0
    if not out.exists():
        finish(start(args, pairs, out, "--resume"))
    return size


def start_workers(args: Any, pairs: Path, out: Path) -> subprocess.Popen:
    return start(args, pairs, out, "--workers", 2)


def kill_one(
    process: subprocess.Popen,
    workers_of: Callable[[int], list[int]],
    answers: Callable[[], Iterable[Path]],
    seconds: float,
    rng: random.Random,
) -> int | None:
    """Kills a worker of a run; how many bytes of answers there were, None if it ended before."""
    time.sleep(rng.uniform(0, seconds))
    workers: list[int] = []
    while process.poll() is None and not workers:
        workers = workers_of(process.pid)
        time.sleep(0.01)
    size = sum(path.stat().st_size for path in answers())
    if workers:
        subprocess.run(["kill", "-9", str(rng.choice(workers))], check=False)
    finish(process)
    return size if workers else None


def kill_worker(
    args: Any, pairs: Path, home: Path, seconds: float, rng: random.Random
) -> int | None:
    def workers_of(pid: int) -> list[int]:  # multiprocessing's own helper comes first
        return [child for child in children_of(pid) if b"spawn_main" in command_of(child)]

    process = start_workers(args, pairs, home / "out.tsv")
    return kill_one(process, workers_of, lambda: home.glob("out.tsv.partial"), seconds, rng)


def start_ray(args: Any, pairs: Path, out: Path) -> subprocess.Popen:
    return start_engine("ray", args, pairs, out)


def kill_ray_worker(
    args: Any, pairs: Path, home: Path, seconds: float, rng: random.Random
) -> int | None:
    def workers_of(_: int) -> list[int]:  # they are not children of the program
        everything = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in everything if command_of(pid).startswith(b"ray::MapWorker")]

    process = start_ray(args, pairs, home / "out.tsv")
    return kill_one(process, workers_of, lambda: home.glob("out.tsv.parquet/*"), seconds, rng)


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def run_all(args: Any, results: measuring.Results) -> None:
    # What is killed, how often, and how the undisturbed run starts.
    kinds = (
        ("run", args.kills, start, kill_whole),
        ("worker", args.worker_kills, start_workers, kill_worker),
        ("Ray's worker", args.ray_kills, start_ray, kill_ray_worker),
    )
    with tempfile.TemporaryDirectory() as top:
        pairs = Path(top, "pairs.tsv")
        write_pairs(pairs, args.rows, None)
        if args.ray_kills:
            write_parts(pairs, Path(top, "pairs"))
        for kind, wanted, begin, kill in kinds:
            key = {"backend": args.backend, "run": args.run.name, "rows": args.rows, "killed": kind}
            known = {name: str(value) for name, value in key.items()}
            done = sum(known.items() <= row.items() for row in results.rows())
            if done >= wanted:
                continue
            source = Path(top, "pairs") if kind == "Ray's worker" else pairs
            first = time.monotonic()
            whole = Path(top, kind, "out.tsv")
            whole.parent.mkdir()
            finish(begin(args, source, whole))
            seconds = time.monotonic() - first
            rng = random.Random(f"{kind} {done}")
            while done < wanted:
                with tempfile.TemporaryDirectory() as home:
                    size = kill(args, source, Path(home), seconds, rng)
                    if size is None:
                        continue  # it ended before
                    done += 1
                    files = {path.name for path in whole.parent.iterdir()}
                    left = {path.name for path in Path(home).iterdir()}
                    equal = Path(home, "out.tsv").read_bytes() == whole.read_bytes()
                    row = {
                        "share_at_kill": round(size / whole.stat().st_size, 3),
                        "equal": equal and left == files,
                        "seconds_undisturbed": round(seconds, 1),
                    }
                    results.add(key | row)


def table(rows: list[dict[str, str]]) -> list[list[str]]:
    lines = []
    names = ("backend", "run", "rows", "killed")
    for key in dict.fromkeys(tuple(row[name] for name in names) for row in rows):
        mine = [row for row in rows if tuple(row[name] for name in names) == key]
        shares = " ".join(sorted(row["share_at_kill"] for row in mine))
        equal = sum(row["equal"] == "True" for row in mine)
        lines.append([*key, str(len(mine)), str(equal), shares])
    return lines


def main() -> None:
    parser = measuring.parser(__doc__ or "")
    parser.add_argument("--run", type=Path, help="a run folder")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--kills", type=int, default=20, help="of a whole run, with existing rows")
    parser.add_argument("--worker-kills", type=int, default=10)
    parser.add_argument("--ray-kills", type=int, default=0, help="of one of Ray's workers")
    parser.add_argument("--backend", default="torch", choices=measuring.BACKENDS)
    parser.add_argument("--out", type=Path, help="a CSV file (results/stream_kills.csv)")
    args = parser.parse_args()
    results = measuring.Results(args.out or "stream_kills")
    if not args.show:
        if args.run is None:
            parser.error("--run is needed to kill anything")
        run_all(args, results)
    head = ["backend", "run", "rows", "killed", "kills", "equal outputs", "answered at the kills"]
    results.show(head, table(results.rows()), args.write)


if __name__ == "__main__":
    main()
