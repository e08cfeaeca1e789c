"""A lock that keeps two trainings or searches out of the same folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
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
    try:
        with nullcontext() if fcntl is None else _lock(folder):
            yield
    finally:
        for parent in made:
            if not any(parent.iterdir()):
                parent.rmdir()


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    path = folder / LOCK
    with os.fdopen(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW)) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{folder} is in use by another process. Wait for it, or name another folder."
            ) from None
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
