"""A function in several processes at once: results in order, and none lost where a process dies."""

import logging
import multiprocessing
import os
import shutil
import signal
import subprocess
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from keras_sentmatch.errors import InputError

ATTEMPTS = 3  # at an item on which processes die
AHEAD = 3  # items for each process that are in memory
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
log = logging.getLogger(__name__)


def in_workers(function: Callable[[Any], Any], items: Iterable[Any], workers: int) -> Iterator[Any]:
    """Yields `function(item)` for each item, in order, computed by `workers` processes.

    The function is sent to each process once. If a process dies, a new one computes its item again.
    Items are read as they are needed. The processes share the cores of the machine, and where
    there are GPUs each sees one of them.

    Args:
        function: A function that can be pickled.
        items: Items that can be pickled.
        workers: The number of processes.

    Raises:
        InputError: The function raised one, or three processes died on an item.
    """
    source = enumerate(items)
    crew = [_Worker(function, number, workers) for number in range(workers)]
    todo: deque[_Task] = deque()
    done: dict[int, Any] = {}
    read = given = 0
    more = True

    def hand_out() -> None:
        for worker in crew:
            if todo and worker.task is None:
                worker.give(todo.popleft())

    try:
        while True:
            hand_out()
            while more and len(todo) < workers and read - given < AHEAD * workers:
                if more := (found := next(source, None)) is not None:
                    todo.append(_Task(*found))
                    read += 1
                    hand_out()
            busy: dict[Any, _Worker] = {w.connection: w for w in crew if w.task is not None}
            if not busy:
                return
            for connection in wait(list(busy)):
                task, result = busy[connection].take()
                if isinstance(result, _Died):
                    todo.appendleft(task.again(result))
                else:
                    done[task.place] = result
            hand_out()
            while given in done:
                yield done.pop(given)
                given += 1
    finally:
        for worker in crew:
            worker.stop()


@dataclass
class _Task:
    place: int
    item: Any
    deaths: int = 0

    def again(self, death: "_Died") -> "_Task":
        """The task, for another process; refuses one on which processes keep dying."""
        self.deaths += 1
        if self.deaths == ATTEMPTS:
            raise InputError(
                f"{ATTEMPTS} processes died on the same rows ({death.why}): use a smaller --batch-size or "
                "fewer --workers, or a machine with more memory."
            )
        log.warning("a worker process died (%s); its rows are scored again", death.why)
        return self


@dataclass
class _Died:
    why: str


class _Worker:
    """A process that computes one item after the other; it starts with its first one."""

    def __init__(self, function: Callable[[Any], Any], number: int, of: int) -> None:
        self.function, self.number, self.of = function, number, of
        self.task: _Task | None = None
        self.process: Any = None
        self.connection: Connection[Any, Any] | None = None

    def give(self, task: _Task) -> None:
        """Lets the process compute an item; `take` tells if it has died."""
        self.task = task
        if self.connection is None:
            self._start()
        assert self.connection is not None
        with suppress(OSError):
            self.connection.send(task.item)

    def take(self) -> tuple[_Task, Any]:
        """The item and its result, or a `_Died` in place of that."""
        task, self.task = self.task, None
        assert task is not None and self.connection is not None
        try:
            error, result = self.connection.recv()
        except (EOFError, OSError):
            return task, _Died(self.stop())
        if error is not None:
            raise error
        return task, result

    def _start(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.connection, other = spawn.Pipe()
        with _environment(self.number, self.of):
            self.process = spawn.Process(target=_serve, args=(other, self.function), daemon=True)
            self.process.start()
        other.close()  # so that the end of the process closes the pipe

    def stop(self) -> str:
        """Ends the process, and says what ended it."""
        if self.connection is None:
            return ""
        self.connection.close()
        self.connection = None
        self.process.join(0.2)
        self.process.terminate()
        self.process.join(5)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        code = self.process.exitcode
        if code == -signal.SIGKILL:
            return "killed, perhaps for lack of memory"
        return f"by signal {-code}" if code < 0 else f"with exit code {code}"


def _serve(connection: "Connection[Any, Any]", function: Callable[[Any], Any]) -> None:
    """What a worker process does until the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends this one
    while True:
        try:
            item = connection.recv()
        except (EOFError, OSError):
            return
        answer: tuple[Exception | None, Any]
        try:
            answer = None, function(item)
        except InputError as error:
            answer = error, None
        except Exception:
            answer = RuntimeError(f"in a worker process:\n{traceback.format_exc()}"), None
        try:
            connection.send(answer)
        except OSError:
            return


@contextmanager
def _environment(number: int, of: int) -> Iterator[None]:
    """Inside, processes start with a share of the cores and with one of the GPUs."""
    cores = max(1, cpus() // of)
    wanted = {name: str(cores) for name in _THREADS}
    if cores == 1:
        flags = os.environ.get("XLA_FLAGS", "")
        wanted["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    found = gpus()
    if found and of > len(found):  # some share one, so none may take all of its memory
        wanted |= {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    given = {name: os.environ[name] for name in wanted if name in os.environ}
    wanted |= {name: value for name, value in given.items() if name != "XLA_FLAGS"}
    if found:
        given |= {n: os.environ[n] for n in ("CUDA_VISIBLE_DEVICES",) if n in os.environ}
        wanted["CUDA_VISIBLE_DEVICES"] = found[number % len(found)]
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name in wanted:
            os.environ.pop(name)
        os.environ.update(given)


def cpus() -> int:
    """Processors that this process may use."""
    known = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1


def gpus() -> list[str]:
    """The GPUs of NVIDIA that may be used, as CUDA_VISIBLE_DEVICES names them."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    program = shutil.which("nvidia-smi")
    if given is not None:
        return [name for name in given.split(",") if name.strip() not in ("", "-1")]
    if program is None:
        return []
    asked = [program, "--query-gpu=index", "--format=csv,noheader"]
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(asked, capture_output=True, text=True, timeout=30)
        if done.returncode == 0:
            return done.stdout.split()
    return []
