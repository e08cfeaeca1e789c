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

from keras_sentmatch.data.tables import INSTALL
from keras_sentmatch.errors import InputError, wording
from keras_sentmatch.inference.run_folder import read_json, write_json

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

TEXT = ("tsv", "csv", "jsonl")
FORMATS = (*TEXT, "parquet", "arrow", "feather")
_ROW_GROUP = 16  # windows in a row group of Parquet
Columns = Mapping[str, Sequence[Any]]
log = logging.getLogger(__name__)


# === Formats ===


def encode(columns: Columns, format: str) -> tuple[bytes, bytes]:
    """The header of a file in the format, and the rows; more rows may follow."""
    if format in TEXT:
        header, body = (
            as_text(dict.fromkeys(columns, ()), format),
            as_text(columns, format, header=False),
        )
        return header.encode("utf-8", "backslashreplace"), body.encode("utf-8", "backslashreplace")
    pa = pyarrow()
    arrays = {name: pa.array(list(column), _kind(column)) for name, column in columns.items()}
    batch = pa.RecordBatch.from_pydict(arrays)
    return bytes(batch.schema.serialize()), bytes(batch.serialize())


def as_text(columns: Columns, format: str, header: bool = True) -> str:
    """Rows as TSV or CSV, with a header line, or as one JSON object a line."""
    plain = [c.tolist() if isinstance(c, np.ndarray) else c for c in columns.values()]
    names, rows = list(columns), zip(*plain)
    if format == "jsonl":
        return "".join(json.dumps(dict(zip(names, row)), ensure_ascii=False) + "\n" for row in rows)
    if format == "tsv":  # quotes are text there: no cell may contain a tab or a line break
        lines = [names] if header else []
        lines += [[" ".join(_cell(value).split()) for value in row] for row in rows]
        return "".join("\t".join(line) + "\n" for line in lines)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([names] if header else [])
    writer.writerows(rows)
    return text.getvalue()


def _cell(value: Any) -> str:
    return "" if value is None else str(value)


def pyarrow() -> Any:
    """The package that writes Parquet and Arrow."""
    try:
        import pyarrow
    except ImportError:
        raise InputError(f"Parquet and Arrow need pyarrow: {INSTALL}.") from None
    return pyarrow


def _kind(column: Sequence[Any]) -> Any:
    """The type of a column, which does not depend on the values in some of its rows."""
    pa = pyarrow()
    kind = column.dtype.kind if isinstance(column, np.ndarray) else "O"
    return {"f": pa.float32(), "b": pa.bool_()}.get(kind, pa.string())


