"""Tables in memory and their files are read as text files are, and answered as tables."""

import sys

import numpy as np
import pytest

from keras_sentmatch.data import PairStream, load_pairs, read_pairs
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.pairs import as_dataset
from tests.toys.frames import KINDS

pandas = pytest.importorskip("pandas")
arrow = pytest.importorskip("pyarrow")

COLUMNS = {
    "claim": [f"the {i} runs" for i in range(40)],
    "answer": [f"a {i} sleeps" for i in range(40)],
    "verdict": ["yes", "no"] * 20,
}
NAMED = {"sentence1": "claim", "sentence2": "answer", "label": "verdict"}


each_kind = pytest.mark.parametrize("kind", KINDS)


def rows(pairs):
    return list(zip(pairs.sentence1, pairs.sentence2, pairs.labels))


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    path = tmp_path_factory.mktemp("frames") / "own.csv"
    pandas.DataFrame(COLUMNS).to_csv(path, index=False)
    return read_pairs(path, **NAMED)


@each_kind
def test_a_table_is_read_as_its_file(kind, expected):
    found = read_pairs(KINDS[kind](COLUMNS), **NAMED)
    assert rows(found) == rows(expected) and found.label_names == ("no", "yes")
    parts = load_pairs(KINDS[kind](COLUMNS), **NAMED, fractions=[0.5, 0.25, 0.25])
    sizes = {name: len(part) for name, part in parts.items()}
    assert sizes == {"train": 20, "validation": 10, "test": 10}
    with pytest.raises(InputError, match="has the columns claim, answer, verdict, of which no two"):
        read_pairs(KINDS[kind](COLUMNS))


@each_kind
def test_missing_values_are_said_with_their_row(kind):
    holes = {**COLUMNS, "answer": [*COLUMNS["answer"][:7], None, *COLUMNS["answer"][8:]]}
    with pytest.raises(InputError, match=r"row 7: the column 'answer' holds None"):
        read_pairs(KINDS[kind](holes), **NAMED)
    left = read_pairs(KINDS[kind](holes), on_error="skip", **NAMED)
    assert len(left) == 39 and left.report.skipped == {"no text": 1}
    with pytest.raises(InputError, match="'answer' has None in row 7. Expected a string"):
        as_dataset(KINDS[kind](holes), "claim", "answer")


def test_columns_that_are_numbers_or_differ_in_case():
    frame = pandas.DataFrame([["a", "b"], ["c", "d"]])
    pairs, _ = as_dataset(frame, 0, 1)
    assert (pairs.sentence1, pairs.sentence2) == (("a", "c"), ("b", "d"))
    frame = pandas.DataFrame({"S1": ["a"], "s1": ["b"], "s2": ["c"]})
    with pytest.raises(InputError, match="'s1' differs from another one in case only"):
        as_dataset(frame, None, None)
    assert as_dataset(frame, "s1", "s2")[0].sentence1 == ("b",)


