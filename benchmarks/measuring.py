"""What the benchmarks share: synthetic pairs, clocks, memory, versions, and tables in files."""

import argparse
import csv
import importlib.metadata
import os
import platform
import re
import resource
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset, PairEncoder

BACKENDS = ("tensorflow", "jax", "torch", "plain")  # plain PyTorch never imports Keras
VOCABULARY, CHARACTERS = 5000, 60
LABELS = ("entailment", "neutral", "contradiction")
CLASSES = len(LABELS)

# === Data ===


def draw_lengths(count: int, longest: int, kind: str, rng: np.random.Generator) -> np.ndarray:
    """Tokens of each sentence: all `longest` if `kind` is "full", else log-normal about 12."""
    if kind == "full":
        return np.full(count, longest)
    return np.clip(np.rint(rng.lognormal(np.log(12), 0.45, count)), 2, longest).astype(int)


def make_pairs(count: int, longest: int, kind: str, seed: int) -> tuple[PairDataset, PairEncoder]:
    """Pairs of random words, and an encoder that knows all of them."""
    rng = np.random.default_rng(seed)
    letters = [chr(ord("0") + i) for i in range(6)] + [chr(ord("a") + i) for i in range(26)]
    letters += [chr(ord("A") + i) for i in range(26)]
    words: dict[str, None] = {}
    while len(words) < VOCABULARY - 2:  # padding and the unknown word have ids too
        words["".join(rng.choice(letters, rng.integers(3, 11)))] = None
    known = np.array(list(words))
    sides = [
        [" ".join(rng.choice(known, n)) for n in draw_lengths(count, longest, kind, rng)]
        for _ in range(2)
    ]
    encoder = PairEncoder(
        known.tolist(), letters, tokenizer="whitespace", lowercase=False, max_length=longest
    )
    sizes = len(encoder.vocabulary), len(encoder.characters)
    if sizes != (VOCABULARY, CHARACTERS):
        raise RuntimeError(f"The vocabularies have {sizes} entries.")
    labels = rng.integers(0, CLASSES, count)
    return PairDataset(*sides, labels, label_names=LABELS), encoder


# === Processes ===


def environment(backend: str) -> dict[str, str]:
    """Environment variables of a process that uses `backend`."""
    return {
        **os.environ,
        "KERAS_BACKEND": backend,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",  # processes share one GPU, if there is one
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }


def cpus() -> int:
    """Processors that this process may use."""
    known = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1


def device_name(backend: str) -> str:
    """The GPU that `backend` computes on, or the number of CPUs."""
    name = None
    if backend == "tensorflow":
        import tensorflow as tf

        if gpus := tf.config.list_physical_devices("GPU"):
            details = tf.config.experimental.get_device_details(gpus[0])
            name = details.get("device_name", "GPU")
    elif backend == "jax":
        import jax

        first = jax.devices()[0]
        name = None if first.platform == "cpu" else first.device_kind
    else:
        import torch

        name = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
    return name or f"{cpus()} CPUs"


def peak_mib() -> int:
    """Linux hands the parent's ru_maxrss down to a new process; VmHWM starts anew."""
    status = Path("/proc/self/status")
    if status.exists() and (found := re.search(r"VmHWM:\s+(\d+)", status.read_text())):
        return int(found[1]) // 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (2**20 if sys.platform == "darwin" else 1024)


def held_mib() -> int:
    """Memory that this process holds now; its peak where that is not known."""
    status = Path("/proc/self/status")
    found = re.search(r"VmRSS:\s+(\d+)", status.read_text()) if status.exists() else None
    return int(found[1]) // 1024 if found else peak_mib()


def device_peak_mib(backend: str) -> int | str:
    """Most memory that arrays took on the GPU; an empty string where there is none."""
    if device_name(backend) == f"{cpus()} CPUs":
        return ""
    if backend == "tensorflow":
        import tensorflow as tf

        peak = tf.config.experimental.get_memory_info("GPU:0")["peak"]
    elif backend == "jax":
        import jax

        peak = jax.local_devices()[0].memory_stats()["peak_bytes_in_use"]
    else:
        import torch

        peak = torch.cuda.max_memory_allocated()
    return peak // 2**20


def others_cpu() -> float:
    """CPU seconds that the rest of the machine has spent so far; NaN where that is not known."""
    status = Path("/proc/stat")
    if not status.exists():
        return float("nan")
    user, nice, system, _, _, irq, softirq, steal = map(int, status.read_text().split()[1:9])
    busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return busy - time.process_time()


def timed(steps: Sequence[Callable[[], Any]]) -> list[float]:
    """Seconds of each step."""
    seconds = []
    for step in steps:
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return seconds


# === Results ===


def versions() -> str:
    names = (
        "keras-sentmatch",
        "keras",
        "tensorflow",
        "jax",
        "torch",
        "numpy",
        "tf2onnx",
        "onnxruntime",
    )
    found = [f"python {platform.python_version()}"]
    for name in names:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")


def append(rows: list[dict[str, Any]], path: Path) -> None:
    """Adds rows to a CSV file, which the first ones begin."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with open(path, "a", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


def replace(rows: list[dict[str, Any]], path: Path, key: Sequence[str]) -> None:
    """Adds rows to a CSV file, in place of those that are like one of them in the columns of `key`."""
    new = {tuple(str(row[name]) for name in key) for row in rows}
    others = [row for row in read(path) if tuple(row[name] for name in key) not in new]
    path.unlink(missing_ok=True)
    append([*others, *rows], path)


def public(command: Sequence[str]) -> str:
    """A command as one types it, what lies on this machine by its last name."""

    def shown(part: str) -> str:
        before, equals, value = part.rpartition("=")
        return before + equals + (Path(value).name if Path(value).exists() else value)

    return shlex.join(map(shown, command))


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file; none if there is no such file."""
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_between(page: Path, marks: tuple[str, str], lines: Sequence[str]) -> None:
    """Puts `lines` between the two marks of a page, or with the marks at its end."""
    text = page.read_text(encoding="utf-8")
    if marks[0] not in text:
        text += f"\n{marks[0]}\n{marks[1]}\n"
    before, _, rest = text.partition(marks[0])
    after = rest.partition(marks[1])[2]
    page.write_text("\n".join([before + marks[0], "", *lines, "", marks[1] + after]), "utf-8")


def table_options(parser: argparse.ArgumentParser) -> None:
    """Adds `--show` and `--write`, for `show_table`."""
    parser.add_argument("--show", action="store_true", help="only what the rows so far say")
    parser.add_argument("--write", type=Path, help="a Markdown page to put it into")


def show_table(
    head: Sequence[str],
    lines: Sequence[Sequence[str]],
    title: str,
    page: Path | None = None,
    marks: tuple[str, str] = ("", ""),
) -> None:
    """Prints a table, and puts it between the two marks of a Markdown page if one is named."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*head, title=title)
    for line in lines:
        table.add_row(*line)
    # Where no terminal says how wide it is, lines are as long as they need to be.
    Console(width=None if sys.stdout.isatty() else 200).print(table)
    if page is not None:
        text = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        text += ["| " + " | ".join(cell or "–" for cell in line) + " |" for line in lines]
        write_between(page, marks, text)
