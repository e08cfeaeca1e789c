"""The output of the commands: results on stdout, everything else on stderr."""

import json
import logging
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from keras_sentmatch.cli.options import own_code
from keras_sentmatch.display.tables import data_name, printable, shown

log = logging.getLogger(__name__)
Report = Mapping[str, Any]


class StderrHandler(logging.Handler):
    """Prints messages on the current `sys.stderr`, which a progress bar may have replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        print(printable(self.format(record), "\n"), file=sys.stderr, flush=True)


def set_up() -> None:
    """Show the library's messages from INFO on, and each warning in one line."""
    library = logging.getLogger("keras_sentmatch")
    library.setLevel(logging.INFO)
    if not any(isinstance(handler, StderrHandler) for handler in library.handlers):
        library.addHandler(StderrHandler())
    warnings.formatwarning = lambda text, *_, **__: f"warning: {printable(str(text))}\n"


def say(text: str) -> None:
    """Print a line of the result."""
    print(printable(text))


def print_json(result: Any) -> None:
    print(printable(json.dumps(result, indent=2, ensure_ascii=False), "\n"))


def next_step(command: str, *arguments: object, why: str) -> None:
    """Suggest the next step on stderr, as a command that can be copied."""
    code = [part for file in own_code() for part in ("--code", file)]
    line = shlex.join(["keras-sentmatch", *code, command, *map(str, arguments)])
    log.info("next: %s (%s)", line, why)


def working(what: str) -> AbstractContextManager[Any]:
    """Show progress on stderr: next to a spinner, or as a line if stderr is a file."""
    if not sys.stderr.isatty():
        log.info("%s …", what)
        return nullcontext()
    from rich.console import Console
    from rich.text import Text

    return Console(stderr=True).status(Text(f"{printable(what)} …"))


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the process as an exception does, so that temporary files are deleted."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def print_report(
    report: Report,
    out: Path | None,
    save: Callable[[Report, Path], object],
    as_json: bool,
    show: Callable[[Report], None],
) -> None:
    """Save a report in the folder `out`, if given, and print it as JSON or with `show`."""
    if out is not None:
        save(report, out)
        log.info("written: %s", out)
    (print_json if as_json else show)(report)


def title(report: Report) -> str:
    """Return the run and the data that a table is about."""
    return " on ".join(str(part) for part in (report.get("run"), data_name(report)) if part)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
    """Print a table on stdout, with numbers aligned right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    heading = Text(printable(title)) if title else None
    table = Table(title=heading, title_justify="left", box=box.SIMPLE_HEAD)
    for number, column in enumerate(columns):
        numeric = all(isinstance(row[number], int | float | None) for row in rows)
        table.add_column(
            Text(printable(column)), justify="right" if numeric else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(shown(value)) for value in row))
    # A file or a pipe has no width to fit into.
    Console(width=None if sys.stdout.isatty() else 200, highlight=False).print(table)