def test_what_a_table_cannot_be(tmp_path, monkeypatch):
    twice = pandas.DataFrame([["a", "b", "yes"]], columns=["claim", "claim", "verdict"])
    frame, path = pandas.DataFrame(COLUMNS), tmp_path / "own.parquet"
    frame.to_parquet(path)
    numbers = pandas.DataFrame({"s1": ["a", "b"], "s2": ["d", "e"], "label": [1.0, np.nan]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for refused, message in (
        (lambda: read_pairs(twice), r"same name 'claim' \(claim, claim, verdict\)"),
        (lambda: read_pairs(frame, format="csv"), "format='csv' is for files, not for a DataFrame"),
        (lambda: read_pairs(frame, encoding="latin-1"), "encoding='latin-1' is for files"),
        (lambda: load_pairs({"train": frame, "validation": [1]}, **NAMED), "part is a list"),
        (lambda: load_pairs({"train": frame, "dev": frame}), "the part 'dev'. Expected train"),
        (lambda: read_pairs(path, **NAMED), r"without pyarrow.*keras-sentmatch\[frames\]"),
        (lambda: read_pairs(numbers), "row 1: the label is empty"),
        (lambda: read_pairs(numbers.assign(s2=["d", 5])), "row 1: the column 's2' holds 5"),
    ):
        with pytest.raises(InputError, match=message):
            refused()


@pytest.mark.parametrize("suffix", ["parquet", "xlsx"])
def test_files_of_tables(suffix, expected, tmp_path):
    if suffix == "xlsx":
        pytest.importorskip("openpyxl")
    path = tmp_path / f"train.{suffix}"
    frame = pandas.DataFrame(COLUMNS)
    {"xlsx": frame.to_excel, "parquet": frame.to_parquet}[suffix](path, index=False)
    assert rows(read_pairs(path, **NAMED)) == rows(expected)
    assert set(load_pairs(tmp_path, **NAMED)) == {"train", "validation", "test"}
    with pytest.raises(InputError, match="is not a text file"):
        read_pairs(path, encoding="latin-1", **NAMED)
    path.write_bytes(path.read_bytes()[:99])
    with pytest.raises(InputError, match=f"is not a whole {suffix} file"):
        read_pairs(path, **NAMED)


def test_labels_of_numbers_scores_and_parts():
    frame = pandas.DataFrame(
        {"s1": ["a", "b", "c"], "s2": ["d", "e", "f"], "label": [1.0, 0.0, np.nan]}
    )
    assert read_pairs(frame[:2]).labels.tolist() == [1, 0]
    scores = frame.assign(label=[0.5, 1, 2.5])
    assert read_pairs(scores).task == "regression"
    parts = load_pairs(
        {"train": frame[:2], "validation": arrow.table({"s1": ["x"], "s2": ["y"], "label": [1]})}
    )
    assert parts["validation"].labels.tolist() == [1] and set(parts) == {"train", "validation"}
    parts = load_pairs(
        {"train": scores, "validation": scores[1:2], "test": scores.assign(label=-1)}
    )
    assert parts["validation"].task == "regression" and parts["test"].labels is None
    odd = frame[:2].assign(features=[7, 8], column_names=[9, 9])  # names of attributes elsewhere
    assert read_pairs(odd).labels.tolist() == [1, 0]


def test_a_dataset_dict_names_its_labels(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        premise=datasets.Value("string"),
        hypothesis=datasets.Value("string"),
        label=datasets.ClassLabel(names=["wrong", "right"]),
    )
    columns = {"premise": ["a", "b", "c"], "hypothesis": ["d", "e", "f"], "label": [1, 0, -1]}
    whole = datasets.Dataset.from_dict(columns, features=features)
    topics = {**columns, "topic": [0, 1, 1]}  # names of a column that holds no labels
    for value, names in ((features["label"], ("wrong", "right")), (datasets.Value("int8"), None)):
        both = datasets.Features({**features, "topic": datasets.ClassLabel(names=["x", "y"])})
        two = datasets.Dataset.from_dict(topics, features=both).cast_column("label", value)
        assert read_pairs(two.select([0, 1])).label_names == (names or ("0", "1"))
        assert read_pairs(two, label="topic").label_names == ("x", "y")
    datasets.DatasetDict(train=whole, validation=whole).save_to_disk(tmp_path / "kept")
    parts = load_pairs(datasets.load_from_disk(tmp_path / "kept"))
    assert parts["train"].label_names == ("wrong", "right")
    assert parts["train"].labels.tolist() == [1, 0]
    assert parts["validation"].report.skipped == {"no gold label ('-1')": 1}
    again = load_pairs(tmp_path / "kept")  # the folder
    assert {name: part.fingerprint() for name, part in again.items()} == {
        name: part.fingerprint() for name, part in parts.items()
    }
    whole.save_to_disk(tmp_path / "one")
    assert set(load_pairs(str(tmp_path / "one"), fractions=[0.5, 0.5])) == {"train", "validation"}
    (tmp_path / "one" / "state.json").write_text("{}")
    with pytest.raises(InputError, match="is not a whole data set"):
        load_pairs(tmp_path / "one")


def test_bombs_are_refused(tmp_path, monkeypatch):
    """Small files that would take far more memory than any text."""
    from pyarrow import parquet

    monkeypatch.setattr("keras_sentmatch.safety._FREE", 100_000)
    table = arrow.table({"s1": ["x"] * 200_000, "s2": ["y"] * 200_000})
    parquet.write_table(table, tmp_path / "x.parquet")
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["s1", "s2"])
    book.active.append(["a", "b"])
    book.save(tmp_path / "fine.xlsx")
    assert len(read_pairs(tmp_path / "fine.xlsx")) == 1
    book.active.cell(1_048_576, 16_384, "far away")
    book.save(tmp_path / "far.xlsx")
    book.active.append(["y" * 30_000] * 900)
    book.save(tmp_path / "x.xlsx")
    # Long texts that many rows share make a small file, which is no bomb.
    texts = [f"{i} {'and so on ' * 20}" for i in range(5000)] * 10
    options = {"row_group_size": len(texts), "compression": "zstd"}
    parquet.write_table(arrow.table({"s1": texts, "s2": texts}), tmp_path / "y.parquet", **options)
    assert read_pairs(tmp_path / "y.parquet").sentence2 == tuple(map(str.strip, texts))
    for name, message in (("x.parquet", "expands"), ("x.xlsx", "expands"), ("far.xlsx", "blank")):
        with pytest.raises(InputError, match=message):
            read_pairs(tmp_path / name)


def test_excel_files(tmp_path, caplog):
    """Rows without a value, spaces in the header, formulas that failed, columns of one name."""
    openpyxl = pytest.importorskip("openpyxl")
    book, path = openpyxl.Workbook(), tmp_path / "x.xlsx"
    for row in ([None, "s1", None, "s2"], [0, "a", "x", "b", "far"], [1, "c", None, "d"]):
        book.active.append(row)
    book.save(path)
    (window,) = PairStream(path).windows(9)  # columns without a name are kept
    assert [*window.given.values()] == [[0, 1], ["a", "c"], ["x", None], ["b", "d"]]
    assert "cells right of the last column name are not read" in caplog.text
    book = openpyxl.Workbook()
    for row in ([], ["s1 ", "s2", "label"], ["a", "b", 1], [], ["c", "#REF!", 0], ["e", "f", 0]):
        book.active.append(row)
    book.save(path)
    assert rows(read_pairs(path, on_error="skip")) == [("a", "b", 1), ("e", "f", 0)]
    with pytest.raises(InputError, match="row 1: the column 's2' holds None"):
        read_pairs(path)
    book.active.insert_rows(1)
    for column in range(1, 4):
        book.active.cell(1, column, "label")
    book.save(path)
    with pytest.raises(InputError, match="two columns of the same name 'label'"):
        read_pairs(path)
