"""Progress bars."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator

_SECONDS = 30  # between two log lines, without a terminal
log = logging.getLogger(__name__)


@contextlib.contextmanager
def progress_bar(
    title: str, total: int, enabled: bool, *, in_bytes: bool = True
) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error (nothing unless that is a terminal); yields its setter."""
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
    amount = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    off = not (enabled and console.is_terminal)
    with Progress(*columns, console=console, transient=True, disable=off) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)


class Pace:
    """How many rows are done, how fast, and how long the rest will take.

    Example:

    >>> pace = Pace(now=0.0)
    >>> _ = pace.at(1000, 0.1, now=5.0)  # the first rows wait for what is loaded and compiled
    >>> pace.at(3000, 0.3, now=15.0)
    '3,000 rows, 200 rows/s, 35 s left'
    """

    def __init__(self, now: float | None = None) -> None:
        self._begin = (time.monotonic() if now is None else now, 0, 0.0)
        self._first = True

    def at(self, rows: int, share: float, now: float | None = None) -> str:
        """The line to show; `share` of the input is done, 0 if that is not known."""
        now = time.monotonic() if now is None else now
        start, before, begun = self._begin
        if self._first:
            self._begin, self._first = (now, rows, share), False
        seconds, done = max(now - start, 1e-9), rows - before
        text = f"{rows:,} rows, {done / seconds:,.{0 if done > 10 * seconds else 1}f} rows/s"
        if share > begun:
            text += f", {_duration((1 - share) / (share - begun) * seconds)} left"
        return text


def _duration(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


@contextlib.contextmanager
def stream_progress() -> Iterator[Callable[[int, float], None]]:
    """Shows rows, rate and time left on standard error: beside a spinner, or as a log line at times.

    Yields a function to call with the number of rows done and their share of the input.
    """
    from rich.console import Console

    pace, console = Pace(), Console(stderr=True)
    if not console.is_terminal:
        last = time.monotonic()

        def say(rows: int, share: float) -> None:
            nonlocal last
            text = pace.at(rows, share)
            if time.monotonic() - last >= _SECONDS:
                last = time.monotonic()
                log.info("%s", text)

        yield say
        return
    with console.status("scoring …") as status:
        yield lambda rows, share: status.update(pace.at(rows, share))
