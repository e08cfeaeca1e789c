"""A file of pairs as a stream: a few thousand at a time, from any row on."""

import copy
import hashlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from keras_sentmatch.data.dataset import PairDataset
from keras_sentmatch.data.reading import Columns, KeptRow, OnError, Reading
from keras_sentmatch.data.recognize import existing_path, recognize_file
from keras_sentmatch.data.rows import HEADER, StandardInput, TextFile, first_line
from keras_sentmatch.errors import InputError, argument

STANDARD_INPUT = "-"
_LONGEST = 16_000_000  # characters, about, of the pairs that are in memory at a time


class Window(NamedTuple):
    """Some pairs of a stream, with the number of rows read so far and the digest of these rows."""

    pairs: PairDataset
    rows: int
    digest: str


class PairStream:
    """Reads the pairs of a file as they are needed; labels are kept as the file has them.

    Args:
        source: A file, as `read_pairs` takes it, or `"-"` for standard input.
        format: As in `read_pairs`.
        on_error: As in `read_pairs`.
        shard: Only the part `(number, of)` of the rows: the first of them is number 1.
        **columns: The other arguments of `read_pairs`: `sentence1`, `label_names`, ….

    Attributes:
        report: The counts of the rows read so far.

    Raises:
        InputError: As `read_pairs`; or a shard of standard input, or without rows.

    Example:

    ```python
    from keras_sentmatch.data import PairStream

    for window in PairStream("big.tsv").windows(4096):
        print(window.rows, len(window.pairs))
    ```
    """

    def __init__(
        self,
        source: str | Path,
        *,
        format: str | None = None,
        on_error: OnError = "raise",
        shard: tuple[int, int] | None = None,
        **columns: Any,
    ) -> None:
        how = Columns(**columns)
        if str(source) == STANDARD_INPUT:
            file: TextFile = StandardInput(Path("standard input"), how.encoding, how.delimiter)
            begins = "" if format else first_line(file).lstrip()[:1]
            kind = format or ("jsonl" if begins in ("{", "[") else "tsv")
            known, layout, _ = recognize_file(file.path, kind)
            if known.name == "frame":
                raise InputError(
                    "standard input is read as text: give a Parquet, Arrow or Excel file by name."
                )
            if shard is not None:
                raise InputError("standard input has no shards: its rows cannot be counted first.")
        else:
            path = existing_path(source)
            if path.is_dir():
                raise InputError(f"{path} is a folder; expected a file of pairs.")
            known, layout, _ = recognize_file(path, format)
            file = TextFile(path, how.encoding, how.delimiter)
        self._how = known, layout, how, on_error
        self._reading = Reading(file, *self._how)
        self.report, self.file = self._reading.report, file
        given = how.label_names or known.labels
        names = given if isinstance(given, Mapping) else dict(enumerate(given))
        self._names = {str(label).lower(): name for label, name in names.items()}
        self._first: int
        self._end: float
        self._first, self._end = (0, math.inf) if shard is None else self._bounds(*shard)

    def _bounds(self, number: int, of: int) -> tuple[int, int]:
        """How many rows come before a shard, and how many up to its end."""
        if not 1 <= number <= of:
            raise InputError(
                f"{argument('shard', f'{number}/{of}')}: expected a number from 1 to {of}, such as "
                f"1/{of}."
            )
        file = copy.copy(self.file)
        counted = Reading(file, *self._how).source()
        rows = sum(where != HEADER for where, _ in counted)
        if rows < of:
            raise InputError(f"{file.path} has {rows} rows, which are too few for {of} shards.")
        return (number - 1) * rows // of, number * rows // of

    def windows(self, size: int, *, after: int = 0, digest: str = "") -> Iterator[Window]:
        """The pairs, `size` at a time, or fewer very long ones, after the row `after`.

        Args:
            size: Pairs of a window.
            after: The `rows` of a window, to continue after it.
            digest: The `digest` of that window: other rows are refused.

        Raises:
            InputError: A bad row, a file without any usable one, or one that has changed.
        """
        found, block, length = hashlib.sha256(), list[KeptRow](), 0
        reading = self._reading
        for row in reading.rows(self._first, self._end):
            found.update(repr(row).encode("utf-8", "surrogatepass"))
            if row is not None:
                self.report.kept += 1
                block.append(row)
                length += len(row.sentence1) + len(row.sentence2)
            if reading.place <= after:
                block.clear()
                length = 0
                if reading.place == after and found.hexdigest() != digest:
                    break
            elif len(block) == size or length > _LONGEST:
                yield Window(self._pairs(block), reading.place, found.hexdigest())
                block, length = [], 0
        if after and (
            reading.place < after or (reading.place == after and found.hexdigest() != digest)
        ):
            raise InputError(
                f"{self.file.path} has changed: its first {after:,} rows are not those that were "
                "answered before. Delete the partial answers to start again."
            )
        if not self.report.kept:
            raise InputError(f"{self.file.path}: no usable row ({self.report}).")
        if block:
            yield Window(self._pairs(block), reading.place, found.hexdigest())

    def _pairs(self, block: list[KeptRow]) -> PairDataset:
        reading, names = self._reading, self._reading.names
        columns = {key: [row.further[key] for row in block] for key in block[0].further}
        if "label" in names:
            columns["gold"] = [self._label(row.label) for row in block]
        task = reading.columns.task or reading.known.task
        return PairDataset(
            [row.sentence1 for row in block],
            [row.sentence2 for row in block],
            groups=[row.group for row in block] if reading.has_groups(task) else None,
            ids=[row.id for row in block] if "id" in names else None,
            columns=columns,
        )

    def _label(self, value: str | None) -> str:
        """The name of a label if it is known, otherwise the text in the file."""
        value = value or ""
        return self._names.get(value.lower(), value)
