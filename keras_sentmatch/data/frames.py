"""Tables in memory (pandas, polars, Arrow, Hugging Face datasets), Parquet and Excel files."""

import logging
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from keras_sentmatch.data.files import HEADER, Rows, TextFile, check_names, unnamed_apart
from keras_sentmatch.errors import InputError, wording
from keras_sentmatch.safety import compressed_room, expansion_error, first_line

INSTALL = 'pip install "keras-sentmatch[frames]"'
_MODULES = ("pandas", "polars", "pyarrow", "datasets")
log = logging.getLogger(__name__)
_ROWS = 1024  # rows of an Excel file that are in memory at a time
_TEXTS = ("string", "large_string", "string_view", "binary", "large_binary")  # types in Arrow


def is_frame(value: Any) -> bool:
    """Return whether this is a table of one of the libraries, without importing any."""
    named = hasattr(value, "columns") or hasattr(value, "column_names")
    ours = type(value).__module__.partition(".")[0] in _MODULES
    return ours and named and hasattr(value, "__len__") and not isinstance(value, Mapping)


def column_names(frame: Any) -> list[str]:
    """Return the names of the columns."""
    # Arrow and Hugging Face have `column_names`; in pandas it may be a column.
    names = None if hasattr(frame, "iloc") else getattr(frame, "column_names", None)
    return [str(name) for name in (frame.columns if names is None else names)]


def columns_of(frame: Any, only: Collection[str] | None = None) -> dict[str, list[Any]]:
    """Return the columns (`only` these) by name, with `None` for every missing value."""
    names = column_names(frame)
    check_names(names, "The table")
    places = [place for place, name in enumerate(names) if only is None or name in only]
    if hasattr(frame, "iloc"):  # pandas: Arrow refuses a column with values of two types
        frame = frame.iloc[:, places]
        whole = frame.astype(object).where(frame.notna(), None)
        return {names[place]: whole.iloc[:, n].tolist() for n, place in enumerate(places)}
    if hasattr(frame, "with_format"):  # Hugging Face: what was selected and shuffled counts
        frame = frame.with_format("arrow")[:]
    elif hasattr(frame, "to_arrow"):  # polars
        frame = frame.to_arrow()
    found: dict[str, list[Any]] = frame.select([names[place] for place in places]).to_pydict()
    return {name: [None if v != v else v for v in column] for name, column in found.items()}


def class_names(features: Mapping[str, Any] | None, usual: Sequence[str]) -> list[str] | None:
    """Return the names that the features of a data set (Hugging Face, TFDS) give to its labels.

    The column of labels is the first one of the names `usual`.
    """
    exact, lower = dict(features or {}), {str(k).lower(): f for k, f in (features or {}).items()}
    label = next((f for name in usual if (f := exact.get(name) or lower.get(name.lower()))), None)
    names = getattr(label, "names", None)
    return None if names is None else list(names)


def with_columns(frame: Any, columns: Mapping[str, Any]) -> Any:
    """Return a copy with more columns, whose names are new."""
    if hasattr(frame, "assign"):  # pandas
        return frame.assign(**columns)
    plain = {name: list(column) for name, column in columns.items()}
    if hasattr(frame, "with_columns"):  # polars
        return frame.hstack(type(frame)(plain))
    if hasattr(frame, "with_format"):  # Hugging Face
        for name, column in plain.items():
            frame = frame.add_column(name, column)
        return frame
    import pyarrow as pa

    kept = {name: frame.column(name) for name in column_names(frame)}
    found = pa.table({**kept, **columns})
    if isinstance(frame, pa.Table):
        return found
    arrays = [column.combine_chunks() for column in found.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=found.schema)


def rows_of(frame: Any) -> Rows:
    """Yield the rows, which count from 0."""
    return _rows([columns_of(frame)])


def frame_file(file: TextFile) -> Rows:
    """Yield the rows of a Parquet file, or of the first sheet of an Excel file."""
    if file.encoding:
        how = wording("encoding", "--encoding")
        raise InputError(f"{file.path} is not a text file. Leave out {how}.")
    return _rows(_parts(file), file)


