"""The processes of a search: which one this is, and workers on this machine."""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_sentmatch.errors import InputError

VARIABLES = ("KERASTUNER_TUNER_ID", "KERASTUNER_ORACLE_IP", "KERASTUNER_ORACLE_PORT")

STOP = 5.0  # seconds that a worker has to end
MOST_STILLBORN = 3  # workers that are killed before they join


def role() -> str:
    """`"chief"` or `"worker"`, as KerasTuner's environment variables say; empty where there are none.

    Raises:
        InputError: One of the three is missing.
    """
    there = [name for name in VARIABLES if os.environ.get(name)]
    if not there:
        return ""
    if missing := [name for name in VARIABLES if name not in there]:
        raise InputError(
            f"{', '.join(there)} set, but not {', '.join(missing)}: a search on many machines needs all three; one on this "
            "machine none of them."
        )
    return "chief" if "chief" in os.environ["KERASTUNER_TUNER_ID"] else "worker"


class LocalWorkers:
    """Workers on this machine, each a process that calls `search`. One that is killed is replaced.

    Args:
        count: How many.
        arguments: Of `search`, by name.
        folder: Of the search; gets what each process prints, in `worker0.log` and so on.
    """

    def __init__(self, count: int, arguments: Mapping[str, Any], folder: Path) -> None:
        self.count, self.arguments, self.folder = count, arguments, folder
        self.host, self.port = "", 0
        self.running: dict[str, Any] = {}  # processes by name
        self.started = self.stillborn = 0

    def start(self, host: str, port: int) -> None:
        """Starts all of them, for a chief at this address."""
        self.host, self.port = host, port
        for _ in range(self.count):
            self._start()

    def _start(self) -> None:
        import keras

        os.environ["KERAS_BACKEND"] = keras.config.backend()  # of the processes begun from here
        name = f"worker{self.started}"
        variables = dict(zip(VARIABLES, (name, self.host, str(self.port))))
        process = multiprocessing.get_context("spawn").Process(
            target=_work, args=(variables, self._log(name), dict(self.arguments)), daemon=True
        )
        try:
            process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"The search can't be handed to workers ({error}): functions given to it (build, a space's rules) must be "
                "defined at the top of a module, and not in the script's own `if __name__ == ...` part."
            ) from error
        self.running[name] = process
        self.started += 1

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def look(self, there: Mapping[str, Any], joined: set[str]) -> None:
        """Starts another for each that was killed.

        Args:
            there: The workers that the chief has, by name.
            joined: Those that it ever had.

        Raises:
            InputError: One ended by itself before the search, or many were killed before they joined.
        """
        for name, process in list(self.running.items()):
            if process.is_alive() or name in there:  # the chief is still to notice
                continue
            del self.running[name]
            self.stillborn += name not in joined
            if process.exitcode < 0 and self.stillborn <= MOST_STILLBORN:
                self._start()
                continue
            lines = self._log(name).read_text(encoding="utf-8", errors="replace").split("\n")
            last = next((line for line in reversed(lines) if line.strip()), "it said nothing")
            raise InputError(
                f"{name} ended with {process.exitcode}: {last} (all of it in {self._log(name)})"
            )

    def stop(self) -> None:
        """Waits until they end, but not long: there is nothing more for them to do."""
        for process in self.running.values():
            process.join(STOP)
            if process.is_alive():
                process.kill()  # a trial goes on after its last epoch, whenever it is killed
                process.join()


def _work(variables: Mapping[str, str], log: Path, arguments: Mapping[str, Any]) -> None:
    """What a worker's process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the chief gets it too, and decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with open(log, "w", buffering=1, encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.update(variables)
    from keras_sentmatch.tuning.study import search

    try:
        search(**arguments)
    except InputError as error:
        sys.exit(f"error: {error}")


def _end_with_parent() -> None:
    """A killed chief leaves no process behind."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGKILL)
