"""The processes of a search: which of them this is, and worker processes on this machine."""

import logging
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import Any

from keras_sentmatch.errors import InputError

VARIABLES = ("KERASTUNER_TUNER_ID", "KERASTUNER_ORACLE_IP", "KERASTUNER_ORACLE_PORT")
STOP = 5.0  # seconds that a worker has to end
MAX_FAILED_STARTS = 3  # workers that are killed before they join


def role() -> str:
    """`"chief"` or `"worker"`, as KerasTuner's environment variables have it; empty without them."""
    there = [name for name in VARIABLES if os.environ.get(name)]
    if not there:
        return ""
    if missing := [name for name in VARIABLES if name not in there]:
        raise InputError(
            f"{', '.join(there)} set, but not {', '.join(missing)}: a search on many machines needs "
            "all three; one on this machine none of them."
        )
    return "chief" if "chief" in os.environ["KERASTUNER_TUNER_ID"] else "worker"


def chief_address() -> tuple[str, int]:
    """Host and port of the chief, as KerasTuner's environment variables have it."""
    host, port = (os.environ[name] for name in VARIABLES[1:])
    if not port.isdecimal():
        raise InputError(f"KERASTUNER_ORACLE_PORT is {port!r}; expected the number of a port.")
    return host, int(port)


class LocalWorkers:
    """Worker processes on this machine, which call `work` with its arguments.

    One that is killed is replaced. What each prints goes into the folder of the search, as
    `worker0.log` and so on.
    """

    def __init__(
        self, count: int, work: Callable[..., object], arguments: Mapping[str, Any], folder: Path
    ) -> None:
        self.count, self.work, self.arguments, self.folder = count, work, arguments, folder
        self.host, self.port = "", 0
        self.running: dict[str, Any] = {}  # processes by name
        self.started = self.failed_starts = 0

    def start(self, host: str, port: int) -> None:
        """Starts all of them, for a chief at this address."""
        self.host, self.port = host, port
        for _ in range(self.count):
            self._start()

    def _start(self) -> None:
        import keras

        os.environ["KERAS_BACKEND"] = keras.config.backend()  # of the processes started from here
        name = f"worker{self.started}"
        variables = dict(zip(VARIABLES, (name, self.host, str(self.port))))
        process = multiprocessing.get_context("spawn").Process(
            target=_run_worker,
            args=(self.work, dict(self.arguments), variables, self._log(name)),
            daemon=True,
        )
        try:
            process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"The search can't be handed to workers ({error}): functions given to it (build, a "
                "space's rules) must be defined at the top of a module, and not in the script's own "
                "`if __name__ == ...` part."
            ) from error
        self.running[name] = process
        self.started += 1

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def watch(self, there: Container[str], joined: Container[str]) -> None:
        """Starts another worker for each that was killed: names that the chief has, and ever had.

        Raises:
            InputError: One ended by itself, or several were killed before they joined.
        """
        for name, process in list(self.running.items()):
            if process.is_alive() or name in there:  # the chief will notice
                continue
            del self.running[name]
            self.failed_starts += name not in joined
            if process.exitcode < 0 and self.failed_starts <= MAX_FAILED_STARTS:
                self._start()
                continue
            lines = self._log(name).read_text(encoding="utf-8", errors="replace").split("\n")
            last = next((line for line in reversed(lines) if line.strip()), "no output")
            raise InputError(
                f"{name} ended with {process.exitcode}: {last} (full output: {self._log(name)})"
            )

    def stop(self) -> None:
        """Waits until they end, but not long: there is nothing more for them to do."""
        for process in self.running.values():
            process.join(STOP)
            if process.is_alive():
                process.kill()  # a trial goes on after its last epoch, whenever it is killed
                process.join()


def _run_worker(
    work: Callable[..., object], arguments: Mapping[str, Any], variables: Any, log: Path
) -> None:
    """What a worker process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the chief gets it too, and decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with open(log, "w", buffering=1, encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    os.environ.update(variables)
    try:
        work(**arguments)
    except InputError as error:
        sys.exit(f"error: {error}")


def _end_with_parent() -> None:
    """A killed chief leaves no process behind."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)
