"""Read thousands of damaged and hostile files, and count the outcomes.

    python benchmarks/mutations.py --count 10000 --seed 0
    python benchmarks/mutations.py --case 1234

A case has its own seed. It damages small valid files (run folders, encoders, checkpoints, recipes,
pairs, word vectors; `tests/mutants.py`) and reads them as users do. It must end in a finite
prediction or in the library's own error. It fails with any other exception, with NaN, after 20
seconds, if the process ends, with a gigabyte of memory, and if reading starts a process, opens a
connection, writes elsewhere, unpickles, or runs code that came with the files. A worker process with
an audit hook for that reads case after case. A row is a block of cases.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import measuring
from rich.progress import Progress

from tests import mutants

RESULTS = measuring.Results("mutations")
BLOCK, SECONDS, MEMORY = 250, 20, 1 << 30
OUTCOMES = ("answered", "refused", "failed")
FORBIDDEN = (
    "subprocess.", "os.system", "os.exec", "os.fork", "os.spawn", "os.posix_spawn", "pty.", "socket.", "urllib.",
    "ftplib.", "pickle.find_class", "ctypes.dlopen", "code.__new__", "webbrowser.",
)  # fmt: skip
CHANGES = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod")


class TooLong(BaseException):
    """The time of a case is over. No library catches this exception."""


class Watch:
    """An audit hook that records what reading files must not do.

    Args:
        home: The only folder in which something may be written.
    """

    def __init__(self, home: Path):
        self.home = str(home)
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple) -> None:
        if self.on and self._forbidden(event, arguments):
            self.seen.append(f"{event} {str(arguments)[:120]}")

    def _forbidden(self, event: str, arguments: tuple) -> bool:
        if event.startswith(FORBIDDEN):
            return True
        if event in ("exec", "marshal.loads"):
            code = arguments[0]
            parts = (getattr(code, name, "") for name in ("co_filename", "co_consts", "co_names"))
            text = str(code) if isinstance(code, bytes) else " ".join(map(str, parts))
            return mutants.CANARY in text or self.home in text
        if event == "compile":
            return mutants.CANARY in str(arguments[0]) and "literal" not in self._callers()
        if event == "open":
            path, mode, flags = arguments
            writes = any(c in str(mode or "") for c in "wax+") or flags & (os.O_WRONLY | os.O_RDWR)
            return bool(writes) and not self._home(path)
        return event.startswith(CHANGES) and not self._home(arguments[0])

    def _home(self, path: Any) -> bool:
        return isinstance(path, int) or os.fsdecode(path).startswith((self.home, "/dev/null"))

    def _callers(self) -> str:
        frame, names = sys._getframe(), []
        while frame := frame.f_back:  # type: ignore[assignment]
            names.append(frame.f_code.co_name)
        return " ".join(names)


def kind_of(rng: random.Random) -> str:
    return rng.choices(list(mutants.SHARES), list(mutants.SHARES.values()))[0]


def run_case(seed: int, samples: Path, work: Path, watch: Watch) -> dict[str, Any]:
    """Return the outcome of one case."""
    from keras_sentmatch.errors import InputError

    rng = random.Random(f"mutation {seed}")
    kind = kind_of(rng)
    folder = work / "case"
    said, damaged = mutants.mutate(samples / kind, folder, rng)
    found = {"seed": seed, "kind": kind, "said": said, "outcome": "answered", "why": ""}
    watch.seen.clear()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    os.chdir(folder)
    signal.alarm(SECONDS)
    begun = time.monotonic()
    watch.on = True
    try:
        mutants.read(kind, folder, rng, damaged)
    except InputError as error:
        found["outcome"] = "refused"
        if not str(error).strip():
            found |= {"outcome": "failed", "why": "an error without a message"}
    except (Exception, TooLong):
        found |= {"outcome": "failed", "why": traceback.format_exc()}
    finally:
        watch.on = False
        signal.alarm(0)
        os.chdir(work)
    found["seconds"] = round(time.monotonic() - begun, 3)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) * 1024
    if watch.seen:
        found |= {"outcome": "failed", "why": f"forbidden: {watch.seen}"}
    elif grown > MEMORY:
        found |= {"outcome": "failed", "why": f"{grown:,} bytes of memory"}
    shutil.rmtree(folder, ignore_errors=True)
    return found


def worker(start: int, stop: int, samples: Path, work: Path) -> None:
    """Run cases, and print a JSON line before and after each."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the output of libraries goes to stderr
    warnings.simplefilter("ignore")

    def too_long(*_: Any) -> None:
        raise TooLong(f"{SECONDS} seconds")

    signal.signal(signal.SIGALRM, too_long)
    watch = Watch(work)
    watch.on = True
    for event in ("os.system", "socket.connect", "pickle.find_class"):
        sys.audit(event, b"", b"")
    watch.on = False
    if len(watch.seen) < 3:
        raise SystemExit("the audit hook sees nothing")
    for kind in mutants.SHARES:  # import now what is imported late
        shutil.copytree(samples / kind, work / "case")
        for path in sorted(path for path in (work / "case").rglob("*") if path.is_file()):
            mutants.read(kind, work / "case", random.Random(0), [path])
            if kind not in ("data", "vectors"):  # each of these files is read by itself
                break
        shutil.rmtree(work / "case")
    for seed in range(start, stop):
        print(json.dumps({"begun": seed}), file=answers)
        print(json.dumps(run_case(seed, samples, work, watch)), file=answers)


