"""Disturb a command while it runs, run it again, and compare the result with that of an undisturbed run.

A case is a command, a fault and a moment. The moment counts the command's writes: files that it opens for writing,
renames, removes and folders that it makes below its working folder, as Python's audit hook sees them. A disturbed
command must either have finished or end with one clear error. The same command, with `--resume` if it has that
option, must then give the undisturbed result. Nothing incomplete may stand under a final name in between.
"""

import atexit
import ctypes
import functools
import hashlib
import io
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

WRITES = {
    "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "shutil.rmtree",
}  # fmt: skip
TEXTS = {".json", ".md", ".html", ".toml", ".csv", ".tsv", ".txt", ""}
SMALL = "--data pairs.tsv --set model.units=2 --set vectors.dim=4 --seed 1"


@dataclass(frozen=True)
class Command:
    """A command of the table.

    Args:
        line: Its arguments, in a folder with `pairs.tsv`, `held.tsv`, `new.tsv`, `lines.txt`, `run` and `other`.
        out: The file or folder that it writes.
        again: What the second call adds.
        reads: The file whose change disturbs it.
        needs: A package without which it is skipped.
    """

    line: str
    out: str
    again: str = ""
    reads: str = "pairs.tsv"
    needs: str = ""


COMMANDS = {
    "train": Command(f"train esim {SMALL} --vectors none --epochs 3 --out out", "out", "--resume"),
    "train with folds": Command(
        f"train esim {SMALL} --vectors none --epochs 2 --set training.folds=2 --out out", "out", "--resume"
    ),
    "train seeds": Command(f"train esim {SMALL} --vectors none --epochs 2 --seeds 2 --out out", "out", "--resume"),
    "train --crossval": Command("train bag_of_words --data pairs.tsv --crossval 2 --out out", "out", "--resume"),
    "tune": Command(
        f"tune esim {SMALL} --set vectors.source=none --epochs 1 --space units=2/3 --tuner grid --retrain 1 --out out",
        "out", "--resume", needs="keras_tuner",
    ),
    "predict": Command("predict run new.tsv --out out.tsv", "out.tsv", "--resume", "new.tsv"),
    "calibrate": Command("calibrate run --data held.tsv", "run", reads="held.tsv"),
    "rank --save-index": Command("rank run query lines.txt --save-index out", "out", reads="lines.txt"),
    "mine": Command(
        "mine run lines.txt --label yes --threshold 0.1 --out out.tsv", "out.tsv", "--resume", "lines.txt"
    ),
    "audit": Command("audit pairs.tsv --out out", "out"),
    "explain": Command("explain run new.tsv --limit 2 --out out", "out", reads="new.tsv"),
    "report": Command("report run --no-baselines --out out", "out"),
    "compare": Command("compare run other --out out", "out"),
    "export --format onnx": Command("export run --format onnx --out out", "out", needs="onnxruntime"),
}  # fmt: skip
FAULTS = (
    "kill", "ctrl-c", "ctrl-c twice", "disk full", "read-only", "input changed", "input cut",
    "two at once",
)  # fmt: skip


# === The disturbed process ===


class Hook:
    """An audit hook that counts the writes below a folder, and acts at one of them."""

    def __init__(self, folder: Path, moment: int, act: Callable[[], None], count: Any) -> None:
        self.folder, self.moment, self.act, self.count = str(folder), moment, act, count
        self.busy = False

    def __call__(self, event: str, arguments: tuple) -> None:
        if self.busy or not (event in WRITES or _writes(event, arguments)):
            return
        path = arguments[0]
        if not isinstance(path, (str, bytes, os.PathLike)):
            return
        if not os.path.abspath(os.fsdecode(path)).startswith(self.folder):
            return
        self.count.value += 1
        if self.count.value == self.moment:
            self.busy = True
            self.act()
            self.busy = False


