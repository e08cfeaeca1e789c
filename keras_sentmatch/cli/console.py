"""What the commands print: results on stdout, everything else on stderr."""

import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_sentmatch.display.tables import shown

log = logging.getLogger(__name__)
Report = Mapping[str, Any]


class StderrHandler(logging.Handler):
    """Prints messages on the present `sys.stderr`, which a progress bar may have replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr, flush=True)


def show_log() -> None:
    """Shows the library's messages, from INFO on."""
    library = logging.getLogger("keras_sentmatch")
    library.setLevel(logging.INFO)
    if not any(isinstance(handler, StderrHandler) for handler in library.handlers):
        library.addHandler(StderrHandler())


def print_json(result: Any) -> None:
    print(json.dumps(result, indent=2, ensure_ascii=False))


def print_report(
    report: Report,
    out: Path | None,
    save: Callable[[Report, Path], object],
    as_json: bool,
    show: Callable[[Report], None],
) -> None:
    """Saves a report in the folder `out`, if there is one, and prints it as JSON or with `show`."""
    if out is not None:
        save(report, out)
        log.info("written: %s", out)
    (print_json if as_json else show)(report)


def title(report: Report) -> str:
    """Which run and which data a table is about."""
    data = " ".join(str(report[key]) for key in ("data", "split") if report.get(key))
    return " on ".join(str(part) for part in (report.get("run"), data) if part)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
    """A table on stdout, with numbers aligned right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD)
    for number, column in enumerate(columns):
        numeric = all(isinstance(row[number], int | float) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(shown(value)) for value in row))
    # A file or a pipe has no width to fit into.
    Console(width=None if sys.stdout.isatty() else 200, highlight=False).print(table)
