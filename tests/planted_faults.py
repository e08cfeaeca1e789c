"""Faults planted in the code one at a time, each of which the tests that run by default must catch.

`python -m tests.planted_faults [WORD ...]` plants each fault (or those with one of the words in
their name) in a scratch copy of the repository, runs on PyTorch the tests that should see it, and
prints a table. It ends with status 1 where a fault was not caught or no longer fits the code.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("keras_sentmatch", "applications", "tuning", "tests", "docs")


@dataclass(frozen=True)
class Fault:
    """A change of one place in the code, and the tests that must fail with it."""

    name: str
    file: str
    old: str
    new: str
    tests: str  # arguments of pytest


FAULTS: list[Fault] = []


def make_copy(folder: Path) -> Path:
    """A copy that Python imports in place of the installed package."""
    for name in COPIED:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, folder)
    for name in ("applications", "tuning"):
        (folder / "keras_sentmatch" / name).symlink_to(folder / name)
    return folder


@contextmanager
def planted(fault: Fault, copy: Path) -> Iterator[None]:
    path = copy / fault.file
    text = path.read_text("utf-8")
    if text.count(fault.old) != 1:
        raise LookupError(f"{fault.old!r} stands {text.count(fault.old)} times in {fault.file}")
    path.write_text(text.replace(fault.old, fault.new), "utf-8")
    try:
        yield
    finally:
        path.write_text(text, "utf-8")


def run_tests(copy: Path, *arguments: str) -> subprocess.CompletedProcess:
    flags = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--disable-warnings"]
    settings = {"KERAS_BACKEND": "torch", "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *flags, *arguments],
        cwd=copy,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
    )


def verdict(fault: Fault, copy: Path) -> tuple[bool, str]:
    """Whether the tests catch the fault, and the first test that failed (or what went wrong)."""
    try:
        with planted(fault, copy):
            done = run_tests(copy, *fault.tests.split())
    except LookupError as error:
        return False, str(error)
    if done.returncode == 0:
        return False, "every test passed"
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if done.returncode != 1 or not failed:
        return False, f"pytest ended with status {done.returncode}: {done.stdout[-300:]}"
    return failed[0].startswith("FAILED"), failed[0].partition(" - ")[0]


def in_copies(faults: list[Fault], jobs: int, report: Callable[[Fault, bool, str], None]) -> None:
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        free: SimpleQueue[Path] = SimpleQueue()
        for n in range(jobs):
            free.put(make_copy(Path(folder) / str(n)))

        def work(fault: Fault) -> tuple[bool, str]:
            copy = free.get()
            try:
                return verdict(fault, copy)
            finally:
                free.put(copy)

        for fault, (caught, detail) in zip(faults, pool.map(work, faults)):
            report(fault, caught, detail)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="plant the faults with one of these in their name")
    parser.add_argument("--jobs", type=int, default=2, help="copies to work in at once (2)")
    arguments = parser.parse_args()
    words = arguments.words
    faults = [f for f in FAULTS if not words or any(word in f.name for word in words)]
    missed: list[str] = []

    def report(fault: Fault, caught: bool, detail: str) -> None:
        print(f"{'caught' if caught else 'MISSED':8}{fault.name:58}{detail}", flush=True)
        if not caught:
            missed.append(fault.name)

    in_copies(faults, arguments.jobs, report)
    print(f"{len(faults) - len(missed)} of {len(faults)} faults caught")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
