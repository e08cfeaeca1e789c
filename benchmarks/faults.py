"""Disturb every command by every fault at random moments, and count what held.

    python -m benchmarks.faults --moments 5 --seed 0
    python -m benchmarks.faults --commands train,predict --faults kill

A case holds if the command then gives the undisturbed result or one clear error, and nothing incomplete stands under
a final name (`tests/faults/harness.py`). Every finished case is a row of `results/faults.csv`; cases that have a row
there are skipped. Ends with status 1 if a case broke.
"""

import argparse
import os
import random
import tempfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.measuring import Results
from tests.faults.harness import COMMANDS, FAULTS, Bench, preload


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--commands", default=",".join(COMMANDS))
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument(
        "--moments", type=int, default=3, help="Moments for each command and fault."
    )
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
        for name in given.commands.split(",")
        for fault in given.faults.split(",")
        for _ in range(given.moments)
    ]
    cases = [c for c in cases if find_spec(COMMANDS[c[0]].needs or "keras")]
    preload()
    with tempfile.TemporaryDirectory() as home:
        bench = Bench(Path(home))
        for name, fault, share in track(cases, "cases", console=Console(stderr=True)):
            if (name, fault, share, backend) not in done:
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
    rows = [r for r in results.rows() if r["backend"] == backend]
    table = Table("command", *FAULTS, title=f"held / cases on {backend}")
    for name in COMMANDS:
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