def _from_stream(source: Path, out: Path, format: str) -> None:
    """Makes a Parquet or Arrow file of a stream of record batches."""
    pa = pyarrow()
    with pa.OSFile(str(source)) as opened, pa.ipc.open_stream(opened) as batches:
        if format != "parquet":
            with pa.ipc.new_file(str(out), batches.schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            return
        from pyarrow import parquet

        with parquet.ParquetWriter(out, batches.schema) as writer:
            held: list[Any] = []
            for batch in batches:
                held.append(batch)
                if len(held) == _ROW_GROUP:
                    writer.write_table(pa.Table.from_batches(held))
                    held = []
            if held:
                writer.write_table(pa.Table.from_batches(held))


# === The file ===


class AnswerFile:
    """Writes answers to `NAME.partial`, which is renamed to NAME when it is complete.

    Beside it, `NAME.partial.json` records how much of it is valid. So if the process is killed at
    any moment, another one can continue.

    Args:
        out: The file.
        format: One of `FORMATS`.
        facts: What must be the same to continue: the run and the options, by name.
        resume: Whether to continue an existing partial file.

    Attributes:
        rows: How many rows of the input have been answered.
        digest: The digest of these rows.
        finished: Whether the file is complete already.

    Raises:
        InputError: There are answers and `resume` is not set, they are of another run or of other
            options, or another process is writing them.
    """

    def __init__(
        self, out: Path, format: str, facts: Mapping[str, Any], *, resume: bool = False
    ) -> None:
        self.out, self.format, self.facts = out, format, dict(facts)
        self.partial = out.with_name(f"{out.name}.partial")
        self.note = out.with_name(f"{out.name}.partial.json")
        self.rows = self.answers = self.size = 0
        self.digest, self.finished = "", False
        self._file: Any = None
        noted = read_json(self.note)
        if resume and noted.get("done") and not self.partial.exists() and out.exists():
            self.note.unlink()
            self.finished = True
        elif self.partial.exists():
            self._go_on(noted, resume)
        elif resume:
            log.info("%s does not exist: starting from the first row", self.partial)

    def _go_on(self, noted: dict[str, Any], resume: bool) -> None:
        again = f"delete {self.partial} to start again"
        if not resume:
            if noted and not noted["answers"]:
                return
            resume_ = wording("resume=True", "--resume")
            raise InputError(
                f"{self.partial} has the answers of an interrupted run: continue with "
                f"{resume_}, or {again}."
            )
        if not noted or self.partial.stat().st_size < noted["size"]:
            raise InputError(f"{self.partial} does not match {self.note.name}: {again}.")
        for name, value in self.facts.items():
            if (was := noted["facts"].get(name)) != value:
                shown = f" ({was}, and now {value})" if name != "run" else ""
                raise InputError(
                    f"{self.partial} was written with another {name}{shown}: use the same, or {again}."
                )
        for name in ("rows", "answers", "size", "digest"):
            setattr(self, name, noted[name])
        self._open()
        log.info("resuming after %s answers", f"{self.answers:,}")

    def _open(self) -> None:
        self._file = os.fdopen(os.open(self.partial, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        _lock(self._file, self.partial)
        self._file.truncate(self.size)  # what follows was not written completely
        self._file.seek(self.size)

    def write(self, header: bytes, body: bytes, *, answers: int, rows: int, digest: str) -> None:
        """Adds answers; they are kept once this returns.

        Args:
            header: What the file begins with.
            body: The answers.
            answers: How many.
            rows: How many rows of the input have been answered now.
            digest: The digest of these rows.
        """
        before = self.rows, self.digest, self.size, self.answers
        try:
            if self._file is None:
                self.out.parent.mkdir(parents=True, exist_ok=True)
                self._keep_note()
                self._open()
            data = body if self.size else header + body
            self._file.write(data)
            self._file.flush()
            os.fsync(self._file.fileno())
            self.rows, self.digest = rows, digest
            self.size, self.answers = self.size + len(data), self.answers + answers
            self._keep_note()
        except OSError as error:
            self.rows, self.digest, self.size, self.answers = before
            raise self._failed(error) from error

    def _keep_note(self, done: bool = False) -> None:
        names = ("facts", "rows", "answers", "size", "digest")
        write_json(self.note, {**{name: getattr(self, name) for name in names}, "done": done})

    def _failed(self, error: OSError) -> InputError:
        left = "then try again"
        if self.answers:
            how = wording("resume=True", "--resume")
            left = f"then continue after the {self.answers:,} answers that it has, with {how}"
        return InputError(
            f"cannot write {self.partial}: {error.strerror or error}. Make room, {left}."
        )

    def finish(self) -> None:
        """Gives the file its name."""
        try:
            self._file.close()
            self._keep_note(done=True)
            if self.format in TEXT:
                os.replace(self.partial, self.out)
            else:
                whole = self.out.with_name(f"{self.partial.name}.whole")
                try:
                    _from_stream(self.partial, whole, self.format)
                    os.replace(whole, self.out)
                finally:
                    whole.unlink(missing_ok=True)
                self.partial.unlink()
            self.note.unlink()
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Leaves the partial file as it is."""
        if self._file is not None:
            with suppress(OSError):  # a full disk, reported before
                self._file.close()


def _lock(file: Any, path: Path) -> None:
    """Keeps other processes from writing the same file, as long as it is open."""
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InputError(
            f"{path} is being written by another process: name another file."
        ) from None
