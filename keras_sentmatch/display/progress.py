"""Progress on standard error."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS = 60  # between two log lines, without a terminal
log = logging.getLogger(__name__)


@contextmanager
def progress_bar(
    title: str, total: int, enabled: bool = True, *, in_bytes: bool = False
) -> Iterator[Callable[..., None]]:
    """Show a progress bar, or a log line per minute if standard error is not a terminal.

    Yields a function to call with the number done, and with a new total if that has changed.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not (enabled and console.is_terminal):
        begun = last = time.monotonic()

        def say(done: int, total: int = total) -> None:
            nonlocal last
            now = time.monotonic()
            if enabled and now - last >= SECONDS:
                last = now
                log.info("%s: %s", title, pace(done, total, now - begun))

        yield say
        return
    amount = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total or None)
        yield lambda done, total=total: bar.update(task, completed=done, total=total or None)


def pace(done: int, total: int, seconds: float) -> str:
    """Describe how much is done, and how long the rest will take; a total of 0 is unknown.

    Example:

    >>> pace(3000, 10_000, 15.0), pace(3000, 0, 15.0)
    ('3,000 of 10,000, 35 s left', '3,000')
    """
    if not total or not done:
        return f"{done:,}"
    left = seconds * (total - done) / done
    time_left = f"{left:.0f} s"
    for unit, size in (("min", 60), ("h", 3600)):
        if left >= 2 * size:
            time_left = f"{left / size:.0f} {unit}"
    return f"{done:,} of {total:,}, {time_left} left"
