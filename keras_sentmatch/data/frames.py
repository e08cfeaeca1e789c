"""Tables in memory (pandas, polars, Arrow, Hugging Face datasets) and their files, as rows."""

from collections.abc import Collection, Mapping
from typing import Any

from keras_sentmatch.data.rows import HEADER, Rows, TextFile
from keras_sentmatch.errors import InputError, wording
from keras_sentmatch.safety import first_line

_MODULES = ("pandas", "polars", "pyarrow", "datasets")


def is_frame(value: Any) -> bool:
    """Whether this is a table of one of the libraries; none of them is imported."""
    kind = type(value)
    named = hasattr(value, "columns") or hasattr(value, "column_names")
    ours = kind.__module__.partition(".")[0] in _MODULES
    return ours and named and hasattr(value, "__len__") and not isinstance(value, Mapping)


def column_names(frame: Any) -> list[str]:
    """The names of the columns."""
    names = getattr(frame, "column_names", None)  # of Arrow and of Hugging Face
    return [str(name) for name in (frame.columns if names is None else names)]


def columns_of(frame: Any, only: Collection[str] | None = None) -> dict[str, list[Any]]:
    """The columns (`only` these) by name; `None` stands for every missing value."""
    names = column_names(frame)
    if len(set(names)) < len(names):
        raise InputError(f"The frame has two columns of one name: {', '.join(names)}.")
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
    """The names of the labels, where a Hugging Face dataset says them."""
    features = getattr(frame, "features", None)
    found = [f.names for f in features.values() if hasattr(f, "names")] if features else []
    return list(found[0]) if len(found) == 1 else None


def with_columns(frame: Any, columns: Mapping[str, Any]) -> Any:
    """A copy with more columns, which take the place of those of the same names."""
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
    """The rows, which count from 0."""
    columns = columns_of(frame)
    yield HEADER, dict.fromkeys(columns, "")
    for number, values in enumerate(zip(*columns.values())):
        yield f" row {number}", dict(zip(columns, values))


def frame_file(file: TextFile) -> Rows:
    """The rows of a Parquet, Feather or Excel file."""
    if file.encoding:
        how = wording("encoding", "--encoding")
        raise InputError(f"{file.path}: {how} is for text files, which this is not.")
    return rows_of(_read(file))


def _read(file: TextFile) -> Any:
    suffix = file.path.suffix.lower()
    try:
        if suffix == ".xlsx":
            import pandas

            return pandas.read_excel(file.path, dtype=object, keep_default_na=False, na_values=[""])
        if suffix == ".parquet":
            from pyarrow import parquet

            return parquet.read_table(file.path)
        from pyarrow import feather

        return feather.read_table(file.path)
    except ImportError as error:
        raise InputError(
            f'{file.path}: reading it needs {error.name}: pip install "keras-sentmatch[frames]".'
        ) from error
    except Exception as error:  # the libraries raise whatever the bytes led to
        raise InputError(
            f"{file.path}: not a whole {suffix[1:]} file ({first_line(error)}); write it again."
        ) from error