def _interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def _acts(fault: str, folder: Path, command: Command) -> Callable[[], None]:
    read = folder / command.reads

    def change() -> None:
        text = read.read_text("utf-8").splitlines()
        kept = text[: len(text) // 2] if fault == "input cut" else [*text, text[1]]
        read.write_text("\n".join(kept) + "\n", "utf-8")

    def twice() -> None:
        threading.Timer(0.05, _interrupt).start()
        _interrupt()

    if fault.startswith("input"):
        return change
    kill = functools.partial(os.kill, os.getpid(), signal.SIGKILL)
    acts = {"kill": kill, "ctrl-c": _interrupt, "ctrl-c twice": twice}
    return acts.get(fault, lambda: None)


FORBIDDEN = (
    "socket.", "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "pty.", "urllib.",
    "ftplib.", "pickle.find_class", "webbrowser.",
)  # fmt: skip


class Watch:
    """An audit hook that notes in `watched` what reading files must not do: connections, processes, unpickling,
    modules from the working folder, and writes outside it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.notes = os.open(folder / "watched", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def __call__(self, event: str, arguments: tuple) -> None:
        wrong = event.startswith(FORBIDDEN)
        if event == "socket.gethostname":
            wrong = False
        elif event == "import":
            wrong = str(arguments[1] or "").startswith(self.folder)
        elif event == "exec":
            wrong = str(getattr(arguments[0], "co_filename", "")).startswith(self.folder)
        elif event in WRITES or _writes(event, arguments):
            path = arguments[0]
            named = isinstance(path, (str, bytes, os.PathLike))
            path = os.path.abspath(os.fsdecode(path)) if named else ""
            caches = ("torchinductor", "/.pytest_cache/")  # of PyTorch and of tests/conftest.py
            inside = path.startswith((self.folder, "/dev/")) or any(c in path for c in caches)
            wrong = named and not inside
        if wrong:
            os.write(self.notes, f"{event} {str(arguments)[:200]}\n".encode())


def _writes(event: str, arguments: tuple) -> bool:
    return (
        event == "open"
        and isinstance(arguments[2], int)
        and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
    )


def _drop_capabilities() -> None:
    """Make the permissions of files count for root, who stays the owner and so can still read every file."""
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(header, none):
        raise OSError(ctypes.get_errno(), "capset")


def _child(
    folder: Path, line: str, command: Command, fault: str, moment: int, count: Any, size: int
) -> None:
    """Run a command line in `folder`, with its output in `log`, and disturb it."""
    os.chdir(folder)
    log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(os.fdopen(n, "wb", 0), "utf-8", write_through=True) for n in (1, 2)
    )
    from keras_sentmatch.cli import main

    if fault == "disk full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    if fault == "read-only" and os.getuid() == 0:
        _drop_capabilities()
    if fault == "watch":
        tempfile.tempdir = str(folder)
        sys.dont_write_bytecode = (
            True  # bytecode next to a module is written by Python, not by the file
        )
        sys.addaudithook(Watch(folder))
    sys.addaudithook(Hook(folder, moment, _acts(fault, folder, command), count))
    try:
        main(line.split())
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
        code = 70
    else:
        code = 0
    # As at the end of a process that is no child, where a late Ctrl-C meets PyTorch's own functions.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    atexit._run_exitfuncs()
    os._exit(code)


CONTEXT = multiprocessing.get_context("forkserver")


def preload() -> None:
    """Import what every child needs once. TensorFlow and JAX may hang after a fork, so each child imports them."""
    modules = ["keras_sentmatch.cli", "matplotlib.pyplot", "scipy.optimize"]
    if os.environ.get("KERAS_BACKEND") == "torch":
        modules += ["torch", "keras", "keras_sentmatch.training", "keras_sentmatch.applications"]
    CONTEXT.set_forkserver_preload(modules)


def start(
    folder: Path,
    command: Command,
    *,
    again: bool = False,
    fault: str = "",
    moment: int = 0,
    size: int = 1 << 40,
) -> Any:
    """Start the command in `folder`. Returns the process, whose `count.value` is the number of its writes."""
    count = CONTEXT.Value("i", 0)
    line = f"{command.line} {command.again}" if again else command.line
    process = CONTEXT.Process(
        target=_child, args=(folder, line, command, fault, moment, count, size)
    )
    process.count = count  # or its memory is gone before the child has it
    process.start()
    return process


def finish(process: Any, seconds: float = 300) -> int:
    """Wait for the process. Returns its exit status; a process that hangs is killed, with status 99."""
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
        return 99
    return int(process.exitcode)


# === What a command left ===


def digest(path: Path) -> dict[str, str]:
    """A hash for every file of a result, without times."""
    if path.is_file():
        return {"": _hash(path, path.parent)}
    files = sorted(p for p in path.rglob("*") if p.is_file())
    return {str(p.relative_to(path)): _hash(p, path.parent) for p in files}


def _hash(path: Path, folder: Path) -> str:
    if path.suffix == ".keras":
        return _hash_keras(path)
    if path.suffix == ".onnx":
        return _hash_onnx(path)
    data = path.read_bytes()
    if path.parent.name == "onnx" and path.suffix == ".json":  # digests of files with times
        return ""
    if path.suffix in TEXTS:
        text = data.decode("utf-8", "replace").replace(str(folder), "…")
        text = re.sub(
            r'("[a-z_]*(?:seconds|time|_s|date|per_second)[a-z_]*": )[^,\n}]+', r"\1…", text
        )
        text = re.sub(r"\b[\d.,]+ (s|min|ms|pairs/s|pairs per second)\b", r"… \1", text)
        data = _without_seconds(text).encode()
    return hashlib.sha256(data).hexdigest()[:12]


def _without_seconds(text: str) -> str:
    """Blank the columns of seconds in tables of CSV and Markdown."""
    lines, column, separator = [], -1, ","
    for line in text.split("\n"):
        cells = line.split("|" if line.startswith("|") else ",")
        names = [cell.strip() for cell in cells]
        if "seconds" in names or "s" in names:
            column = names.index("seconds" if "seconds" in names else "s")
            separator = "|" if line.startswith("|") else ","
        elif 0 <= column < len(cells) and separator in line:
            cells[column] = "…"
        lines.append("|".join(cells) if line.startswith("|") else ",".join(cells))
    return "\n".join(lines)


def _hash_keras(path: Path) -> str:
    """Hash the layers and weights of a `.keras` file, without the time of saving."""
    import h5py

    found = hashlib.sha256()
    with zipfile.ZipFile(path) as archive:
        # Keras numbers the layers of a process.
        found.update(re.sub(rb"_\d+\b", b"", archive.read("config.json")))
        with h5py.File(io.BytesIO(archive.read("model.weights.h5")), "r") as weights:
            weights.visititems(lambda name, item: found.update(name.encode() + _bytes(item)))
    return found.hexdigest()[:12]


def _hash_onnx(path: Path) -> str:
    """Hash the operations and numbers of an ONNX model, without the names of values."""
    import onnx

    graph = onnx.load(path).graph
    found = hashlib.sha256(" ".join(sorted(node.op_type for node in graph.node)).encode())
    for data in sorted(onnx.numpy_helper.to_array(x).tobytes() for x in graph.initializer):
        found.update(data)
    return found.hexdigest()[:12]


def _bytes(item: Any) -> bytes:
    return item[()].tobytes() if hasattr(item, "dtype") else b""


# === A case ===


@dataclass
class Bench:
    """A folder with inputs and trained runs, and the undisturbed result of each command.

    Args:
        home: An empty folder.
    """

    home: Path

    def __post_init__(self) -> None:
        self.base = self.home / "base"
        self.base.mkdir()
        self.undisturbed: dict[str, tuple[dict[str, str], int, int]] = {}
        write_inputs(self.base)
        for name, model in (
            ("run", f"esim {SMALL} --vectors none --epochs 1"),
            ("other", "bag_of_words --data pairs.tsv"),
        ):
            line = f"train {model} --out {name}"
            status = finish(start(self.base, Command(line, name)))
            assert status == 0, (self.base / "log").read_text()

    def copy(self, name: str) -> Path:
        folder = self.home / re.sub(r"\W+", "-", name)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.base, folder, ignore=shutil.ignore_patterns("log"))
        return folder

    def result(self, name: str) -> tuple[dict[str, str], int, int]:
        """Digest of the undisturbed result, number of writes, and size of the largest file."""
        if name not in self.undisturbed:
            command, folder = COMMANDS[name], self.copy(f"{name} undisturbed")
            process = start(folder, command)
            assert finish(process) == 0, (folder / "log").read_text()
            out = folder / command.out
            files = [out] if out.is_file() else out.rglob("*")
            sizes = [p.stat().st_size for p in files if p.is_file()]
            self.undisturbed[name] = digest(out), process.count.value, max(sizes)
        return self.undisturbed[name]

    def run(self, name: str, fault: str, share: float) -> str:
        """Run one case, with its moment at a share of the writes. Returns "" if it held, or what broke."""
        command = COMMANDS[name]
        want, writes, largest = self.result(name)
        folder = self.copy(f"{name} {fault} {share:.3f}")
        before = digest(folder / command.out) if (folder / command.out).exists() else {}
        moment = 1 + int(share * writes)
        size = max(int(largest * (0.2 + 0.7 * share)), 1) if fault == "disk full" else 0
        closed = [folder, folder / "run"] if fault == "read-only" else []
        (folder / "log").touch()
        for path in closed:
            path.chmod(0o555)
        process = start(folder, command, fault=fault, moment=moment, size=size)
        statuses = []
        if fault == "two at once":
            time.sleep(0.2 * share)
            statuses.append(finish(start(folder, command)))
        statuses.append(finish(process))
        log = (folder / "log").read_text("utf-8", "replace")
        broken = _judge_disturbed(command, folder, fault, statuses, log, (want, before))
        for path in closed:
            path.chmod(0o755)
        if not broken:
            broken = self._judge_again(command, folder, fault, want)
        if not broken:
            shutil.rmtree(folder)
        return broken

    def _judge_again(self, command: Command, folder: Path, fault: str, want: dict[str, str]) -> str:
        """Run the same command again, and compare the result."""
        if fault.startswith("input"):  # restored: the result is as before, or it says what changed
            shutil.copy(self.base / command.reads, folder / command.reads)
        (folder / "log").unlink()
        finished = (folder / command.out).exists() and digest(folder / command.out) == want
        status = finish(start(folder, command, again=True))
        log = (folder / "log").read_text("utf-8", "replace")
        if status == 99 or "Traceback" in log:
            return f"again: status {status}: {log[-600:]}"
        # The refusal of a run that was finished clears away what the finishing process left.
        finished = finished or digest(folder / command.out) == want
        if status and not finished:
            refused = fault.startswith("input") and "error:" in log
            return "" if refused else f"again: status {status}: {log[-600:]}"
        got = digest(folder / command.out)
        different = {k for k in {*want, *got} if want.get(k) != got.get(k)}
        known = {*(p.name for p in self.base.iterdir()), command.out, "log"}
        left = {p.name for p in folder.iterdir()} - known
        found = sorted(different | left)
        if fault == "kill":  # nobody can remove the hidden temporary files of a killed process
            found = [name for name in found if not any(p[:1] == "." for p in Path(name).parts)]
        return f"again: other {', '.join(found)}" if found else ""


def _judge_disturbed(
    command: Command, folder: Path, fault: str, statuses: list[int], log: str, whole: tuple
) -> str:
    # Python names an interrupt that came while JAX's callback freed memory, and goes on.
    log = re.sub(r"Exception ignored in:.*?\nKeyboardInterrupt:? *\n", "", log, flags=re.S)
    if 99 in statuses:
        return "hangs"
    if "Traceback" in log and fault != "kill":
        return f"a traceback: {log[-900:]}"
    if fault in ("disk full", "read-only") and 0 not in statuses and "error:" not in log:
        return f"no clear error: {log[-600:]}"
    if fault == "two at once" and 0 not in statuses:
        return f"neither of two finished: {log[-600:]}"
    out = folder / command.out
    if out.is_file() and not fault.startswith("input") and digest(out) not in whole:
        return "an incomplete file stands under the final name"
    files = (path for path in out.rglob("*") if path.is_file() and path.name[0] != ".")
    cut = sorted(str(path.relative_to(folder)) for path in files if _is_cut(path))
    return f"cut: {', '.join(cut)}" if cut else ""


def _is_cut(path: Path) -> bool:
    """Whether a file is empty or lacks its end."""
    if path.suffix in {".keras", ".npz"}:
        return not zipfile.is_zipfile(path)
    if path.suffix == ".npy":
        try:
            return np.load(path, mmap_mode="r") is None
        except ValueError:
            return True
    data = path.read_bytes()
    return not data or path.suffix in TEXTS - {".txt"} and not data.endswith((b"\n", b">"))


def write_inputs(folder: Path) -> None:
    """Pairs with two labels, pairs to predict, and sentences."""
    animals, verbs = "dog cat man woman child bird".split(), "runs eats sleeps jumps".split()
    rows = [
        (a, b, verbs[(i + j) % 4]) for i, a in enumerate(animals) for j, b in enumerate(animals)
    ] * 3
    pairs = [
        (f"a {a} {v} {i}", f"the {b} {v} {i}", "yes" if a == b else "no")
        for i, (a, b, v) in enumerate(rows)
    ]
    text = "".join(f"{a}\t{b}\t{label}\n" for a, b, label in pairs)
    (folder / "pairs.tsv").write_text("sentence1\tsentence2\tlabel\n" + text, "utf-8")
    text = text.replace("a ", "one ").replace("the ", "another ")  # no training pairs
    (folder / "held.tsv").write_text("sentence1\tsentence2\tlabel\n" + text, "utf-8")
    text = "".join(f"{a}\t{b}\n" for a, b, _ in pairs * 5)
    (folder / "new.tsv").write_text("sentence1\tsentence2\n" + text, "utf-8")
    (folder / "lines.txt").write_text("".join(f"{a}\n{b}\n" for a, b, _ in pairs[:40]), "utf-8")
