"""What the benchmarks share: synthetic pairs, processes, clocks, memory and files of results."""

import argparse
import contextlib
import csv
import ctypes
import fcntl
import importlib.metadata
import importlib.resources
import json
import os
import platform
import re
import resource
import select
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairBatches, PairEncoder

BACKENDS = ("tensorflow", "jax", "torch")
RESULTS_FOLDER = Path(__file__).parent / "results"
VOCABULARY, CHARACTERS = 5000, 60
LABELS = ("entailment", "neutral", "contradiction")
CLASSES = len(LABELS)

# === Data ===


def lengths_of(data: str) -> np.ndarray:
    """Return the words of both sentences of each training pair of a data set, `[N, 2]`."""
    from keras_sentmatch.data import load_pairs

    pairs = load_pairs(data)["train"]
    sides = pairs.sentence1, pairs.sentence2
    return np.array([[len(s.split()) for s in side] for side in sides]).T


def make_pairs(
    count: int, longest: int, kind: str, seed: int, lengths: np.ndarray | None = None
) -> tuple[PairDataset, PairEncoder]:
    """Make pairs of random words, and an encoder that knows all of them.

    With `full` lengths all sentences have `longest` words. Natural `lengths` `[N, 2]` are drawn from
    pair by pair; without them they are log-normal around 12 words.
    """
    rng = np.random.default_rng(seed)
    letters = [chr(start + i) for start, n in ((48, 6), (97, 26), (65, 26)) for i in range(n)]
    words: dict[str, None] = {}
    while len(words) < VOCABULARY - 2:  # padding and the unknown word have ids too
        words["".join(rng.choice(letters, rng.integers(3, 11)))] = None
    known = np.array(list(words))
    if kind == "full":
        drawn = np.full((count, 2), longest)
    elif lengths is None:
        drawn = np.rint(rng.lognormal(np.log(12), 0.45, (count, 2))).astype(int)
    else:
        drawn = lengths[rng.integers(0, len(lengths), count)]
    sides = [
        [" ".join(rng.choice(known, n)) for n in side] for side in np.clip(drawn, 1, longest).T
    ]
    encoder = PairEncoder(
        known.tolist(), letters, tokenizer="whitespace", lowercase=False, max_length=longest
    )
    labels = rng.integers(0, CLASSES, count)
    return PairDataset(*sides, labels, label_names=LABELS), encoder


Batches = list[tuple[dict[str, np.ndarray], np.ndarray]]


