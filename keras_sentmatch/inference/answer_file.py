"""A file of answers that is written as they come, and gets its name only when it is complete."""

import csv
import io
import json
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.errors import InputError, wording
from keras_sentmatch.inference.run_folder import read_json, write_json
from keras_sentmatch.safety import check_types

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

FORMATS = ("tsv", "csv", "jsonl")
_NOTED = {"facts": dict, "rows": int, "answers": int, "size": int, "digest": str}
_NO_CELL = str.maketrans("\t\r\n", "   ")  # characters that cannot stand in a cell of a TSV file
log = logging.getLogger(__name__)


def as_text(columns: Mapping[str, Sequence[Any]], format: str, header: bool = True) -> str:
    """Return rows as TSV or CSV with a header line, or as one JSON object per line."""
    plain = [c.tolist() if isinstance(c, np.ndarray) else c for c in columns.values()]
    names, rows = list(columns), zip(*plain)
    if format == "jsonl":
        return "".join(json.dumps(dict(zip(names, row)), ensure_ascii=False) + "\n" for row in rows)
    table = [names] if header else []
    table += [[_flat(value) for value in row] for row in rows]
    if format == "tsv":  # without quotes: a tab or a line break becomes a space
        lines = [[_cell(value) for value in row] for row in table]
        return "".join("\t".join(line) + "\n" for line in lines)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")  # so that a carriage return is quoted too
    found = list[str]()
    for row in table:
        writer.writerow(row)
        found.append(text.getvalue().removesuffix("\r\n") + "\n")
        text.seek(0)
        text.truncate()
    return "".join(found)


def _flat(value: Any) -> Any:
    """Return a cell of a table: a list or an object as JSON."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _cell(value: Any) -> str:
    return "" if value is None else str(value).replace("\r\n", "\n").translate(_NO_CELL)


class AnswerFile:
    """Writes answers to `NAME.partial`, which is renamed to NAME when it is complete.

    `NAME.partial.json` records how much of this file is valid. So when the process is killed at any
    moment, another one can continue.

    Args:
        out: The file.
        format: One of `FORMATS`.
        facts: The run and the options by name; they must be equal to continue.
        resume: Whether to continue an existing partial file.

    Attributes:
        rows: Number of answered rows of the input.
        digest: Digest of these rows.

    Raises:
        InputError: There are answers and `resume` is not set, they come from another run or other
            options, or another process is writing them.
    """

    def __init__(
        self, out: Path, format: str, facts: Mapping[str, Any], *, resume: bool = False
    ) -> None:
        if out.is_dir():
            raise InputError(f"{out} is a folder. Name a file for the answers.")
        self.out, self.format, self.facts = out, format, dict(facts)
        self.partial = out.with_name(f"{out.name}.partial")
        self.note = out.with_name(f"{out.name}.partial.json")
        self.rows = self.answers = self.size = 0
        self.digest = ""
        self._file: Any = None
        noted = read_json(self.note)
        check_types(noted, _NOTED, self.note)
        if self.partial.exists():
            self._go_on(noted, resume)
        elif resume:
            log.info("%s does not exist: starting from the first row", self.partial)

    def _go_on(self, noted: dict[str, Any], resume: bool) -> None:
        again = f"delete {self.partial} to start again"
        if not resume:
            if noted and not noted.get("answers"):
                return
            resume_ = wording("resume=True", "--resume")
            raise InputError(
                f"{self.partial} has the answers of an interrupted run. Continue with {resume_}, or "
                f"{again}."
            )
        if not _NOTED.keys() <= noted.keys() or self.partial.stat().st_size < noted["size"]:
            raise InputError(
                f"{self.partial} does not match {self.note.name}, so nothing can be continued; "
                f"{again}."
            )
        for name, value in self.facts.items():
            if (was := noted["facts"].get(name)) != value:
                shown = f" ({was}, and now {value})" if name != "run" else ""
                raise InputError(
                    f"{self.partial} was written with another {name}{shown}. Use the same one, or "
                    f"{again}."
                )
        for name in ("rows", "answers", "size", "digest"):
            setattr(self, name, noted[name])
        self._open()
        log.info("resuming after %s answers", f"{self.answers:,}")

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        self._file = os.fdopen(os.open(self.partial, flags, 0o666), "r+b")
        try:
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"Another process is writing {self.partial}. Name another file."
            ) from None
        self._file.truncate(self.size)  # what follows was not written completely
        self._file.seek(self.size)

    def write(self, header: str, body: str, *, answers: int, rows: int, digest: str) -> None:
        """Add a number of answers; they are safe once this returns.

        `header` is the start of the file. The first `rows` of the input, with this digest, are
        answered now.
        """
        try:
            if self._file is None:
                self.out.parent.mkdir(parents=True, exist_ok=True)
                self._keep_note()
                self._open()
            data = (body if self.size else header + body).encode("utf-8", "backslashreplace")
            self._file.write(data)
            self._file.flush()
            os.fsync(self._file.fileno())
            self.rows, self.digest = rows, digest
            self.size, self.answers = self.size + len(data), self.answers + answers
            self._keep_note()
        except OSError as error:
            raise self._failed(error) from error

    def _keep_note(self) -> None:
        write_json(self.note, {name: getattr(self, name) for name in _NOTED})

    def _failed(self, error: OSError) -> InputError:
        left = "then try again"
        if noted := read_json(self.note).get("answers"):
            how = wording("resume=True", "--resume")
            left = f"then continue after the {noted:,} answers that it has, with {how}"
        return InputError(
            f"Cannot write {self.partial}: {error.strerror or error}. Make room, {left}."
        )

    def finish(self) -> None:
        """Give the file its name."""
        try:
            self._file.close()
            os.replace(self.partial, self.out)
            self.note.unlink()
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Leave the partial file as it is."""
        if self._file is not None:
            with suppress(OSError):  # a full disk, reported before
                self._file.close()
