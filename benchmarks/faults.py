"""Disturb every command by every fault at random moments, and count what held.

    python -m benchmarks.faults --moments 5 --seed 0
    python -m benchmarks.faults --commands train,predict --faults kill
    python -m benchmarks.faults --commands "" --damaged 10000

A case holds if the command then gives the undisturbed result or one clear error, and nothing incomplete stands under
a final name (`tests/faults/harness.py`). With `--damaged N`, N damaged or hostile files (`tests/mutants.py`) are read:
each must end in a finite prediction or in the library's own error within 20 seconds, and do nothing else.

Every finished case is a row of `results/faults.csv`; cases that have a row there are skipped. Ends with status 1 if a
case broke.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.measuring import Results
from keras_sentmatch.errors import InputError
from tests import mutants
from tests.faults.harness import COMMANDS, FAULTS, Bench, Watch, preload

BLOCK, SECONDS = 250, 20


class TooLong(BaseException):
    """The time of a case is over. No library catches this exception."""


def read_damaged(home: Path, numbers: range) -> str:
    """Read damaged files. Returns "" or what broke first."""
    for number in numbers:
        rng = random.Random(f"case {number}")
        kind = rng.choices(mutants.KINDS, [mutants.SHARES[k] for k in mutants.KINDS])[0]
        said, damaged = mutants.mutate(home / "good" / kind, home / "case", rng)
        (home / "watched").write_text("")
        signal.alarm(SECONDS)
        try:
            mutants.read(kind, home / "case", rng, damaged)
        except InputError:
            pass
        except BaseException as error:
            return f"case {number}, {kind}: {said}: {error!r:.300}"
        finally:
            signal.alarm(0)
        if noted := (home / "watched").read_text():
            return f"case {number}, {kind}: {said}: {noted:.300}"
        shutil.rmtree(home / "case")
    return ""


def _too_long(*_: object) -> None:
    raise TooLong


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--commands", default=",".join(COMMANDS))
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument(
        "--moments", type=int, default=3, help="Moments for each command and fault."
    )
    parser.add_argument("--damaged", type=int, default=0, help="Damaged files to read.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, help="CSV file. Default: benchmarks/results/faults.csv."
    )
    given = parser.parse_args()
    backend = os.environ.setdefault("KERAS_BACKEND", "torch")
    results = Results(given.out or "faults")
    done = {(r["command"], r["fault"], r["share"], r["backend"]) for r in results.rows()}
    chosen = random.Random(given.seed)
    cases = [
        (name, fault, f"{chosen.random():.3f}")
        for name in filter(None, given.commands.split(","))
        for fault in given.faults.split(",")
        for _ in range(given.moments)
    ]
    cases = [c for c in cases if find_spec(COMMANDS[c[0]].needs or "keras")]
    preload()
    with tempfile.TemporaryDirectory() as home:
        bench = Bench(Path(home)) if cases else None
        for name, fault, share in track(cases, "cases", console=Console(stderr=True)):
            if (name, fault, share, backend) not in done:
                assert bench is not None
                broken = bench.run(name, fault, float(share))
                results.add(
                    {
                        "command": name,
                        "fault": fault,
                        "share": share,
                        "backend": backend,
                        "broken": broken,
                    }
                )
    with tempfile.TemporaryDirectory() as home:
        if given.damaged:
            signal.signal(signal.SIGALRM, _too_long)
            mutants.make_samples(Path(home, "good"))
            sys.dont_write_bytecode = True
            sys.addaudithook(Watch(Path(home)))
            tempfile.tempdir = home
        for start in track(
            range(0, given.damaged, BLOCK), "damaged files", console=Console(stderr=True)
        ):
            if ("read", "damaged file", str(start), backend) not in done:
                broken = read_damaged(Path(home), range(start, start + BLOCK))
                results.add(
                    {
                        "command": "read",
                        "fault": "damaged file",
                        "share": start,
                        "backend": backend,
                        "broken": broken,
                    }
                )
    rows = [r for r in results.rows() if r["backend"] == backend]
    table = Table("command", *FAULTS, title=f"held / cases on {backend}")
    for name in (name for name in COMMANDS if name in {r["command"] for r in rows}):
        counts = Counter((r["fault"], not r["broken"]) for r in rows if r["command"] == name)
        table.add_row(
            name, *(f"{counts[f, True]} / {counts[f, True] + counts[f, False]}" for f in FAULTS)
        )
    Console().print(table)
    for row in (r for r in rows if r["broken"]):
        print(f"broken: {row['command']} × {row['fault']} at {row['share']}: {row['broken']}")
    held = sum(not r["broken"] for r in rows)
    print(f"{len(rows)} cases, {held} held, {len(rows) - held} broken")
    return int(held < len(rows))


if __name__ == "__main__":
    raise SystemExit(main())
