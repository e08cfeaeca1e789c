"""Tables in memory (pandas, polars, Arrow, Hugging Face datasets), Parquet and Excel files."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from keras_sentmatch.data.files import HEADER, Rows, TextFile
from keras_sentmatch.errors import InputError, wording
from keras_sentmatch.safety import first_line

INSTALL = 'pip install "keras-sentmatch[frames]"'
_MODULES = ("pandas", "polars", "pyarrow", "datasets")
_ROWS = 8192  # rows of a file that are in memory at a time


def is_frame(value: Any) -> bool:
    """Return whether this is a table of one of the libraries, without importing any."""
    kind = type(value)
    named = hasattr(value, "columns") or hasattr(value, "column_names")
    ours = kind.__module__.partition(".")[0] in _MODULES
    return ours and named and hasattr(value, "__len__") and not isinstance(value, Mapping)


def column_names(frame: Any) -> list[str]:
    """Return the names of the columns."""
    names = getattr(frame, "column_names", None)  # of Arrow and of Hugging Face
    return [str(name) for name in (frame.columns if names is None else names)]


def columns_of(frame: Any, only: Collection[str] | None = None) -> dict[str, list[Any]]:
    """Return the columns (`only` these) by name, with `None` for every missing value."""
    names = column_names(frame)
    if len(set(names)) < len(names):
        raise InputError(
            f"The table has two columns of the same name ({', '.join(names)}). Rename one of them."
        )
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


def class_names(frame: Any) -> list[str] | None:
    """Return the names of the labels if a Hugging Face dataset has them."""
    features = getattr(frame, "features", None)
    found = [f.names for f in features.values() if hasattr(f, "names")] if features else []
    return list(found[0]) if len(found) == 1 else None


def with_columns(frame: Any, columns: Mapping[str, Any]) -> Any:
    """Return a copy with more columns, which replace columns of the same names."""
    names = column_names(frame)
    if hasattr(frame, "assign"):  # pandas
        return frame.assign(**columns)
    plain = {name: list(column) for name, column in columns.items()}
    taken = [name for name in plain if name in names]
    if hasattr(frame, "with_columns"):  # polars
        return frame.drop(taken).hstack(type(frame)(plain))
    if hasattr(frame, "with_format"):  # Hugging Face
        frame = frame.remove_columns(taken)
        for name, column in plain.items():
            frame = frame.add_column(name, column)
        return frame
    import pyarrow as pa

    table = pa.Table.from_batches([frame]) if isinstance(frame, pa.RecordBatch) else frame
    table = table.drop_columns(taken)
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    if not isinstance(frame, pa.RecordBatch):
        return table
    arrays = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


def rows_of(frame: Any) -> Rows:
    """Yield the rows, which count from 0."""
    return _rows([frame])


def frame_file(file: TextFile) -> Rows:
    """Yield the rows of a Parquet file, a few thousand at a time, or of an Excel file."""
    if file.encoding:
        how = wording("encoding", "--encoding")
        raise InputError(f"{file.path} is not a text file. Leave out {how}.")
    return _rows(_parts(file), file)


def _rows(frames: Iterable[Any], file: TextFile | None = None) -> Rows:
    number = 0
    for part, frame in enumerate(frames):
        columns = columns_of(frame)
        if part == 0:
            yield HEADER, dict.fromkeys(columns, "")
        for values in zip(*columns.values()):
            yield f" row {number}", dict(zip(columns, values))
            number += 1
            if file is not None:
                file.done = number


def _parts(file: TextFile) -> Iterator[Any]:
    """Yield the tables that make up a file; the first may be empty."""
    suffix = file.path.suffix.lower()
    try:
        if suffix == ".xlsx":
            import pandas

            yield pandas.read_excel(file.path, dtype=object, keep_default_na=False, na_values=[""])
            return
        from pyarrow import parquet

        with parquet.ParquetFile(file.path) as whole:
            file.size = whole.metadata.num_rows
            yield whole.schema_arrow.empty_table()
            yield from whole.iter_batches(_ROWS)
    except ImportError as error:
        raise InputError(
            f"{file.path} cannot be read without {error.name}. Install it with {INSTALL}."
        ) from error
    except Exception as error:  # the libraries raise all kinds of errors
        raise InputError(
            f"{file.path} is not a whole {suffix[1:]} file ({first_line(error)}). Write it again."
        ) from error