def _rows(parts: Iterable[dict[str, list[Any]]], file: TextFile | None = None) -> Rows:
    number = 0
    for columns in parts:
        if not number:
            yield HEADER, dict.fromkeys(columns, "")
        for values in zip(*columns.values()):
            yield f" row {number}", dict(zip(columns, values))
            number += 1
            if file is not None:
                file.done = number


def _parts(file: TextFile) -> Iterator[dict[str, list[Any]]]:
    """Yield the rows of a file in parts, as columns by name; the first part may be empty."""
    suffix = file.path.suffix.lower()
    try:
        yield from (_sheet(file.path) if suffix == ".xlsx" else _parquet(file))
    except InputError:
        raise
    except ImportError as error:
        why = f"{file.path} cannot be read without {error.name}"
        raise InputError(f"{why}. Install it with {INSTALL}.") from error
    except Exception as error:  # the libraries raise all kinds of errors
        why = f"{file.path} is not a whole {suffix[1:]} file ({first_line(error)})"
        raise InputError(f"{why}. Write it again.") from error


def _parquet(file: TextFile) -> Iterator[dict[str, list[Any]]]:
    from pyarrow import parquet

    facts, room = parquet.read_metadata(file.path), compressed_room(file.path)
    groups = [facts.row_group(i) for i in range(facts.num_row_groups)]
    values = sum(group.column(i).num_values for group in groups for i in range(group.num_columns))
    if values + sum(group.total_byte_size for group in groups) > room:
        raise expansion_error(file.path)
    schema = facts.schema.to_arrow_schema()
    texts = [field.name for field in schema if str(field.type) in _TEXTS]
    file.size = facts.num_rows
    yield columns_of(schema.empty_table())
    with parquet.ParquetFile(file.path, read_dictionary=texts) as opened:
        for number in range(len(groups)):
            group = opened.read_row_group(number)
            if (room := room - group.nbytes) < 0:
                raise expansion_error(file.path)
            yield {
                name: [value for chunk in column.chunks for value in _values(chunk)]
                for name, column in zip(group.column_names, group.columns)
            }


def _values(chunk: Any) -> list[Any]:
    """Return the values of a part of a column; equal texts share their memory."""
    if not hasattr(chunk, "dictionary"):
        return [None if value != value else value for value in chunk.to_pylist()]
    texts = chunk.dictionary.to_pylist()
    return [None if place is None else texts[place] for place in chunk.indices.to_pylist()]


def _sheet(path: Path) -> Iterator[dict[str, list[Any]]]:
    import openpyxl
    from openpyxl.cell.cell import ERROR_CODES  # what a formula gives that cannot be computed

    with zipfile.ZipFile(path) as archive:
        if sum(member.file_size for member in archive.infolist()) > compressed_room(path):
            raise expansion_error(path)
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    try:
        sheet = book.worksheets[0]
        sheet.reset_dimensions()  # what the file claims; rows then end with their last cell
        rows = sheet.iter_rows(values_only=True)
        header = next((row for row in rows if any(value is not None for value in row)), ())
        last = max((i for i, name in enumerate(header) if name is not None), default=-1)
        names = ["" if name is None else str(name).strip() for name in header[: last + 1]]
        names = unnamed_apart(names)
        check_names(names, path)
        yield {name: [] for name in names}
        blank, beyond = 0, False
        while part := list(islice(rows, _ROWS)):
            kept = [row for row in part if any(value is not None for value in row)]
            blank = 0 if kept else blank + len(part)
            if blank > 100 * _ROWS:
                raise InputError(f"{path} has more than {blank:,} blank rows. Remove them.")
            if not beyond and any(x is not None for row in kept for x in row[len(names) :]):
                log.warning(f"{path}: cells right of the last column name are not read.")
                beyond = True
            padded = [(*row, *[None] * len(names))[: len(names)] for row in kept]
            good = [[None if x in ERROR_CODES else x for x in row] for row in padded]
            yield {name: [row[i] for row in good] for i, name in enumerate(names)}
    finally:
        book.close()
