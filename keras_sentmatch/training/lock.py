"""A lock that keeps two trainings or searches out of the same folder."""

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from keras_sentmatch.errors import InputError

LOCK = ".lock"  # file that names the process that works in the folder


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder, and take over the lock of a dead process.

    A folder that was created for the lock and is still empty is removed with it.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    now = {"pid": os.getpid(), "host": socket.gethostname()}
    text = json.dumps({**now, "started": time.strftime("%Y-%m-%d %H:%M:%S")})
    try:
        while not _create(path, text):
            _remove_stale(path)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        for parent in made:
            if not any(parent.iterdir()):
                parent.rmdir()


def _create(path: Path, text: str) -> bool:
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True


def _remove_stale(path: Path) -> None:
    """Remove a lock whose process is gone; refuse to go on if that process may be alive."""
    try:
        noted = json.loads(path.read_text("utf-8"))
        pid, host, since = noted["pid"], noted["host"], noted["started"]
        alive = host != socket.gethostname() or is_alive(int(pid))
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError):
        alive = False  # the process was killed as it wrote
    if alive:
        raise InputError(
            f"{path.parent} is in use: process {pid} on {host} has been writing there since {since}. "
            f"Wait for it, or name another folder. If that process is gone, delete {path}."
        )
    path.unlink(missing_ok=True)


def is_alive(pid: int) -> bool:
    """Return whether a process with this number runs here; True if that cannot be known."""
    if os.name != "posix":  # elsewhere `os.kill` ends the process
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
