"""What the commands print: notes on stderr, results on stdout."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_sentmatch.display.tables import shown


def say(*words: Any) -> None:
    """A note for the person at the terminal, on stderr, so that stdout holds results only."""
    print(*words, file=sys.stderr, flush=True)


def print_json(result: Any) -> None:
    """The result as JSON on stdout."""
    print(json.dumps(result, indent=2, ensure_ascii=False))


def give_report(
    report: Mapping[str, Any],
    out: Path | None,
    save: Callable[[Mapping[str, Any], Path], None],
    as_json: bool,
    show: Callable[[Mapping[str, Any]], None],
) -> None:
    """Saves a report into a folder, if one is named, and prints it as JSON or as tables."""
    if out is not None:
        save(report, out)
        say(f"written: {out}")
    (print_json if as_json else show)(report)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
    """A table on stdout; numbers stand to the right."""
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
    # Where no terminal says how wide it is, lines are as long as they need to be.
    Console(width=None if sys.stdout.isatty() else 200, highlight=False).print(table)
