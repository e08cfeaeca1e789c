"""Tables of every library that is read, from a dict of columns."""

import pytest


def polars_frame(columns):
    return pytest.importorskip("polars").DataFrame(columns)


def hugging_face(columns):
    datasets = pytest.importorskip("datasets")
    backward = {name: column[::-1] for name, column in columns.items()}
    whole = datasets.Dataset.from_dict(backward)
    return whole.select(range(len(whole) - 1, -1, -1))  # an order that only `indices` know


KINDS = {
    "pandas": lambda columns: pytest.importorskip("pandas").DataFrame(columns),
    "arrow": lambda columns: pytest.importorskip("pyarrow").table(columns),
    "polars": polars_frame,
    "datasets": hugging_face,
}