def cases(start: int, stop: int, samples: Path) -> Iterator[dict[str, Any]]:
    """Yield the cases of a block. If a case kills the worker, another worker continues after it."""
    while start < stop:
        with tempfile.TemporaryDirectory() as work:
            options = map(str, (start, stop, samples, work))
            command = [sys.executable, __file__, "--worker", *options]
            environment = os.environ | {"TMPDIR": work, "PYTHONFAULTHANDLER": "1"}
            log = Path(work, "stderr")
            with log.open("wb") as said:
                process = subprocess.Popen(
                    command, env=environment, stdout=subprocess.PIPE, stderr=said, text=True
                )
            begun = None
            assert process.stdout is not None
            for line in process.stdout:
                found = json.loads(line)
                if "begun" in found:
                    begun = found["begun"]
                else:
                    start = found["seed"] + 1
                    yield found
            if process.wait() == 0:
                return
            end = f"the process ended with {process.returncode}: {log.read_text(errors='replace')[-3000:]}"
            if begun is None:
                raise SystemExit(f"The worker could not begin: {end}")
            if begun >= start:
                kind = kind_of(random.Random(f"mutation {begun}"))
                found = {"seed": begun, "kind": kind, "said": "", "seconds": 0.0}
                yield found | {"outcome": "failed", "why": end}
                start = begun + 1


def run_all(args: argparse.Namespace) -> int:
    """Run the blocks without a row. Returns how many cases failed."""
    failures = 0
    there = {(int(row["seed"]), row["backend"]) for row in RESULTS.rows()}
    backend = os.environ.setdefault("KERAS_BACKEND", "torch")
    with tempfile.TemporaryDirectory() as home, Progress() as bar:
        samples = Path(home)
        mutants.make_samples(samples)
        task = bar.add_task("Reading damaged files", total=args.count)
        for start in range(args.seed, args.seed + args.count, BLOCK):
            stop = min(start + BLOCK, args.seed + args.count)
            if (start, backend) not in there:
                begun, counts = time.monotonic(), Counter[str]()
                for found in cases(start, stop, samples):
                    counts[found["outcome"]] += 1
                    counts[f"{found['kind']} {found['outcome']}"] += 1
                    bar.advance(task)
                    if found["outcome"] == "failed":
                        failures += 1
                        what = f"seed {found['seed']} ({found['kind']}: {found['said']})"
                        bar.console.print(what, found["why"], sep="\n", markup=False)
                row = {"seed": start, "cases": stop - start}
                row |= {name: counts[name] for name in OUTCOMES}
                for kind in mutants.SHARES:
                    row[kind] = "/".join(str(counts[f"{kind} {name}"]) for name in OUTCOMES)
                row |= {"backend": backend, "seconds": round(time.monotonic() - begun)}
                RESULTS.add(row)
            bar.update(task, completed=stop - args.seed)
    return failures


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first case; the others follow")
    parser.add_argument("--case", type=int, help="run only this case, and show all about it")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        start, stop, samples, work = args.worker
        worker(int(start), int(stop), Path(samples), Path(work))
        return
    if args.case is not None:
        os.environ.setdefault("KERAS_BACKEND", "torch")
        with tempfile.TemporaryDirectory() as home:
            mutants.make_samples(Path(home))
            for found in cases(args.case, args.case + 1, Path(home)):
                print(*(f"{name}: {value}" for name, value in found.items()), sep="\n")
        return
    sys.exit(1 if run_all(args) else 0)


if __name__ == "__main__":
    main()
