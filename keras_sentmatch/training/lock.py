"""A lock that keeps two trainings or searches out of the same folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from keras_sentmatch.errors import InputError

try:
    import fcntl
except ImportError:  # on Windows folders are not locked
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"  # the locked file; the system unlocks it when the process ends


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder. A folder that stays empty is removed."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    try:
        _lock(descriptor, folder)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)
        for parent in made:
            if not any(parent.iterdir()):
                parent.rmdir()


def _lock(descriptor: int, folder: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(
            f"{folder} is in use by another process. Wait for it, or name another folder."
        ) from None
