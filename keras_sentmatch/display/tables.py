"""Reports as Markdown, CSV and JSON files."""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_sentmatch.errors import InputError
from keras_sentmatch.safety import replace_file

_CONTROLS = re.compile(r"[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how cells begin that spreadsheets compute


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Return the lines of a Markdown table; columns of numbers are aligned right.

    Example:

    >>> print("\\n".join(markdown_table(["what", "how many"], [["a|b", 1234], ["c", None]])))
    | what | how many |
    |---|---:|
    | a\\|b | 1,234 |
    | c |  |
    """
    right = [
        any(isinstance(row[place], int | float) for row in rows) for place in range(len(columns))
    ]
    lines = [f"| {' | '.join(columns)} |", "|" + "".join("---:|" if r else "---|" for r in right)]
    return lines + [f"| {' | '.join(cell(value) for value in row)} |" for row in rows]


def cell(value: Any) -> str:
    """Return a value as a cell of Markdown."""
    text = " ".join(value.split()) if isinstance(value, str) else value
    return shown(text).replace("\\", "\\\\").replace("|", "\\|")


def shown(value: Any) -> str:
    """Format a value: 1,234, 0.2500, 2.1e-09; "" for None; no control characters."""
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.1e}" if 0 < abs(value) < 5e-5 else f"{value + 0.0:.4f}"  # no -0
    return printable(str(value))


def printable(text: str, keep: str = "") -> str:
    """Escape control characters, which a terminal obeys, and marks of the direction of writing.

    The characters in `keep` stay.
    """
    return _CONTROLS.sub(lambda c: c[0] if c[0] in keep else f"\\u{ord(c[0]):04x}", text)


def without_formula(value: Any) -> Any:
    """Put a quote before a text that a spreadsheet would compute as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def data_name(report: Mapping[str, Any]) -> str:
    """Return the data and split that a report is about, if it names them."""
    return " ".join(str(report[key]) for key in ("data", "split") if report.get(key))


def write_report(
    folder: Path,
    name: str,
    report: Mapping[str, Any],
    markdown: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
) -> None:
    """Write NAME.json, NAME.md and NAME.csv (without formulas) into a folder, made if missing."""
    lines = io.StringIO(newline="")
    writer = csv.writer(lines)
    writer.writerow(columns)
    writer.writerows([without_formula(value) for value in row] for row in rows)
    text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    for suffix, content in (("json", text), ("md", markdown), ("csv", lines.getvalue())):
        write_text(folder / f"{name}.{suffix}", content)


def write_text(path: Path, text: str) -> None:
    """Write a file at once, through no link, and make its folder."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode("utf-8", "backslashreplace"))  # lone surrogates
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror or error}.") from error
