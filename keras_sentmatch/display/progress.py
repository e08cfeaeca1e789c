"""Progress bars."""

import contextlib
from collections.abc import Callable, Iterator


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
