"""The pairs of a file that may be larger than memory, piece by piece."""

import hashlib
import logging
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from keras_sentmatch.data import _reading
from keras_sentmatch.data._reading import Columns, KeptRow, OnError, folded
from keras_sentmatch.data.dataset import PairDataset
from keras_sentmatch.data.files import StandardInput, TextFile
from keras_sentmatch.data.formats import existing_path, recognize_file
from keras_sentmatch.errors import InputError

log = logging.getLogger(__name__)
STANDARD_INPUT = "-"
_LONGEST = 16_000_000  # approximate number of characters that are in memory at a time


class Window(NamedTuple):
    """Some pairs of a stream.

    Attributes:
        pairs: The pairs.
        given: The columns of the file for these pairs; the column of labels is called `gold`.
        rows: Number of rows read so far.
        digest: Digest of the rows read so far.
    """

    pairs: PairDataset
    given: dict[str, list[Any]]
    rows: int
    digest: str


class PairStream:
    """Read the pairs of a file piece by piece, with labels as they are in the file.

    Args:
        source: A file as for `read_pairs`, or `"-"` for standard input.
        format: See `read_pairs`.
        on_error: See `read_pairs`.
        **columns: Other arguments of `read_pairs`: `sentence1`, `label_names`, ….

    Attributes:
        report: Counts of the rows read so far.

    Raises:
        InputError: As for `read_pairs`.

    Example:

    >>> _ = Path("big.csv").write_text("s1,s2\\na,b\\nc,d\\ne,f\\n")
    >>> [len(window.pairs) for window in PairStream("big.csv").windows(2)]
    [2, 1]
    """

    def __init__(
        self,
        source: str | Path,
        *,
        format: str | None = None,
        on_error: OnError = "raise",
        **columns: Any,
    ) -> None:
        how = Columns(**columns)
        if str(source) == STANDARD_INPUT:
            file: TextFile = StandardInput(Path("standard input"), how.encoding, how.delimiter)
            begins = "" if format else file.first_line().lstrip()[:1]
            kind = format or ("jsonl" if begins in ("{", "[") else "tsv")
            known, layout, _ = recognize_file(file.path, kind)
            if known.name == "frame":
                raise InputError("Standard input is read as text. Give such a file by its name.")
        else:
            path = existing_path(source)
            if path.is_dir():
                raise InputError(f"{path} is a folder. Give a file of pairs.")
            known, layout, _ = recognize_file(path, format)
            file = TextFile(path, how.encoding, how.delimiter)
        self._reading = _reading.Reading(file, known, layout, how, on_error)
        self.report, self.file = self._reading.report, file
        given = how.label_names or known.labels
        names = list(dict.fromkeys(given.values() if isinstance(given, Mapping) else given))
        self._names = {label: names[i] for label, i in _reading.label_index(names, given).items()}
        self._left_out: set[str] = set()

    def windows(self, size: int, *, after: int = 0, digest: str = "") -> Iterator[Window]:
        """Yield the pairs after the row `after`, `size` at a time, or fewer if they are very long.

        Args:
            size: Number of pairs per window.
            after: The `rows` of a window, to continue after it.
            digest: The `digest` of that window. Other rows are refused.

        Raises:
            InputError: If a row is bad, no row is usable, or the file has changed.
        """
        found, block, length = hashlib.sha256(), list[KeptRow](), 0
        report, known = self.report, tuple(self._names.values())
        for row in self._reading.rows():
            found.update(repr(row).encode("utf-8", "surrogatepass"))
            if row is not None:
                report.kept += 1
                block.append(row)
                length += len(row.sentence1) + len(row.sentence2)
            if report.rows <= after:
                block, length = [], 0
                if report.rows == after and found.hexdigest() != digest:
                    break
            elif len(block) == size or length > _LONGEST:
                if block := _reading.without_header(self._reading, block, known):
                    yield self._window(block, found.hexdigest())
                block, length = [], 0
        if after and (
            report.rows < after or (report.rows == after and digest != found.hexdigest())
        ):
            wrong = f"{self.file.path} has changed: its first {after:,} rows differ from those with"
            raise InputError(f"{wrong} predictions. Delete the partial predictions to start again.")
        block = _reading.without_header(self._reading, block, known)
        if not report.kept:
            where = f"{self.file.path} has no usable row ({report})"
            raise InputError(f"{where}. Expected at least one.")
        if block:
            yield self._window(block, found.hexdigest())

    def _window(self, block: list[KeptRow], digest: str) -> Window:
        reading, names = self._reading, self._reading.names
        columns = {key: [row.further[key] for row in block] for key in block[0].further}
        given = {name: [_plain(row.given.get(name)) for row in block] for name in reading.header}
        extra = {name for row in block for name in row.given}.difference(reading.header)
        if extra - self._left_out:
            log.warning(
                f"{self.file.path}: the first row has no {', '.join(sorted(extra))}, so the predictions "
                "leave these columns out."
            )
            self._left_out |= extra
        if "label" in names:
            columns["gold"] = [self._names.get(folded(row.label), row.label) for row in block]
            gold = names["label"] if "gold" in given else "gold"
            given = {gold if name == names["label"] else name: v for name, v in given.items()}
            given[gold] = columns["gold"]
        pairs = PairDataset(
            [row.sentence1 for row in block],
            [row.sentence2 for row in block],
            groups=[row.group for row in block] if reading.has_groups() else None,
            ids=[row.id for row in block] if "id" in names else None,
            columns=columns,
        )
        return Window(pairs, given, reading.report.rows, digest)


def _plain(value: Any) -> Any:
    """Return a cell that JSON can express, or None if it is missing."""
    if value is None or value != value:
        return None
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    infinite = isinstance(value, float) and math.isinf(value)
    return value if isinstance(value, (bool, int, float, str)) and not infinite else str(value)