def make_batches(
    kind: str, plain: bool, batch: int, longest: int, steps: int, seed: int, lengths: Any = None
) -> Batches:
    """Make batches of synthetic pairs: features and labels.

    With `full` lengths all sentences are as long. `natural` ones come in the library's buckets,
    taken evenly from the shortest to the longest; plain networks get random pairs, padded to the
    longest sentence of each side, or (`bucketed`) pairs of like length, taken as evenly.
    """
    count = batch * (steps if kind == "full" else max(steps, 60))
    data, encoder = make_pairs(count, longest, kind, seed, lengths)
    if kind != "full" and not plain:
        every = list(PairBatches(data, encoder, batch_size=batch, bucket_lengths=5).numpy())
        return [every[int((i + 0.5) * len(every) / steps)] for i in range(steps)]
    rows = np.arange(count)
    if kind == "bucketed":
        sides = zip(data.sentence1, data.sentence2)
        rows = np.argsort([max(len(s.split()) for s in pair) for pair in sides], kind="stable")
    found = []
    for i in range(steps):
        start = i if kind != "bucketed" else int((i + 0.5) * (count // batch) / steps)
        part = data.select(rows[start * batch : (start + 1) * batch])
        arrays = encoder.encode(part.sentence1, part.sentence2)
        if kind != "full":
            longest_of = {side: (arrays[f"word_ids_{side}"] != 0).sum(1).max() for side in "12"}
            arrays = {name: x[:, : longest_of[name[-1]]] for name, x in arrays.items()}
        found.append((arrays, part.labels))
    return found


def training_settings(model: str) -> dict[str, Any]:
    """Return the `[training]` table of a model's recipe, without what follows from the data."""
    recipes = importlib.resources.files("keras_sentmatch") / "training" / "recipes"
    table = tomllib.loads((recipes / f"{model}.toml").read_text(encoding="utf-8"))["training"]
    return {name: value for name, value in table.items() if value != "auto"}


# === Processes ===


def cpus() -> int:
    """Return the number of processors that this process may use."""
    known = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1


def environment(backend: str) -> dict[str, str]:
    """Return the environment variables of a process that uses `backend`."""
    return {
        **os.environ,
        "KERAS_BACKEND": backend,
        # huge pages, see docs/training.md
        "GLIBC_TUNABLES": os.environ.get("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",  # processes share one GPU, if there is one
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }


def run_child(backend: str, *options: Any, **variables: str) -> Any:
    """Run this script with other options in a process of `backend`. Returns its last line of JSON."""
    done = subprocess.run(
        [sys.executable, sys.argv[0], *map(str, options)],
        env=environment(backend) | variables,
        check=True,
        stdout=subprocess.PIPE,
    )
    return json.loads(done.stdout.splitlines()[-1])


class Worker:
    """A child process that answers each line of JSON with a line of JSON.

    Args:
        backend: Keras backend of the process.
        options: Options of this script.
        python: Python interpreter.
        **variables: Variables of its environment.
    """

    def __init__(
        self,
        backend: str,
        options: Sequence[Any],
        python: str = sys.executable,
        **variables: str,
    ) -> None:
        self.process = subprocess.Popen(
            [python, sys.argv[0], *map(str, options)],
            env=environment(backend) | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, question: Any, timeout: float | None = None) -> Any:
        """Return the answer. Returns None if the process has ended, or if `timeout` seconds pass."""
        self.send(question)
        return self.receive(timeout)

    def send(self, question: Any) -> None:
        with contextlib.suppress(BrokenPipeError):  # the answer is None then
            print(json.dumps(question), file=self.process.stdin, flush=True)

    def receive(self, timeout: float | None = None) -> Any:
        stdout = self.process.stdout
        if stdout is None or not select.select([stdout], [], [], timeout)[0]:
            self.process.kill()
            return None
        line = stdout.readline()
        return json.loads(line) if line else None

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.process.communicate()


def answer_lines(answer: Callable[[Any], Any]) -> None:
    """Be the child of a `Worker`. The output of libraries goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers)


def device_name(backend: str) -> str:
    """Return the GPU that `backend` computes on, or the number of CPUs."""
    if backend == "jax":
        import jax

        first = jax.devices()[0]
        name = None if first.platform == "cpu" else first.device_kind
    else:
        import torch

        name = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
    return name or f"{cpus()} CPUs"


def peak_mib() -> int:
    """Return the peak memory of this process."""
    # On Linux, ru_maxrss includes the peak of the parent.
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def forget_peak() -> None:
    """Give free memory back and make `peak_mib` count from now on (Linux only)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")


def current_mib() -> int:
    """Return the memory of this process now, or its peak if that is unknown."""
    return _status("VmRSS") or peak_mib()


def _status(name: str) -> int:
    status = Path("/proc/self/status")
    found = re.search(rf"{name}:\s+(\d+)", status.read_text()) if status.exists() else None
    return int(found[1]) // 1024 if found else 0


def device_peak_mib(backend: str) -> int | str:
    """Return the peak memory of arrays on the GPU, or an empty string without a GPU."""
    if device_name(backend) == f"{cpus()} CPUs":
        return ""
    if backend == "jax":
        import jax

        peak = jax.local_devices()[0].memory_stats()["peak_bytes_in_use"]
    else:
        import torch

        peak = torch.cuda.max_memory_allocated()
    return peak // 2**20


def others_cpu() -> float:
    """Return the CPU seconds that the rest of the machine has spent so far, or NaN if unknown."""
    status = Path("/proc/stat")
    if not status.exists():
        return float("nan")
    user, nice, system, _, _, irq, softirq, steal = map(int, status.read_text().split()[1:9])
    busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return busy - time.process_time()


def timed(steps: Sequence[Callable[[], Any]]) -> list[float]:
    """Return the seconds of each step."""
    seconds = []
    for step in steps:
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return seconds


def busy_while(function: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a function, and the processors that other programs used meanwhile."""
    others, begin = others_cpu(), time.perf_counter()
    result = function()
    return result, (others_cpu() - others) / (time.perf_counter() - begin)


# === Results ===


def versions() -> str:
    names = "keras-sentmatch keras tensorflow jax torch numpy tf2onnx onnxruntime"
    found = [f"python {platform.python_version()}"]
    for name in names.split():
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")


def stamped(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the date, and with the command and the versions if they are missing."""
    script = f"python benchmarks/{Path(sys.argv[0]).name}"
    command = row.get("command") or f"{script} {public(sys.argv[1:])}".rstrip()
    found = row.get("versions") or versions()
    return {**row, "command": command, "versions": found, "date": now()}


def public(command: Sequence[str]) -> str:
    """Return a command as users type it, with files and folders by their last name."""

    def shown(part: str) -> str:
        before, equals, value = part.rpartition("=")
        return before + equals + (Path(value).name if Path(value).exists() else value)

    return shlex.join(map(shown, command))


class Results:
    """The rows of a CSV file, to which several processes may append at once.

    Args:
        name: Name of the file in `results/` without its suffix, or a path.
    """

    def __init__(self, name: str | Path) -> None:
        self.path = name if isinstance(name, Path) else RESULTS_FOLDER / f"{name}.csv"

    def rows(self) -> list[dict[str, str]]:
        """Return the rows. Returns an empty list if the file is missing."""
        if not self.path.exists():
            return []
        with open(self.path, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def has(self, key: Mapping[str, Any]) -> bool:
        """Return whether a row has these values, and print them if so."""
        wanted = {name: str(value) for name, value in key.items()}
        found = any(wanted.items() <= row.items() for row in self.rows())
        if found:
            print("already done:", *wanted.values(), flush=True)
        return found

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a row with the command, the versions and the date, and print it."""
        row = stamped(row)
        with self._alone():
            self._append([row])
        print(*row.values(), flush=True)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from writing meanwhile."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows. Older rows have an empty value in new columns."""
        existing = self.rows()
        known = list(existing[0]) if existing else []
        columns = list(dict.fromkeys([*known, *(name for row in rows for name in row)]))
        whole = columns != known
        with open(self.path, "w" if whole else "a", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, columns, lineterminator="\n")
            if whole:
                writer.writeheader()
                writer.writerows(existing)
            writer.writerows(rows)


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser that shows the docstring of a script as it is."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
